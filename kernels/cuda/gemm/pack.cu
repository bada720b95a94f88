// Packs weights on the host: converts and pads rows.
#include <algorithm>
#include <cstring>

#include "kernels/core/quantise.h"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/gemm/weight.cuh"
#include "kernels/cuda/primitives/element.cuh"
#include "kernels/ops/gemm/pack.h"

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

// Stores the group of the inputs from `first` on in its bytes of a row, which are zero so far.
void StoreGroup(DType type, const WeightGroup& group, int64_t first, uint8_t* bytes) {
  for (int64_t i = 0; i < kGroupInputs; ++i) {
    uint8_t& byte = bytes[QuantisedByte(type, first + i)];
    const auto value = static_cast<uint8_t>(group.values[i]);
    if (type == DType::kI8) {
      byte = value;
    } else {
      byte |= static_cast<uint8_t>((value & 15) << (i % 8 < 4 ? 0 : 4));
    }
  }
}

template <typename From>
void PackGroups(const PackArgs& args, const From* from, int64_t to_row) {
  const int64_t stride = WeightStride(args.type, args.k);
  const int64_t groups = stride / kGroupInputs;
  const int64_t row_bytes = RowBytes(args.type, stride);
  auto* rows = static_cast<uint8_t*>(args.destination);
  uint8_t* bytes = rows + to_row * row_bytes;
  F16* scales = reinterpret_cast<F16*>(rows + args.n * row_bytes) + to_row * groups;
  constexpr int64_t kGroupsAtOnce = 16;
  constexpr int64_t kInputsAtOnce = kGroupsAtOnce * kGroupInputs;
  for (int64_t first = 0; first < args.k; first += kInputsAtOnce) {
    const int64_t count = std::min(kInputsAtOnce, args.k - first);
    float weights[kInputsAtOnce] = {};
    for (int64_t i = 0; i < count; ++i) weights[i] = ToF32(from[first + i]);
    WeightGroup made[kGroupsAtOnce];
    QuantiseGroups(args.type, weights, NumGroups(count), made);
    for (int64_t group = 0; group < NumGroups(count); ++group) {
      scales[first / kGroupInputs + group] = made[group].scale;
      StoreGroup(args.type, made[group], first + group * kGroupInputs, bytes);
    }
  }
}

// Takes the groups of a source's row as they are.
void CopyGroups(const PackArgs& args, const WeightGroup* from, int64_t to_row) {
  const int64_t stride = WeightStride(args.type, args.k);
  const int64_t groups = stride / kGroupInputs;
  const int64_t row_bytes = RowBytes(args.type, stride);
  auto* rows = static_cast<uint8_t*>(args.destination);
  uint8_t* bytes = rows + to_row * row_bytes;
  F16* scales = reinterpret_cast<F16*>(rows + args.n * row_bytes) + to_row * groups;
  for (int64_t group = 0; group < NumGroups(args.k); ++group) {
    scales[group] = from[group].scale;
    StoreGroup(args.type, from[group], group * kGroupInputs, bytes);
  }
}

void PackQuantisedRow(const PackArgs& args, int64_t row) {
  if (IsQuantised(args.source_type)) {
    const auto* source = static_cast<const WeightGroup*>(args.source) + row * NumGroups(args.k);
    return CopyGroups(args, source, args.first_row + row);
  }
  ForType(args.source_type, [&](auto element) {
    const auto* source = static_cast<const decltype(element)*>(args.source) + row * args.k;
    PackGroups(args, source, args.first_row + row);
  });
}

void PackRow(const PackArgs& args, int64_t row) {
  if (IsQuantised(args.type)) return PackQuantisedRow(args, row);
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
  const int64_t stride = WeightStride(type, k);
  int64_t row_bytes = RowBytes(type, stride);
  if (IsQuantised(type)) row_bytes += stride / kGroupInputs * static_cast<int64_t>(sizeof(F16));
  return static_cast<size_t>(n * row_bytes + 63) / 64 * 64;
}

void Pack(const Executor& executor, const PackArgs& args) {
  const auto tasks = static_cast<uint32_t>((args.num_rows + kRowsOfTask - 1) / kRowsOfTask);
  ParallelFor(executor, tasks, [&](uint32_t task) {
    const int64_t first = task * kRowsOfTask;
    const int64_t last = first + kRowsOfTask < args.num_rows ? first + kRowsOfTask : args.num_rows;
    for (int64_t row = first; row < last; ++row) PackRow(args, row);
  });
}

// Does nothing: a packed weight has only one form here.
void Compress(const Executor&, const CompressArgs&) {}

size_t ReadBytes(const PackedWeight& weight) {
  return PackedBytes(weight.type, weight.n, weight.k);
}

}  // namespace longstream::cuda
