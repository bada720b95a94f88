// Keeps account of the host's memory while models are loaded.
#include "service/models/memory_plan.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "service/models/expected_memory.h"
#include "service/models/saturating.h"

namespace longstream {
namespace {

uint64_t Rest(uint64_t whole, uint64_t part) { return whole - std::min(whole, part); }

bool RunsOnHost(const ModelSource& source, std::span<const std::shared_ptr<const Plugin>> plugins) {
  if (source.device != "auto") return source.device == "cpu";
  return std::none_of(plugins.begin(), plugins.end(),
                      [](const auto& plugin) { return plugin->device() != "cpu"; });
}

}  // namespace

HostReserve HostReserve::Of(uint64_t limit, uint64_t session_bytes) {
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  const uint64_t both = std::clamp(limit / 8, std::min(64 * kMiB, limit / 4), 2048 * kMiB);
  HostReserve reserve;
  reserve.rest = both / 2;
  reserve.sessions = session_bytes > 0 ? session_bytes : std::max(both - reserve.rest, limit / 16);
  return reserve;
}

uint64_t HostReserve::Sum() const { return SumOf(sessions, rest); }

absl::Status CheckCacheBytes(uint64_t limit, std::span<const ModelSource> sources,
                             std::span<const std::shared_ptr<const Plugin>> plugins,
                             uint64_t session_bytes) {
  const HostReserve parts = HostReserve::Of(limit, session_bytes);
  const uint64_t reserve = parts.Sum();
  if (limit > 0 && reserve > limit) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "sessions.host_bytes: sessions may hold ", session_bytes, " bytes, and the reserve is ",
        parts.rest, " bytes beside them; the process may use ", limit, " bytes of memory"));
  }
  uint64_t sum = 0;
  std::vector<std::string> asked;
  for (const ModelSource& source : sources) {
    if (source.cache_bytes_budget == 0 || !RunsOnHost(source, plugins)) continue;
    sum = SumOf(sum, source.cache_bytes_budget);
    asked.push_back(absl::StrCat(source.name, " (", source.cache_bytes_budget, ")"));
  }
  if (sum <= Rest(limit, reserve)) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("cache_bytes: the models ", absl::StrJoin(asked, ", "), " ask for ", sum,
                   " bytes together; the process may use ", limit, " bytes of memory, of which ",
                   reserve, " are kept as a reserve"));
}

MemoryPlan::MemoryPlan(uint64_t limit, uint64_t used, std::span<const ModelSource> sources,
                       std::span<const std::shared_ptr<const Plugin>> plugins,
                       uint64_t session_bytes)
    : limit_(limit), reserve_(HostReserve::Of(limit, session_bytes)), used_at_start_(used) {
  if (limit == 0) return;
  for (const ModelSource& source : sources) {
    if (source.device != "auto" && source.device != "cpu") continue;
    entries_.push_back(EntryOf(source.name, source, plugins));
  }
}

MemoryPlan::Entry MemoryPlan::EntryOf(const std::string& name, const ModelSource& source,
                                      std::span<const std::shared_ptr<const Plugin>> plugins) {
  Entry entry;
  entry.name = name;
  entry.is_certain = RunsOnHost(source, plugins);
  (entry.is_certain ? entry.own : entry.on_host.own) = ExpectedWeights(source);
  entry.fixed = source.cache_bytes_budget;
  entry.need.batch = entry.fixed == 0 ? std::numeric_limits<uint64_t>::max() : entry.fixed;
  return entry;
}

absl::Status MemoryPlan::Expect(const std::string& name, const ModelSource& source,
                                std::span<const std::shared_ptr<const Plugin>> plugins) {
  if (limit_ == 0 || (source.device != "auto" && source.device != "cpu")) return absl::OkStatus();
  Entry entry = EntryOf(name, source, plugins);
  const ExpectedMemory expected = ExpectedMemory::Of(source);
  const uint64_t own = SumOf(expected.weights, expected.workspace);
  absl::Status status = CheckRoom(expected, entry.fixed);
  if (entry.is_certain) {
    if (!status.ok()) return status;
    entry.own = own;
    entry.need.least = expected.least_caches;
  } else {
    entry.on_host = {own, expected.least_caches, std::move(status)};
  }
  entries_.push_back(std::move(entry));
  return absl::OkStatus();
}

