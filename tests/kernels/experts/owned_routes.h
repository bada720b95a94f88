// Routes of the tests of experts, in memory between guards.
#ifndef LONGSTREAM_TESTS_KERNELS_EXPERTS_OWNED_ROUTES_H_
#define LONGSTREAM_TESTS_KERNELS_EXPERTS_OWNED_ROUTES_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/ops/experts/routes.h"
#include "tests/kernels/op_test.h"

namespace longstream {

class OwnedRoutes {
 public:
  // The arrays are uninitialised.
  OwnedRoutes(int64_t num_rows, int64_t num_experts, int64_t per_row)
      : memory_(Routes::Bytes(num_rows, num_experts, per_row)),
        view_(Routes::In(memory_.data(), num_rows, num_experts, per_row)) {}

  // Each row has `per_row` different random experts and random weights. With `shared`, the last
  // expert is one of every row.
  OwnedRoutes(int64_t num_rows, int64_t num_experts, int64_t per_row, bool shared, Random& random)
      : OwnedRoutes(num_rows, num_experts, per_row) {
    std::vector<std::vector<int32_t>> rows(static_cast<size_t>(num_experts));
    for (int32_t r = 0; r < num_rows; ++r) {
      if (shared) rows.back().push_back(r);
      for (int64_t n = shared ? 1 : 0; n < per_row;) {
        const int64_t e = random.Integer(0, num_experts - (shared ? 2 : 1));
        std::vector<int32_t>& of_expert = rows[static_cast<size_t>(e)];
        if (!of_expert.empty() && of_expert.back() == r) continue;
        of_expert.push_back(r);
        ++n;
      }
    }
    int64_t route = 0;
    for (int64_t e = 0; e < num_experts; ++e) {
      view_.first[e] = route;
      for (const int32_t r : rows[static_cast<size_t>(e)]) {
        view_.rows[route] = r;
        view_.weights[route++] = random.Normal();
      }
    }
    view_.first[num_experts] = route;
  }

  OwnedRoutes(const OwnedRoutes&) = delete;
  OwnedRoutes& operator=(const OwnedRoutes&) = delete;
  OwnedRoutes(OwnedRoutes&&) = default;

  const Routes& view() const { return view_; }
  std::vector<int64_t> first() const { return {view_.first, view_.first + view_.num_experts + 1}; }
  std::vector<int32_t> rows() const { return {view_.rows, view_.rows + count()}; }
  std::vector<float> weights() const { return {view_.weights, view_.weights + count()}; }

 private:
  int64_t count() const { return view_.num_rows * view_.per_row; }

  Buffer memory_;
  Routes view_;
};

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_KERNELS_EXPERTS_OWNED_ROUTES_H_
