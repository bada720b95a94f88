// Allocates the memory of benchmarks and describes batches.
#include "tests/bench/gpu/gpu_bench.h"

#include <utility>

#include "backends/caches/cache_layout.h"
#include "backends/errors/error.h"

namespace longstream {
namespace {

// Bytes of an array, rounded up to the next array's alignment.
template <typename T>
size_t Padded(const std::vector<T>& values) {
  return (values.size() * sizeof(T) + 255) / 256 * 256;
}

}  // namespace

void FailBenchmark(const std::string& sentence) { throw BackendError(LS_INTERNAL, sentence); }

void GpuBench::Add(const std::string& name, const Timed& timed, std::optional<double> least) {
  Figure figure = {.name = name, .value = 1e6 * timed.seconds, .least = least};
  if (timed.bytes > 0) {
    figure.against = "copy";
    figure.fraction = timed.bytes / timed.seconds / copy_bandwidth_;
  } else if (timed.operations > 0) {
    figure.against = "product";
    figure.fraction = timed.operations / timed.seconds / product_rate_;
  }
  report_.Add(std::move(figure));
}

void GpuBench::Measure(const std::string& name, std::optional<double> least,
                       const std::function<Timed()>& measure) {
  report_.Measure({{.name = name, .least = least}}, [&] { Add(name, measure(), least); });
}

void GpuBench::FillRandom(DType type, void* data, int64_t count, float scale) {
  Stream stream = device_.MakeStream(executor_, nullptr, 0);
  longstream::FillRandom(stream, type, data, count, scale, next_seed_++);
  if (!stream.ok()) FailBenchmark("random numbers cannot be made");
}

DeviceMemory GpuBench::Random(DType type, int64_t count, float scale) {
  DeviceMemory memory = Memory(static_cast<size_t>(count) * SizeOf(type));
  FillRandom(type, memory.data(), count, scale);
  return memory;
}

GpuBatch::GpuBatch(Device& device, const std::vector<Sequence>& sequences) {
  std::vector<SequenceRows> rows;
  std::vector<int32_t> row_sequence;
  std::vector<int64_t> positions;
  std::vector<int32_t> pages;
  for (const Sequence& sequence : sequences) {
    SequenceRows next;
    next.first_row = static_cast<int32_t>(positions.size());
    next.num_rows = sequence.rows;
    next.first_position = sequence.context - sequence.rows;
    next.slot = static_cast<int32_t>(rows.size());
    next.page_offset = static_cast<int32_t>(pages.size());
    next.is_decode = sequence.is_decode ? 1 : 0;
    for (int32_t i = 0; i < sequence.rows; ++i) {
      row_sequence.push_back(next.slot);
      positions.push_back(next.first_position + i);
    }
    for (int64_t i = 0; i < PagesFor(sequence.context); ++i) {
      pages.push_back(static_cast<int32_t>(pages.size()));
    }
    rows.push_back(next);
    layout_.num_decode_rows += next.is_decode;
    max_position_ = std::max(max_position_, sequence.context - 1);
  }
  num_pages_ = static_cast<int64_t>(pages.size());
  memory_ = DeviceMemory(
      device, Padded(rows) + Padded(row_sequence) + Padded(positions) + Padded(pages), "a batch");
  size_t used = 0;
  const auto upload = [&]<typename T>(const std::vector<T>& values) {
    std::byte* const to = memory_.data() + used;
    device.Upload(to, values.data(), values.size() * sizeof(T));
    used += Padded(values);
    return reinterpret_cast<const T*>(to);
  };
  layout_.num_rows = static_cast<int32_t>(positions.size());
  layout_.num_sequences = static_cast<int32_t>(rows.size());
  layout_.sequences = upload(rows);
  layout_.row_sequence = upload(row_sequence);
  layout_.positions = upload(positions);
  layout_.page_tables = upload(pages);
  if (device.Synchronize() != OpStatus::kOk) FailBenchmark("a batch cannot be uploaded");
}

}  // namespace longstream
