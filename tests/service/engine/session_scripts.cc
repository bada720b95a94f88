// Draws random turns and describes their results as text.
#include "tests/service/engine/session_scripts.h"

#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"

namespace longstream {
namespace {

std::string Describe(const Outcome& outcome) {
  const TurnUsage& usage = outcome.end.usage;
  std::string text = absl::StrCat(
      outcome.end.status.ToString(), ", reason ", static_cast<int>(outcome.end.reason), " '",
      outcome.end.stop_string, "' ", outcome.end.stop_token, ", position ", outcome.end.position,
      ", prompt ", usage.prompt_tokens, ", generated ", usage.generated_tokens, ", reused ",
      usage.reused_tokens, ", recomputed ", usage.recomputed_tokens, ", bytes ", usage.bytes.kv,
      " ", usage.bytes.window, " ", usage.bytes.state, ", text '", outcome.text, "', tokens ",
      absl::StrJoin(outcome.tokens, " "), ", log-probabilities");
  for (const TokenLogProb& row : outcome.log_probs) {
    absl::StrAppend(&text, " ", std::bit_cast<uint32_t>(row.log_prob));
    for (const ls_top_token& top : row.top) {
      absl::StrAppend(&text, " ", top.token, ":", std::bit_cast<uint32_t>(top.log_prob));
    }
  }
  return text;
}

// Starts the turn and cancels it when it has delivered this many tokens.
Outcome RunAndCancel(Engine& engine, const std::shared_ptr<SessionTurn>& turn, size_t tokens) {
  EXPECT_TRUE(Start(engine, turn).ok());
  for (size_t seen = 0; seen < tokens;) {
    const TurnStream::Item item = turn->stream.Next();
    const auto* event = std::get_if<TurnEvent>(&item);
    const auto* delta = event == nullptr ? nullptr : std::get_if<DeltaEvent>(event);
    if (delta == nullptr) {
      absl::SleepFor(absl::Microseconds(200));
      continue;
    }
    seen += delta->tokens.size();
    turn->stream.Delivered(delta->position);
  }
  turn->Cancel();
  engine.Wake();
  return ReadToEnd(*turn);
}

std::shared_ptr<Session> Fork(TestEngine& engine, const std::shared_ptr<Session>& source,
                              uint64_t low) {
  TurnLease lease = engine.NewSession(SessionId{9, low});
  std::shared_ptr<Session> target = lease.session();
  const absl::Status status = longstream::Fork(*engine, source, std::move(lease));
  EXPECT_TRUE(status.ok()) << status;
  return target;
}

}  // namespace

Script Scripts::Next() {
  Script script;
  const uint64_t num_acts = 2 + Below(4);
  for (uint64_t i = 0; i < num_acts; ++i) {
    script.push_back(NextAct());
    script.back().fork_before = i > 0 && Below(4) == 0;
  }
  return script;
}

std::string Scripts::Text(uint64_t longest) {
  static constexpr char kText[] = "The old bridge over the river was closed in winter. ";
  std::string text;
  for (uint64_t i = 1 + Below(longest); i > 0; --i) text += kText[Below(sizeof(kText) - 1)];
  return text;
}

Act Scripts::NextAct() {
  Act act;
  SessionTurnRequest& request = act.request;
  const uint64_t longest = lengths_.longest_prompt / (Below(3) == 0 ? 1 : 10);
  request = Generate(nullptr, Text(longest), 1 + Below(lengths_.max_tokens), random_());
  switch (Below(8)) {
    case 0:
      request.kind = TurnKind::kAppend;
      return act;
    case 1:
      act.cancel_after = 1 + Below(lengths_.max_tokens / 3);
      request.max_tokens = 20000;
      return act;
    default:
      break;
  }
  if (Below(4) == 0) request.sampling.temperature = 0;
  if (Below(4) == 0) request.sampling.repetition_penalty = 1.2f;
  if (Below(3) == 0) request.sampling.top_k = 20;
  if (Below(2) == 0) {
    for (size_t i = 0; i < lengths_.num_stops; ++i) {
      request.stop.token_ids.push_back(static_cast<int32_t>('a' + Below(26)));
    }
  }
  if (Below(3) == 0) {
    request.stop.strings = {"the "};
    for (size_t i = 1; i < lengths_.num_stops; ++i) {
      request.stop.strings.push_back({static_cast<char>('a' + Below(26))});
    }
  }
  if (Below(3) == 0) request.stop.min_tokens = static_cast<uint32_t>(Below(30));
  if (Below(3) == 0) {
    request.log_probs = true;
    request.top_log_probs = 2;
  }
  return act;
}

std::vector<std::string> Perform(TestEngine& engine, const Script& script, uint64_t index) {
  std::shared_ptr<Session> session = engine.Open();
  std::vector<std::string> results;
  for (const Act& act : script) {
    if (act.fork_before) session = Fork(engine, session, index * 100 + results.size());
    SessionTurnRequest request = act.request;
    request.session = session;
    if (request.kind == TurnKind::kAppend) request.prompt.clear();
    const auto turn = std::make_shared<SessionTurn>(request);
    if (act.cancel_after > 0) {
      const Outcome outcome = RunAndCancel(*engine, turn, act.cancel_after);
      results.push_back(
          absl::StrCat(outcome.end.status.ToString(), ", position ", outcome.end.position));
      continue;
    }
    if (request.kind == TurnKind::kAppend) {
      turn->AddInput(act.request.prompt);
      turn->CloseInput();
    }
    results.push_back(Describe(RunTurn(*engine, turn)));
  }
  return results;
}

void ExpectSameWithTwoInFlight(const TestModel& model, const ScriptLengths& lengths) {
  Scripts scripts(11, lengths);
  std::vector<Script> all;
  while (all.size() < lengths.num_scripts) all.push_back(scripts.Next());

  std::vector<std::vector<std::string>> expected;
  {
    TestEngine engine("{}", 0, {.max_steps_in_flight = 1}, model);
    for (size_t i = 0; i < all.size(); ++i) expected.push_back(Perform(engine, all[i], i));
  }
  std::vector<std::vector<std::string>> found(all.size());
  TestEngine engine("{}", 0,
                    {.max_batch_sequences = 4,
                     .time_slice = absl::Nanoseconds(1),  // places change hands after every step
                     .max_steps_in_flight = 2},
                    model);
  EXPECT_TRUE(engine->model().backend().CanLookAhead());
  std::atomic<size_t> next = 0;
  std::vector<std::thread> clients;
  for (int i = 0; i < 6; ++i) {
    clients.emplace_back([&] {
      for (size_t k = next++; k < all.size(); k = next++) found[k] = Perform(engine, all[k], k);
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(found, expected);

  std::string together;
  for (const auto& results : expected) together += absl::StrJoin(results, "\n");
  for (const FinishReason reason :
       {FinishReason::kStopToken, FinishReason::kStopString, FinishReason::kMaxTokens}) {
    EXPECT_NE(together.find(absl::StrCat("reason ", static_cast<int>(reason))), std::string::npos)
        << "no turn ended for this reason, so the test is incomplete";
  }
}

}  // namespace longstream
