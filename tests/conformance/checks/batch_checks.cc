// Checks of submit and wait: malformed batches, sequences that fail, tickets in flight.
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <thread>

#include "tests/conformance/checks.h"
#include "tests/conformance/script.h"

namespace longstream::conformance {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A batch whose second entry has one defect. Its first entry is correct.
struct BadBatch {
  const char* what;
  std::function<void(Entry& entry, ls_sampling& sampling)> spoil;
  ls_code expected = LS_INVALID_ARGUMENT;
};

std::vector<BadBatch> BadTokens(const Kit& kit) {
  const auto vocabulary = static_cast<int32_t>(kit.vocabulary());
  std::vector<BadBatch> batches = {
      {"a token id of the vocabulary's size", [=](Entry& e, auto&) { e.tokens[0] = vocabulary; }},
      {"a negative token id", [](Entry& e, auto&) { e.tokens[0] = -2; }},
      {"the largest token id", [](Entry& e, auto&) { e.tokens[0] = INT32_MAX; }},
      {"-1 as a prefill token", [](Entry& e, auto&) { e.tokens[0] = -1; }},
      {"a bad last token of several",
       [=](Entry& e, auto&) {
         e.tokens = {0, 0, vocabulary};
       }},
      {"no token", [](Entry& e, auto&) { e.tokens.clear(); }},
      {"a decode entry of two tokens",
       [](Entry& e, auto&) {
         e.tokens = {0, 0}, e.is_decode = true;
       }},
      {"tokens past the reservation", [](Entry& e, auto&) { e.tokens.assign(9, 0); }},
      {"a target of the vocabulary's size",
       [=](Entry& e, auto&) { e.log_prob_rows = LS_ROWS_LAST, e.targets = {vocabulary}; }},
      {"a target below -1",
       [](Entry& e, auto&) { e.log_prob_rows = LS_ROWS_LAST, e.targets = {-2}; }},
      {"too many top tokens",
       [](Entry& e, auto&) { e.log_prob_rows = LS_ROWS_LAST, e.num_top = LS_MAX_TOP + 1; }},
      {"unknown rows", [](Entry& e, auto&) { e.logit_rows = 3; }},
      {"negative rows", [](Entry& e, auto&) { e.log_prob_rows = -1; }},
  };
  const auto previous = [](Entry& e, auto&) {
    e.tokens = {LS_TOKEN_FROM_PREVIOUS};
    e.is_decode = true;
  };
  batches.push_back({"the previous token where none is sampled", previous,
                     kit.Has(LS_CAP_IN_FLIGHT_TOKENS) ? LS_INVALID_ARGUMENT : LS_UNIMPLEMENTED});
  if (!kit.Has(LS_CAP_SCORE)) {
    batches.push_back({"scores of all rows without the capability",
                       [](Entry& e, auto&) { e.logit_rows = LS_ROWS_ALL; }, LS_UNIMPLEMENTED});
  }
  return batches;
}

std::vector<BadBatch> BadSampling(const Kit& kit) {
  // Targets with other vocabularies may run at the same time, so this is not static.
  const auto bad_history = std::make_shared<ls_token_count>(
      ls_token_count{static_cast<int32_t>(kit.vocabulary()), 1, 0});
  static const ls_logit_bias bad_id[] = {{-1, 0.0f}};
  static const ls_logit_bias bad_bias[] = {{0, kNaN}};
  static const ls_logit_bias infinite_bias[] = {{0, kInfinity}};
  std::vector<BadBatch> batches = {
      {"temperature -1", [](Entry&, ls_sampling& s) { s.temperature = -1; }},
      {"temperature NaN", [](Entry&, ls_sampling& s) { s.temperature = kNaN; }},
      {"temperature infinity", [](Entry&, ls_sampling& s) { s.temperature = kInfinity; }},
      {"top_k -1", [](Entry&, ls_sampling& s) { s.top_k = -1; }},
      {"top_p 0", [](Entry&, ls_sampling& s) { s.top_p = 0; }},
      {"top_p 1.5", [](Entry&, ls_sampling& s) { s.top_p = 1.5f; }},
      {"top_p NaN", [](Entry&, ls_sampling& s) { s.top_p = kNaN; }},
      {"min_p -0.5", [](Entry&, ls_sampling& s) { s.min_p = -0.5f; }},
      {"min_p 1.5", [](Entry&, ls_sampling& s) { s.min_p = 1.5f; }},
      {"min_p NaN", [](Entry&, ls_sampling& s) { s.min_p = kNaN; }},
      {"repetition_penalty 0", [](Entry&, ls_sampling& s) { s.repetition_penalty = 0; }},
      {"repetition_penalty NaN", [](Entry&, ls_sampling& s) { s.repetition_penalty = kNaN; }},
      {"presence_penalty NaN", [](Entry&, ls_sampling& s) { s.presence_penalty = kNaN; }},
      {"frequency_penalty infinity",
       [](Entry&, ls_sampling& s) { s.frequency_penalty = kInfinity; }},
      {"a history id out of range",
       [=](Entry&, ls_sampling& s) { s.history = bad_history.get(), s.num_history = 1; }},
      {"a bias id out of range", [](Entry&, ls_sampling& s) { s.bias = bad_id, s.num_bias = 1; }},
      {"a bias of NaN", [](Entry&, ls_sampling& s) { s.bias = bad_bias, s.num_bias = 1; }},
      {"a bias of infinity",
       [](Entry&, ls_sampling& s) { s.bias = infinite_bias, s.num_bias = 1; }},
  };
  // Backends before 1.4 do not know the field.
  if (!kit.Has(LS_CAP_ALLOWED_TOKENS) && kit.backend().abi_minor >= 4) {
    const auto mask = std::make_shared<std::vector<uint32_t>>((kit.vocabulary() + 31) / 32, 1);
    batches.push_back({"a mask without the capability",
                       [=](Entry&, ls_sampling& s) { s.allowed = mask->data(); },
                       LS_UNIMPLEMENTED});
  }
  return batches;
}

// Two sequences at the same position, each with a reservation for 8 more tokens.
struct Pair {
  explicit Pair(const Kit& kit, Model& model) : tokens(kit.Tokens(81, kit.grid() + 8)) {
    for (Sequence* sequence : {&good, &other}) {
      *sequence = model.Create(kit.grid() + 8);
      model.Step(Prefill(*sequence, Part(tokens, 0, kit.grid())));
      sequence->Reserve(8);
      sequence->Checkpoint();
    }
  }
  std::vector<int32_t> tokens;
  Sequence good, other;
};

void ExpectRefused(Check& check, Model& model, const Pair& pair, const std::vector<Entry>& entries,
                   const std::string& what, ls_code expected) {
  const uint64_t good = pair.good.position();
  const uint64_t other = pair.other.position();
  const ls_memory before = model.Memory();
  uint64_t ticket = 0;
  const ls_code code = model.TrySubmit(entries, &ticket);
  if (code == LS_OK) model.Wait(ticket, entries);
  ExpectCode(check, what, expected, code);
  check.Expect(pair.good.position() == good && pair.other.position() == other,
               what + ": a sequence moved");
  const ls_memory after = model.Memory();
  check.Expect(after.pages == before.pages && after.reserved == before.reserved,
               what + ": memory changed");
}

void Malformed(const Kit& kit, Check& check) {
  Model model = kit.Open();
  Pair pair(kit, model);
  const int32_t next = pair.tokens[kit.grid()];
  std::vector<BadBatch> batches = BadTokens(kit);
  for (BadBatch& bad : BadSampling(kit)) batches.push_back(bad);
  for (const BadBatch& bad : batches) {
    ls_sampling sampling = Greedy();
    std::vector<Entry> entries = {Decode(pair.good, next), Prefill(pair.other, {next})};
    entries[1].sampling = &sampling;
    bad.spoil(entries[1], sampling);
    ExpectRefused(check, model, pair, entries, bad.what, bad.expected);
  }
  ExpectRefused(check, model, pair, {}, "no entry", LS_INVALID_ARGUMENT);
  ExpectRefused(check, model, pair, {Decode(pair.good, next), Decode(pair.good, next)},
                "a sequence twice", LS_INVALID_ARGUMENT);

  // The refused batches must have changed nothing.
  Pair control(kit, model);
  const Output expected = model.Step(Decode(control.good, next));
  ExpectSame(check, "after refused batches", expected, model.Step(Decode(pair.good, next)));
}

void TooLarge(const Kit& kit, Check& check) {
  OpenOptions options = kit.Defaults();
  options.max_batch_tokens = 6;
  options.max_batch_sequences = 2;
  Model model = kit.Open(options);
  std::vector<Sequence> sequences;
  for (int i = 0; i < 3; ++i) sequences.push_back(model.Create(8));
  const std::vector<int32_t> tokens = kit.Tokens(82, 7);
  const auto expect_refused = [&](const std::vector<Entry>& entries, const std::string& what) {
    uint64_t ticket = 0;
    ExpectCode(check, what, LS_INVALID_ARGUMENT, model.TrySubmit(entries, &ticket));
  };
  expect_refused({Prefill(sequences[0], tokens)}, "more tokens than max_batch_tokens");
  expect_refused(
      {Prefill(sequences[0], Part(tokens, 0, 4)), Prefill(sequences[1], Part(tokens, 0, 3))},
      "more tokens than max_batch_tokens in two entries");
  expect_refused({Decode(sequences[0], 0), Decode(sequences[1], 0), Decode(sequences[2], 0)},
                 "more entries than max_batch_sequences");
  model.Step(
      {Prefill(sequences[0], Part(tokens, 0, 3)), Prefill(sequences[1], Part(tokens, 0, 3))});
}

// Sampling parameters that ban every token. A step with these parameters fails in every backend.
struct BanAll {
  explicit BanAll(const Kit& kit) : sampling(Greedy()) {
    for (uint32_t id = 0; id < kit.vocabulary(); ++id) {
      bias.push_back({static_cast<int32_t>(id), -kInfinity});
    }
    sampling.bias = bias.data();
    sampling.num_bias = kit.vocabulary();
  }
  std::vector<ls_logit_bias> bias;
  ls_sampling sampling;
};

void FailedSequence(const Kit& kit, Check& check) {
  Model model = kit.Open();
  const BanAll ban(kit);
  Pair pair(kit, model);
  Pair control(kit, model);
  const uint64_t position = pair.other.position();
  const int32_t next = pair.tokens[kit.grid()];
  const Output expected = model.Step(Decode(control.good, next));

  std::vector<Entry> entries = {Decode(pair.good, next), Decode(pair.other, next)};
  entries[1].sampling = &ban.sampling;
  std::vector<Output> outputs = model.Step(entries);
  ExpectSame(check, "the other sequence did not stand", expected, outputs[0]);
  ExpectCode(check, "every token banned", LS_INVALID_ARGUMENT, outputs[1].code);
  check.Expect(pair.other.position() == position, "a failed sequence moved");

  outputs = model.Step(std::vector<Entry>{Decode(pair.other, next)});
  ExpectCode(check, "a token for a failed sequence", LS_FAILED_PRECONDITION, outputs[0].code);
  ExpectCode(check, "a checkpoint of a failed sequence", LS_FAILED_PRECONDITION,
             pair.other.TryCheckpoint());
  if (kit.Has(LS_CAP_FORK)) {
    Sequence fork;
    ExpectCode(check, "a fork of a failed sequence", LS_FAILED_PRECONDITION,
               pair.other.TryFork(&fork));
  }
  if (kit.Has(LS_CAP_SNAPSHOT)) {
    std::string snapshot;
    ExpectCode(check, "a snapshot of a failed sequence", LS_FAILED_PRECONDITION,
               pair.other.TryExport(&snapshot));
  }
  check.Expect(pair.other.Truncate(position) == position,
               "a failed sequence does not come back to its checkpoint");
  ExpectSame(check, "after a failure and a rollback", expected,
             model.Step(Decode(pair.other, next)));
}

// Runs the same turn with one ticket at a time and with two tickets in flight.
void TwoTickets(const Kit& kit, Check& check) {
  Model model = kit.Open();
  Pair pair(kit, model);
  Pair control(kit, model);
  Trace expected;
  std::vector<Entry> entries;
  for (uint32_t i = 0; i < 6; ++i) {
    const int32_t token = pair.tokens[kit.grid() + i];
    expected.push_back(model.Step(Decode(control.good, token)));
    entries.push_back(Decode(pair.good, token));
  }
  const Trace found = RunInFlight(model, entries, [&](size_t i) {
    check.Expect(pair.good.position() == kit.grid() + i + 1,
                 "the position does not count the tokens of a ticket in flight");
  });
  ExpectSame(check, "two tickets in flight", expected, found);
}

void TicketErrors(const Kit& kit, Check& check) {
  Model model = kit.Open();
  Pair pair(kit, model);
  const std::vector<Entry> first = {Decode(pair.good, 0)};
  const std::vector<Entry> second = {Decode(pair.other, 0)};
  const uint64_t first_ticket = model.Submit(first);
  const uint64_t second_ticket = model.Submit(second);
  uint64_t third_ticket = 0;
  ExpectCode(check, "a third ticket", LS_FAILED_PRECONDITION,
             model.TrySubmit(first, &third_ticket));
  const auto expect_refused = [&](const std::string& what, uint64_t ticket) {
    ls_results results{};
    ErrorText text;
    ExpectCode(check, what, LS_INVALID_ARGUMENT,
               kit.backend().wait(model.handle(), ticket, &results, text.get()));
  };
  expect_refused("waiting out of order", second_ticket);
  expect_refused("waiting for no ticket", second_ticket + 1000);
  model.Wait(first_ticket, first);
  model.Wait(second_ticket, second);
  expect_refused("waiting twice", second_ticket);
}

// The results of a ticket must stay valid until the second submit after it.
void ResultsLast(const Kit& kit, Check& check) {
  Model model = kit.Open();
  Pair pair(kit, model);
  const std::vector<Entry> first = {Decode(pair.good, 1)};
  const std::vector<Entry> second = {Prefill(pair.other, {0, 1, 0})};
  const uint64_t ticket = model.Submit(first);
  ls_results results{};
  ErrorText text;
  check.Require(kit.backend().wait(model.handle(), ticket, &results, text.get()) == LS_OK,
                text.str());
  const ls_result result = results.results[0];
  const std::vector<float> logits(result.logits, result.logits + kit.vocabulary());
  model.Step(second);
  check.Expect(results.results[0].logits == result.logits &&
                   std::equal(logits.begin(), logits.end(), result.logits),
               "the next submit overwrote the results of the ticket before");
}

// A sequence that feeds its own sampled tokens with two tickets in flight must give the same
// results as one that the host feeds.
void FromPrevious(const Kit& kit, Check& check) {
  kit.Need(LS_CAP_IN_FLIGHT_TOKENS, "in-flight tokens");
  Model model = kit.Open();
  Pair pair(kit, model);
  Pair control(kit, model);
  ls_sampling sampling = Greedy();
  sampling.temperature = 1.5f;
  sampling.seed = 83;
  Trace expected;
  std::vector<Entry> entries;
  int32_t token = pair.tokens[kit.grid()];
  for (int i = 0; i < 7; ++i) {
    Entry entry = Decode(control.good, token);
    entry.sampling = &sampling;
    expected.push_back(model.Step(entry));
    token = expected.back().sampled;
    entry.sequence = &pair.good;
    if (i > 0) entry.tokens = {LS_TOKEN_FROM_PREVIOUS};
    entries.push_back(entry);
  }
  ExpectSame(check, "fed by itself", expected, RunInFlight(model, entries));

  // If the previous step fails, there is no token to feed.
  const BanAll ban(kit);
  std::vector<Entry> failing = {Decode(pair.other, 0)};
  failing[0].sampling = &ban.sampling;
  std::vector<Entry> next = {Decode(pair.other, LS_TOKEN_FROM_PREVIOUS)};
  const uint64_t failing_ticket = model.Submit(failing);
  const uint64_t next_ticket = model.Submit(next);
  ExpectCode(check, "every token banned", LS_INVALID_ARGUMENT,
             model.Wait(failing_ticket, failing)[0].code);
  ExpectCode(check, "the token of a step that failed", LS_FAILED_PRECONDITION,
             model.Wait(next_ticket, next)[0].code);
}

// The host may call the plugin from several threads, as long as only one thread calls at a time.
void ThreadsTakeTurns(const Kit& kit, Check& check) {
  Model model = kit.Open();
  Script script;
  const std::vector<int32_t> tokens = kit.Tokens(84, kit.grid() + 4);
  AddPrefill(script, tokens, 0, kit.grid());
  AddDecode(script, tokens, kit.grid(), kit.grid() + 4);
  const Trace expected = RunAlone(model, script);
  Sequence sequence = model.Create(script.num_tokens());
  Trace trace;
  std::string failure;
  for (size_t i = 0; i < script.pieces.size(); ++i) {
    std::thread([&] {
      try {
        trace.push_back(Run(sequence, script, i, i + 1).front());
      } catch (const CheckFailed& failed) {
        failure = failed.why;
      }
    }).join();
    check.Require(failure.empty(), failure);
  }
  ExpectSame(check, "each step from a thread of its own", expected, trace);
}

}  // namespace

Checks BatchChecks() {
  return {
      {"batch.malformed", &Malformed},
      {"batch.too_large", &TooLarge},
      {"batch.failed_sequence", &FailedSequence},
      {"batch.two_tickets", &TwoTickets},
      {"batch.ticket_errors", &TicketErrors},
      {"batch.results_last", &ResultsLast},
      {"batch.token_from_previous", &FromPrevious},
      {"batch.threads_take_turns", &ThreadsTakeTurns},
  };
}

}  // namespace longstream::conformance
