// Checks of the byte budget: the bytes that sequences hold, the promises of reserve, and the return
// of all bytes.
#include <algorithm>
#include <atomic>
#include <thread>

#include "tests/conformance/checks.h"
#include "tests/conformance/script.h"

namespace longstream::conformance {
namespace {

uint64_t Held(const ls_memory& memory) {
  return memory.pages + memory.rings + memory.states + memory.checkpoints;
}

std::string Print(const ls_memory& memory) {
  return "weights " + std::to_string(memory.weights) + ", pages " + std::to_string(memory.pages) +
         ", rings " + std::to_string(memory.rings) + ", states " + std::to_string(memory.states) +
         ", checkpoints " + std::to_string(memory.checkpoints) + ", reserved " +
         std::to_string(memory.reserved);
}

// Does not compare the workspace: a model may keep the workspace that its longest sequence needed.
void ExpectSameMemory(Check& check, const ls_memory& before, const ls_memory& after,
                      const std::string& when) {
  check.Expect(Print(before) == Print(after),
               when + ": " + Print(after) + "; before: " + Print(before));
}

void ExpectWithinBudget(Check& check, const ls_memory& memory) {
  check.Expect(Held(memory) <= memory.reserved && memory.reserved <= memory.budget,
               "not held <= reserved <= budget: " + Print(memory));
}

// Returns the bytes of the pages for `tokens` tokens.
uint64_t PageBytes(const ls_model_info& info, uint64_t tokens) {
  if (info.page_tokens == 0) return 0;
  const uint64_t pages = (tokens + info.page_tokens - 1) / info.page_tokens;
  return pages * info.page_tokens * info.kv_bytes_per_token;
}

// Returns the bytes of a sequence with room for `tokens` tokens, including its checkpoint.
uint64_t FullBytes(const ls_model_info& info, uint64_t tokens) {
  return PageBytes(info, tokens) + info.window_bytes_per_sequence + info.state_bytes_per_sequence +
         info.checkpoint_bytes_per_sequence;
}

// Checks the bytes of two sequences while one of them grows step by step.
void GrowBesideAnother(const Kit& kit, Check& check, Model& model) {
  const ls_model_info& info = model.info();
  const std::vector<int32_t> tokens = kit.Tokens(61, kit.prompt());
  Sequence first = model.Create();
  Sequence second = model.Create(2 * kit.grid());
  model.Step(Prefill(second, Part(tokens, 0, kit.grid())));
  first.Reserve(kit.prompt());
  while (first.position() < kit.prompt()) {
    const uint64_t position = first.position();
    const uint64_t step = std::min<uint64_t>(kit.prompt() - position, 1 + position);
    model.Step(Prefill(first, Part(tokens, position, position + step)));
    const ls_sequence_bytes bytes = first.Bytes();
    const ls_sequence_bytes others = second.Bytes();
    const ls_memory memory = model.Memory();
    const std::string where = "at position " + std::to_string(first.position()) + ": ";
    check.Expect(bytes.kv == PageBytes(info, first.position()),
                 where + "kv " + std::to_string(bytes.kv) + ", expected " +
                     std::to_string(PageBytes(info, first.position())));
    check.Expect(bytes.window == info.window_bytes_per_sequence &&
                     bytes.state == info.state_bytes_per_sequence &&
                     bytes.checkpoint == info.checkpoint_bytes_per_sequence,
                 where + "window, state or checkpoint are not those of model_info");
    check.Expect(memory.pages == bytes.kv + others.kv &&
                     memory.rings == bytes.window + others.window &&
                     memory.states == bytes.state + others.state &&
                     memory.checkpoints == bytes.checkpoint + others.checkpoint,
                 where + "model_memory is not the sum of the sequences: " + Print(memory));
    ExpectWithinBudget(check, memory);
  }
  first.Reserve(0);
  check.Expect(first.Bytes().checkpoint == 0, "reserve(0) keeps the checkpoint");
}

void BytesByKind(const Kit& kit, Check& check) {
  Model model = kit.Open();
  const ls_memory start = model.Memory();
  check.Expect(Held(start) == 0 && start.reserved == 0,
               "a model without sequences holds bytes: " + Print(start));
  GrowBesideAnother(kit, check, model);
  const ls_memory once = model.Memory();
  ExpectSameMemory(check, start, once, "after all sequences were freed");
  GrowBesideAnother(kit, check, model);
  const ls_memory twice = model.Memory();
  ExpectSameMemory(check, once, twice, "after the same again");
  check.Expect(twice.workspace == once.workspace, "the same again made the workspace grow from " +
                                                      std::to_string(once.workspace) + " to " +
                                                      std::to_string(twice.workspace));
}

// Whether the model has one pool for pages and another for rings and states, as on a device. Then
// either pool may run out before the budget does.
bool HasPools(const Kit& kit, const ls_model_info& info) {
  return kit.IsOnDevice() && PageBytes(info, 1) > 0 && FullBytes(info, 0) > 0;
}

// Returns options with a budget for `count` sequences that reserve `tokens` tokens each, and for
// `empty` further sequences without a reservation. If the model has two pools, each gets half of
// the budget. So for several sequences the budget is doubled, and for one sequence it is enlarged
// until its pages fit into one half, and by a page, because slots are larger than what they hold.
OpenOptions Budget(const Kit& kit, uint64_t count, uint64_t tokens, uint64_t empty = 0) {
  const Model model = kit.Open();
  const ls_model_info& info = model.info();
  OpenOptions options = kit.Defaults();
  uint64_t& budget = options.cache_bytes_budget;
  budget = count * FullBytes(info, tokens) +
           empty * (info.window_bytes_per_sequence + info.state_bytes_per_sequence);
  if (!HasPools(kit, info)) return options;
  const uint64_t pages = PageBytes(info, tokens);
  budget = count > 1 ? 2 * budget : std::max(budget, 2 * pages) + PageBytes(info, 1);
  return options;
}

// Creates sequences with a reservation each, until memory for the next one is refused.
std::vector<Sequence> FillUp(Model& model, Check& check, uint64_t tokens) {
  std::vector<Sequence> sequences;
  std::string error;
  while (sequences.size() < 1000) {
    Sequence sequence;
    ls_code code = model.TryCreate(&sequence, &error);
    if (code == LS_OK) code = sequence.TryReserve(tokens, &error);
    if (code != LS_OK) {
      ExpectCode(check, "a sequence more than fit", LS_RESOURCE_EXHAUSTED, code);
      break;
    }
    sequences.push_back(std::move(sequence));
    ExpectWithinBudget(check, model.Memory());
  }
  return sequences;
}

void Exhaustion(const Kit& kit, Check& check) {
  // The budget always has room for one more sequence without a reservation, so sequence_reserve
  // must refuse and not sequence_create.
  const uint64_t tokens = kit.prompt();
  Model model = kit.Open(Budget(kit, 3, tokens, 1));
  const ls_memory start = model.Memory();
  const std::vector<int32_t> ids = kit.Tokens(62, tokens);
  {
    std::vector<Sequence> sequences = FillUp(model, check, tokens);
    const size_t most = HasPools(kit, model.info()) ? 6 : 3;
    check.Require(3 <= sequences.size() && sequences.size() <= most,
                  "a budget for " + std::to_string(most) + " sequences of " +
                      std::to_string(tokens) + " tokens served " +
                      std::to_string(sequences.size()));
    // All memory is reserved, but steps within the reservations must not fail.
    std::vector<Output> last;
    for (Sequence& sequence : sequences) sequence.Checkpoint();
    for (uint64_t i = 0; i < tokens; ++i) {
      std::vector<Entry> entries;
      entries.reserve(sequences.size());
      for (Sequence& sequence : sequences) entries.push_back(Decode(sequence, ids[i]));
      last = model.Step(entries);
      for (const Output& output : last) {
        check.Require(output.code == LS_OK,
                      "a step within its reservation failed: " + output.message);
      }
    }
    ExpectWithinBudget(check, model.Memory());
    // A refused reservation must leave the previous reservation and the sequence's content
    // unchanged.
    const ls_model_info& info = model.info();
    const ls_memory full = model.Memory();
    const uint64_t too_many =
        info.kv_bytes_per_token == 0
            ? kit.context_limit()
            : (full.budget - full.reserved) / info.kv_bytes_per_token + info.page_tokens;
    if (too_many < kit.context_limit() - tokens) {
      ExpectCode(check, "a reservation of more than is left", LS_RESOURCE_EXHAUSTED,
                 sequences[0].TryReserve(too_many));
    }
    check.Expect(sequences[0].Truncate(0) == 0, "a refused reservation dropped the checkpoint");
    Output again;
    for (uint64_t i = 0; i < tokens; ++i) again = model.Step(Decode(sequences[0], ids[i]));
    ExpectSame(check, "a refused reservation changed the sequence", last[0], again);
    // Memory that one sequence returns must be available to another.
    sequences.pop_back();
    model.Create(tokens);
  }
  ExpectSameMemory(check, start, model.Memory(), "after all sequences were freed");
}

// Sequences keep what they hold and were promised when the budget becomes smaller.
void LoweredBudget(const Kit& kit, Check& check) {
  kit.Need(LS_CAP_SET_BUDGET, "set_budget");
  const uint64_t tokens = kit.prompt();
  Model model = kit.Open(Budget(kit, 3, tokens));
  const auto set_budget = [&](uint64_t bytes) {
    ErrorText error;
    return kit.backend().model_set_budget(model.handle(), bytes, error.get());
  };
  const uint64_t start = model.Memory().budget;
  ExpectCode(check, "a budget of 0", LS_INVALID_ARGUMENT, set_budget(0));
  check.Expect(model.Memory().budget == start, "a refused budget changed the budget");

  const std::vector<int32_t> ids = kit.Tokens(67, tokens);
  Sequence sequence = model.Create(tokens);
  sequence.Checkpoint();
  const uint64_t lowered = FullBytes(model.info(), 1);
  ExpectCode(check, "a budget below what is reserved", LS_OK, set_budget(lowered));
  check.Expect(model.Memory().budget == lowered, "the budget is " +
                                                     std::to_string(model.Memory().budget) +
                                                     ", set was " + std::to_string(lowered));
  for (const bool again : {false, true}) {
    if (again) check.Expect(sequence.Truncate(0) == 0, "a lowered budget dropped the checkpoint");
    model.Step(Prefill(sequence, ids));
  }
  Sequence other;
  std::string error;
  ls_code code = model.TryCreate(&other, &error);
  if (code == LS_OK) code = other.TryReserve(tokens, &error);
  ExpectCode(check, "a sequence beyond the lowered budget", LS_RESOURCE_EXHAUSTED, code);
  other.Free();

  ExpectCode(check, "a budget beyond the first one", LS_OK, set_budget(UINT64_MAX));
  check.Expect(model.Memory().budget == start, "the budget is not the first one again");
  model.Create(tokens);
  sequence.Free();
  ExpectCode(check, "a budget that is lowered while nothing is held", LS_OK, set_budget(lowered));
  model.Create(1);
}

// Two sequences that share pages each need their own reservation, because each may need its own
// copy of the pages.
void ForksWithinBudget(const Kit& kit, Check& check) {
  kit.Need(LS_CAP_FORK, "fork");
  const uint64_t past = kit.prompt();
  const uint64_t future = kit.tail();
  Model model = kit.Open(Budget(kit, 3, past + future));
  const ls_memory start = model.Memory();
  const std::vector<int32_t> ids = kit.Tokens(63, past + future);
  {
    std::vector<Sequence> family;
    family.push_back(model.Create(past));
    model.Step(Prefill(family[0], Part(ids, 0, past)));
    std::string error;
    while (family.size() < 100) {
      Sequence child;
      if (family[0].TryFork(&child, &error) != LS_OK) break;
      if (child.TryReserve(future, &error) != LS_OK) break;
      family.push_back(std::move(child));
    }
    check.Require(family.size() >= 2, "no fork fits: " + error);
    const ls_code code = family[0].TryReserve(future, &error);
    const size_t first = code == LS_OK ? 0 : 1;  // the first sequence that has a reservation
    for (uint64_t i = past; i < past + future; ++i) {
      for (size_t j = first; j < family.size(); ++j) {
        // Each fork decodes in a batch of its own, so a fork that lacks memory cannot hide behind
        // another.
        const Output output = model.Step(std::vector<Entry>{Decode(family[j], ids[i])}).front();
        check.Require(output.code == LS_OK,
                      "a fork ran out within its reservation: " + output.message);
      }
    }
    ExpectWithinBudget(check, model.Memory());
  }
  ExpectSameMemory(check, start, model.Memory(), "after all forks were freed");
}

void ReserveLimits(const Kit& kit, Check& check) {
  Model model = kit.Open();
  Sequence sequence = model.Create();
  ExpectCode(check, "a reservation past the context limit", LS_INVALID_ARGUMENT,
             sequence.TryReserve(kit.context_limit() + 1));
  ExpectCode(check, "a reservation of 2^64 - 1 tokens", LS_INVALID_ARGUMENT,
             sequence.TryReserve(UINT64_MAX));
  check.Expect(model.Memory().reserved ==
                   FullBytes(model.info(), 0) - model.info().checkpoint_bytes_per_sequence,
               "a refused reservation left something reserved");
  const std::vector<int32_t> tokens = kit.Tokens(64, 4);
  sequence.Reserve(3);
  model.Step(Prefill(sequence, {tokens[0], tokens[1]}));
  uint64_t ticket = 0;
  ExpectCode(check, "tokens past the reservation", LS_INVALID_ARGUMENT,
             model.TrySubmit({Prefill(sequence, {tokens[2], tokens[3]})}, &ticket));
  model.Step(Prefill(sequence, {tokens[2]}));
  // A reservation ends at an absolute position. A new one may be smaller or larger.
  sequence.Reserve(1);
  model.Step(Decode(sequence, tokens[3]));
  sequence.Reserve(0);
  ExpectCode(check, "a token after reserve(0)", LS_INVALID_ARGUMENT,
             model.TrySubmit({Decode(sequence, tokens[0])}, &ticket));
}

void ImportWithinBudget(const Kit& kit, Check& check) {
  kit.Need(LS_CAP_SNAPSHOT, "snapshot");
  const uint64_t tokens = kit.prompt();
  Model model = kit.Open(Budget(kit, 1, tokens));
  Sequence sequence = model.Create(tokens);
  model.Step(Prefill(sequence, kit.Tokens(65, tokens)));
  const std::string snapshot = sequence.Export();
  const ls_memory before = model.Memory();
  Sequence copy;
  std::string error;
  // The sequence with its reservation fills the budget, so a copy cannot fit (unless the sequence
  // has nothing but a checkpoint).
  ExpectCode(check, "an import into a full budget", LS_RESOURCE_EXHAUSTED,
             model.TryImport(snapshot, &copy));
  copy.Free();
  ExpectSameMemory(check, before, model.Memory(), "after a refused import");
  sequence.Free();
  check.Expect(model.TryImport(snapshot, &copy, &error) == LS_OK,
               "with the budget free again: " + error);
}

void MemoryFromAnotherThread(const Kit& kit, Check& check) {
  Model model = kit.Open();
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> bad{0};
  std::thread watcher([&] {
    while (!stop) {
      ls_memory memory{};
      memory.struct_size = sizeof(memory);
      if (kit.backend().model_memory(model.handle(), &memory) != LS_OK) ++bad;
    }
  });
  try {
    Script script;
    AddPrefill(script, kit.Tokens(66, kit.prompt()), 0, kit.prompt(),
               GridLines(kit, 0, kit.prompt()));
    for (int round = 0; round < 10; ++round) RunAlone(model, script);
  } catch (...) {
    stop = true;
    watcher.join();
    throw;
  }
  stop = true;
  watcher.join();
  check.Expect(bad == 0, "model_memory failed while steps ran");
}

}  // namespace

Checks MemoryChecks() {
  return {
      {"memory.bytes_by_kind", &BytesByKind},
      {"memory.exhaustion", &Exhaustion},
      {"memory.forks_within_budget", &ForksWithinBudget},
      {"memory.import_within_budget", &ImportWithinBudget},
      {"memory.lowered_budget", &LoweredBudget},
      {"memory.reserve_limits", &ReserveLimits},
      {"memory.from_another_thread", &MemoryFromAnotherThread},
  };
}

}  // namespace longstream::conformance
