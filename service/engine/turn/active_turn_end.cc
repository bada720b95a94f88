// How a turn ends, and to which position its session is rolled back if the turn was aborted.
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/engine/turn/active_turn.h"

namespace longstream {
namespace {

// Whether the caller or a shutdown ended the turn, and not the backend.
bool EndedFromOutside(const absl::Status& status) {
  return absl::IsCancelled(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsUnavailable(status);
}

}  // namespace

void ActiveTurn::Abort(absl::Status status) {
  TurnEnd end;
  end.status = std::move(status);
  End(std::move(end));
}

void ActiveTurn::End(TurnEnd end) {
  if (ending()) return;
  outcome_ = std::move(end);
  if (!parts_.in_flight()) Conclude();
}

bool ActiveTurn::Restore(const absl::Status& status) {
  if (status.ok()) {
    if (overread_) history_.RollBack(history_.size(), "surplus tokens of a turn were taken back");
    return true;
  }
  const uint64_t start = history_.start();
  uint64_t keep = start;
  if (request().on_abort == OnAbort::kKeep && EndedFromOutside(status)) {
    keep = request().kind == TurnKind::kAppend
               ? history_.size()
               : std::max(start, turn_->stream.delivered_position());
  }
  history_.RollBack(keep, absl::StrCat("an aborted turn was rolled back to position ", keep));
  if (keep == start) history_.PutBack();
  return keep > start;
}

void ActiveTurn::Conclude() {
  ended_ = true;
  TurnEnd& end = *outcome_;
  const bool began = phase_ != Phase::kWaiting || end.status.ok();
  const bool keeps_prompt = began && Restore(end.status);
  history_.Settle(/*whole=*/end.status.ok() && !overread_);
  if (keeps_prompt && request().conversation != nullptr) {
    history_.set_conversation(request().conversation);
  }
  const std::optional<SessionBytes> bytes = history_.bytes();
  meter_.End(end, bytes);
  end.position = history_.size();
  end.usage = meter_.usage();
  if (absl::IsInternal(end.status) && on_failure_) on_failure_(model_->name(), end.status);
  if (!demand_.keeps_caches) history_.DropCaches();
  history_.GiveBack();
  turn_->stream.Finish(std::move(end));
}

}  // namespace longstream
