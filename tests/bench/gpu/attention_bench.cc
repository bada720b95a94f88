// Measures attention: decode over a GiB of keys and values (plain, with ReRoPE, and over a window),
// and prefill of long prompts, with and without wgmma. The heads are those of the 14B shape: 40
// heads of queries and 8 of keys and values, 128 bf16 numbers each.
#include <string>
#include <vector>

#include "backends/caches/cache_layout.h"
#include "kernels/ops/op_table.h"
#include "tests/bench/gpu/gpu_bench.h"

namespace longstream {
namespace {

constexpr int32_t kHeads = 40;
constexpr int32_t kKvHeads = 8;
constexpr int32_t kDim = 128;
constexpr int64_t kWidth = int64_t{kHeads} * kDim;
constexpr int64_t kKvWidth = int64_t{kKvHeads} * kDim;
constexpr float kScale = 0.08838835f;  // 1 / sqrt(128)
constexpr int64_t kReropeWindow = 2048;
constexpr int64_t kWindow = 2048;
constexpr int kDecodeRepetitions = 30;
constexpr int kPrefillRepetitions = 5;
constexpr double kLeastOfCopy = 0.88;
constexpr double kLeastOfPlain = 0.95;

struct DecodeCase {
  const char* name;
  int64_t context;
  int sequences;
};
// Each case reads a GiB. The keys and values of a token have 2 * 8 * 128 numbers of 2 bytes.
constexpr DecodeCase kDecodeCases[] = {{"1 x 256K", 262144, 1}, {"16 x 16K", 16384, 16}};

std::string PlainName(const DecodeCase& decode) {
  return std::string("decode attention ") + decode.name;
}
std::string ReropeName(const DecodeCase& decode) {
  return std::string("decode ReRoPE ") + decode.name;
}

// The queries of a step, and the memory for the results.
struct Queries {
  Queries(GpuBench& bench, const GpuBatch& of)
      : batch(of),
        q(bench.Random(DType::kF32, of.layout().num_rows * kWidth)),
        out(bench.Memory(static_cast<size_t>(of.layout().num_rows * kWidth) * sizeof(float))) {}

  AttentionArgs Args(const KeyView& keys) const {
    const int64_t rows = batch.layout().num_rows;
    return {.batch = batch.layout(),
            .num_heads = kHeads,
            .scale = kScale,
            .q = Rows(q, DType::kF32, rows, kWidth),
            .keys = keys,
            .max_position = batch.max_position(),
            .out = Rows(out, DType::kF32, rows, kWidth)};
  }

  const GpuBatch& batch;
  const DeviceMemory q;
  const DeviceMemory out;
};

// Pages of one layer for a batch.
struct Pages {
  Pages(GpuBench& bench, const GpuBatch& batch)
      : keys(bench.Random(DType::kBF16, batch.num_pages() * kPageTokens * kKvWidth)),
        values(bench.Random(DType::kBF16, batch.num_pages() * kPageTokens * kKvWidth)) {}

  PagedCache view() const {
    return {keys.data(), values.data(), DType::kBF16, kPageTokens, kKvHeads, kDim};
  }

