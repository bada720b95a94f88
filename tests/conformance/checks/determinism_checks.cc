// Checks that a result depends on its sequence alone. It must not depend on the batch or the
// threads. Cuts of a prefill that are not on grid lines may change the result only by rounding.
#include <algorithm>
#include <random>

#include "tests/conformance/checks.h"
#include "tests/conformance/script.h"

namespace longstream::conformance {
namespace {

// Returns scripts whose lengths lie around grid lines. Each script is a prefill, some decode steps
// and a second turn, so that batches hold prefill pieces and decode rows at once.
std::vector<Script> MixedScripts(const Kit& kit) {
  const size_t grid = kit.grid();
  std::vector<Script> scripts;
  for (const size_t length : std::initializer_list<size_t>{1, grid, grid + 1, 2 * grid - 1,
                                                           kit.prompt(), kit.prompt() - grid / 2}) {
    Script script;
    script.seed = 1000 + scripts.size();
    const size_t prompt = std::max<size_t>(1, length);
    const size_t decoded = prompt + 6 + scripts.size();
    const size_t end = decoded + grid;
    const std::vector<int32_t> tokens = kit.Tokens(scripts.size() + 1, end + 2);
    AddPrefill(script, tokens, 0, prompt, GridLines(kit, 0, prompt, 2));
    AddDecode(script, tokens, prompt, decoded);
    AddPrefill(script, tokens, decoded, end, GridLines(kit, decoded, end));
    AddDecode(script, tokens, end, end + 2);
    scripts.push_back(script);
  }
  return scripts;
}

Choose EveryoneForward() {
  return [](const std::vector<size_t>& ready) { return ready; };
}

Choose EveryoneBackward() {
  return [](const std::vector<size_t>& ready) {
    return std::vector<size_t>(ready.rbegin(), ready.rend());
  };
}

// A random subset of the scripts, in random order.
Choose RandomSubsets(uint32_t seed) {
  return [random = std::mt19937(seed)](const std::vector<size_t>& ready) mutable {
    std::vector<size_t> chosen = ready;
    for (size_t i = chosen.size(); i > 1; --i) std::swap(chosen[i - 1], chosen[random() % i]);
    chosen.resize(1 + random() % chosen.size());
    return chosen;
  };
}

void Batches(const Kit& kit, Check& check) {
  Model model = kit.Open();
  const std::vector<Script> scripts = MixedScripts(kit);
  std::vector<Trace> alone;
  alone.reserve(scripts.size());
  for (const Script& script : scripts) alone.push_back(RunAlone(model, script));

  const struct {
    const char* name;
    Choose choose;
  } compositions[] = {
      {"all in one batch", EveryoneForward()},
      {"all in one batch, in reverse", EveryoneBackward()},
      {"random batches", RandomSubsets(1)},
      {"other random batches", RandomSubsets(2)},
  };
  for (const auto& composition : compositions) {
    const std::vector<Trace> traces = RunTogether(model, scripts, composition.choose);
    for (size_t i = 0; i < scripts.size(); ++i) {
      ExpectSame(check,
                 std::string(composition.name) + ": sequence " + std::to_string(i) +
                     " differs from the same run alone",
                 alone[i], traces[i]);
    }
  }
}

void Threads(const Kit& kit, Check& check) {
  const std::vector<Script> scripts = MixedScripts(kit);
  std::vector<Trace> expected;
  const struct {
    uint32_t threads;
    TaskOrder order;
  } hosts[] = {{1, TaskOrder::kForward},
               {2, TaskOrder::kForward},
               {3, TaskOrder::kForward},
               {1, TaskOrder::kBackward},
               {3, TaskOrder::kBackward}};
  for (const auto& row : hosts) {
    const TestHost host(row.threads, row.order);
    Model model(kit.backend(), kit.target().model, kit.Defaults(), host);
    const std::vector<Trace> traces = RunTogether(model, scripts, RandomSubsets(3));
    if (expected.empty()) expected = traces;
    for (size_t i = 0; i < scripts.size(); ++i) {
      ExpectSame(check,
                 std::to_string(row.threads) + " threads" +
                     (row.order == TaskOrder::kBackward ? ", tasks in reverse order" : "") +
                     ": sequence " + std::to_string(i),
                 expected[i], traces[i]);
    }
    ExpectNoMisuse(check, host);
  }
}

// The logits after a script's last prefill piece and after its last decode step.
struct LastOutputs {
  Output prompt;
  Output decoded;
};

// Feeds [0, turn) of the prompt that `seed` draws as a first turn, then [turn, end) cut at the
// positions `cuts`, then a few decode steps.
LastOutputs RunTurns(const Kit& kit, Model& model, size_t turn, const std::vector<size_t>& cuts,
                     uint64_t seed = 11) {
  const size_t end = kit.prompt();
  const std::vector<int32_t> tokens = kit.Tokens(seed, end + 4);
  Script script;
  AddPrefill(script, tokens, 0, turn);
  AddPrefill(script, tokens, turn, end, cuts);
  const size_t steps = script.pieces.size();
  AddDecode(script, tokens, end, end + 4);
  const Trace trace = RunAlone(model, script);
  return {trace[steps - 1], trace.back()};
}

void GridCuts(const Kit& kit, Check& check) {
  Model model = kit.Open();
  const size_t end = kit.prompt();
  // If there is a first turn, it does not end on a grid line, so the second turn begins within a
  // block.
  for (const size_t turn : {size_t{0}, size_t{kit.grid() + kit.grid() / 3 + 1}}) {
    const LastOutputs whole = RunTurns(kit, model, turn, {});
    const std::vector<size_t> lines = GridLines(kit, turn, end);
    check.Require(!lines.empty(), "the context is too short for a cut");
    std::vector<std::vector<size_t>> choices = {lines, GridLines(kit, turn, end, 2)};
    choices.push_back({lines.back()});
    for (const std::vector<size_t>& cuts : choices) {
      const LastOutputs cut = RunTurns(kit, model, turn, cuts);
      const std::string where = "turn from " + std::to_string(turn) + ", " +
                                std::to_string(cuts.size()) + " cuts from " +
                                std::to_string(cuts.front());
      ExpectSame(check, where, whole.prompt, cut.prompt);
      ExpectSame(check, where + ", after decode", whole.decoded, cut.decoded);
    }
  }
}

// The logits of one row of each prompt, computed in two ways.
struct TwoWays {
  std::vector<float> expected, found;

