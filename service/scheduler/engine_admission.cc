// Which waiting turns get their memory, and who waits for whom.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/scheduler/engine.h"
#include "service/scheduler/memory_outlook.h"

namespace longstream {
namespace {

// A turn whose memory is not there yet lets smaller ones behind it pass, so that one long context
// does not stop a model; but only so many while those that compute are about to make room for it,
// so that it gets its turn in the end.
constexpr uint32_t kMaxOvertaken = 64;

// The turns of one round, in the order of the queue, that wait for memory.
class BlockedTurns {
 public:
  // Whether one that wants so much may find it: unless one before it has found less of either kind
  // of memory missing.
  bool MayFit(const CacheBytes& wanted) const {
    return std::none_of(missing_.begin(), missing_.end(), [&](const CacheBytes& missing) {
      return missing.pages <= wanted.pages && missing.fixed <= wanted.fixed;
    });
  }
  // `wanted` was tried to be taken in vain.
  void AddMissing(const CacheBytes& wanted) { missing_.push_back(wanted); }

  // `is_coming`: MemoryOutlook::IsComing of what it wants.
  void Add(ActiveTurn* turn, bool is_coming) { turns_.push_back({turn, is_coming}); }

  // A turn behind all of them was admitted.
  void CountOvertaken() {
    for (const Blocked& blocked : turns_) blocked.turn->CountOvertaken();
  }
  // Whether nobody else may pass.
  bool HoldTheLine() const {
    return std::any_of(turns_.begin(), turns_.end(), [](const Blocked& blocked) {
      return blocked.is_coming && blocked.turn->times_overtaken() >= kMaxOvertaken;
    });
  }

 private:
  struct Blocked {
    ActiveTurn* turn = nullptr;
    bool is_coming = false;
  };
  std::vector<Blocked> turns_;
  std::vector<CacheBytes> missing_;
};

}  // namespace

uint64_t Engine::FreeBytes() const {
  const ls_memory memory = model_->backend().memory();
  return memory.budget - std::min(memory.budget, memory.reserved);
}

MemoryOutlook Engine::Outlook() const {
  MemoryOutlook outlook;
  outlook.budget = model_->backend().memory().budget;
  outlook.free = FreeBytes();
  for (const std::unique_ptr<ActiveTurn>& turn : running_) {
    outlook.most_coming += turn->MostBytesBack();
    if (turn->Computes()) outlook.coming += turn->BytesUnused();
  }
  return outlook;
}

void Engine::AdmitWaiting() {
  size_t computing = 0;
  for (const std::unique_ptr<ActiveTurn>& turn : running_) computing += turn->Computes();
  const size_t num_waiting = waiting_.size();
  BlockedTurns blocked;
  std::optional<MemoryOutlook>
      outlook;  // what an admission takes is free, or coming: it stays true
  for (auto it = waiting_.begin(); it != waiting_.end() && !blocked.HoldTheLine();) {
    if (computing >= options_.max_batch_sequences || running_.size() >= options_.max_open_turns) {
      break;
    }
    ActiveTurn& next = **it;
    const CacheBytes wanted = next.BytesWanted();
    const bool is_tried = wanted.total() <= FreeBytes() && blocked.MayFit(wanted);
    const absl::Status status = is_tried ? next.Admit(MonotonicTime::Now()) : next.NoRoom();
    if (status.ok()) {
      running_.splice(running_.end(), waiting_, it++);
      computing += next.Computes();
      blocked.CountOvertaken();
      continue;
    }
    if (!absl::IsResourceExhausted(status)) {
      it = Refuse(it, status);
      continue;
    }
    if (!outlook.has_value()) outlook = Outlook();
    if (running_.empty() || !outlook->CanCome(wanted.total())) {
      it = Refuse(it, absl::ResourceExhaustedError(
                          absl::StrCat(status.message(), "; ", outlook->Refusal(wanted.total()))));
      continue;
    }
    if (is_tried) blocked.AddMissing(wanted);
    blocked.Add(&next, outlook->IsComing(wanted.total()));
    ++it;
  }
  PublishRoom(num_waiting - waiting_.size(), computing);
}

Engine::Turns::iterator Engine::Refuse(Turns::iterator turn, absl::Status status) {
  (*turn)->Abort(std::move(status));
  num_turns_.fetch_sub(1);
  return waiting_.erase(turn);
}

void Engine::PublishRoom(size_t left_queue, size_t computing) {
  // Turns whose readers have caught up may be more than the batch takes.
  const auto left = [](size_t limit, size_t taken) { return limit - std::min(limit, taken); };
  absl::MutexLock lock(&mutex_);
  num_waiting_ -= left_queue;
  // Where one waits, whoever comes waits behind it.
  room_ = waiting_.empty() ? std::min(left(options_.max_batch_sequences, computing),
                                      left(options_.max_open_turns, running_.size()))
                           : 0;
}

}  // namespace longstream
