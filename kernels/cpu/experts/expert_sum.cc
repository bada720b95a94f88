// Second half of the experts (kernels/ops/experts/expert_sum.h).
//
// A task computes some columns of all rows. It goes through the experts in their order and adds
// their products to these columns, which no other task writes.
#include "kernels/ops/experts/expert_sum.h"

#include "kernels/cpu/experts/active_experts.h"
#include "kernels/cpu/gemm/panel_product.h"
#include "kernels/cpu/isa_ops.h"

namespace longstream::cpu::LONGSTREAM_ISA {
namespace {

// Adds the products of a block of an expert's rows to the rows of `out`.
void AddBlock(const ExpertSumArgs& args, const ActiveExpert& active, const PreparedRows& h,
              const OutputBlock& block) {
  const PackedWeight& down = active.expert->down;
  const int32_t* rows = args.routes.rows + active.first_route;
  const float* weights = args.routes.weights + active.first_route;
  alignas(64) float sums[kBlockSums];
  PanelProduct(h, down, block, sums);
  ForEachVector(block, down.n, [&](int64_t row, int64_t c, int64_t i, int64_t count) {
    float* out = args.out.f32_row(rows[row]) + c;
    const F32x16 product = Broadcast(args.scale * weights[row]) * Load(sums + i);
    if (count == kLanes) {
      Store(Load(out) + product, out);
    } else {
      StorePartial(LoadPartial(out, count) + product, out, count);
    }
  });
}

// Adds the products of all rows of an expert with panels [first, first + count).
void AddPanels(const ExpertSumArgs& args, const ActiveExpert& active, uint32_t num_threads,
               int64_t first, int64_t count) {
  const PackedWeight& down = active.expert->down;
  const int64_t most_rows = MostBlockRows(down, num_threads);
  const PreparedRows h = HiddenRows(args.hidden + active.hidden, down);
  for (int64_t row = 0; row < active.num_routes; row += most_rows) {
    const int64_t left = active.num_routes - row;
    const int64_t rows = left < most_rows ? left : most_rows;
    const int64_t at_once = PanelsOfBlock(down, rows);
    for (int64_t p = 0; p < count; p += at_once) {
      const int64_t panels = count - p < at_once ? count - p : at_once;
      AddBlock(args, active, h, {row, rows, first + p, panels});
    }
  }
}

void SetZero(const Matrix& out, int64_t first, int64_t count) {
  for (int64_t r = 0; r < out.rows; ++r) {
    __builtin_memset(out.f32_row(r) + first, 0, static_cast<size_t>(count) * sizeof(float));
  }
}

}  // namespace

void ExpertSum(Stream& stream, const ExpertSumArgs& args) {
  if (!stream.ok()) return;
  const Routes& routes = args.routes;
  const PackedWeight& down = args.experts[0].down;
  if (stream.workspace_bytes <
      ExpertWorkspace(routes.num_rows, routes.per_row, routes.num_experts, down.n)) {
    return stream.Fail(OpStatus::kUnsupported);
  }
  const ActiveExperts active = FindActiveExperts(routes, args.experts, stream.workspace);
  const int64_t panels = NumPanels(down.n);
  // A single row multiplies several panels at once.
  const bool few_rows = routes.num_rows * routes.per_row < 2 * active.count;
  const int64_t task_panels = few_rows ? kSingleRowPanels : kBlockPanels;
  const uint32_t threads = stream.executor.num_threads;
  const int64_t num_tasks = (panels + task_panels - 1) / task_panels;
  ParallelFor(stream.executor, static_cast<uint32_t>(num_tasks), [&](uint32_t task) {
    const int64_t first = task * task_panels;
    const int64_t count = panels - first < task_panels ? panels - first : task_panels;
    if (!args.accumulate) {
      const int64_t begin = first * kPanelOutputs;
      const int64_t left = args.out.cols - begin;
      const int64_t cols = count * kPanelOutputs;
      SetZero(args.out, begin, left < cols ? left : cols);
    }
    for (const ActiveExpert& expert : active) AddPanels(args, expert, threads, first, count);
  });
}

}  // namespace longstream::cpu::LONGSTREAM_ISA
