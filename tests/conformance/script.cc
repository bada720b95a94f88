// Runs scripts and compares their traces.
#include "tests/conformance/script.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <numeric>

namespace longstream::conformance {
namespace {

bool SameBits(const void* a, const void* b, size_t size) {
  return size == 0 || std::memcmp(a, b, size) == 0;
}

ls_sampling Sampled(uint64_t seed) {
  ls_sampling sampling = Greedy();
  sampling.temperature = 1.0f;
  sampling.seed = seed;
  return sampling;
}

Entry EntryFor(Sequence& sequence, const Piece& piece, const ls_sampling& sampling) {
  Entry entry = Prefill(sequence, piece.tokens);
  entry.is_decode = piece.is_decode;
  entry.sampling = &sampling;
  entry.log_prob_rows = LS_ROWS_LAST;
  entry.num_top = 2;
  return entry;
}

// Returns "" if all bits are equal, otherwise the place and size of the first difference.
std::string Difference(const Output& expected, const Output& found) {
  if (expected.code != found.code) return NameOf(found.code) + " " + found.message;
  if (expected.logits.size() != found.logits.size()) return "another number of logits";
  for (size_t i = 0; i < expected.logits.size(); ++i) {
    if (!SameBits(&expected.logits[i], &found.logits[i], sizeof(float))) {
      return "logit " + std::to_string(i) + " is " + std::to_string(found.logits[i]) + ", off by " +
             std::to_string(found.logits[i] - expected.logits[i]);
    }
  }
  if (expected.sampled != found.sampled) {
    return "sampled " + std::to_string(found.sampled) + ", not " + std::to_string(expected.sampled);
  }
  if (expected.log_probs.size() != found.log_probs.size() ||
      !SameBits(expected.log_probs.data(), found.log_probs.data(),
                expected.log_probs.size() * sizeof(float))) {
    return "log-probabilities differ";
  }
  if (expected.top.size() != found.top.size() ||
      !SameBits(expected.top.data(), found.top.data(),
                expected.top.size() * sizeof(ls_top_token))) {
    return "the most probable tokens differ";
  }
  return "";
}

}  // namespace

uint64_t Script::num_tokens() const {
  return std::accumulate(
      pieces.begin(), pieces.end(), uint64_t{0},
      [](uint64_t sum, const Piece& piece) { return sum + piece.tokens.size(); });
}

void AddPrefill(Script& script, const std::vector<int32_t>& tokens, size_t begin, size_t end,
                const std::vector<size_t>& cuts) {
  size_t from = begin;
  for (size_t i = 0; i <= cuts.size() && from < end; ++i) {
    const size_t to = i < cuts.size() ? std::min(cuts[i], end) : end;
    if (to <= from) continue;
    script.pieces.push_back({Part(tokens, from, to), false});
    from = to;
  }
}

void AddDecode(Script& script, const std::vector<int32_t>& tokens, size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i) script.pieces.push_back({{tokens[i]}, true});
}

std::vector<size_t> GridLines(const Kit& kit, size_t begin, size_t end, size_t every) {
  std::vector<size_t> lines;
  for (size_t line = (begin / kit.grid() + 1) * kit.grid(); line < end;
       line += every * kit.grid()) {
    lines.push_back(line);
  }
  return lines;
}

Trace Run(Sequence& sequence, const Script& script, size_t first, size_t last) {
  const ls_sampling sampling = Sampled(script.seed);
  Trace trace;
  for (size_t i = first; i < std::min(last, script.pieces.size()); ++i) {
    trace.push_back(sequence.model().Step(EntryFor(sequence, script.pieces[i], sampling)));
  }
  return trace;
}

Trace RunAlone(Model& model, const Script& script) {
  Sequence sequence = model.Create(script.num_tokens());
  return Run(sequence, script);
}

Trace RunInFlight(Model& model, const std::vector<Entry>& entries,
                  const std::function<void(size_t i)>& after_submit) {
  Trace trace;
  uint64_t ticket_before = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    const uint64_t ticket = model.Submit({entries[i]});
    if (after_submit) after_submit(i);
    if (i > 0) trace.push_back(model.Wait(ticket_before, {entries[i - 1]}).front());
    ticket_before = ticket;
  }
  trace.push_back(model.Wait(ticket_before, {entries.back()}).front());
  return trace;
}

