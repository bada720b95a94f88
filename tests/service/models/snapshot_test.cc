// Snapshots and imports as C++ objects around the ABI.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "service/models/backend_model.h"

namespace longstream {
namespace {

using Bytes = std::vector<std::byte>;

class BackendSnapshotTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto plugin = Plugin::Load(LONGSTREAM_BINARY_DIR "/plugins/hypenet.cpu.so");
    ASSERT_TRUE(plugin.ok()) << plugin.status();
    BackendModel::Options options;
    options.directory = LONGSTREAM_SOURCE_DIR "/models/demo/hypenet";
    options.cache_bytes_budget = uint64_t{64} << 20;
    auto model = BackendModel::Open(*plugin, options, &host_);
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
  }

  // A sequence that has read `count` tokens.
  Sequence Fed(uint32_t count) {
    Sequence sequence = *model_->CreateSequence();
    EXPECT_TRUE(sequence.Reserve(count).ok());
    const std::vector<int32_t> tokens(count, 7);
    ls_batch_entry entry{};
    entry.sequence = sequence.handle();
    entry.tokens = tokens.data();
    entry.num_tokens = count;
    EXPECT_TRUE(model_->Wait(*model_->Submit({&entry, 1})).ok());
    EXPECT_TRUE(sequence.Reserve(0).ok());
    return sequence;
  }

  static Bytes ReadAll(Snapshot& snapshot, Snapshot::Segment segment) {
    Bytes bytes;
    Bytes piece(1000);
    while (true) {
      const auto size = snapshot.Read(segment, piece);
      EXPECT_TRUE(size.ok()) << size.status();
      if (!size.ok() || *size == 0) return bytes;
      bytes.insert(bytes.end(), piece.begin(), piece.begin() + static_cast<ptrdiff_t>(*size));
    }
  }

  const Host host_{Executor{}, nullptr};
  std::unique_ptr<BackendModel> model_;
};

TEST_F(BackendSnapshotTest, AClosedModelHoldsNothing) {
  Sequence sequence = Fed(150);
  Snapshot snapshot = *model_->BeginSnapshot(sequence, 0);
  SnapshotImport import = *model_->BeginImport(150);
  sequence = Sequence();
  const std::string kernels = model_->info().kernels;
  const uint32_t layers = model_->info().num_layers;
  EXPECT_GT(layers, 0u);
  model_->Close();
  EXPECT_TRUE(model_->closed());
  EXPECT_EQ(model_->memory().weights, 0u);
  EXPECT_EQ(model_->memory().reserved, 0u);
  Bytes piece(1000);
  EXPECT_TRUE(absl::IsFailedPrecondition(snapshot.Read(Snapshot::Segment::kSpan, piece).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(import.Write(piece)));
  EXPECT_TRUE(absl::IsFailedPrecondition(import.Attach().status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(model_->CreateSequence().status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(model_->SetBudget(1)));
  EXPECT_EQ(model_->info().kernels, kernels) << "the description stays";
  EXPECT_EQ(model_->info().num_layers, layers);
  model_->Close();
}

TEST_F(BackendSnapshotTest, MovesASequence) {
  ASSERT_TRUE(model_->CanSnapshot());
  Sequence sequence = Fed(150);
  Snapshot snapshot = *model_->BeginSnapshot(sequence, 0);
  sequence = Sequence();
  EXPECT_EQ(snapshot.info().position, 150u);
  const Bytes span = ReadAll(snapshot, Snapshot::Segment::kSpan);
  const Bytes fixed = ReadAll(snapshot, Snapshot::Segment::kFixed);
  EXPECT_EQ(span.size(), snapshot.info().span_bytes);
  EXPECT_EQ(fixed.size(), snapshot.info().fixed_bytes);
  Snapshot moved = std::move(snapshot);
  EXPECT_FALSE(snapshot.valid());  // NOLINT(bugprone-use-after-move)
  EXPECT_TRUE(moved.valid());
  moved = Snapshot();
  EXPECT_EQ(model_->memory().reserved, 0u);

  SnapshotImport import = *model_->BeginImport(150);
  EXPECT_TRUE(import.Write(span).ok());
  EXPECT_TRUE(absl::IsDataLoss(import.Attach().status())) << "the fixed block is missing";
  EXPECT_TRUE(import.valid()) << "a failed attach leaves the import";
  EXPECT_TRUE(import.Write(fixed).ok());
  const absl::StatusOr<Sequence> copy = import.Attach();
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_FALSE(import.valid());
  EXPECT_EQ(copy->position(), 150u);
  Snapshot again = *model_->BeginSnapshot(*copy, 0);
  EXPECT_EQ(ReadAll(again, Snapshot::Segment::kSpan), span);
  EXPECT_EQ(ReadAll(again, Snapshot::Segment::kFixed), fixed);
}

TEST_F(BackendSnapshotTest, ErrorsAreThoseOfTheBackend) {
  Sequence sequence = Fed(100);
  const absl::Status status = model_->BeginSnapshot(sequence, 65).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_EQ(status.message(),
            "from: expected a multiple of 64 that is at most the position, 100, found 65");
  EXPECT_TRUE(
      absl::IsInvalidArgument(model_->BeginImport(model_->info().context_limit + 1).status()));
  {
    SnapshotImport import = *model_->BeginImport(100);
    const Bytes noise(72, std::byte{5});
    EXPECT_TRUE(absl::IsDataLoss(import.Write(noise)));
    EXPECT_TRUE(absl::IsDataLoss(import.Write({})));
    EXPECT_TRUE(absl::IsDataLoss(import.Attach().status()));
  }
  sequence = Sequence();
  EXPECT_EQ(model_->memory().reserved, 0u);
}

}  // namespace
}  // namespace longstream
