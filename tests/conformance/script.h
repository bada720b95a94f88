// Scripts of tokens for sequences, and comparisons of the outputs of two runs.
#ifndef LONGSTREAM_TESTS_CONFORMANCE_SCRIPT_H_
#define LONGSTREAM_TESTS_CONFORMANCE_SCRIPT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/conformance/kit.h"
#include "tests/conformance/model.h"

namespace longstream::conformance {

// Tokens for one step.
struct Piece {
  std::vector<int32_t> tokens;
  bool is_decode = false;
};

// The pieces of one sequence from position 0. Every step samples, and asks for the logits of the
// last row and for the most probable tokens.
struct Script {
  std::vector<Piece> pieces;
  uint64_t seed = 0;  // of sampling

  uint64_t num_tokens() const;
};

// Appends tokens[begin, end) as pieces of a prefill, cut at the absolute positions `cuts`,
// ascending.
void AddPrefill(Script& script, const std::vector<int32_t>& tokens, size_t begin, size_t end,
                const std::vector<size_t>& cuts = {});
// Appends tokens[begin, end) as decode steps.
void AddDecode(Script& script, const std::vector<int32_t>& tokens, size_t begin, size_t end);
// Every `every`-th grid line between `begin` and `end`.
std::vector<size_t> GridLines(const Kit& kit, size_t begin, size_t end, size_t every = 1);

// One output per piece.
using Trace = std::vector<Output>;

// Feeds pieces [first, last) to a sequence that is at their first position, alone in its batches.
Trace Run(Sequence& sequence, const Script& script, size_t first = 0, size_t last = SIZE_MAX);
// Feeds the whole script to a new sequence.
Trace RunAlone(Model& model, const Script& script);

// Chooses the scripts for the next batch, in order, from those that are not done (never empty).
using Choose = std::function<std::vector<size_t>(const std::vector<size_t>& ready)>;

// Runs all scripts together, each on a new sequence. Returns one trace per script.
std::vector<Trace> RunTogether(Model& model, const std::vector<Script>& scripts,
                               const Choose& choose);

// Submits each entry before it waits for the one before, so that two tickets are in flight. Calls
// after_submit(i) behind entry i.
Trace RunInFlight(Model& model, const std::vector<Entry>& entries,
                  const std::function<void(size_t i)>& after_submit = {});

// The outputs from `first` on.
Trace Tail(const Trace& trace, size_t first);

// Note a failure if a bit differs: with `where`, and the place and size of the first difference.
void ExpectSame(Check& check, const std::string& where, const Output& expected,
                const Output& found);
void ExpectSame(Check& check, const std::string& where, const Trace& expected, const Trace& found);

// A number for people, also if it is very small.
std::string Text(double number);

// The largest |a - b| over all rows, in standard deviations of that row of `a`. a, b: [rows, row].
// Infinity if a number is NaN or the sizes differ.
double RelativeDifference(const std::vector<float>& a, const std::vector<float>& b, size_t row);

}  // namespace longstream::conformance

#endif  // LONGSTREAM_TESTS_CONFORMANCE_SCRIPT_H_
