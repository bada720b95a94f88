// How the tenants of a model share its work.
#ifndef LONGSTREAM_SERVICE_ENGINE_POLICY_FAIR_SHARE_H_
#define LONGSTREAM_SERVICE_ENGINE_POLICY_FAIR_SHARE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"

namespace longstream {

// Takes the least that a claimant who wants more has got from the amounts of all; the amounts mean
// something only in relation to each other. The other claimants count as having got no less, so
// time without demand gives no credit.
void LevelToLeast(std::span<double> got, absl::FunctionRef<bool(size_t)> wants);

// The work that each tenant has got from a model, divided by its weight. The tenant that has got
// least goes first. The unit of work is a token of a prompt. Tenants are numbered from 0 on.
class WorkShares {
 public:
  // `weights`: one for each tenant, > 0. Empty: there is one tenant.
  explicit WorkShares(std::vector<double> weights);

  // Whether there is more than one tenant. If not, all functions below cost nothing.
  bool are_shared() const { return weights_.size() > 1; }
  std::span<const double> weights() const { return weights_; }
  // Only differences between tenants mean something.
  double got(size_t tenant) const { return got_[tenant]; }

  // The tenant gets this much work.
  void Charge(size_t tenant, double work) { got_[tenant] += work / weights_[tenant]; }
  // LevelToLeast. Call it before each step. `wants`: whether the tenant has turns or prompts that
  // wait.
  void Level(const std::vector<bool>& wants);

  // The tenant's part of `total` places, at least one.
  size_t PartOf(size_t tenant, size_t total) const;

 private:
  const std::vector<double> weights_;
  double total_weight_ = 0.0;
  std::vector<double> got_;
};

// The work of a turn's rows in a step. A decode row is more than a token of a prompt, as far as the
// times of the two are known: `decode_seconds` of one row, `token_seconds` of one token; 0:
// unknown.
double WorkOfRows(uint64_t rows, bool is_decode, double decode_seconds, double token_seconds);

// A turn in the queue.
struct WaitingTurn {
  int32_t priority = 0;
  uint32_t tenant = 0;
  double work = 0.0;  // what it is going to get, about
};

// Returns the indices of the turns in the order in which they are looked at: by priority, then by
// the work that their tenants have got, with the work of the turns before. The turns of a tenant
// keep their order.
std::vector<uint32_t> FairOrder(std::span<const WaitingTurn> turns, const WorkShares& shares);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_POLICY_FAIR_SHARE_H_
