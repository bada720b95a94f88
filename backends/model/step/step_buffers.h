// The activations of a step and the workspace of its ops, allocated once for the largest step.
#ifndef LONGSTREAM_BACKENDS_MODEL_STEP_STEP_BUFFERS_H_
#define LONGSTREAM_BACKENDS_MODEL_STEP_STEP_BUFFERS_H_

#include <cstddef>
#include <cstdint>

#include "backends/caches/device_memory.h"
#include "kernels/core/matrix.h"
#include "kernels/core/stream.h"

namespace longstream {

// The sizes of the buffers of a step. Each part of a model raises them to what it needs.
struct StepSizes {
  // Columns of the matrices of StepBuffers.
  int64_t width = 0;
  int64_t projected = 0;
  int64_t far_queries = 0;
  int64_t keys = 0;
  int64_t values = 0;
  int64_t mixed = 0;
  int64_t branch = 0;
  int64_t router_logits = 0;
  // Bytes.
  size_t hidden = 0;
  size_t routes = 0;
  size_t workspace = 0;

  template <typename Size>
  static void Raise(Size& size, Size needed) {
    if (size < needed) size = needed;
  }
};

// The largest step: rows and decode rows, and positions that a row may see.
struct StepLimits {
  int64_t max_rows = 0;
  int64_t max_decode_rows = 0;
  int64_t context_limit = 0;
};

// Used by one step at a time. Each function returns a view of its own memory, as a matrix of the
// size that a layer needs.
class StepBuffers {
 public:
  // Throws BackendError(LS_RESOURCE_EXHAUSTED). `device` must outlive the buffers.
  // ring_type: the type of near keys and of a window's keys and values.
  StepBuffers(const StepSizes& sizes, int64_t max_rows, DType ring_type, Device& device);

  Matrix Residual(int64_t rows) const { return F32(residual_, rows, width_); }
  // The results of a mixer's input projections.
  Matrix Projected(int64_t rows, int64_t cols) const { return F32(projected_, rows, cols); }
  // Queries of ReRoPE for far keys.
  Matrix FarQueries(int64_t rows, int64_t cols) const { return F32(far_queries_, rows, cols); }
  // A step's keys and values on their way to a ring.
  Matrix Keys(int64_t rows, int64_t cols) const { return Cached(keys_, rows, cols); }
  Matrix Values(int64_t rows, int64_t cols) const { return Cached(values_, rows, cols); }
  // The result of attention or recurrence, before the output projection.
  Matrix Mixed(int64_t rows, int64_t cols) const { return F32(mixed_, rows, cols); }
  // Room for the rows that the first half of a feed-forward part prepares for the second.
  std::byte* Hidden() const { return hidden_; }
  // The logits of a router, and the routes that follow from them (kernels/ops/experts).
  Matrix RouterLogits(int64_t rows, int64_t cols) const { return F32(router_logits_, rows, cols); }
  std::byte* RouteMemory() const { return routes_; }

  // The output of a branch that is normed before it is added to the residual stream.
  Matrix Branch(int64_t rows) const { return F32(branch_, rows, width_); }

  Stream MakeStream(const Executor& executor) const {
    return device_.MakeStream(executor, workspace_, workspace_bytes_);
  }

  uint64_t bytes() const { return memory_.size(); }

 private:
  // The distance between rows of `cols` f32 numbers: an odd number of cache lines, so that the same
  // columns of many rows are not all in one set of a cache. A task of a product writes such
  // columns.
  static int64_t StrideOf(int64_t cols) {
    constexpr int64_t kLine = 64 / sizeof(float);
    return ((cols + kLine - 1) / kLine | 1) * kLine;
  }
  static Matrix F32(std::byte* data, int64_t rows, int64_t cols) {
    return {data, DType::kF32, rows, cols, StrideOf(cols)};
  }
  Matrix Cached(std::byte* data, int64_t rows, int64_t cols) const {
    return {data, ring_type_, rows, cols, cols};
  }

  const int64_t width_;
  const DType ring_type_;
  Device& device_;
  DeviceMemory memory_;
  std::byte* residual_ = nullptr;
  std::byte* projected_ = nullptr;
  std::byte* far_queries_ = nullptr;
  std::byte* keys_ = nullptr;
  std::byte* values_ = nullptr;
  std::byte* mixed_ = nullptr;
  std::byte* hidden_ = nullptr;
  std::byte* branch_ = nullptr;
  std::byte* router_logits_ = nullptr;
  std::byte* routes_ = nullptr;
  std::byte* workspace_ = nullptr;
  size_t workspace_bytes_ = 0;
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_MODEL_STEP_STEP_BUFFERS_H_