Trace Tail(const Trace& trace, size_t first) {
  return {trace.begin() + static_cast<std::ptrdiff_t>(first), trace.end()};
}

std::vector<Trace> RunTogether(Model& model, const std::vector<Script>& scripts,
                               const Choose& choose) {
  std::vector<Sequence> sequences;
  std::vector<ls_sampling> sampling;
  for (const Script& script : scripts) {
    sequences.push_back(model.Create(script.num_tokens()));
    sampling.push_back(Sampled(script.seed));
  }
  std::vector<Trace> traces(scripts.size());
  while (true) {
    std::vector<size_t> ready;
    for (size_t i = 0; i < scripts.size(); ++i) {
      if (traces[i].size() < scripts[i].pieces.size()) ready.push_back(i);
    }
    if (ready.empty()) return traces;
    const std::vector<size_t> chosen = choose(ready);
    std::vector<Entry> entries;
    entries.reserve(chosen.size());
    for (const size_t i : chosen) {
      entries.push_back(EntryFor(sequences[i], scripts[i].pieces[traces[i].size()], sampling[i]));
    }
    std::vector<Output> outputs = model.Step(entries);
    for (size_t i = 0; i < chosen.size(); ++i) {
      if (outputs[i].code != LS_OK) throw CheckFailed{"step: " + outputs[i].message};
      traces[chosen[i]].push_back(std::move(outputs[i]));
    }
  }
}

std::string Text(double number) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.6g", number);
  return text;
}

void ExpectSame(Check& check, const std::string& where, const Output& expected,
                const Output& found) {
  const std::string difference = Difference(expected, found);
  check.Expect(difference.empty(), where + ": " + difference);
}

void ExpectSame(Check& check, const std::string& where, const Trace& expected, const Trace& found) {
  if (!check.Expect(expected.size() == found.size(), where + ": another number of steps")) return;
  for (size_t i = 0; i < expected.size(); ++i) {
    const std::string difference = Difference(expected[i], found[i]);
    const std::string step = where + ": step " + std::to_string(i) + ": ";
    if (!check.Expect(difference.empty(), step + difference)) return;
  }
}

double Deviation(const float* row, size_t size) {
  double sum = 0.0;
  double sum_of_squares = 0.0;
  for (size_t i = 0; i < size; ++i) {
    sum += row[i];
    sum_of_squares += double{row[i]} * row[i];
  }
  const double mean = sum / static_cast<double>(size);
  return std::sqrt(std::max(0.0, sum_of_squares / static_cast<double>(size) - mean * mean));
}

double RelativeDifference(const std::vector<float>& a, const std::vector<float>& b, size_t row) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double largest = 0.0;
  for (size_t begin = 0; begin < a.size(); begin += row) {
    double difference = 0.0;
    for (size_t i = begin; i < begin + row; ++i) {
      const double here = std::abs(double{a[i]} - b[i]);
      difference = here <= difference ? difference : here;  // a NaN in `here` stays
    }
    const double relative = difference == 0.0 ? 0.0 : difference / Deviation(&a[begin], row);
    if (!(relative <= std::numeric_limits<double>::max())) {
      return std::numeric_limits<double>::infinity();
    }
    largest = std::max(largest, relative);
  }
  return largest;
}

double TypicalDifference(const std::vector<float>& a, const std::vector<float>& b, size_t row) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double sum = 0.0;
  for (size_t begin = 0; begin < a.size(); begin += row) {
    double squares = 0.0;
    for (size_t i = begin; i < begin + row; ++i) {
      const double here = double{a[i]} - b[i];
      squares += here * here;
    }
    const double deviation = Deviation(&a[begin], row);
    if (squares != 0.0) sum += squares / (deviation * deviation);
  }
  const double typical = std::sqrt(sum / static_cast<double>(std::max<size_t>(a.size(), 1)));
  return typical <= std::numeric_limits<double>::max() ? typical
                                                       : std::numeric_limits<double>::infinity();
}

}  // namespace longstream::conformance
