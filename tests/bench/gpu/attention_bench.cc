// Attention: decode over a GiB of keys and values (plain, with ReRoPE, and over a window), and
// prefill of long prompts, also without wgmma. Heads of the 14B shape: 40 of 128, 8 of keys and
// values, bf16.
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
// 2 * 8 * 128 * 2 bytes a token: a GiB each.
constexpr DecodeCase kDecodeCases[] = {{"1 x 256K", 262144, 1}, {"16 x 16K", 16384, 16}};

std::string PlainName(const DecodeCase& decode) {
  return std::string("decode attention ") + decode.name;
}
std::string ReropeName(const DecodeCase& decode) {
  return std::string("decode ReRoPE ") + decode.name;
}

Matrix Rows(const DeviceMemory& memory, DType type, int64_t rows, int64_t cols) {
  return {memory.data(), type, rows, cols, cols};
}

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

// Median seconds of plain attention.
double BenchPlainDecode(GpuBench& bench, const GpuBatch& batch, const Pages (&layers)[2],
                        const Matrix& q, const Matrix& out, Stream& stream) {
  return bench.MedianSeconds(stream, kDecodeRepetitions, [&](Stream& on, int i) {
    DeviceOps().attention(on, {.batch = batch.layout(),
                               .num_heads = kHeads,
                               .scale = kScale,
                               .q = q,
                               .keys = PagedKeys{layers[i % 2].view()},
                               .max_position = batch.max_position(),
                               .out = out});
  });
}

double BenchReropeDecode(GpuBench& bench, const GpuBatch& batch, const Pages (&layers)[2],
                         const Matrix& q, const Matrix& out, Stream& stream) {
  const auto window = static_cast<int32_t>(bench.Scaled(kReropeWindow));
  const int32_t slots = window + kPrefillGrid;
  const int64_t ring = slots * kKvWidth;
  const int64_t rows = batch.layout().num_rows;
  const DeviceMemory near = bench.Random(DType::kBF16, rows * ring);
  const DeviceMemory near_rows = bench.Random(DType::kBF16, rows * kKvWidth);
  const DeviceMemory q_far = bench.Random(DType::kF32, rows * kWidth);
  return bench.MedianSeconds(stream, kDecodeRepetitions, [&](Stream& on, int i) {
    const FarNearKeys keys = {.near_window = window,
                              .q_far = Rows(q_far, DType::kF32, rows, kWidth),
                              .far = layers[i % 2].view(),
                              .near = {near.data(), nullptr, ring * int64_t{sizeof(BF16)},
                                       DType::kBF16, slots, kKvHeads, kDim},
                              .near_rows = Rows(near_rows, DType::kBF16, rows, kKvWidth)};
    DeviceOps().attention(on, {.batch = batch.layout(),
                               .num_heads = kHeads,
                               .scale = kScale,
                               .q = q,
                               .keys = keys,
                               .max_position = batch.max_position(),
                               .out = out});
  });
}

void BenchDecode(GpuBench& bench, const DecodeCase& decode) {
  const int64_t context = bench.Scaled(decode.context);
  const GpuBatch batch(
      bench.device(),
      std::vector<GpuBatch::Sequence>(static_cast<size_t>(decode.sequences), {.context = context}));
  const int64_t rows = decode.sequences;
  const Pages layers[2] = {Pages(bench, batch), Pages(bench, batch)};
  const DeviceMemory q = bench.Random(DType::kF32, rows * kWidth);
  const DeviceMemory out = bench.Memory(static_cast<size_t>(rows * kWidth) * sizeof(float));
  const DeviceMemory workspace =
      bench.Memory(AttentionWorkspace(rows, kHeads, kDim, batch.max_position()));
  Stream stream = bench.MakeStream(workspace);
  const Matrix q_rows = Rows(q, DType::kF32, rows, kWidth);
  const Matrix out_rows = Rows(out, DType::kF32, rows, kWidth);

  const double plain = BenchPlainDecode(bench, batch, layers, q_rows, out_rows, stream);
  const double bytes = static_cast<double>(rows * context * kKvWidth * 4);
  bench.report().Add({.name = PlainName(decode),
                      .value = 1e6 * plain,
                      .against = "copy",
                      .fraction = bytes / plain / bench.copy_bandwidth(),
                      .least = kLeastOfCopy});
  const double rerope = BenchReropeDecode(bench, batch, layers, q_rows, out_rows, stream);
  bench.report().Add({.name = ReropeName(decode),
                      .value = 1e6 * rerope,
                      .against = "plain",
                      .fraction = plain / rerope,
                      .least = kLeastOfPlain});
}

