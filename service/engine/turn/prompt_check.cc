// Checks that a prompt fits into the context.
#include "service/engine/turn/prompt_check.h"

#include "absl/strings/str_cat.h"

namespace longstream {

absl::Status CheckRoom(uint64_t position, uint64_t added, uint64_t context_limit) {
  if (added <= context_limit && position <= context_limit - added) return absl::OkStatus();
  const std::string where = position == 0 ? "" : absl::StrCat(" after position ", position);
  return absl::InvalidArgumentError(absl::StrCat("input: ", added, " tokens", where,
                                                 " exceed the model's context of ", context_limit));
}

absl::Status CheckPrompt(const TurnRequest& request, const TurnLease& lease) {
  const uint64_t start = request.kept_tokens.value_or(lease.state().tokens.size());
  if (request.kind == TurnKind::kGenerate && start == 0 && request.prompt.empty()) {
    return absl::InvalidArgumentError(
        "input: the session is empty, so the turn needs a text or token ids");
  }
  return CheckRoom(start, request.prompt.size(), lease.session()->context_limit());
}

}  // namespace longstream
