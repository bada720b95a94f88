// Compares rows of logits. Pure functions, in f64.
//
// A row is [vocabulary] f32 raw logits z. It may have -infinity, but not everywhere; it has no NaN
// and no +infinity. Its distribution is p_i = exp(z_i - L) with L = log sum_j exp(z_j).
#ifndef LONGSTREAM_SERVICE_COMPARE_DISTRIBUTION_H_
#define LONGSTREAM_SERVICE_COMPARE_DISTRIBUTION_H_

#include <cstdint>
#include <span>

namespace longstream {

// L, by m + log sum_j exp(z_j - m) with m = max z, so that large logits do not overflow.
double LogSumExp(std::span<const float> logits);

// The index of the greatest logit; among equal ones the lowest.
int32_t BestToken(std::span<const float> logits);

// 1 + the number of logits that are greater than that of `token`. REQUIRES: the token is in the
// vocabulary.
uint32_t RankOf(std::span<const float> logits, int32_t token);

// KL(p || q) = sum_i p_i (log p_i - log q_i) in nats, where p_i = 0 adds 0. `log_sum_p` and
// `log_sum_q`: LogSumExp of the rows, which have the same size. Exactly 0 for equal rows; infinite
// if q_i = 0 where p_i > 0. The exact value is never negative, so a rounding error below 0 becomes
// 0. The sum is compensated: it is as good as one in twice the precision, then rounded.
double KlDivergence(std::span<const float> p, double log_sum_p, std::span<const float> q,
                    double log_sum_q);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_COMPARE_DISTRIBUTION_H_
