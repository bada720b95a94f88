// The buffers of a step, one after another in one piece of memory.
#include "backends/model/step/step_buffers.h"

#include <initializer_list>

namespace longstream {

StepBuffers::StepBuffers(const StepSizes& sizes, int64_t max_rows, DType ring_type, Device& device)
    : width_(sizes.width), ring_type_(ring_type), device_(device) {
  struct Part {
    std::byte** begin;
    size_t bytes;
  };
  const auto rows_of = [&](int64_t cols) {
    return static_cast<size_t>(max_rows * StrideOf(cols)) * sizeof(float);
  };
  const auto ring_rows_of = [&](int64_t cols) {
    return static_cast<size_t>(max_rows * cols) * SizeOf(ring_type);
  };
  const std::initializer_list<Part> parts = {
      {&residual_, rows_of(sizes.width)},
      {&projected_, rows_of(sizes.projected)},
      {&far_queries_, rows_of(sizes.far_queries)},
      {&keys_, ring_rows_of(sizes.keys)},
      {&values_, ring_rows_of(sizes.values)},
      {&mixed_, rows_of(sizes.mixed)},
      {&hidden_, sizes.hidden},
      {&branch_, rows_of(sizes.branch)},
      {&router_logits_, rows_of(sizes.router_logits)},
      {&routes_, sizes.routes},
      {&workspace_, sizes.workspace},
  };
  const auto padded = [](size_t bytes) { return (bytes + 63) / 64 * 64; };
  size_t size = 0;
  for (const Part& part : parts) size += padded(part.bytes);
  memory_ = DeviceMemory(device, size, "activations");
  // A task of a product writes some columns of all rows, and each row is in another small page. On
  // a virtual machine a TLB miss costs more than the write.
  memory_.SetPieceBytes(size);
  size_t offset = 0;
  for (const Part& part : parts) {
    *part.begin = memory_.data() + offset;
    offset += padded(part.bytes);
  }
  workspace_bytes_ = padded(sizes.workspace);
}

}  // namespace longstream
