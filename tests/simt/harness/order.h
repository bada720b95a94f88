// The order in which the threads of a block run, and when copies happen: LONGSTREAM_SIMT_ORDER
// (block.h).
#ifndef LONGSTREAM_TESTS_SIMT_HARNESS_ORDER_H_
#define LONGSTREAM_TESTS_SIMT_HARNESS_ORDER_H_

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <numeric>
#include <random>
#include <string_view>
#include <vector>

namespace longstream::simt {

class Order {
 public:
  explicit Order(size_t threads) : order_(threads) {
    const char* setting = std::getenv("LONGSTREAM_SIMT_ORDER");
    const std::string_view name = setting == nullptr ? "forward" : setting;
    std::iota(order_.begin(), order_.end(), size_t{0});
    if (name == "backward") {
      std::reverse(order_.begin(), order_.end());
      copies_at_once_ = true;
    } else if (name != "forward") {
      engine_.seed(std::strtoull(setting, nullptr, 10));
      shuffles_ = true;
    }
  }

  const std::vector<size_t>& Next() {
    if (shuffles_) std::shuffle(order_.begin(), order_.end(), engine_);
    return order_;
  }
  bool CopyAtOnce() { return shuffles_ ? engine_() % 2 == 0 : copies_at_once_; }

 private:
  std::vector<size_t> order_;
  bool copies_at_once_ = false;
  bool shuffles_ = false;
  std::mt19937_64 engine_;
};

}  // namespace longstream::simt

#endif  // LONGSTREAM_TESTS_SIMT_HARNESS_ORDER_H_
