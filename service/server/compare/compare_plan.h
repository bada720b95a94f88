// A comparison that was checked and can begin: the turns of its arms, in plain values.
#ifndef LONGSTREAM_SERVICE_SERVER_COMPARE_COMPARE_PLAN_H_
#define LONGSTREAM_SERVICE_SERVER_COMPARE_COMPARE_PLAN_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "service/engine/turn/turn.h"
#include "service/errors/with_message.h"
#include "service/serving/turns/turn_handle.h"

namespace longstream {

// The status with `what`, such as a field's name, before the message.
inline absl::Status About(absl::string_view what, const absl::Status& status) {
  return WithMessage(status, absl::StrCat(what, ": ", status.message()));
}

// The same for an error of a model that a request names in `field`. The registry's errors begin
// with "model: ", the field of OpenSession.
inline absl::Status AboutModel(absl::string_view field, const absl::Status& status) {
  return About(field, WithMessage(status, absl::StripPrefix(status.message(), "model: ")));
}

// FAILED_PRECONDITION: an id is outside the model's vocabulary. Models with the same tokenizer may
// have different numbers of logits.
inline absl::Status CheckIds(std::span<const int32_t> ids, const ServedModel& model) {
  const uint32_t size = model.backend().info().vocabulary_size;
  for (const int32_t id : ids) {
    if (id >= 0 && static_cast<uint32_t>(id) < size) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "token id ", id, " is outside the vocabulary of ", size, " of model ", model.name()));
  }
  return absl::OkStatus();
}

// Why the rows of a model cannot be compared with those of the baseline. Empty: they can be.
inline std::string WhyNotComparable(const ServedModel& model, const ServedModel& baseline) {
  if (model.tokenizer().fingerprint() != baseline.tokenizer().fingerprint()) {
    return absl::StrCat("model ", model.name(), " has another tokenizer than model ",
                        baseline.name());
  }
  const uint32_t size = model.backend().info().vocabulary_size;
  const uint32_t baseline_size = baseline.backend().info().vocabulary_size;
  if (size == baseline_size) return "";
  return absl::StrCat("model ", model.name(), " has logits for ", size, " tokens, model ",
                      baseline.name(), " for ", baseline_size);
}

// The most tokens that a turn with this request draws. `context_limit`: of its model.
// `prompt_tokens`: before its answer.
inline uint64_t MostTokens(const TurnRequest& request, uint64_t prompt_tokens,
                           uint64_t context_limit) {
  const uint64_t room = context_limit - std::min<uint64_t>(context_limit, prompt_tokens);
  return request.max_tokens == 0 ? room : std::min<uint64_t>(request.max_tokens, room);
}

struct ComparePlan {
  struct Arm {
    explicit Arm(NewTurn new_turn) : turn(std::move(new_turn)) {}

    NewTurn turn;  // holds the lease of its own session
    // Its prompt is the whole text of a teacher-forced arm, without the answer of `answer`.
    TurnRequest request;
    uint64_t prompt_tokens = 0;  // tokens before the first row
    std::string not_comparable;  // why not; empty: the arm is comparable
    bool same_prompt = true;     // as the baseline
    absl::Status failed;         // why the arm is lost before its turn starts
  };

  std::vector<Arm> arms;
  bool is_forced = false;
  // The arm with this index first generates the text that all arms read then.
  std::optional<Arm> answer;
  size_t answer_of = 0;
  uint64_t answer_seed = 0;
  // The bytes of the text that is compared, if the request has this text.
  std::optional<uint64_t> text_bytes;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_COMPARE_COMPARE_PLAN_H_
