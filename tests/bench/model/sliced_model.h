// A model of random weights whose contexts cost no prefill: they consist of random numbers.
#ifndef LONGSTREAM_TESTS_BENCH_MODEL_SLICED_MODEL_H_
#define LONGSTREAM_TESTS_BENCH_MODEL_SLICED_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "backends/runtime/model.h"
#include "backends/spec/model_spec.h"
#include "kernels/core/dtype.h"
#include "kernels/core/executor.h"
#include "tests/bench/model/slice.h"
#include "tests/bench/read_bandwidth.h"

namespace longstream {

struct SlicedModelOptions {
  DType weights = DType::kBF16;
  DType cache = DType::kBF16;
  uint32_t batch = 1;          // sequences that decode together
  double slice_seconds = 0.8;  // a decode stops after this time
  size_t probe_bytes = kProbeBytes;
};

// Used by one thread.
class SlicedModel {
 public:
  // `executor` must outlive it. Throws BackendError.
  SlicedModel(ModelSpec spec, const SlicedModelOptions& options, const Executor& executor);

  // Runs a slice between two probes. The first slice of a depth makes its contexts, untimed; later
  // ones cut the same contexts back to the depth. A decode samples greedily and feeds each sequence
  // the token that it sampled last. A prefill feeds one sequence pieces of 512 tokens and samples
  // after the last piece. Throws BackendError if memory is short or a step fails.
  Slice Run(const SliceKind& kind);

  const Model& model() const { return model_; }

 private:
  using Sequences = std::vector<std::unique_ptr<ls_sequence>>;

  // Returns the contexts of this depth, cut back to `depth` tokens.
  Sequences& At(int64_t depth);
  std::unique_ptr<ls_sequence> MakeContext(int64_t depth);
  void Decode(Sequences& sequences, const SliceKind& kind, Slice* slice);
  void Prefill(ls_sequence& sequence, const SliceKind& kind, Slice* slice);
  void Step(const std::vector<ls_batch_entry>& entries);

  const SlicedModelOptions options_;
  Model model_;
  const ReadBandwidth bandwidth_;
  double weight_bytes_ = 0;
  std::map<int64_t, Sequences> contexts_;  // the contexts of each depth
  std::vector<int32_t> tokens_;            // the tokens that were sampled last, [batch]
};

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_BENCH_MODEL_SLICED_MODEL_H_
