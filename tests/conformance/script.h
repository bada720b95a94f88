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

// The tokens that a sequence feeds in one step.
struct Piece {
  std::vector<int32_t> tokens;
  bool is_decode = false;
};

// The pieces of one sequence, from position 0 on. Every step samples a token and asks for the
// logits of the last row and for the most probable tokens.
struct Script {
  std::vector<Piece> pieces;
  uint64_t seed = 0;  // the seed of sampling

  uint64_t num_tokens() const;
};

// Appends tokens[begin, end) as pieces of a prefill. `cuts` are absolute positions in ascending
// order.
void AddPrefill(Script& script, const std::vector<int32_t>& tokens, size_t begin, size_t end,
                const std::vector<size_t>& cuts = {});
// Appends tokens[begin, end) as decode steps.
void AddDecode(Script& script, const std::vector<int32_t>& tokens, size_t begin, size_t end);
// Returns every `every`-th grid line between `begin` and `end`.
std::vector<size_t> GridLines(const Kit& kit, size_t begin, size_t end, size_t every = 1);

// One output per piece.
using Trace = std::vector<Output>;

// Feeds pieces [first, last) to a sequence whose position is the beginning of the first piece. Each
// batch has only this sequence.
Trace Run(Sequence& sequence, const Script& script, size_t first = 0, size_t last = SIZE_MAX);
// Feeds the whole script to a new sequence.
Trace RunAlone(Model& model, const Script& script);

// Chooses the scripts of the next batch, in order, from the unfinished ones (at least one).
using Choose = std::function<std::vector<size_t>(const std::vector<size_t>& ready)>;

// Runs all scripts together, each on a new sequence. Returns one trace per script.
std::vector<Trace> RunTogether(Model& model, const std::vector<Script>& scripts,
                               const Choose& choose);

// Submits each entry before it waits for the previous entry, so that two tickets are in flight.
// Calls after_submit(i) after it has submitted entry i.
Trace RunInFlight(Model& model, const std::vector<Entry>& entries,
                  const std::function<void(size_t i)>& after_submit = {});

// Returns the outputs of the trace from index `first` on.
Trace Tail(const Trace& trace, size_t first);

// Report a failure if any bit differs. The message has `where`, and the place and the size of the
// first difference.
void ExpectSame(Check& check, const std::string& where, const Output& expected,
                const Output& found);
void ExpectSame(Check& check, const std::string& where, const Trace& expected, const Trace& found);

// Returns a number as text for people, even if the number is very small.
std::string Text(double number);

// The standard deviation of a row's numbers. NaN or infinity if a number is.
double Deviation(const float* row, size_t size);

// Returns the largest |a - b| over all rows, in standard deviations of the row of `a`. a and b have
// rows of `row` numbers. Returns infinity if a number is NaN or the sizes differ.
double RelativeDifference(const std::vector<float>& a, const std::vector<float>& b, size_t row);

// Returns the root of the mean of (a - b)² over all rows, in standard deviations of each row of
// `a`; the rest as RelativeDifference.
double TypicalDifference(const std::vector<float>& a, const std::vector<float>& b, size_t row);

}  // namespace longstream::conformance

#endif  // LONGSTREAM_TESTS_CONFORMANCE_SCRIPT_H_
