// First half of the experts (kernels/ops/experts/expert_hidden.h).
//
// The rows are prepared once. If several rows use an expert, they are copied side by side, so that
// its products are those of a matrix. Then one loop of tasks covers the outputs of all experts.
#include "kernels/ops/experts/expert_hidden.h"

#include "kernels/cpu/experts/active_experts.h"
#include "kernels/cpu/gemm/activated.h"
#include "kernels/cpu/gemm/panel_product.h"
#include "kernels/cpu/isa_ops.h"

namespace longstream::cpu::LONGSTREAM_ISA {
namespace {

// A task writes whole groups of outputs, as PreparedOut requires: one group for each of its rows.
static_assert(kPanelOutputs == kGroupInputs && kBlockPanels == 1);

// Bytes of an element of prepared rows for a weight of this type.
int64_t ElementBytes(DType type) {
  if (IsQuantised(type)) return static_cast<int64_t>(sizeof(RowGroup));
  if (type == DType::kBF16) return static_cast<int64_t>(sizeof(BF16Activation));
  return static_cast<int64_t>(sizeof(float));
}

bool Consecutive(const int32_t* rows, int64_t count) {
  // The rows of an expert rise.
  return rows[count - 1] - rows[0] == count - 1;
}

// Sets the inputs of each expert: rows of h if they follow each other, else copies of them in
// `memory`.
void GatherInputs(const Executor& executor, const ExpertHiddenArgs& args, const PreparedRows& h,
                  const ActiveExperts& active, std::byte* memory) {
  const PackedWeight& weight = args.experts[0].gate;
  const int64_t element = ElementBytes(weight.type);
  // Rows that are not changed before the product have the stride of x.
  const int64_t used =
      IsQuantised(weight.type) || weight.type == DType::kBF16 ? h.stride : weight.k;
  const auto row_of = [&](const void* rows, int64_t row, int64_t stride) {
    return static_cast<const std::byte*>(rows) + row * stride * element;
  };
  bool all_consecutive = true;
  for (ActiveExpert& expert : active) {
    const int32_t* rows = args.routes.rows + expert.first_route;
    if (Consecutive(rows, expert.num_routes)) {
      expert.inputs = {row_of(h.data, rows[0], h.stride), h.stride};
      continue;
    }
    all_consecutive = false;
    expert.inputs = {memory, used};
    memory += PreparedBytes(expert.num_routes, weight.k);
  }
  if (all_consecutive) return;
  ParallelFor(executor, static_cast<uint32_t>(active.count), [&](uint32_t task) {
    const ActiveExpert& expert = active.data[task];
    const int32_t* rows = args.routes.rows + expert.first_route;
    if (Consecutive(rows, expert.num_routes)) return;
    for (int64_t i = 0; i < expert.num_routes; ++i) {
      __builtin_memcpy(const_cast<std::byte*>(row_of(expert.inputs.data, i, used)),
                       row_of(h.data, rows[i], h.stride), static_cast<size_t>(used * element));
    }
  });
}

// Computes the hidden numbers of one block of an expert's outputs.
void HiddenBlock(const ExpertHiddenArgs& args, const ActiveExpert& active,
                 const OutputBlock& block) {
  const Expert& expert = *active.expert;
  const int64_t ff = expert.gate.n;
  alignas(64) float sums[kBlockSums];
  alignas(64) float up_sums[kBlockSums];
  PreparedOut out(Matrix{args.hidden + active.hidden, DType::kF32, active.num_routes, ff, ff},
                  expert.down.type);
  PanelProduct(active.inputs, expert.gate, block, sums);
  PanelProduct(active.inputs, expert.up, block, up_sums);
  ForEachVector(block, ff, [&](int64_t row, int64_t c, int64_t i, int64_t count) {
    out.Put(row, c, Activated(args.activation, Load(sums + i)) * Load(up_sums + i), count);
  });
}

// The expert that has the task.
const ActiveExpert& ExpertOf(const ActiveExperts& active, uint32_t task) {
  int64_t begin = 0;
  int64_t end = active.count;  // the expert is in [begin, end)
  while (end - begin > 1) {
    const int64_t middle = (begin + end) / 2;
    if (active.data[middle].first_task <= task) {
      begin = middle;
    } else {
      end = middle;
    }
  }
  return active.data[begin];
}

}  // namespace

void ExpertHidden(Stream& stream, const ExpertHiddenArgs& args) {
  if (!stream.ok()) return;
  const Routes& routes = args.routes;
  const PackedWeight& first = args.experts[0].gate;
  if (stream.workspace_bytes <
      ExpertWorkspace(routes.num_rows, routes.per_row, routes.num_experts, first.k)) {
    return stream.Fail(OpStatus::kUnsupported);
  }
  const PreparedRows h = PrepareRows(stream, LinearInput(args.in, first), routes.num_rows);
  if (!stream.ok()) return;
  std::byte* table = stream.workspace + LinearWorkspace(routes.num_rows, first.k);
  const ActiveExperts active = FindActiveExperts(routes, args.experts, table);
  GatherInputs(stream.executor, args, h, active, table + routes.num_experts * 64);
  const uint32_t threads = stream.executor.num_threads;
  uint32_t num_tasks = 0;
  for (ActiveExpert& expert : active) {
    expert.first_task = num_tasks;
    num_tasks += OutputBlocks(expert.num_routes, expert.expert->gate, threads).count();
  }
  ParallelFor(stream.executor, num_tasks, [&](uint32_t task) {
    const ActiveExpert& expert = ExpertOf(active, task);
    const OutputBlocks blocks(expert.num_routes, expert.expert->gate, threads);
    HiddenBlock(args, expert, blocks.At(task - expert.first_task));
  });
}

}  // namespace longstream::cpu::LONGSTREAM_ISA
