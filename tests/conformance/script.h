// What a sequence is fed, piece by piece, and how the outcomes of two runs are compared.
#ifndef LONGSTREAM_TESTS_CONFORMANCE_SCRIPT_H_
#define LONGSTREAM_TESTS_CONFORMANCE_SCRIPT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/conformance/kit.h"
#include "tests/conformance/model.h"

namespace longstream::conformance {

// Tokens that are fed in one step.
struct Piece {
  std::vector<int32_t> tokens;
  bool is_decode = false;
};

// The pieces of one sequence from position 0. Every step samples and asks for the last logits, and
// for the most probable tokens.
struct Script {
  std::vector<Piece> pieces;
  uint64_t seed = 0;  // of sampling

  uint64_t num_tokens() const;
};

// Appends tokens[begin, end) as prefill pieces, cut at the given absolute positions, which rise.
void AddPrefill(Script& script, const std::vector<int32_t>& tokens, size_t begin, size_t end,
                const std::vector<size_t>& cuts = {});
// Appends tokens[begin, end) as decode steps.
void AddDecode(Script& script, const std::vector<int32_t>& tokens, size_t begin, size_t end);
// The grid lines between begin and end, every `every`-th of them.
std::vector<size_t> GridLines(const Kit& kit, size_t begin, size_t end, size_t every = 1);

// One output per piece.
using Trace = std::vector<Output>;

// Feeds pieces [first, last) to a sequence that stands where they begin, alone in its batches.
Trace Run(Sequence& sequence, const Script& script, size_t first = 0, size_t last = SIZE_MAX);
// A fresh sequence, the whole script.
Trace RunAlone(Model& model, const Script& script);

// Which of the scripts that are not done (`ready`, never empty) go into the next batch, in order.
using Choose = std::function<std::vector<size_t>(const std::vector<size_t>& ready)>;

// All scripts at once, each on a fresh sequence; one trace per script.
std::vector<Trace> RunTogether(Model& model, const std::vector<Script>& scripts,
                               const Choose& choose);

// "" where all bits are equal, else where the first difference is and how large.
std::string Difference(const Output& expected, const Output& found);
std::string Difference(const Trace& expected, const Trace& found);

// A number as people read it, however small.
std::string Text(double number);

// The largest |a - b| over all rows, in standard deviations of the row of `a`; infinity where one
// of them is not a number.
double RelativeDifference(const std::vector<float>& a, const std::vector<float>& b, size_t row);

}  // namespace longstream::conformance

#endif  // LONGSTREAM_TESTS_CONFORMANCE_SCRIPT_H_
