// Which waiting turns get their memory, and who waits for whom.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/engine/engine.h"
#include "service/engine/policy/admission_budget.h"

namespace longstream {
namespace {

// A turn whose memory is not there yet lets smaller ones behind it pass, so that one long context
// does not stop a model; but only so many while those that compute are about to make room for it,
// so that it gets its turn in the end.
constexpr uint32_t kMaxOvertaken = 64;

}  // namespace

// One look through the queue, from its front. Used by the engine thread alone.
class Engine::AdmissionRound {
 public:
  explicit AdmissionRound(Engine& engine) : engine_(engine) {
    for (const std::unique_ptr<ActiveTurn>& turn : engine_.running_) {
      computing_ += turn->Computes();
    }
  }

  // Running turns that compute.
  size_t computing() const { return computing_; }

  // Whether another turn may be admitted: there is a place, and nobody before it holds the line.
  bool GoesOn() const {
    const auto holds = [](const Blocked& blocked) {
      return blocked.is_coming && blocked.turn->times_overtaken() >= kMaxOvertaken;
    };
    return computing_ < engine_.options_.max_batch_sequences &&
           engine_.running_.size() < engine_.options_.max_open_turns &&
           std::none_of(blocked_.begin(), blocked_.end(), holds);
  }

  // OK: the turn has been admitted, and is to join those that run. RESOURCE_EXHAUSTED: there is no
  // memory for it now; the message may be empty. What a turn wants tells in most cases that it need
  // not be tried: so the queue may be as long as it likes.
  absl::Status Admit(ActiveTurn& turn) {
    wanted_ = turn.BytesWanted();
    if (wanted_.total() > engine_.FreeBytes() || IsMissing()) {
      return absl::ResourceExhaustedError("");
    }
    absl::Status status = turn.Admit(MonotonicTime::Now());
    if (absl::IsResourceExhausted(status)) missing_.push_back(wanted_);
    if (!status.ok()) return status;
    computing_ += turn.Computes();
    for (const Blocked& blocked : blocked_) blocked.turn->CountOvertaken();
    return status;
  }

  // For the turn for which there was none: OK where it waits for memory, else how it ends.
  absl::Status Wait(ActiveTurn& turn, const absl::Status& no_memory) {
    if (!budget_.has_value()) budget_ = engine_.Budget();
    const uint64_t wanted = wanted_.total();
    if (engine_.running_.empty() || !budget_->CanCome(wanted)) {
      const absl::Status why = no_memory.message().empty() ? turn.NoRoom() : no_memory;
      return absl::ResourceExhaustedError(
          absl::StrCat(why.message(), "; ", budget_->Refusal(wanted)));
    }
    blocked_.push_back({&turn, budget_->IsComing(wanted)});
    return absl::OkStatus();
  }

 private:
  struct Blocked {
    ActiveTurn* turn = nullptr;
    bool is_coming = false;  // what it wants, from turns that compute
  };

  // Whether one before it has found less of either kind of memory missing.
  bool IsMissing() const {
    return std::any_of(missing_.begin(), missing_.end(), [this](const PoolBytes& missing) {
      return missing.pages <= wanted_.pages && missing.fixed <= wanted_.fixed;
    });
  }

  Engine& engine_;
  size_t computing_ = 0;
  PoolBytes wanted_;  // by the turn in question
  std::vector<Blocked> blocked_;
  std::vector<PoolBytes> missing_;  // what was tried to be taken in vain
  // At first need. What is admitted after that takes as much from what is free as it adds to what
  // is coming: their sum stays.
  std::optional<AdmissionBudget> budget_;
};

uint64_t Engine::FreeBytes() const {
  const ls_memory memory = model_->backend().memory();
  return memory.budget - std::min(memory.budget, memory.reserved);
}

AdmissionBudget Engine::Budget() const {
  AdmissionBudget budget;
  budget.total = model_->backend().memory().budget;
  budget.free = FreeBytes();
  for (const std::unique_ptr<ActiveTurn>& turn : running_) {
    budget.most_coming += turn->MostBytesBack();
    if (turn->Computes()) budget.coming += turn->BytesUnused();
  }
  return budget;
}

void Engine::AdmitWaiting() {
  AdmissionRound round(*this);
  const size_t num_waiting = waiting_.size();
  for (auto it = waiting_.begin(); it != waiting_.end() && round.GoesOn();) {
    absl::Status status = round.Admit(**it);
    if (status.ok()) {
      running_.splice(running_.end(), waiting_, it++);
      continue;
    }
    if (absl::IsResourceExhausted(status)) status = round.Wait(**it, status);
    if (status.ok()) {
      ++it;
      continue;
    }
    (*it)->Abort(std::move(status));
    num_turns_.fetch_sub(1);
    it = waiting_.erase(it);
  }
  PublishRoom(num_waiting - waiting_.size(), round.computing());
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