  void Add(const Output& one, const Output& other) {
    expected.insert(expected.end(), one.logits.begin(), one.logits.end());
    found.insert(found.end(), other.logits.begin(), other.logits.end());
  }
};

void ExpectClose(const Kit& kit, Check& check, const std::string& what, const TwoWays& rows) {
  const double difference = TypicalDifference(rows.expected, rows.found, kit.vocabulary());
  check.Expect(difference <= kit.target().tolerance,
               what + ": logits differ by " + Text(difference) +
                   " standard deviations, more than rounding (" + Text(kit.target().tolerance) +
                   ")");
}

void OtherCuts(const Kit& kit, Check& check) {
  Model model = kit.Open();
  const size_t end = kit.prompt();
  std::vector<LastOutputs> whole;
  for (uint64_t i = 0; i < kit.target().prompts; ++i)
    whole.push_back(RunTurns(kit, model, 0, {}, 100 + i));
  for (const size_t length : std::initializer_list<size_t>{1, 3, kit.grid() - 1, kit.grid() + 1}) {
    std::vector<size_t> cuts;
    for (size_t cut = length; length > 0 && cut < end; cut += length) cuts.push_back(cut);
    TwoWays prompt, decoded;
    for (uint64_t i = 0; i < kit.target().prompts; ++i) {
      const LastOutputs cut = RunTurns(kit, model, 0, cuts, 100 + i);
      prompt.Add(whole[i].prompt, cut.prompt);
      decoded.Add(whole[i].decoded, cut.decoded);
    }
    const std::string what = "pieces of " + std::to_string(length);
    ExpectClose(kit, check, what, prompt);
    ExpectClose(kit, check, what + ", after decode", decoded);
  }
}

void DecodeAgainstPrefill(const Kit& kit, Check& check) {
  Model model = kit.Open();
  const size_t end = kit.prompt();
  TwoWays last;
  for (uint64_t i = 0; i < kit.target().prompts; ++i) {
    const std::vector<int32_t> tokens = kit.Tokens(200 + i, end);
    Script prefill, decode;
    AddPrefill(prefill, tokens, 0, end);
    AddDecode(decode, tokens, 0, end);
    last.Add(RunAlone(model, prefill).back(), RunAlone(model, decode).back());
  }
  ExpectClose(kit, check, "a prompt fed token by token", last);
}

// A model that ignores its input would pass all the checks above.
void HistoryMatters(const Kit& kit, Check& check) {
  Model model = kit.Open();
  std::vector<int32_t> tokens = kit.Tokens(13, kit.prompt());
  Script script, changed;
  AddPrefill(script, tokens, 0, tokens.size());
  int32_t& token = tokens[tokens.size() - 2];
  token = (token + 1) % static_cast<int32_t>(kit.vocabulary());
  AddPrefill(changed, tokens, 0, tokens.size());
  check.Expect(RunAlone(model, script).back().logits != RunAlone(model, changed).back().logits,
               "another token one before the last changes nothing");
}

}  // namespace

Checks DeterminismChecks() {
  return {
      {"determinism.history_matters", &HistoryMatters},
      {"determinism.batches", &Batches},
      {"determinism.threads", &Threads},
      {"determinism.grid_cuts", &GridCuts},
      {"determinism.other_cuts", &OtherCuts},
      {"determinism.decode_against_prefill", &DecodeAgainstPrefill},
  };
}

}  // namespace longstream::conformance