  DeviceMemory keys;
  DeviceMemory values;
};

double SecondsOfRerope(GpuBench& bench, const Queries& queries, const Pages (&layers)[2],
                       size_t workspace_bytes) {
  const auto window = static_cast<int32_t>(bench.Scaled(kReropeWindow));
  const int32_t slots = window + kPrefillGrid;
  const int64_t ring = slots * kKvWidth;
  const int64_t rows = queries.batch.layout().num_rows;
  const DeviceMemory near = bench.Random(DType::kBF16, rows * ring);
  const DeviceMemory near_rows = bench.Random(DType::kBF16, rows * kKvWidth);
  const DeviceMemory q_far = bench.Random(DType::kF32, rows * kWidth);
  return bench.MedianSeconds(workspace_bytes, kDecodeRepetitions, [&](Stream& on, int i) {
    const FarNearKeys keys = {.near_window = window,
                              .q_far = Rows(q_far, DType::kF32, rows, kWidth),
                              .far = layers[i % 2].view(),
                              .near = {near.data(), nullptr, ring * int64_t{sizeof(BF16)},
                                       DType::kBF16, slots, kKvHeads, kDim},
                              .near_rows = Rows(near_rows, DType::kBF16, rows, kKvWidth)};
    DeviceOps().attention(on, queries.Args(keys));
  });
}

void BenchDecode(GpuBench& bench, const DecodeCase& decode) {
  const int64_t context = bench.Scaled(decode.context);
  const GpuBatch batch(
      bench.device(),
      std::vector<GpuBatch::Sequence>(static_cast<size_t>(decode.sequences), {.context = context}));
  const int64_t rows = decode.sequences;
  const Pages layers[2] = {Pages(bench, batch), Pages(bench, batch)};
  const Queries queries(bench, batch);
  const size_t workspace_bytes = AttentionWorkspace(rows, kHeads, kDim, batch.max_position());
  const double plain =
      bench.MedianSeconds(workspace_bytes, kDecodeRepetitions, [&](Stream& on, int i) {
        DeviceOps().attention(on, queries.Args(PagedKeys{layers[i % 2].view()}));
      });
  const auto bytes = static_cast<double>(rows * context * kKvWidth * 4);
  bench.Add(PlainName(decode), {.seconds = plain, .bytes = bytes}, kLeastOfCopy);
  const double rerope = SecondsOfRerope(bench, queries, layers, workspace_bytes);
  bench.report().Add({.name = ReropeName(decode),
                      .value = 1e6 * rerope,
                      .against = "plain",
                      .fraction = plain / rerope,
                      .least = kLeastOfPlain});
}

// Decodes one row. Each call has its own ring, so that no ring is in a cache when it is used again.
Timed BenchWindowDecode(GpuBench& bench) {
  const auto window = static_cast<int32_t>(bench.Scaled(kWindow));
  const int32_t slots = window + kPrefillGrid;
  const GpuBatch batch(bench.device(), {{.context = 4 * int64_t{slots}}});
  const int64_t ring = slots * kKvWidth;
  const int64_t copies = bench.ColdCopies(2 * static_cast<size_t>(ring) * sizeof(BF16));
  const DeviceMemory keys = bench.Random(DType::kBF16, copies * ring);
  const DeviceMemory values = bench.Random(DType::kBF16, copies * ring);
  const DeviceMemory k = bench.Random(DType::kBF16, kKvWidth);
  const DeviceMemory v = bench.Random(DType::kBF16, kKvWidth);
  const Queries queries(bench, batch);
  const double seconds = bench.MedianSeconds(
      AttentionWorkspace(1, kHeads, kDim, window - 1), kDecodeRepetitions, [&](Stream& on, int i) {
        const int64_t offset = i % copies * ring * int64_t{sizeof(BF16)};
        AttentionArgs args = queries.Args(
            RingKeys{.ring = {keys.data() + offset, values.data() + offset,
                              ring * int64_t{sizeof(BF16)}, DType::kBF16, slots, kKvHeads, kDim},
                     .k = Rows(k, DType::kBF16, 1, kKvWidth),
                     .v = Rows(v, DType::kBF16, 1, kKvWidth)});
        args.window = window;
        DeviceOps().attention(on, args);
      });
  return {.seconds = seconds, .bytes = static_cast<double>(window * kKvWidth * 4)};
}

// Prefills a prompt of `tokens` tokens in one piece. tools/gpu/peers.py runs another program's
// kernel for comparison. Uses wgmma if the device has it and `wgmma` allows it.
Timed BenchPrefill(GpuBench& bench, int64_t tokens, bool wgmma) {
  const GpuBatch batch(
      bench.device(),
      {{.context = tokens, .rows = static_cast<int32_t>(tokens), .is_decode = false}});
  const Pages pages(bench, batch);
  const Queries queries(bench, batch);
  const double seconds = bench.MedianSeconds(
      AttentionWorkspace(1, kHeads, kDim, tokens), kPrefillRepetitions, [&](Stream& on, int) {
        on.wgmma = on.wgmma && wgmma;
        DeviceOps().attention(on, queries.Args(PagedKeys{pages.view()}));
      });
  // A causal prompt of T tokens has T^2 / 2 scores per head. A score and its weighted value take
  // two multiply-adds per element of the head.
  return {.seconds = seconds,
          .operations = 2.0 * static_cast<double>(tokens) * static_cast<double>(tokens) *
                        static_cast<double>(kWidth)};
}

}  // namespace

void BenchAttention(GpuBench& bench) {
  for (const DecodeCase& decode : kDecodeCases) {
    bench.report().Measure({{.name = PlainName(decode), .least = kLeastOfCopy},
                            {.name = ReropeName(decode), .least = kLeastOfPlain}},
                           [&] { BenchDecode(bench, decode); });
  }
  bench.Measure("window decode " + std::to_string(kWindow), {},
                [&] { return BenchWindowDecode(bench); });
  for (const int64_t tokens : {int64_t{16384}, int64_t{32768}}) {
    bench.Measure("prefill attention " + std::to_string(tokens / 1024) + "K", {},
                  [&] { return BenchPrefill(bench, bench.Scaled(tokens), true); });
  }
  bench.Measure("prefill attention 16K, mma.sync", {},
                [&] { return BenchPrefill(bench, bench.Scaled(16384), false); });
}

}  // namespace longstream
