// Copies plain values to the fields of messages.
#include "service/server/compare/compare_messages.h"

#include <string>

#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "service/tokenizer/text/utf8.h"

namespace longstream {

size_t NamedTokens(const ComparedRow& row) {
  size_t named = 0;
  for (const ComparedToken& token : row.tokens) named += 1 + token.top.size();
  return named;
}

void ToProto(const ComparePlan::Arm& arm, bool is_forced, v1::CompareArmStarted* message) {
  const ServedModel& model = arm.turn.model();
  message->set_model(RepairUtf8(model.name()));
  message->set_tokenizer_fingerprint(absl::StrFormat("%016x", model.tokenizer().fingerprint()));
  message->set_prompt_tokens(arm.prompt_tokens);
  if (!is_forced) message->set_seed(arm.request.sampling.seed);
  message->set_comparable(arm.not_comparable.empty());
  message->set_not_comparable_reason(RepairUtf8(arm.not_comparable));
  message->set_same_prompt(arm.same_prompt);
}

void ToProto(const ComparedPair& pair, v1::ComparePair* message) {
  message->set_arm(static_cast<uint32_t>(pair.arm));
  if (pair.kl.has_value()) message->set_kl(*pair.kl);
  message->set_same_best(pair.same_best);
  message->set_delta_p(pair.delta_p);
}

void ToProto(const ComparedToken& token, const Tokenizer& tokenizer, bool is_forced,
             ArmTotals* totals, v1::CompareToken* message) {
  const std::string_view bytes = tokenizer.TokenBytes(token.token);
  message->set_arm(static_cast<uint32_t>(token.arm));
  message->set_token_id(token.token);
  message->set_token(std::string(bytes));
  message->set_text(token.text);
  message->set_log_prob(token.log_prob);
  message->set_rank(token.rank);
  message->set_best_token(token.best);
  for (const ls_top_token& top : token.top) {
    v1::TopToken* entry = message->add_top();
    entry->set_token_id(top.token);
    entry->set_token(std::string(tokenizer.TokenBytes(top.token)));
    entry->set_log_prob(top.log_prob);
  }
  if (token.interval.has_value()) {
    absl::Duration rest = *token.interval;
    message->mutable_interval()->set_seconds(absl::IDivDuration(rest, absl::Seconds(1), &rest));
    message->mutable_interval()->set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
  }
  ++totals->tokens;
  totals->sum_log_prob += token.log_prob;
  totals->best_tokens += token.best == token.token ? 1 : 0;
  totals->text_bytes += is_forced ? bytes.size() : token.text.size();
}

void ToProto(size_t arm, const PairSummary& summary, v1::ComparePairSummary* message) {
  message->set_arm(static_cast<uint32_t>(arm));
  message->set_rows(summary.rows);
  message->set_sum_kl(summary.sum_kl);
  message->set_max_kl(summary.max_kl);
  message->set_same_best(summary.same_best);
  if (summary.first_difference.has_value()) {
    message->set_first_difference(*summary.first_difference);
  }
}

}  // namespace longstream