absl::Status MemoryPlan::CheckRoom(const ExpectedMemory& expected, uint64_t fixed) const {
  const uint64_t caches = fixed > 0 ? fixed : expected.least_caches;
  const uint64_t needed = SumOf(SumOf(expected.weights, expected.workspace), caches);
  uint64_t taken = SumOf(SumOf(reserve_.Sum(), Used()), Fixed());
  for (const Entry* const other : Sharing()) taken = SumOf(taken, other->need.least);
  if (needed <= Rest(limit_, taken)) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "memory: ", needed, " bytes are needed (weights ", expected.weights, ", workspace ",
      expected.workspace, ", caches at least ", caches, "), ", Rest(limit_, taken),
      " bytes are available; the process may use ", limit_, " bytes, of which ", reserve_.Sum(),
      " are kept as a reserve and the program and the other models need ",
      Rest(taken, reserve_.Sum())));
}

absl::Status MemoryPlan::CheckHeld() const {
  uint64_t needed = SumOf(SumOf(reserve_.Sum(), Used()), Fixed());
  uint64_t held = 0;
  for (const Entry* const entry : Sharing()) {
    needed = SumOf(needed, std::max(entry->need.least, entry->need.held));
    held = SumOf(held, entry->need.held);
  }
  if (limit_ == 0 || needed <= limit_) return absl::OkStatus();
  return NoRoom(absl::StrCat(needed, " bytes are needed, with ", held,
                             " that running turns hold; try again later"));
}

const MemoryPlan::Entry* MemoryPlan::Find(std::string_view name) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.name == name; });
  return found == entries_.end() ? nullptr : &*found;
}

MemoryPlan::Entry* MemoryPlan::Find(std::string_view name) {
  return const_cast<Entry*>(std::as_const(*this).Find(name));
}

std::vector<const MemoryPlan::Entry*> MemoryPlan::Sharing() const {
  std::vector<const Entry*> sharing;
  for (const Entry& entry : entries_) {
    if (entry.HasShare()) sharing.push_back(&entry);
  }
  return sharing;
}

MemoryShares MemoryPlan::Divide() const {
  std::vector<CacheNeed> needs;
  for (const Entry* entry : Sharing()) needs.push_back(entry->need);
  return DivideMemory(Left(), needs);
}

uint64_t MemoryPlan::Used() const {
  uint64_t added = used_at_start_, expected = 0;
  for (const Entry& entry : entries_) {
    uint64_t& sum = entry.is_added ? added : expected;
    sum = SumOf(sum, entry.own);
  }
  return SumOf(std::max(added, measured_), expected);
}

uint64_t MemoryPlan::Fixed() const {
  uint64_t fixed = 0;
  for (const Entry& entry : entries_) fixed = SumOf(fixed, entry.HasShare() ? 0 : entry.fixed);
  return fixed;
}

uint64_t MemoryPlan::Left() const {
  return Rest(limit_, SumOf(SumOf(reserve_.Sum(), Used()), Fixed()));
}

absl::Status MemoryPlan::NoRoom(std::string_view what) const {
  std::vector<std::string> parts;
  for (const Entry& entry : entries_) {
    std::string caches = absl::StrCat(entry.need.least, " at least");
    if (entry.fixed > 0) caches = absl::StrCat("cache_bytes ", entry.fixed);
    if (entry.fixed == 0 && !entry.is_added) caches = "unknown";
    parts.push_back(
        absl::StrCat(entry.name, " (weights and workspace ", entry.own, ", caches ", caches, ")"));
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "memory: ", absl::string_view(what.data(), what.size()), "; the process may use ", limit_,
      " bytes, of which ", reserve_.Sum(), " are kept as a reserve and ", Used(),
      " are for the program, weights and workspaces; models: ", absl::StrJoin(parts, ", ")));
}

