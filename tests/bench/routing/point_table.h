// How good the choice of a route was, by what each arm really took.
#ifndef LONGSTREAM_TESTS_BENCH_ROUTING_POINT_TABLE_H_
#define LONGSTREAM_TESTS_BENCH_ROUTING_POINT_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "service/routing/route_config.h"

namespace longstream {

// The measured times of one arm for a prompt of some length.
struct ArmTimes {
  double first_token = 0.0;  // seconds
  double per_token = 0.0;    // seconds
  uint64_t session_bytes = 0;
};

struct Verdict {
  size_t best = 0;  // the arm that measurement shows to be the right one
  // 1: the chosen arm is the right one, or as good. Without budgets: its time by the least time.
  // With budgets: the factor by which the decisive measured value would have to change for the
  // choice to be right.
  double factor = 1.0;
};

// Judges the choice of an arm for a prompt, with an answer of `tokens` tokens. The arms are in the
// order of preference.
Verdict Judge(std::span<const ArmTimes> arms, const RouteBudgets& budgets, uint64_t tokens,
              size_t chosen);

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_BENCH_ROUTING_POINT_TABLE_H_
