// Checks of the results other than logits: sampled tokens against the reference op, and
// log-probabilities against the softmax of the logits.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>

#include "kernels/reference/reference_ops.h"
#include "tests/conformance/checks.h"
#include "tests/conformance/script.h"

namespace longstream::conformance {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Returns the token that the reference op draws for `position` from one row of logits.
int32_t ReferenceSample(std::vector<float> logits, const ls_sampling& sampling, uint64_t position) {
  std::vector<TokenCount> history;
  for (uint32_t i = 0; i < sampling.num_history; ++i) {
    const ls_token_count& count = sampling.history[i];
    history.push_back({count.token, count.total, count.generated});
  }
  std::vector<LogitBias> bias;
  for (uint32_t i = 0; i < sampling.num_bias; ++i) {
    bias.push_back({sampling.bias[i].token, sampling.bias[i].bias});
  }
  SamplingRow row;
  row.seed = sampling.seed;
  row.position = static_cast<int64_t>(position);
  row.temperature = sampling.temperature;
  row.top_k = sampling.top_k;
  row.top_p = sampling.top_p;
  row.min_p = sampling.min_p;
  row.repetition_penalty = sampling.repetition_penalty;
  row.presence_penalty = sampling.presence_penalty;
  row.frequency_penalty = sampling.frequency_penalty;
  row.history = history.data();
  row.num_history = static_cast<int32_t>(history.size());
  row.bias = bias.data();
  row.num_bias = static_cast<int32_t>(bias.size());
  row.allowed = sampling.allowed;

  const auto vocabulary = static_cast<int64_t>(logits.size());
  struct alignas(64) CacheLine {
    std::byte bytes[64];
  };
  std::vector<CacheLine> workspace(SampleWorkspace(1, vocabulary) / sizeof(CacheLine) + 1);
  Stream stream;
  stream.workspace = workspace.data()->bytes;
  stream.workspace_bytes = workspace.size() * sizeof(CacheLine);
  int32_t token = -1;
  SampleArgs args;
  args.logits = {logits.data(), DType::kF32, 1, vocabulary, vocabulary};
  args.rows = &row;
  args.num_rows = 1;
  args.sampled = &token;
  reference::Sample(stream, args);
  return token;
}

// A mask of the tokens for which allows(token) holds. The bits beyond the vocabulary are set,
// because plugins must ignore them.
template <typename Allows>
std::vector<uint32_t> MaskOf(const Kit& kit, const Allows& allows) {
  const uint32_t vocabulary = kit.vocabulary();
  std::vector<uint32_t> mask((vocabulary + 31) / 32, 0);
  for (uint32_t bit = 0; bit < 32 * mask.size(); ++bit) {
    const bool is_set = bit >= vocabulary || allows(static_cast<int32_t>(bit));
    if (is_set) mask[bit / 32] |= uint32_t{1} << (bit % 32);
  }
  return mask;
}

// Sampling parameters, with the arrays to which they point.
struct Setting {
  ls_sampling sampling = Greedy();
  std::vector<ls_token_count> history;
  std::vector<ls_logit_bias> bias;
  std::vector<uint32_t> allowed;  // empty: no mask

