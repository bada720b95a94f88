// Starts the turns of a comparison, and writes its messages one at a time.
#include "service/server/compare/compare_call.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "service/engine/logits/step_rows.h"
#include "service/server/transport/grpc_status.h"
#include "service/tokenizer/text/utf8.h"

namespace longstream {
namespace {

// The number of the turn that gives the text for all arms.
constexpr size_t kAnswer = static_cast<size_t>(-1);

// A message has at most so many rows and names so many tokens, including those in `top`. A row
// names at most 8 * 21.
constexpr int kMostRows = 64;
constexpr size_t kMostNamed = 4096;
constexpr size_t kMostNamedInRow = 8 * 21;

absl::Status Cancelled() { return absl::CancelledError("the caller cancelled the call"); }

// The most rows that a turn gives.
uint64_t MostRows(const ComparePlan::Arm& arm) {
  const TurnRequest& request = arm.request;
  if (request.kind == TurnKind::kScore) return request.prompt.size() - request.logits_from;
  return MostTokens(request, request.prompt.size(),
                    arm.turn.model().backend().info().context_limit);
}

}  // namespace

bool CompareCall::ArmTurn::OnEvent(const TurnEvent& event) {
  if (std::holds_alternative<StartedEvent>(event)) has_begun.store(true);
  const auto* delta = std::get_if<DeltaEvent>(&event);
  if (delta != nullptr && arm_ == kAnswer) {
    answer.insert(answer.end(), delta->tokens.begin(), delta->tokens.end());
  }
  return false;
}

CompareCall::CompareCall(const grpc::CallbackServerContext* context, CompareTools tools)
    : context_(context), tools_(std::move(tools)) {}

// ---------------------------------------------------------------- the beginning

void CompareCall::Refuse(const absl::Status& status) { End(status); }

void CompareCall::Begin(const Check& check) {
  absl::StatusOr<ComparePlan> plan = context_->IsCancelled() ? Cancelled() : check();
  if (!plan.ok()) return End(plan.status());
  plan_.emplace(*std::move(plan));
  if (plan_->answer.has_value()) return StartAnswer();
  if (absl::Status status = TakeMemory(); !status.ok()) return End(status);
  StartArms();
}

void CompareCall::StartAnswer() {
  // Before the arms wait for the answer, because their prompts take memory meanwhile.
  if (absl::Status status = TakeMemory(); !status.ok()) return End(status);
  answer_ = std::make_unique<ArmTurn>(this, kAnswer);
  SetRunning({answer_.get()});
  ComparePlan::Arm& arm = *plan_->answer;
  const absl::Status status =
      answer_->pump.Start(std::move(arm.turn), std::move(arm.request), shared_from_this());
  if (!status.ok()) End(About("forced.answer_of", status));
}

void CompareCall::UseAnswer() {
  const absl::Status status = EndOf(*answer_)->status;
  if (!status.ok()) return End(About("forced.answer_of", status));
  const std::vector<int32_t>& tokens = answer_->answer;
  if (tokens.empty()) {
    return End(absl::InvalidArgumentError("forced.answer_of: the prompt leaves no room to answer"));
  }
  for (ComparePlan::Arm& arm : plan_->arms) {
    arm.failed = CheckIds(tokens, arm.turn.model());
    arm.request.prompt.insert(arm.request.prompt.end(), tokens.begin(), tokens.end());
  }
  // The turns count their prompts themselves.
  uint64_t bytes = 0;
  for (const ComparePlan::Arm& arm : plan_->arms) {
    bytes += BufferBytes(arm, MostRows(arm));
  }
  charge_.Set(std::min(charge_.bytes(), bytes));
  StartArms();
}

uint64_t CompareCall::BufferBytes(const ComparePlan::Arm& arm, uint64_t rows) const {
  const ls_model_info& info = arm.turn.model().backend().info();
  const uint64_t rows_of_step =
      plan_->is_forced ? MostLogitRows(info.vocabulary_size, info.prefill_grid) : 1;
  return RowJoin::MostBytes(tools_.limits.buffer_bytes, info.vocabulary_size, rows_of_step, rows);
}

absl::Status CompareCall::TakeMemory() {
  uint64_t bytes = 0;
  for (const ComparePlan::Arm& arm : plan_->arms) {
    const uint64_t rows = MostRows(plan_->answer.has_value() ? *plan_->answer : arm);
    bytes += BufferBytes(arm, rows);
    if (plan_->answer.has_value()) bytes += (arm.request.prompt.size() + rows) * sizeof(int32_t);
  }
  charge_ = HostCharge(plan_->arms.front().turn.host_memory());
  const absl::Status status = charge_.Add(bytes);
  return status.ok() ? status : About("the logits that are compared", status);
}

void CompareCall::MakeJoin() {
  RowJoin::Options options;
  for (const ComparePlan::Arm& arm : plan_->arms) {
    comparable_.push_back(arm.not_comparable.empty());
  }
  options.comparable = comparable_;
  options.buffer_bytes = tools_.limits.buffer_bytes;
  options.measures_intervals = !plan_->is_forced;
  // The turns hold the join, and it may outlive the call.
  options.wake = [weak = weak_from_this()] {
    if (const auto call = weak.lock()) call->Schedule();
  };
  options.drained = [weak = weak_from_this()](size_t arm) {
    const auto call = weak.lock();
    if (call == nullptr) return;
    TurnPump& pump = call->arms_[arm]->pump;
    if (pump.started()) pump.turn().Wake();
  };
  join_ = std::make_shared<RowJoin>(std::move(options));
}

void CompareCall::StartArms() {
  MakeJoin();
  std::vector<ArmTurn*> turns;
  for (size_t arm = 0; arm < plan_->arms.size(); ++arm) {
    arms_.push_back(std::make_unique<ArmTurn>(this, arm));
    turns.push_back(arms_.back().get());
  }
  SetRunning(std::move(turns));
  v1::CompareStarted* const started = response_.mutable_started();
  for (const ComparePlan::Arm& arm : plan_->arms) {
    ToProto(arm, plan_->is_forced, started->add_arms());
  }
  if (answer_ != nullptr) {
    v1::Finish finish;
    tools_.to_finish(*EndOf(*answer_), &finish);
    started->mutable_answer()->set_arm(static_cast<uint32_t>(plan_->answer_of));
    started->mutable_answer()->set_seed(plan_->answer_seed);
    started->mutable_answer()->set_reason(finish.reason());
    started->mutable_answer()->mutable_usage()->Swap(finish.mutable_usage());
  }
  for (size_t arm = 0; arm < arms_.size(); ++arm) {
    ComparePlan::Arm& planned = plan_->arms[arm];
    planned.request.logits = join_->SinkOf(arm);
    absl::Status status = planned.failed;
    if (status.ok()) {
      status = arms_[arm]->pump.Start(std::move(planned.turn), std::move(planned.request),
                                      shared_from_this());
    }
    if (status.ok()) continue;
    TurnEnd end;
    end.status = status;
    TurnEnded(arm, end);
  }
  plan_->arms.clear();  // the leases of turns that were refused
  {
    absl::MutexLock lock(&watch_->mutex);
    watch_->call = this;
  }
  SetTimer();
  StartWrite(&response_);
}

void CompareCall::SetRunning(std::vector<ArmTurn*> turns) {
  bool cancelled;
  {
    absl::MutexLock lock(&mutex_);
    running_ = std::move(turns);
    cancelled = cancelled_;
  }
  if (cancelled) CancelTurns(Cancelled());
}

// ---------------------------------------------------------------- the turns

void CompareCall::TurnEnded(size_t arm, const TurnEnd& end) {
  ArmTurn& turn = arm == kAnswer ? *answer_ : *arms_[arm];
  {
    absl::MutexLock lock(&mutex_);
    turn.end = end;
  }
  if (arm == kAnswer) {
    tools_.compute([self = shared_from_this()] { self->UseAnswer(); });
    return;
  }
  join_->End(arm, /*lost=*/!end.status.ok());
  Schedule();
}

void CompareCall::CancelTurns(const absl::Status& reason) {
  std::vector<ArmTurn*> turns;
  {
    absl::MutexLock lock(&mutex_);
    turns = running_;
  }
  for (ArmTurn* const turn : turns) turn->pump.Cancel(reason);
}

void CompareCall::OnCancel() {
  {
    absl::MutexLock lock(&mutex_);
    cancelled_ = true;
  }
  CancelTurns(Cancelled());
  Schedule();
}

void CompareCall::SetTimer() {
  tools_.timers->Set(MonotonicTime::Now() + tools_.limits.start_limit, [watch = watch_] {
    absl::MutexLock lock(&watch->mutex);
    if (watch->call != nullptr) watch->call->EndLateArms();
  });
}

void CompareCall::EndLateArms() {
  bool any_waits = false;
  for (size_t arm = 0; arm < arms_.size(); ++arm) {
    ArmTurn& turn = *arms_[arm];
    if (turn.has_begun.load() || EndOf(turn).has_value()) continue;
    any_waits = true;
    // Twice in a row: at a single look the arm may be about to begin.
    const bool is_waited_for = join_->IsWaitedFor(arm);
    if (!std::exchange(turn.was_waited_for, is_waited_for) || !is_waited_for) continue;
    turn.pump.Cancel(absl::ResourceExhaustedError(
        "the arm waits for memory or a place, and the other arms, which have these, wait for it"));
  }
  if (any_waits) SetTimer();
}

std::optional<TurnEnd> CompareCall::EndOf(const ArmTurn& arm) const {
  absl::MutexLock lock(&mutex_);
  return arm.end;
}

// ---------------------------------------------------------------- the messages

void CompareCall::OnWriteDone(bool ok) {
  if (!ok) OnCancel();
  Post();
}

void CompareCall::OnDone() {
  {
    absl::MutexLock lock(&watch_->mutex);
    watch_->call = nullptr;
  }
  self_.reset();
}

void CompareCall::End(const absl::Status& status) {
  charge_.Set(0);
  Finish(ToGrpc(status));
}

void CompareCall::Schedule() {
  {
    absl::MutexLock lock(&mutex_);
    again_ = true;
    if (std::exchange(busy_, true)) return;
  }
  Post();
}

void CompareCall::Post() {
  tools_.compute([self = shared_from_this()] { self->Pump(); });
}

void CompareCall::Pump() {
  while (true) {
    bool cancelled;
    {
      absl::MutexLock lock(&mutex_);
      again_ = false;
      cancelled = cancelled_;
    }
    if (cancelled ? EndCancelled() : WriteRows() || WriteArmEnd() || WriteEnd()) return;
    absl::MutexLock lock(&mutex_);
    if (again_) continue;
    busy_ = false;
    return;
  }
}

const Tokenizer& CompareCall::TokenizerOf(size_t arm) const {
  return arms_[arm]->pump.turn().model().tokenizer();
}

bool CompareCall::WriteRows() {
  response_.Clear();
  v1::CompareRows* const rows = response_.mutable_rows();
  for (size_t named = 0; rows->rows_size() < kMostRows && named <= kMostNamed - kMostNamedInRow;) {
    const std::optional<ComparedRow> row = join_->Next();
    if (!row.has_value()) break;
    if (rows->rows().empty()) rows->set_first_index(row->index);
    named += NamedTokens(*row);
    v1::CompareRow* const message = rows->add_rows();
    for (const ComparedToken& token : row->tokens) {
      ToProto(token, TokenizerOf(token.arm), plan_->is_forced, &arms_[token.arm]->totals,
              message->add_tokens());
    }
    for (const ComparedPair& pair : row->pairs) ToProto(pair, message->add_pairs());
  }
  if (rows->rows().empty()) return false;
  StartWrite(&response_);
  return true;
}

bool CompareCall::WriteArmEnd() {
  for (size_t arm = 0; arm < arms_.size(); ++arm) {
    ArmTurn& turn = *arms_[arm];
    if (turn.is_told || !join_->IsDone(arm)) continue;
    turn.is_told = true;
    const TurnEnd end = *EndOf(turn);
    response_.Clear();
    v1::CompareArmEnd* const message = response_.mutable_arm_end();
    v1::Finish finish;
    tools_.to_finish(end, &finish);
    message->set_arm(static_cast<uint32_t>(arm));
    message->set_code(static_cast<int32_t>(end.status.code()));
    message->set_error(RepairUtf8(std::string(end.status.message())));
    message->set_reason(finish.reason());
    message->mutable_usage()->Swap(finish.mutable_usage());
    message->set_tokens(turn.totals.tokens);
    message->set_sum_log_prob(turn.totals.sum_log_prob);
    message->set_best_tokens(turn.totals.best_tokens);
    // A lost arm has not read the whole forced text.
    message->set_text_bytes(end.status.ok() ? plan_->text_bytes.value_or(turn.totals.text_bytes)
                                            : turn.totals.text_bytes);
    StartWrite(&response_);
    return true;
  }
  return false;
}

bool CompareCall::WriteEnd() {
  std::optional<absl::Status> lost;
  bool any_ok = false;
  for (const std::unique_ptr<ArmTurn>& turn : arms_) {
    if (!turn->is_told) return false;
    const absl::Status status = EndOf(*turn)->status;
    any_ok |= status.ok();
    if (!status.ok() && !lost.has_value()) lost = status;
  }
  if (!any_ok) {
    End(*lost);
    return true;
  }
  charge_.Set(0);
  response_.Clear();
  v1::CompareFinish* const finish = response_.mutable_finish();
  for (size_t arm = 1; arm < arms_.size(); ++arm) {
    if (comparable_[arm]) ToProto(arm, join_->SummaryOf(arm), finish->add_pairs());
  }
  StartWriteAndFinish(&response_, grpc::WriteOptions(), grpc::Status::OK);
  return true;
}

bool CompareCall::EndCancelled() {
  for (const std::unique_ptr<ArmTurn>& turn : arms_) {
    if (!EndOf(*turn).has_value()) return false;
  }
  End(Cancelled());
  return true;
}

}  // namespace longstream
