// Checks of sequence_fork: a fork shares its source's past, and then the two are independent.
#include "tests/conformance/checks.h"
#include "tests/conformance/script.h"

namespace longstream::conformance {
namespace {

// Returns a script whose tokens [0, past) are the same for every seed. The later tokens depend on
// `seed`. *first_piece is the first piece after `past`.
Script FutureOf(const Kit& kit, size_t past, uint64_t seed, size_t* first_piece) {
  std::vector<int32_t> tokens = kit.Tokens(21, past);
  const std::vector<int32_t> future = kit.Tokens(seed, kit.grid() + 10);
  tokens.insert(tokens.end(), future.begin(), future.end());
  Script script;
  script.seed = seed;
  AddPrefill(script, tokens, 0, past);
  *first_piece = script.pieces.size();
  AddDecode(script, tokens, past, past + 5);
  AddPrefill(script, tokens, past + 5, tokens.size() - 2,
             GridLines(kit, past + 5, tokens.size() - 2));
  AddDecode(script, tokens, tokens.size() - 2, tokens.size());
  return script;
}

// Returns a position that is neither at the end of a page nor on a grid line.
size_t RaggedPast(const Kit& kit) {
  const size_t past = kit.prompt();
  const bool on_page = kit.page_tokens() > 1 && past % kit.page_tokens() == 0;
  return past - (on_page || past % kit.grid() == 0 ? 1 : 0);
}

void ExpectFuture(Check& check, const std::string& whose, size_t past, const Trace& alone,
                  size_t first, const Trace& found) {
  ExpectSame(check,
             whose + ", forked at " + std::to_string(past) + ", differs from the same run alone",
             Tail(alone, first), found);
}

void Diverge(const Kit& kit, Check& check) {
  kit.Need(LS_CAP_FORK, "fork");
  Model model = kit.Open();
  for (const size_t past : {RaggedPast(kit), size_t{2} * kit.grid()}) {
    size_t first = 0;
    const Script left = FutureOf(kit, past, 31, &first);
    const Script right = FutureOf(kit, past, 32, &first);
    const Trace left_alone = RunAlone(model, left);
    const Trace right_alone = RunAlone(model, right);

    Sequence parent = model.Create(left.num_tokens());
    Run(parent, left, 0, first);
    Sequence child = parent.Fork();
    check.Expect(child.position() == past, "the fork stands at another position");
    child.Reserve(right.num_tokens() - past);

    // The two sequences take turns, so that one would overwrite the other's tokens if they shared
    // memory.
    Trace parent_trace, child_trace;
    for (size_t i = first; i < left.pieces.size(); ++i) {
      child_trace.push_back(Run(child, right, i, i + 1).front());
      parent_trace.push_back(Run(parent, left, i, i + 1).front());
    }
    ExpectFuture(check, "the source", past, left_alone, first, parent_trace);
    ExpectFuture(check, "the fork", past, right_alone, first, child_trace);
  }
}

// A fork must outlive its source, and a fork of a fork must outlive its parent.
void Lifetimes(const Kit& kit, Check& check) {
  kit.Need(LS_CAP_FORK, "fork");
  Model model = kit.Open();
  const size_t past = RaggedPast(kit);
  size_t first = 0;
  const Script script = FutureOf(kit, past, 33, &first);
  const Trace alone = RunAlone(model, script);
  Sequence parent = model.Create(past);
  Run(parent, script, 0, first);
  Sequence child = parent.Fork();
  parent.Free();
  Sequence grandchild = child.Fork();
  child.Free();
  Sequence sibling = grandchild.Fork();
  for (Sequence* sequence : {&grandchild, &sibling}) {
    sequence->Reserve(script.num_tokens() - past);
    ExpectSame(check, "after the source was freed", Tail(alone, first),
               Run(*sequence, script, first));
  }
}

void Bytes(const Kit& kit, Check& check) {
  kit.Need(LS_CAP_FORK, "fork");
  Model model = kit.Open();
  const size_t past = RaggedPast(kit);
  const std::vector<int32_t> tokens = kit.Tokens(21, past);
  Sequence parent = model.Create(past + 1);
  model.Step(Prefill(parent, tokens));
  const ls_memory before = model.Memory();
  const ls_sequence_bytes parent_bytes = parent.Bytes();
  Sequence child = parent.Fork();
  const ls_memory shared = model.Memory();
  const uint64_t page = model.info().page_tokens * model.info().kv_bytes_per_token;
  // The fork may copy only the last, partly filled page at once.
  check.Expect(shared.pages >= before.pages && shared.pages <= before.pages + page,
               "pages are not shared: " + std::to_string(before.pages) + " bytes became " +
                   std::to_string(shared.pages));
  check.Expect(shared.rings == 2 * before.rings && shared.states == 2 * before.states,
               "rings and states of a fork are not its own");
  check.Expect(shared.checkpoints == before.checkpoints, "a fork has a checkpoint");
  const ls_sequence_bytes child_bytes = child.Bytes();
  check.Expect(child_bytes.kv == parent_bytes.kv && child_bytes.window == parent_bytes.window &&
                   child_bytes.state == parent_bytes.state && child_bytes.checkpoint == 0,
               "sequence_bytes of a fork");

  child.Reserve(1);
  parent.Reserve(1);
  model.Step(Decode(child, tokens[0]));
  model.Step(Decode(parent, tokens[1]));
  const ls_memory diverged = model.Memory();
  check.Expect(diverged.pages <= before.pages + 2 * page,
               "one token each after a fork took more than a page each");
  parent.Free();
  check.Expect(model.Memory().pages == child.Bytes().kv,
               "after the source was freed the fork holds " + std::to_string(child.Bytes().kv) +
                   " bytes of pages, the model " + std::to_string(model.Memory().pages));
}

// A fork has no reservation, so it accepts neither a token nor a checkpoint.
void NothingPromised(const Kit& kit, Check& check) {
  kit.Need(LS_CAP_FORK, "fork");
  Model model = kit.Open();
  const std::vector<int32_t> tokens = kit.Tokens(22, 4);
  Sequence parent = model.Create(8);
  parent.Checkpoint();
  model.Step(Prefill(parent, tokens));
  Sequence child = parent.Fork();
  uint64_t ticket = 0;
  ExpectCode(check, "a token for a fork without a reservation", LS_INVALID_ARGUMENT,
             model.TrySubmit({Decode(child, tokens[0])}, &ticket));
  ExpectCode(check, "a checkpoint of a fork without a reservation", LS_FAILED_PRECONDITION,
             child.TryCheckpoint());
  check.Expect(parent.Truncate(0) == 0, "the source lost its checkpoint");
}

}  // namespace

Checks ForkChecks() {
  return {
      {"fork.diverge", &Diverge},
      {"fork.lifetimes", &Lifetimes},
      {"fork.bytes", &Bytes},
      {"fork.nothing_promised", &NothingPromised},
  };
}

}  // namespace longstream::conformance