HostBudget MemoryPlan::BudgetFor(std::string_view name) const {
  HostBudget budget;
  const Entry* const asking = Find(name);
  if (asking == nullptr) return budget;  // there is no plan, or the model is for a GPU
  if (!asking->is_certain && !asking->is_added) return BudgetOnHost(*asking);
  if (asking->fixed > 0) {
    budget.most = budget.share = asking->fixed;
    const uint64_t fixed = SumOf(Fixed(), asking->HasShare() ? asking->fixed : 0);
    if (fixed > Rest(limit_, SumOf(reserve_.Sum(), Used()))) {
      budget.refusal = NoRoom("the cache_bytes of the models do not fit");
    }
    return budget;
  }
  const std::vector<const Entry*> sharing = Sharing();
  const auto found = std::find(sharing.begin(), sharing.end(), asking);
  budget.most = Left();
  const uint64_t share = Divide().bytes[static_cast<size_t>(found - sharing.begin())];
  // An eighth is left for the model's own needs, which are not known before it is loaded.
  budget.share = share - share / 8;
  if (budget.share == 0) budget.refusal = NoRoom("nothing is left for caches");
  return budget;
}

HostBudget MemoryPlan::BudgetOnHost(const Entry& asking) const {
  MemoryPlan plan = *this;
  Entry& entry = *plan.Find(asking.name);
  entry.is_certain = true;
  entry.own = asking.on_host.own;
  entry.need.least = asking.on_host.least;
  HostBudget budget = plan.BudgetFor(asking.name);
  absl::Status refusal = asking.on_host.refusal;
  refusal.Update(plan.CheckHeld());
  refusal.Update(budget.refusal);
  budget.refusal = std::move(refusal);
  return budget;
}

absl::Status MemoryPlan::Add(std::string_view name, uint64_t weights_and_workspace,
                             const CacheNeed& need, uint64_t fixed) {
  Entry* const entry = Find(name);
  if (entry == nullptr) return absl::OkStatus();
  entry->is_added = true;
  entry->own = weights_and_workspace;
  entry->need = need;
  entry->fixed = fixed;
  const uint64_t taken = SumOf(SumOf(reserve_.Sum(), Used()), Fixed());
  const std::vector<const Entry*> sharing = Sharing();
  const std::vector<uint64_t> shares = Divide().bytes;
  uint64_t needed = 0, shared = 0;
  bool fits = taken <= limit_;
  for (size_t i = 0; i < sharing.size(); ++i) {
    const CacheNeed& other = sharing[i]->need;
    needed = SumOf(needed, std::max(other.least, other.held));
    shared = SumOf(shared, shares[i]);
    fits &= shares[i] >= other.least;
  }
  if (fits && shared <= Left()) return absl::OkStatus();
  absl::Status status = NoRoom(absl::StrCat(SumOf(taken, needed), " bytes are needed"));
  Remove(name);
  return status;
}

void MemoryPlan::Remove(std::string_view name) {
  std::erase_if(entries_, [&](const Entry& entry) { return entry.name == name; });
}

void MemoryPlan::SetHeld(std::string_view name, uint64_t bytes) {
  Entry* const entry = Find(name);
  if (entry == nullptr) return;
  entry->need.held = bytes;
  if (entry->is_lost) entry->fixed = bytes;
}

void MemoryPlan::Lose(std::string_view name) {
  Entry* const entry = Find(name);
  if (entry == nullptr) return;
  entry->is_lost = true;
  entry->fixed = entry->need.held;
}

std::vector<MemoryPlan::Share> MemoryPlan::Shares(bool* settled) const {
  const std::vector<const Entry*> sharing = Sharing();
  const MemoryShares divided = Divide();
  const auto holds_lost_memory = [](const Entry& entry) {
    return entry.is_lost && entry.fixed > 0;
  };
  *settled = divided.settled && std::ranges::none_of(entries_, holds_lost_memory);
  std::vector<Share> shares;
  for (size_t i = 0; i < sharing.size(); ++i) {
    if (!sharing[i]->is_added) continue;
    // The process may hold some bytes more than when Add has found enough.
    shares.push_back({sharing[i]->name, std::max(divided.bytes[i], sharing[i]->need.least)});
  }
  return shares;
}

}  // namespace longstream