  const ls_sampling* get() {
    sampling.history = history.data();
    sampling.num_history = static_cast<uint32_t>(history.size());
    sampling.bias = bias.data();
    sampling.num_bias = static_cast<uint32_t>(bias.size());
    sampling.allowed = allowed.empty() ? nullptr : allowed.data();
    return &sampling;
  }
};

// Returns settings that use each parameter alone, and settings that use all together, at several
// temperatures.
std::vector<Setting> Settings(const Kit& kit) {
  std::vector<Setting> settings;
  const auto add = [&](auto&& change) {
    for (const float temperature : {0.0f, 0.3f, 1.0f, 4.0f}) {
      Setting setting;
      setting.sampling.temperature = temperature;
      setting.sampling.seed = 0x9e3779b97f4a7c15u * (settings.size() + 1);
      change(setting);
      settings.push_back(setting);
    }
  };
  const auto vocabulary = static_cast<int32_t>(kit.vocabulary());
  const std::vector<int32_t> ids = kit.Tokens(71, 24);
  const auto add_history = [&](Setting& setting) {
    std::vector<int32_t> unique(ids);
    std::sort(unique.begin(), unique.end());
    unique.erase(std::unique(unique.begin(), unique.end()), unique.end());
    for (const int32_t id : unique) setting.history.push_back({id, 1 + id % 5, id % 3});
    for (ls_token_count& count : setting.history) {
      count.generated = std::min(count.generated, count.total);
    }
  };
  const auto add_bias = [&](Setting& setting) {
    for (int32_t id = 0; id < vocabulary; id += 3) {
      setting.bias.push_back({id, id % 2 == 0 ? -kInfinity : 0.5f * static_cast<float>(id % 7)});
    }
  };
  add([](Setting&) {});
  add([](Setting& s) { s.sampling.seed = 0; });
  add([](Setting& s) { s.sampling.seed = UINT64_MAX; });
  // Logits divided by these overflow f32.
  for (const float tiny : {1e-40f, std::numeric_limits<float>::denorm_min()}) {
    add([=](Setting& s) { s.sampling.temperature = tiny; });
    add([=](Setting& s) { s.sampling.temperature = tiny, s.sampling.top_k = 7; });
  }
  for (const int32_t k : {1, 2, 7, vocabulary, vocabulary + 5}) {
    add([=](Setting& s) { s.sampling.top_k = k; });
  }
  for (const float p : {1e-6f, 0.2f, 0.6f, 0.95f}) add([=](Setting& s) { s.sampling.top_p = p; });
  for (const float p : {1e-4f, 0.05f, 0.5f, 1.0f}) add([=](Setting& s) { s.sampling.min_p = p; });
  add([&](Setting& s) { add_history(s), s.sampling.repetition_penalty = 1.7f; });
  add([&](Setting& s) { add_history(s), s.sampling.repetition_penalty = 0.6f; });
  add([&](Setting& s) { add_history(s), s.sampling.presence_penalty = 1.5f; });
  add([&](Setting& s) { add_history(s), s.sampling.frequency_penalty = -0.9f; });
  add([&](Setting& s) { add_bias(s); });
  const auto add_all = [&](Setting& s) {
    add_history(s), add_bias(s);
    s.sampling.repetition_penalty = 1.2f;
    s.sampling.presence_penalty = 0.4f;
    s.sampling.frequency_penalty = 0.3f;
    s.sampling.top_k = 20;
    s.sampling.top_p = 0.9f;
    s.sampling.min_p = 0.02f;
  };
  add(add_all);
  if (kit.Has(LS_CAP_ALLOWED_TOKENS)) {
    // add_bias bans every sixth token from 0 on, so token 1 can be drawn from each of these masks.
    const auto some = MaskOf(kit, [](int32_t token) { return token % 5 < 2; });
    const auto few = MaskOf(kit, [](int32_t token) { return token % 29 == 1; });
    add([&](Setting& s) { s.allowed = some; });
    add([&](Setting& s) { s.allowed = few, s.sampling.top_p = 0.6f; });
    add([&](Setting& s) { add_all(s), s.allowed = some; });
  }
  return settings;
}

void AgainstReference(const Kit& kit, Check& check) {
  Model model = kit.Open();
  std::vector<Setting> settings = Settings(kit);
  constexpr size_t kSequences = 4;
  constexpr size_t kRounds = 2;
  const size_t steps = kRounds * (settings.size() + kSequences - 1) / kSequences + 1;
  if (kit.grid() + steps > kit.context_limit())
    throw CheckNotApplicable{"the context is too short"};
  std::vector<Sequence> sequences;
  for (size_t i = 0; i < kSequences; ++i) {
    sequences.push_back(model.Create(kit.grid() + steps));
    model.Step(Prefill(sequences.back(), kit.Tokens(72 + i, kit.grid())));
  }
  int distinct_from_greedy = 0;
  std::vector<int32_t> next(kSequences, 0);
  for (size_t begin = 0; begin < kRounds * settings.size(); begin += kSequences) {
    std::vector<Entry> entries;
    for (size_t i = 0; i < kSequences; ++i) {
      entries.push_back(Decode(sequences[i], next[i]));
      entries.back().sampling = settings[(begin + i) % settings.size()].get();
    }
    const std::vector<Output> outputs = model.Step(entries);
    for (size_t i = 0; i < kSequences; ++i) {
      check.Require(outputs[i].code == LS_OK, outputs[i].message);
      const std::vector<float>& logits = outputs[i].logits;
      const int32_t expected =
          ReferenceSample(logits, *entries[i].sampling, sequences[i].position());
      check.Expect(outputs[i].sampled == expected,
                   "setting " + std::to_string((begin + i) % settings.size()) + ": sampled " +
                       std::to_string(outputs[i].sampled) + ", the reference op " +
                       std::to_string(expected));
      const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
      distinct_from_greedy += expected != best ? 1 : 0;
      next[i] = std::max(0, outputs[i].sampled);
    }
  }
  check.Expect(distinct_from_greedy > 0, "every setting chose the argmax: nothing was tested");
}

// A sampled token depends on the seed and the position, not on whether logits are requested too.
void SeedAndPosition(const Kit& kit, Check& check) {
  Model model = kit.Open();
  const std::vector<int32_t> tokens = kit.Tokens(76, kit.grid());
  const auto sample = [&](uint64_t seed, bool logits) {
    ls_sampling sampling = Greedy();
    sampling.temperature = 5.0f;
    sampling.seed = seed;
    Sequence sequence = model.Create(kit.grid());
    Entry entry = Prefill(sequence, tokens);
    entry.sampling = &sampling;
    entry.logit_rows = logits ? LS_ROWS_LAST : LS_ROWS_NONE;
    return model.Step(entry).sampled;
  };
  int distinct = 0;
  for (uint64_t seed = 0; seed < 16; ++seed) {
    const int32_t token = sample(seed, false);
    check.Expect(token == sample(seed, true), "a token depends on whether logits are wanted");
    distinct += token != sample(seed + 1, false) ? 1 : 0;
  }
  check.Expect(distinct > 0, "16 seeds gave one token");
}

// Tokens that are drawn with a mask are allowed, in a prefill and in decode steps. The batch also
// has entries without a mask, and a mask that allows every token draws the same token as no mask.
void AllowedTokens(const Kit& kit, Check& check) {
  kit.Need(LS_CAP_ALLOWED_TOKENS, "allowed tokens");
  Model model = kit.Open();
  const int32_t last = static_cast<int32_t>(kit.vocabulary()) - 1;
  Setting few, only_last, every, plain;
  few.allowed = MaskOf(kit, [](int32_t token) { return token % 7 == 0; });
  only_last.allowed = MaskOf(kit, [=](int32_t token) { return token == last; });
  every.allowed = MaskOf(kit, [](int32_t) { return true; });
  Setting* const settings[] = {&few, &plain, &only_last, &every};
  constexpr uint32_t kSteps = 8;
  const std::vector<int32_t> tokens = kit.Tokens(79, kit.grid() + kSteps);
  std::vector<Sequence> sequences;
  for (size_t i = 0; i < 4; ++i) sequences.push_back(model.Create(tokens.size()));
  for (uint32_t step = 0; step < kSteps; ++step) {
    std::vector<Entry> entries;
    for (size_t i = 0; i < 4; ++i) {
      entries.push_back(step == 0 ? Prefill(sequences[i], Part(tokens, 0, kit.grid()))
                                  : Decode(sequences[i], tokens[kit.grid() + step - 1]));
      settings[i]->sampling.temperature = step % 2 == 0 ? 3.0f : 0.0f;
      settings[i]->sampling.seed = step;
      entries.back().sampling = settings[i]->get();
    }
    const std::vector<Output> outputs = model.Step(entries);
    for (const Output& output : outputs) check.Require(output.code == LS_OK, output.message);
    const std::string where = "step " + std::to_string(step) + ": ";
    check.Expect(outputs[0].sampled >= 0 && outputs[0].sampled % 7 == 0,
                 where + "token " + std::to_string(outputs[0].sampled) + " is not allowed");
    check.Expect(outputs[2].sampled == last, where + "token " + std::to_string(outputs[2].sampled) +
                                                 ", allowed is only " + std::to_string(last));
    check.Expect(outputs[3].sampled == outputs[1].sampled,
                 where + "a mask of all tokens draws another token than no mask");
  }

  // If no token is allowed, the sequence fails, and the others stand.
  const int32_t next = tokens[kit.grid() + kSteps - 1];
  few.allowed = MaskOf(kit, [](int32_t) { return false; });
  std::vector<Entry> entries = {Decode(sequences[0], next), Decode(sequences[1], next)};
  entries[0].sampling = few.get();
  const std::vector<Output> outputs = model.Step(entries);
  ExpectCode(check, "no token is allowed", LS_INVALID_ARGUMENT, outputs[0].code);
  ExpectCode(check, "the other sequence", LS_OK, outputs[1].code);
}

// submit has read the masks when it returns. Two steps in flight have different masks.
void AllowedTokensInFlight(const Kit& kit, Check& check) {
  kit.Need(LS_CAP_ALLOWED_TOKENS, "allowed tokens");
  Model model = kit.Open();
  Sequence sequence = model.Create(kit.grid() + 6);
  const std::vector<int32_t> tokens = kit.Tokens(80, kit.grid() + 6);
  model.Step(Prefill(sequence, Part(tokens, 0, kit.grid())));
  std::vector<std::vector<Entry>> entries;
  std::vector<uint64_t> tickets;
  const auto expect_drawn = [&](size_t step) {
    const int32_t expected = tokens[step];
    const Output output = model.Wait(tickets[step], entries[step]).front();
    check.Require(output.code == LS_OK, output.message);
    check.Expect(output.sampled == expected, "step " + std::to_string(step) + ": token " +
                                                 std::to_string(output.sampled) +
                                                 ", allowed is only " + std::to_string(expected));
  };
  for (size_t step = 0; step < 6; ++step) {
    Setting setting;
    setting.allowed = MaskOf(kit, [&](int32_t token) { return token == tokens[step]; });
    entries.push_back({Decode(sequence, tokens[kit.grid() + step])});
    entries.back().front().sampling = setting.get();
    tickets.push_back(model.Submit(entries.back()));
    std::fill(setting.allowed.begin(), setting.allowed.end(), 0);
    if (step > 0) expect_drawn(step - 1);
  }
  expect_drawn(5);
}

// A host of an earlier minor version gives a shorter structure. Nothing behind struct_size may be
// read: here, a mask that allows no token.
void SamplingOfOlderHosts(const Kit& kit, Check& check) {
  Model model = kit.Open();
  const std::vector<int32_t> tokens = kit.Tokens(85, kit.grid());
  const std::vector<uint32_t> none = MaskOf(kit, [](int32_t) { return false; });
  const auto sample = [&](ls_sampling sampling) {
    Sequence sequence = model.Create(kit.grid());
    Entry entry = Prefill(sequence, tokens);
    entry.sampling = &sampling;
    return model.Step(entry).sampled;
  };
  const int32_t expected = sample(Greedy());
  for (const size_t size : {LS_SAMPLING_SIZE_1_0, offsetof(ls_sampling, allowed)}) {
    ls_sampling sampling = Greedy();
    sampling.struct_size = static_cast<uint32_t>(size);
    sampling.allowed = none.data();
    check.Expect(sample(sampling) == expected,
                 "a struct_size of " + std::to_string(size) + " draws another token");
  }
}

double LogSumExp(const float* logits, size_t size) {
  const double largest = *std::max_element(logits, logits + size);
  return largest + std::log(std::accumulate(logits, logits + size, 0.0, [&](double sum, float z) {
           return sum + std::exp(double{z} - largest);
         }));
}

// Compares one row's log-probabilities with its logits. Sums of f32 in another order differ by up
// to 1e-4 nats.
void ExpectLogProbs(Check& check, const std::string& where, const std::vector<float>& logits,
                    int32_t target, float log_prob, const ls_top_token* top, uint32_t num_top) {
  constexpr double kTolerance = 1e-4;
  const double log_sum = LogSumExp(logits.data(), logits.size());
  const auto expected = [&](int32_t id) { return logits[static_cast<size_t>(id)] - log_sum; };
  if (target < 0) {
    check.Expect(std::isnan(log_prob), where + "no target: expected NaN");
  } else {
    check.Expect(std::abs(log_prob - expected(target)) <= kTolerance,
                 where + "target " + std::to_string(target) + ": " + Text(log_prob) +
                     ", expected " + Text(expected(target)));
  }
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  for (uint32_t i = 0; i < num_top; ++i) {
    check.Expect(
        top[i].token == order[i] && std::abs(top[i].log_prob - expected(order[i])) <= kTolerance,
        where + "top " + std::to_string(i) + ": token " + std::to_string(top[i].token) +
            ", expected " + std::to_string(order[i]));
  }
}

void LogProbsOfLastRow(const Kit& kit, Check& check) {
  Model model = kit.Open();
  Sequence sequence = model.Create(kit.prompt() + 8);
  const std::vector<int32_t> tokens = kit.Tokens(77, kit.prompt() + 8);
  ls_sampling sampling = Greedy();
  sampling.temperature = 1.0f;
  const uint32_t most = std::min<uint32_t>(LS_MAX_TOP, kit.vocabulary());
  for (uint32_t i = 0; i < 8; ++i) {
    Entry entry = i == 0 ? Prefill(sequence, Part(tokens, 0, kit.prompt()))
                         : Decode(sequence, tokens[kit.prompt() + i]);
    entry.log_prob_rows = LS_ROWS_LAST;
    entry.num_top = i % 2 == 0 ? most : std::min(i, most);
    if (i >= 2) entry.sampling = &sampling;
    if (i % 4 == 1) entry.targets = {tokens[i]};
    if (i % 4 == 3) entry.targets = {-1};
    const Output output = model.Step(entry);
    check.Require(output.log_probs.size() == 1, "one row was asked for");
    const int32_t target = entry.targets.empty() ? output.sampled : entry.targets.front();
    ExpectLogProbs(check, "step " + std::to_string(i) + ": ", output.logits, target,
                   output.log_probs.front(), output.top.data(), entry.num_top);
  }
}

void ScoreAllRows(const Kit& kit, Check& check) {
  kit.Need(LS_CAP_SCORE, "score");
  Model model = kit.Open();
  const uint32_t rows = kit.prompt();
  Sequence sequence = model.Create(rows);
  const std::vector<int32_t> tokens = kit.Tokens(78, rows + 1);
  Entry entry = Prefill(sequence, {tokens.begin(), tokens.end() - 1});
  entry.targets.assign(tokens.begin() + 1, tokens.end());
  entry.targets[rows / 2] = -1;
  entry.log_prob_rows = LS_ROWS_ALL;
  entry.logit_rows = LS_ROWS_ALL;
  entry.num_top = 3 < kit.vocabulary() ? 3 : 1;
  const Output output = model.Step(entry);
  check.Require(output.log_probs.size() == rows && output.logits.size() == rows * kit.vocabulary(),
                "expected " + std::to_string(rows) + " rows");
  for (uint32_t row = 0; row < rows; ++row) {
    const float* logits = output.logits.data() + size_t{row} * kit.vocabulary();
    ExpectLogProbs(check, "row " + std::to_string(row) + ": ", {logits, logits + kit.vocabulary()},
                   entry.targets[row], output.log_probs[row],
                   output.top.data() + row * entry.num_top, entry.num_top);
  }
  // A step that asks for the last row only must give the same last row.
  Sequence plain = model.Create(rows);
  const Output last = model.Step(Prefill(plain, entry.tokens));
  check.Expect(std::equal(last.logits.begin(), last.logits.end(),
                          output.logits.end() - static_cast<std::ptrdiff_t>(kit.vocabulary())),
               "the last row's logits depend on whether the others are wanted");
}

}  // namespace

Checks SamplingChecks() {
  return {
      {"sampling.against_reference", &AgainstReference},
      {"sampling.seed_and_position", &SeedAndPosition},
      {"sampling.allowed_tokens", &AllowedTokens},
      {"sampling.allowed_tokens_in_flight", &AllowedTokensInFlight},
      {"sampling.older_hosts", &SamplingOfOlderHosts},
      {"log_probs.last_row", &LogProbsOfLastRow},
      {"log_probs.all_rows", &ScoreAllRows},
  };
}

}  // namespace longstream::conformance
