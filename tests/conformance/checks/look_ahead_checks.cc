// Checks of a host's calls while steps are in flight: the next piece of a prompt, calls for other
// sequences, and a decode entry that the host takes back.
#include <algorithm>

#include "tests/conformance/checks.h"
#include "tests/conformance/script.h"

namespace longstream::conformance {
namespace {

// Feeds a prompt in pieces and then decode steps, with two tickets in flight.
void PromptInFlight(const Kit& kit, Check& check) {
  Model model = kit.Open();
  const size_t end = kit.prompt();
  const std::vector<int32_t> tokens = kit.Tokens(91, end + 3);
  Script script;
  AddPrefill(script, tokens, 0, end, GridLines(kit, 0, end));
  AddDecode(script, tokens, end, end + 3);
  const Trace expected = RunAlone(model, script);

  Sequence sequence = model.Create(script.num_tokens());
  const ls_sampling sampling = Greedy();
  std::vector<Entry> entries;
  for (const Piece& piece : script.pieces) {
    entries.push_back(Prefill(sequence, piece.tokens));
    entries.back().is_decode = piece.is_decode;
    entries.back().sampling = &sampling;
  }
  const Trace found = RunInFlight(model, entries);
  for (size_t i = 0; i < found.size(); ++i) {
    check.Expect(found[i].code == LS_OK && found[i].logits == expected[i].logits,
                 "piece " + std::to_string(i) + " differs from one ticket at a time");
  }
}

// While one sequence is in flight, the host creates, rolls back, forks and exports others. That
// must not change the results of the sequence in flight.
void OthersAreFree(const Kit& kit, Check& check) {
  Model model = kit.Open();
  const uint32_t past = kit.grid() + 1;
  const std::vector<int32_t> tokens = kit.Tokens(92, past + 8);
  Script script;
  AddPrefill(script, tokens, 0, past);
  AddDecode(script, tokens, past, past + 8);
  const Trace expected = RunAlone(model, script);

  Sequence sequence = model.Create(script.num_tokens());
  Run(sequence, script, 0, 1);
  Sequence other = model.Create(script.num_tokens());
  Run(other, script, 0, 1);
  other.Checkpoint();
  Run(other, script, 1, 4);
  for (size_t i = 1; i <= 8; ++i) {
    const std::vector<Entry> entries = {Decode(sequence, tokens[past + i - 1])};
    const uint64_t ticket = model.Submit(entries);
    Sequence third = model.Create(std::min<uint64_t>(i * kit.grid(), kit.context_limit()));
    third.Checkpoint();
    const uint64_t restored = other.Truncate(past);
    if (kit.Has(LS_CAP_FORK)) Sequence fork = other.Fork();
    if (kit.Has(LS_CAP_SNAPSHOT)) Sequence copy = model.Import(other.Export());
    const Output found = model.Wait(ticket, entries).front();
    check.Expect(found.logits == expected[i].logits, "step " + std::to_string(i) + " differs");
    check.Require(restored == past, "the checkpoint was not restored");
    ExpectSame(check, "the other sequence", Trace(expected.begin() + 1, expected.begin() + 4),
               Run(other, script, 1, 4));
  }
}

// Repeats this for the length of two blocks: a step feeds a token, a second step in flight feeds
// the token that the first step draws, and the host takes the second step back and feeds another
// token instead.
void TakenBack(const Kit& kit, Check& check) {
  kit.Need(LS_CAP_LOOK_AHEAD, "look-ahead");
  Model model = kit.Open();
  const uint32_t past = kit.grid() / 2 + 1;
  const uint32_t length = 2 * kit.grid();
  const std::vector<int32_t> tokens = kit.Tokens(93, past + length);
  Script script;
  AddPrefill(script, tokens, 0, past);
  AddDecode(script, tokens, past, past + length);
  const Trace expected = RunAlone(model, script);

  Sequence sequence = model.Create(script.num_tokens() + 1);
  sequence.Checkpoint();
  Run(sequence, script, 0, 1);
  ls_sampling sampling = Greedy();
  for (size_t i = 1; i <= length; ++i) {
    std::vector<Entry> entries = {Decode(sequence, tokens[past + i - 1])};
    entries[0].sampling = &sampling;
    std::vector<Entry> ahead = {Decode(sequence, LS_TOKEN_FROM_PREVIOUS)};
    const uint64_t position = past + i;
    const bool at_line = (position + 1) % kit.grid() == 0;
    const bool is_free = !at_line || model.info().state_bytes_per_sequence == 0;
    const uint64_t ticket = model.Submit(entries);
    const uint64_t ticket_ahead = is_free ? model.Submit(ahead) : 0;
    const ls_sequence_bytes in_flight = sequence.Bytes();
    const Output found = model.Wait(ticket, entries).front();
    check.Expect(found.logits == expected[i].logits, "step " + std::to_string(i) + " differs");
    if (!is_free) continue;
    model.Wait(ticket_ahead, ahead);
    const ls_sequence_bytes bytes = sequence.Bytes();
    check.Expect(bytes.kv == in_flight.kv && bytes.window == in_flight.window &&
                     bytes.state == in_flight.state,
                 "bytes in flight are not those of all its tokens");
    const uint64_t restored = sequence.Truncate(position);
    check.Require(restored == position, "a decode entry taken back at " + std::to_string(position) +
                                            " restored " + std::to_string(restored));
  }
}

}  // namespace

Checks LookAheadChecks() {
  return {
      {"look_ahead.prompt_in_flight", &PromptInFlight},
      {"look_ahead.others_are_free", &OthersAreFree},
      {"look_ahead.taken_back", &TakenBack},
  };
}

}  // namespace longstream::conformance
