// Packing, on the host: rows are padded to 16 bytes and converted.
#include <cstring>

#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/weight.cuh"
#include "kernels/ops/pack.h"

namespace longstream::cuda {
namespace {

constexpr int64_t kRowsOfTask = 64;

template <typename From, typename To>
void ConvertRow(const From* from, To* to, int64_t k) {
  for (int64_t i = 0; i < k; ++i) {
    if constexpr (std::is_same_v<To, float>) {
      to[i] = ToF32(from[i]);
    } else {
      to[i] = ToBF16(ToF32(from[i]));
    }
  }
}

void PackRow(const PackArgs& args, int64_t row) {
  const auto* from = static_cast<const std::byte*>(args.source) +
                     static_cast<size_t>(row * args.k) * SizeOf(args.source_type);
  auto* to = static_cast<std::byte*>(args.destination) +
             static_cast<size_t>((args.first_row + row) * WeightStride(args.type, args.k)) *
                 SizeOf(args.type);
  if (args.source_type == args.type) {
    std::memcpy(to, from, static_cast<size_t>(args.k) * SizeOf(args.type));
    return;
  }
  ForType(args.source_type, [&](auto element) {
    const auto* source = reinterpret_cast<const decltype(element)*>(from);
    if (args.type == DType::kF32) {
      ConvertRow(source, reinterpret_cast<float*>(to), args.k);
    } else {
      ConvertRow(source, reinterpret_cast<BF16*>(to), args.k);
    }
  });
}

}  // namespace

size_t PackedBytes(DType type, int64_t n, int64_t k) {
  const size_t bytes = static_cast<size_t>(n * WeightStride(type, k)) * SizeOf(type);
  return (bytes + 63) / 64 * 64;
}

void Pack(const Executor& executor, const PackArgs& args) {
  const auto tasks = static_cast<uint32_t>((args.num_rows + kRowsOfTask - 1) / kRowsOfTask);
  ParallelFor(executor, tasks, [&](uint32_t task) {
    const int64_t first = task * kRowsOfTask;
    const int64_t last = first + kRowsOfTask < args.num_rows ? first + kRowsOfTask : args.num_rows;
    for (int64_t row = first; row < last; ++row) PackRow(args, row);
  });
}

}  // namespace longstream::cuda
