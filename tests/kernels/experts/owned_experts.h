// Experts of the tests, with random weights.
#ifndef LONGSTREAM_TESTS_KERNELS_EXPERTS_OWNED_EXPERTS_H_
#define LONGSTREAM_TESTS_KERNELS_EXPERTS_OWNED_EXPERTS_H_

#include <cstdint>
#include <vector>

#include "kernels/ops/experts/expert_hidden.h"
#include "kernels/ops/experts/routes.h"
#include "tests/kernels/op_test.h"

namespace longstream {

struct ExpertShape {
  int64_t rows = 1;
  int64_t d = 1;
  int64_t ff = 1;
  int64_t num_experts = 1;  // N
  int64_t per_row = 1;      // K
  int64_t shared_ff = 0;    // of the last expert; 0: it is like the others

  bool shared() const { return shared_ff > 0; }
  int64_t WidthOf(int64_t e) const { return shared() && e + 1 == num_experts ? shared_ff : ff; }
  size_t HiddenBytes() const {
    return ExpertHiddenBytes(rows, per_row - (shared() ? 1 : 0), ff) +
           ExpertHiddenBytes(rows, shared() ? 1 : 0, shared_ff);
  }
  size_t Workspace() const { return ExpertWorkspace(rows, per_row, num_experts, d); }
};

class OwnedExperts {
 public:
  OwnedExperts(const ExpertShape& shape, DType in, DType down, Random& random) {
    for (int64_t e = 0; e < shape.num_experts; ++e) {
      const int64_t ff = shape.WidthOf(e);
      gate_.emplace_back(ff, shape.d, in, random);
      up_.emplace_back(ff, shape.d, in, random);
      down_.emplace_back(shape.d, ff, down, random);
    }
  }

  // Packs the weights for a library.
  std::vector<Expert> Pack(const OpTable& ops) {
    std::vector<Expert> experts;
    for (size_t e = 0; e < gate_.size(); ++e) {
      experts.push_back({gate_[e].Pack(ops), up_[e].Pack(ops), down_[e].Pack(ops)});
    }
    return experts;
  }

 private:
  std::vector<OwnedWeight> gate_, up_, down_;
};

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_KERNELS_EXPERTS_OWNED_EXPERTS_H_
