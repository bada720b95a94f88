// Checks of sequence_checkpoint and sequence_truncate: tokens that are fed again must give the same
// bits.
#include <algorithm>

#include "tests/conformance/checks.h"
#include "tests/conformance/script.h"

namespace longstream::conformance {
namespace {

// A script with a past and a turn of decode steps after it. From position `past` on, each piece is
// one token.
struct Turn {
  std::vector<int32_t> tokens;
  Script script;
  size_t past = 0;
  size_t first_piece = 0;  // the first piece of the turn
};

Turn DecodeTurn(const Kit& kit, size_t past, size_t length) {
  Turn turn;
  turn.past = past;
  turn.tokens = kit.Tokens(41, past + length);
  AddPrefill(turn.script, turn.tokens, 0, past);
  turn.first_piece = turn.script.pieces.size();
  AddDecode(turn.script, turn.tokens, past, past + length);
  return turn;
}

// A new sequence at the beginning of the turn, with a checkpoint there.
Sequence Begin(Model& model, const Turn& turn) {
  Sequence sequence = model.Create(turn.past);
  Run(sequence, turn.script, 0, turn.first_piece);
  sequence.Reserve(turn.script.num_tokens() - turn.past);
  sequence.Checkpoint();
  return sequence;
}

// Feeds the turn from `piece` on, as in the run `expected` of the whole script.
void ExpectReplay(Check& check, const std::string& where, const Trace& expected, Sequence& sequence,
                  const Turn& turn, size_t piece) {
  ExpectSame(check, where, Tail(expected, piece), Run(sequence, turn.script, piece));
}

void ToTheCheckpoint(const Kit& kit, Check& check) {
  Model model = kit.Open();
  const Turn turn = DecodeTurn(kit, kit.prompt(), kit.grid() + 20);
  const Trace expected = RunAlone(model, turn.script);
  Sequence sequence = Begin(model, turn);
  for (int round = 0; round < 3; ++round) {
    ExpectReplay(check, "round " + std::to_string(round), expected, sequence, turn,
                 turn.first_piece);
    check.Expect(sequence.Truncate(turn.past) == turn.past,
                 "the checkpoint's position was not restored exactly");
  }
}

// Feeds a whole turn and rolls it back to one of its positions, for each position.
void InBetween(const Kit& kit, Check& check) {
  Model model = kit.Open();
  const size_t length = std::min<size_t>(kit.grid() + 20, 48);
  const Turn turn = DecodeTurn(kit, kit.prompt(), length);
  const Trace expected = RunAlone(model, turn.script);
  for (size_t back = 0; back <= length; ++back) {
    Sequence sequence = Begin(model, turn);
    Run(sequence, turn.script, turn.first_piece);
    const uint64_t position = turn.past + length - back;
    const uint64_t restored = sequence.Truncate(position);
    check.Require(restored >= turn.past, "restored a position before the checkpoint");
    const size_t piece = turn.first_piece + (restored - turn.past);
    ExpectReplay(check, "back by " + std::to_string(back) + " to " + std::to_string(restored),
                 expected, sequence, turn, piece);
  }
}

// After a rollback a sequence may be fed other tokens and be rolled back again.
void AnotherWay(const Kit& kit, Check& check) {
  Model model = kit.Open();
  const Turn turn = DecodeTurn(kit, kit.prompt(), 12);
  Turn other = turn;
  const std::vector<int32_t> tokens = kit.Tokens(42, 12);
  for (size_t i = 0; i < 12; ++i) {
    other.script.pieces[other.first_piece + i].tokens = {tokens[i]};
  }
  const Trace expected = RunAlone(model, turn.script);
  const Trace expected_other = RunAlone(model, other.script);
  Sequence sequence = Begin(model, turn);
  Run(sequence, turn.script, turn.first_piece);
  sequence.Truncate(turn.past);
  ExpectReplay(check, "another way", expected_other, sequence, other, other.first_piece);
  sequence.Truncate(turn.past);
  ExpectReplay(check, "the first way again", expected, sequence, turn, turn.first_piece);
}

// Rolls back a turn that is a prefill. Rolls it back to each grid line and feeds the rest with the
// same cuts.
void AcrossPrefill(const Kit& kit, Check& check) {
  Model model = kit.Open();
  const size_t past = kit.grid() / 2 + 1;
  const size_t end = kit.prompt();
  const std::vector<int32_t> tokens = kit.Tokens(43, end + 2);
  const std::vector<size_t> lines = GridLines(kit, past, end);
  Script script;
  AddPrefill(script, tokens, 0, past);
  AddPrefill(script, tokens, past, end, lines);
  AddDecode(script, tokens, end, end + 2);
  const Trace expected = RunAlone(model, script);
  for (const size_t line : lines) {
    Sequence sequence = model.Create(script.num_tokens());
    Run(sequence, script, 0, 1);
    sequence.Checkpoint();
    Run(sequence, script, 1);
    const uint64_t restored = sequence.Truncate(line);
    check.Require(restored >= past, "restored a position before the checkpoint");
    Script again;
    AddPrefill(again, tokens, restored, end, GridLines(kit, restored, end));
    AddDecode(again, tokens, end, end + 2);
    const Trace replayed = Run(sequence, again);
    ExpectSame(check, "back to " + std::to_string(line) + ", restored " + std::to_string(restored),
               Tail(expected, expected.size() - 3), Tail(replayed, replayed.size() - 3));
  }
}

void Moves(const Kit& kit, Check& check) {
  Model model = kit.Open();
  const Turn turn = DecodeTurn(kit, kit.prompt(), 12);
  const Trace expected = RunAlone(model, turn.script);
  Sequence sequence = Begin(model, turn);
  Run(sequence, turn.script, turn.first_piece, turn.first_piece + 5);
  sequence.Checkpoint();
  Run(sequence, turn.script, turn.first_piece + 5);
  check.Expect(sequence.Truncate(turn.past + 5) == turn.past + 5,
               "a checkpoint that replaced another is not where it was set");
  ExpectReplay(check, "from the second checkpoint", expected, sequence, turn, turn.first_piece + 5);
}

// A position that cannot be restored must be refused, and the refusal must change nothing.
void OutOfReach(const Kit& kit, Check& check) {
  Model model = kit.Open();
  const Turn turn = DecodeTurn(kit, kit.prompt(), 6);
  const Trace expected = RunAlone(model, turn.script);
  Sequence sequence = Begin(model, turn);
  Run(sequence, turn.script, turn.first_piece, turn.first_piece + 3);
  uint64_t restored = 77;
  const uint64_t position = sequence.position();
  ExpectCode(check, "truncate past the position", LS_INVALID_ARGUMENT,
             sequence.TryTruncate(position + 1, &restored));
  const ls_model_info& info = model.info();
  if (info.window_bytes_per_sequence + info.state_bytes_per_sequence > 0) {
    ExpectCode(check, "truncate before the checkpoint", LS_INVALID_ARGUMENT,
               sequence.TryTruncate(turn.past - 1, &restored));
  }
  check.Expect(restored == 77, "a refused truncate wrote *restored");
  check.Expect(sequence.position() == position, "a refused truncate moved the sequence");
  check.Expect(sequence.Truncate(position) == position, "truncate to the current position");
  ExpectReplay(check, "after refusals", expected, sequence, turn, turn.first_piece + 3);

  Sequence bare = model.Create();
  ExpectCode(check, "a checkpoint without a reservation", LS_FAILED_PRECONDITION,
             bare.TryCheckpoint());
}

// After a rollback the sequence holds as many bytes as before the turn.
void Bytes(const Kit& kit, Check& check) {
  Model model = kit.Open();
  const Turn turn = DecodeTurn(kit, kit.prompt(), kit.grid() + 20);
  Sequence sequence = Begin(model, turn);
  const ls_sequence_bytes before = sequence.Bytes();
  Run(sequence, turn.script, turn.first_piece);
  sequence.Truncate(turn.past);
  const ls_sequence_bytes after = sequence.Bytes();
  check.Expect(after.kv == before.kv && after.window == before.window &&
                   after.state == before.state && after.checkpoint == before.checkpoint,
               "bytes after a rollback are not those before the turn");
  sequence.Reserve(0);
  check.Expect(sequence.Bytes().checkpoint == 0 && model.Memory().checkpoints == 0,
               "reserve(0) keeps the checkpoint's bytes");
}

}  // namespace

Checks RollbackChecks() {
  return {
      {"rollback.to_the_checkpoint", &ToTheCheckpoint},
      {"rollback.in_between", &InBetween},
      {"rollback.another_way", &AnotherWay},
      {"rollback.across_prefill", &AcrossPrefill},
      {"rollback.moved_checkpoint", &Moves},
      {"rollback.out_of_reach", &OutOfReach},
      {"rollback.bytes", &Bytes},
  };
}

}  // namespace longstream::conformance
