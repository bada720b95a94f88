// Compare: a call that runs several turns, and streams what their tokens and logits say.
#ifndef LONGSTREAM_SERVICE_SERVER_COMPARE_COMPARE_CALL_H_
#define LONGSTREAM_SERVICE_SERVER_COMPARE_COMPARE_CALL_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "longstream/v1/longstream.pb.h"
#include "service/clock/timers.h"
#include "service/compare/row_join.h"
#include "service/engine/turn/turn_events.h"
#include "service/host_memory/host_memory.h"
#include "service/server/compare/compare_limits.h"
#include "service/server/compare/compare_messages.h"
#include "service/server/compare/compare_plan.h"
#include "service/serving/turns/turn_pump.h"

namespace longstream {

// The parts of the server that a CompareCall uses.
struct CompareTools {
  CompareLimits limits;
  Timers* timers = nullptr;  // outlives the call
  // Runs work on a thread that may compute for some milliseconds, later than the caller's return.
  // The functions run in the order of the calls, several at the same time.
  std::function<void(std::function<void()> work)> compute;
  // Converts how a turn has ended; sets the reason and the usage at least.
  std::function<void(const TurnEnd& end, v1::Finish* message)> to_finish;
  std::shared_ptr<void> counted;  // counts the call while it exists
};

// The reactor of one call. The turns write rows into a RowJoin. At any moment at most one of these
// goes on: the pump takes rows and computes, on a thread of CompareTools::compute; or a message is
// being written. If neither does, the RowJoin or the end of a turn starts the pump again. So while
// the client is slow, nobody takes rows, and the turns pause.
//
// Deletes itself when its call is done: `self_` keeps it alive until OnDone, and the turns keep it
// alive until they have ended.
class CompareCall final : public grpc::ServerWriteReactor<v1::CompareResponse>,
                          public std::enable_shared_from_this<CompareCall> {
 public:
  // Checks the request and prepares the turns. Called once; holds the request.
  using Check = std::function<absl::StatusOr<ComparePlan>()>;

  CompareCall(const grpc::CallbackServerContext* context, CompareTools tools);

  // Keeps the call alive until OnDone. Call it first, then Begin or Refuse.
  void Hold() { self_ = shared_from_this(); }
  // Ends the call before its turns have begun.
  void Refuse(const absl::Status& status);
  // Starts the turns.
  void Begin(const Check& check);

  void OnWriteDone(bool ok) override;
  void OnCancel() override ABSL_LOCKS_EXCLUDED(mutex_);
  void OnDone() override;

 private:
  // One turn of the call.
  class ArmTurn final : public TurnPump::Sink {
   public:
    ArmTurn(CompareCall* call, size_t arm) : call_(call), arm_(arm) {}

    bool OnEvent(const TurnEvent& event) override;
    void OnEnd(const TurnEnd& turn_end) override { call_->TurnEnded(arm_, turn_end); }

    TurnPump pump{this};
    std::atomic<bool> has_begun{false};  // it has its memory
    std::vector<int32_t> answer;         // of the turn that gives the text for all arms
    std::optional<TurnEnd> end;          // guarded by the call's mutex_
    bool was_waited_for = false;         // used by the timer: when it looked last
    ArmTotals totals;                    // used by the pump
    bool is_told = false;                // used by the pump: the client knows the end

   private:
    CompareCall* const call_;
    const size_t arm_;
  };
  // Lets a timer find the call. OnDone takes the call out.
  struct Watch {
    absl::Mutex mutex;
    CompareCall* call ABSL_GUARDED_BY(mutex) = nullptr;
  };

  void End(const absl::Status& status);
  void StartAnswer();
  void UseAnswer();
  void StartArms();
  // The most bytes of the buffer of an arm that gives so many rows.
  uint64_t BufferBytes(const ComparePlan::Arm& arm, uint64_t rows) const;
  // RESOURCE_EXHAUSTED: the memory of the tenant has no room for the buffers, as they are after the
  // longest answer, and for the prompts that wait for it.
  absl::Status TakeMemory();
  void MakeJoin();
  // These turns can be cancelled from now on.
  void SetRunning(std::vector<ArmTurn*> turns) ABSL_LOCKS_EXCLUDED(mutex_);
  void TurnEnded(size_t arm, const TurnEnd& end) ABSL_LOCKS_EXCLUDED(mutex_);
  void CancelTurns(const absl::Status& reason) ABSL_LOCKS_EXCLUDED(mutex_);

  void SetTimer();
  // Ends arms that have not begun and for which others wait.
  void EndLateArms() ABSL_LOCKS_EXCLUDED(mutex_);

  // There may be something to write: lets the pump look.
  void Schedule() ABSL_LOCKS_EXCLUDED(mutex_);
  void Post();
  void Pump() ABSL_LOCKS_EXCLUDED(mutex_);
  // Each returns true if it writes a message or has ended the call.
  bool WriteRows();
  bool WriteArmEnd() ABSL_LOCKS_EXCLUDED(mutex_);
  bool WriteEnd() ABSL_LOCKS_EXCLUDED(mutex_);
  bool EndCancelled() ABSL_LOCKS_EXCLUDED(mutex_);
  std::optional<TurnEnd> EndOf(const ArmTurn& arm) const ABSL_LOCKS_EXCLUDED(mutex_);
  const Tokenizer& TokenizerOf(size_t arm) const;

  const grpc::CallbackServerContext* const context_;
  const CompareTools tools_;
  std::optional<ComparePlan> plan_;  // its arms are empty when the turns have started
  std::unique_ptr<ArmTurn> answer_;
  std::vector<std::unique_ptr<ArmTurn>> arms_;  // set before the turns start
  std::vector<bool> comparable_;
  std::shared_ptr<RowJoin> join_;
  HostCharge charge_;
  v1::CompareResponse response_;  // the message in flight
  const std::shared_ptr<Watch> watch_ = std::make_shared<Watch>();

  mutable absl::Mutex mutex_;
  std::vector<ArmTurn*> running_ ABSL_GUARDED_BY(mutex_);
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  // The pump runs or will run, or a message is being written, or the call has ended.
  bool busy_ ABSL_GUARDED_BY(mutex_) = true;
  bool again_ ABSL_GUARDED_BY(mutex_) = false;  // something has happened since the pump looked

  std::shared_ptr<CompareCall> self_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_COMPARE_COMPARE_CALL_H_
