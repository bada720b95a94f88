// Copies rows, ends and times.
#include "client/compare/command/prompt_run.h"

#include <cstddef>

#include "client/commands/commands.h"
#include "client/connection.h"

namespace longstream::client {
namespace {

TokenScore Score(const v1::CompareToken& token) {
  TokenScore score;
  score.log_prob = token.log_prob();
  score.rank = token.rank() - 1;  // the server counts from 1
  score.top1 = token.token_id() == token.best_token();
  score.text = token.token();
  if (token.top_size() > 0) score.top1_text = token.top(0).token();
  return score;
}

std::string LossOf(const v1::CompareArmEnd& end) {
  if (end.code() == 0) return "";
  if (end.code() < 0) return "the server did not say how the arm ended";
  return CallError(grpc::Status(static_cast<grpc::StatusCode>(end.code()), end.error())).what();
}

void SetEnd(const v1::CompareArmEnd& end, ArmRun* run) {
  const v1::TurnUsage& usage = end.usage();
  run->bytes = {usage.bytes().kv(), usage.bytes().window(), usage.bytes().state()};
  run->reused_tokens = usage.reused_tokens();
  run->recomputed_tokens = usage.recomputed_tokens();
  run->bits_per_byte = BitsPerByte(end);
}

// The fingerprint of each arm's tokenizer. An arm that is not comparable for another reason has a
// name of its own, so that it counts as an arm with another tokenizer.
std::vector<std::string> Tokenizers(const v1::CompareStarted& started) {
  std::vector<std::string> names;
  for (const v1::CompareArmStarted& arm : started.arms()) {
    std::string& name = names.emplace_back(arm.tokenizer_fingerprint());
    if (!arm.comparable() && names.size() > 1 && name == names.front()) {
      name += " (" + arm.not_comparable_reason() + ")";
    }
  }
  return names;
}

}  // namespace

FinishedPrompt ToFinishedPrompt(const std::string& id, const ComparedText& text) {
  const size_t arms = text.ends.size();
  const bool is_forced = text.is_forced();
  FinishedPrompt prompt;
  prompt.tokenizers = Tokenizers(text.started);
  PromptRun& run = prompt.run;
  run.id = id;
  run.arms.resize(arms);
  run.pairs.resize(arms == 0 ? 0 : arms - 1);
  if (arms > 0) run.tokens = text.started.arms(0).prompt_tokens();
  for (const v1::CompareRow& row : text.rows) {
    for (const v1::CompareToken& token : row.tokens()) {
      if (token.arm() >= arms) continue;
      ArmRun& arm = run.arms[token.arm()];
      arm.tokens.push_back(Score(token));
      arm.text += is_forced ? token.token() : token.text();
    }
    for (const v1::ComparePair& pair : row.pairs()) {
      if (pair.arm() == 0 || pair.arm() >= arms) continue;
      run.pairs[pair.arm() - 1].push_back({pair.kl(), pair.same_best(), pair.delta_p()});
    }
  }
  for (size_t arm = 0; arm < arms; ++arm) {
    const std::string loss = LossOf(text.ends[arm]);
    if (loss.empty()) {
      SetEnd(text.ends[arm], &run.arms[arm]);
      continue;
    }
    run.arms[arm] = {};
    run.arms[arm].error = loss;
    if (arm > 0) run.pairs[arm - 1].clear();
    if (arm == 0) run.pairs.assign(arms - 1, {});
  }
  return prompt;
}

void SetLatencies(const v1::TurnUsage& usage, ArmRun* run) {
  if (usage.generated_tokens() == 0) return;
  run->ttft_seconds = Seconds(usage.time_to_first_token());
  const double gaps = static_cast<double>(usage.generated_tokens()) - 1;
  if (gaps > 0) run->itl_seconds = {Seconds(usage.decode_time()) / gaps};
}

}  // namespace longstream::client
