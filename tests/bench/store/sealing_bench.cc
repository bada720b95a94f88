// Milliseconds and bytes of snapshots in the store, plain, sealed, and compressed and sealed.
// Usage: sealing_bench PLUGIN.so MODEL_DIR TEXT_FILE DIRECTORY [ROUNDS]
//
// The model reads the text, cut to 16,384 tokens; the snapshot is what the server writes after it.
// "turn" is the snapshot after the last 512 tokens. Segments are written to files in DIRECTORY,
// with their fsyncs, and read back. Each time is the median of several rounds.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "service/sealing/sealing_keys.h"
#include "service/sessions/store/segments/segment_files.h"
#include "service/tokenizer/files/load_tokenizer.h"
#include "tests/bench/timing.h"
#include "tests/conformance/plugin_file.h"
#include "tests/conformance/segments.h"
#include "tests/conformance/test_host.h"

namespace longstream {
namespace {

constexpr uint32_t kPiece = 512;  // tokens of a prefill step, and of the last turn
constexpr size_t kTokens = size_t{1} << 14;
constexpr size_t kPieceBytes = size_t{1} << 20;  // as the server writes and reads them

[[noreturn]] void Fail(const absl::Status& status) {
  std::fprintf(stderr, "sealing_bench: %s\n", std::string(status.message()).c_str());
  std::exit(1);
}

template <typename Value>
Value OrFail(absl::StatusOr<Value> value) {
  if (!value.ok()) Fail(value.status());
  return *std::move(value);
}

std::vector<int32_t> TokensOf(const std::string& model, const std::string& file,
                              int64_t vocabulary) {
  std::ifstream in(file, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  const auto tokenizer = OrFail(LoadTokenizer(model, static_cast<int32_t>(vocabulary)));
  std::vector<int32_t> tokens = OrFail(tokenizer->Encode(text));
  if (tokens.size() < kTokens) Fail(absl::InvalidArgumentError(file + " has too few tokens"));
  tokens.resize(kTokens);
  return tokens;
}

std::shared_ptr<store::WrittenSegments> Write(store::SegmentFiles& files,
                                              const conformance::Segments& segments) {
  const auto writer = files.NewWriter();
  for (const std::string* bytes : {&segments.span, &segments.fixed}) {
    absl::Status status = writer->Begin({.key = {}, .kind = store::SegmentKind::kSpan});
    for (size_t at = 0; status.ok() && at < bytes->size(); at += kPieceBytes) {
      status = writer->Append(std::string_view(*bytes).substr(at, kPieceBytes));
    }
    if (!status.ok()) Fail(status);
  }
  return OrFail(writer->Finish());
}

void Read(store::SegmentFiles& files, const store::WrittenFiles& written, std::string* buffer) {
  for (const store::StoredSegment& segment : written.segments()) {
    const auto reader = OrFail(files.NewReader(segment));
    while (OrFail(reader->Read(absl::MakeSpan(buffer->data(), buffer->size()))) == buffer->size()) {
    }
  }
}

double MedianMs(int rounds, const std::function<void()>& work) {
  std::vector<double> seconds;
  for (int i = 0; i < rounds; ++i) seconds.push_back(SecondsOf(work));
  return 1e3 * Median(seconds);
}

void Measure(const std::string& directory, const char* name, const Sealing& sealing, int rounds,
             const char* what, const conformance::Segments& segments) {
  store::SegmentFiles files(store::NewPosixDirectory(directory + "/segments"), sealing);
  const double write_ms = MedianMs(rounds, [&] { Write(files, segments); });
  const auto written = Write(files, segments);
  uint64_t bytes = 0;
  for (const store::SegmentRow& row : written->rows()) bytes += row.bytes;
  std::string buffer(kPieceBytes, '\0');
  const double read_ms = MedianMs(
      rounds, [&] { Read(files, static_cast<const store::WrittenFiles&>(*written), &buffer); });
  std::printf("%-8s %-8s %12llu %10.2f %10.2f\n", what, name,
              static_cast<unsigned long long>(bytes), write_ms, read_ms);
}

int Run(const std::string& plugin_path, const std::string& model_path, const std::string& text,
        const std::string& directory, int rounds) {
  const conformance::PluginFile plugin(plugin_path);
  const conformance::TestHost host(2);
  conformance::OpenOptions options;
  options.options = "{\"context_limit\": 131072}";
  options.max_batch_tokens = kPiece;
  conformance::Model model(*plugin.backend(), model_path, options, host);
  const std::vector<int32_t> tokens =
      TokensOf(model_path, text, static_cast<int64_t>(model.info().vocabulary_size));
  conformance::Sequence sequence = model.Create(kTokens);
  for (size_t at = 0; at < kTokens; at += kPiece) {
    conformance::Entry entry = conformance::Prefill(
        sequence, std::vector<int32_t>(tokens.begin() + static_cast<ptrdiff_t>(at),
                                       tokens.begin() + static_cast<ptrdiff_t>(at + kPiece)));
    entry.logit_rows = LS_ROWS_NONE;
    model.Step(entry);
  }
  const std::shared_ptr<const SealingKeys> keys =
      OrFail(SealingKeys::Parse("bench " + std::string(64, '1'), "bench"));
  std::printf("%s; milliseconds\n%-8s %-8s %12s %10s %10s\n", model_path.c_str(), "snapshot",
              "segments", "bytes", "write", "read");
  const uint64_t from = model.info().page_tokens == 0 ? 0 : kTokens - kPiece;
  for (const auto& [what, begin] : {std::pair("whole", uint64_t{0}), {"turn", from}}) {
    const conformance::Segments segments = conformance::Snapshot(sequence, begin).ReadAll();
    Measure(directory, "plain", {}, rounds, what, segments);
    Measure(directory, "sealed", {.keys = keys}, rounds, what, segments);
    Measure(directory, "zstd", {.keys = keys, .compression = Compression::kZstd}, rounds, what,
            segments);
  }
  return 0;
}

}  // namespace
}  // namespace longstream

int main(int argc, char** argv) {
  if (argc < 5 || argc > 6) {
    std::fprintf(stderr, "usage: sealing_bench PLUGIN.so MODEL_DIR TEXT_FILE DIRECTORY [ROUNDS]\n");
    return 2;
  }
  try {
    return longstream::Run(argv[1], argv[2], argv[3], argv[4],
                           argc > 5 ? std::max(std::atoi(argv[5]), 1) : 9);
  } catch (const longstream::conformance::CheckFailed& failed) {
    std::fprintf(stderr, "sealing_bench: %s\n", failed.why.c_str());
    return 1;
  }
}
