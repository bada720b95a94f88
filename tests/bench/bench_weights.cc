// Packs weights of random numbers.
#include "tests/bench/bench_weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "kernels/ops/op_table.h"
#include "tests/bench/yardstick.h"

namespace longstream {
namespace {

constexpr int64_t kNumbers = int64_t{151936} * 1024;
// The number of rows of random numbers. All weights repeat these rows.
constexpr int64_t kSourceRows = 2048;

std::vector<float> SourceRows(int64_t k) {
  std::mt19937 engine(1);
  std::normal_distribution<float> normal(0.0f, 1.0f / std::sqrt(static_cast<float>(k)));
  std::vector<float> rows(static_cast<size_t>(kSourceRows * k));
  for (float& number : rows) number = normal(engine);
  return rows;
}

}  // namespace

const BenchWeights& BenchWeights::Of(DType type, int64_t n, int64_t k) {
  static std::unique_ptr<BenchWeights> last;
  if (last == nullptr || last->type_ != type || last->n_ != n || last->k_ != k) {
    last.reset();  // free the old weights first
    last.reset(new BenchWeights(type, n, k));
  }
  return *last;
}

BenchWeights::BenchWeights(DType type, int64_t n, int64_t k)
    : type_(type),
      n_(n),
      k_(k),
      count_(kNumbers / (n * k)),
      stride_(DeviceOps().packed_bytes(type, n, k)),
      memory_(Allocate(static_cast<size_t>(count_) * stride_)) {
  std::memset(memory_.get(), 0, static_cast<size_t>(count_) * stride_);
  const std::vector<float> source = SourceRows(k);
  // f16 is packed from f16 only.
  std::vector<F16> halves;
  if (type == DType::kF16) {
    halves.resize(source.size());
    std::transform(source.begin(), source.end(), halves.begin(), [](float x) { return ToF16(x); });
  }
  const Executor executor = ExecutorOf(2);
  for (int64_t i = 0; i < count_; ++i) {
    const PackedWeight weight = (*this)[i];
    auto* data = const_cast<void*>(weight.data);
    for (int64_t row = 0; row < n; row += kSourceRows) {
      DeviceOps().pack(executor, {.source = halves.empty() ? static_cast<const void*>(source.data())
                                                           : halves.data(),
                                  .source_type = halves.empty() ? DType::kF32 : DType::kF16,
                                  .num_rows = std::min(kSourceRows, n - row),
                                  .first_row = row,
                                  .destination = data,
                                  .type = type,
                                  .n = n,
                                  .k = k});
    }
    DeviceOps().compress(executor, {data, type, n, k});
    read_bytes_ += DeviceOps().read_bytes(weight);
  }
}

PackedWeight BenchWeights::operator[](int64_t i) const {
  return {static_cast<const std::byte*>(memory_.get()) + static_cast<size_t>(i % count_) * stride_,
          type_, n_, k_};
}

}  // namespace longstream