// One row. Each call has its own ring, so that no ring is in a cache when it is used again.
void BenchWindowDecode(GpuBench& bench, const std::string& name) {
  const auto window = static_cast<int32_t>(bench.Scaled(kWindow));
  const int32_t slots = window + kPrefillGrid;
  const GpuBatch batch(bench.device(), {{.context = 4 * int64_t{slots}}});
  const int64_t ring = slots * kKvWidth;
  const int64_t copies = bench.ColdCopies(2 * static_cast<size_t>(ring) * sizeof(BF16));
  const DeviceMemory keys = bench.Random(DType::kBF16, copies * ring);
  const DeviceMemory values = bench.Random(DType::kBF16, copies * ring);
  const DeviceMemory q = bench.Random(DType::kF32, kWidth);
  const DeviceMemory k = bench.Random(DType::kBF16, kKvWidth);
  const DeviceMemory v = bench.Random(DType::kBF16, kKvWidth);
  const DeviceMemory out = bench.Memory(static_cast<size_t>(kWidth) * sizeof(float));
  const DeviceMemory workspace = bench.Memory(AttentionWorkspace(1, kHeads, kDim, window - 1));
  Stream stream = bench.MakeStream(workspace);
  const double seconds = bench.MedianSeconds(stream, kDecodeRepetitions, [&](Stream& on, int i) {
    const int64_t offset = i % copies * ring * int64_t{sizeof(BF16)};
    const RingKeys view = {
        .ring = {keys.data() + offset, values.data() + offset, ring * int64_t{sizeof(BF16)},
                 DType::kBF16, slots, kKvHeads, kDim},
        .k = Rows(k, DType::kBF16, 1, kKvWidth),
        .v = Rows(v, DType::kBF16, 1, kKvWidth)};
    DeviceOps().attention(on, {.batch = batch.layout(),
                               .num_heads = kHeads,
                               .window = window,
                               .scale = kScale,
                               .q = Rows(q, DType::kF32, 1, kWidth),
                               .keys = view,
                               .out = Rows(out, DType::kF32, 1, kWidth)});
  });
  const double bytes = static_cast<double>(window * kKvWidth * 4);
  bench.report().Add({.name = name,
                      .value = 1e6 * seconds,
                      .against = "copy",
                      .fraction = bytes / seconds / bench.copy_bandwidth()});
}

// One prompt of `tokens` tokens in one piece, compared to another program's kernel, which
// tools/gpu/peers.py runs. Uses wgmma if the device has it and `wgmma` allows it.
void BenchPrefill(GpuBench& bench, int64_t tokens, bool wgmma, const std::string& name) {
  const GpuBatch batch(
      bench.device(),
      {{.context = tokens, .rows = static_cast<int32_t>(tokens), .is_decode = false}});
  const Pages pages(bench, batch);
  const DeviceMemory q = bench.Random(DType::kF32, tokens * kWidth);
  const DeviceMemory out = bench.Memory(static_cast<size_t>(tokens * kWidth) * sizeof(float));
  const DeviceMemory workspace = bench.Memory(AttentionWorkspace(1, kHeads, kDim, tokens));
  Stream stream = bench.MakeStream(workspace);
  stream.wgmma = stream.wgmma && wgmma;
  const double seconds = bench.MedianSeconds(stream, kPrefillRepetitions, [&](Stream& on, int) {
    DeviceOps().attention(on, {.batch = batch.layout(),
                               .num_heads = kHeads,
                               .scale = kScale,
                               .q = Rows(q, DType::kF32, tokens, kWidth),
                               .keys = PagedKeys{pages.view()},
                               .max_position = batch.max_position(),
                               .out = Rows(out, DType::kF32, tokens, kWidth)});
  });
  // Half of the T^2 scores, each with two multiply-adds per element of a head.
  const double operations =
      2.0 * static_cast<double>(tokens) * static_cast<double>(tokens) * static_cast<double>(kWidth);
  bench.report().Add({.name = name,
                      .value = 1e6 * seconds,
                      .against = "product",
                      .fraction = operations / seconds / bench.product_rate()});
}

}  // namespace

void BenchAttention(GpuBench& bench) {
  for (const DecodeCase& decode : kDecodeCases) {
    bench.report().Measure({{.name = PlainName(decode), .least = kLeastOfCopy},
                            {.name = ReropeName(decode), .least = kLeastOfPlain}},
                           [&] { BenchDecode(bench, decode); });
  }
  const std::string window = "window decode " + std::to_string(kWindow);
  bench.report().Measure({{.name = window}}, [&] { BenchWindowDecode(bench, window); });
  for (const int64_t tokens : {int64_t{16384}, int64_t{32768}}) {
    const std::string name = "prefill attention " + std::to_string(tokens / 1024) + "K";
    bench.report().Measure({{.name = name}},
                           [&] { BenchPrefill(bench, bench.Scaled(tokens), true, name); });
  }
  const std::string other = "prefill attention 16K, mma.sync";
  bench.report().Measure({{.name = other}},
                         [&] { BenchPrefill(bench, bench.Scaled(16384), false, other); });
}

}  // namespace longstream
