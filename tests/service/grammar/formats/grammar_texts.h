// Texts of a grammar, for the tests of formats.
#ifndef LONGSTREAM_TESTS_SERVICE_GRAMMAR_FORMATS_GRAMMAR_TEXTS_H_
#define LONGSTREAM_TESTS_SERVICE_GRAMMAR_FORMATS_GRAMMAR_TEXTS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "service/grammar/grammar.h"
#include "service/grammar/grammar_builder.h"

namespace longstream {

using Random = std::mt19937;

// A number in [0, limit).
inline size_t Draw(Random& random, size_t limit) { return random() % limit; }

// Builds the grammar of an expression that `add` adds.
absl::StatusOr<Grammar> BuildFormat(
    const std::function<absl::StatusOr<GrammarBuilder::Expression>(GrammarBuilder&)>& add);

// The error of `add`, or of the building; empty: none. It must be INVALID_ARGUMENT.
std::string ErrorOf(
    const std::function<absl::StatusOr<GrammarBuilder::Expression>(GrammarBuilder&)>& add);

// Whether the text is complete.
bool Fits(const Grammar& grammar, std::string_view text);
// Whether it is, or the text has more readings than a matcher follows.
bool FitsOrOverflows(const Grammar& grammar, std::string_view text);

// Makes random texts by walks through the nodes of a grammar.
class GrammarWalker {
 public:
  explicit GrammarWalker(const Grammar& grammar);

  // After about `bytes` bytes, the walk takes the shortest way to the end.
  std::string Walk(Random& random, size_t bytes) const;

 private:
  static constexpr size_t kFar = 1'000'000'000;

  void WalkRule(uint32_t rule, Random& random, size_t bytes, int depth, std::string* text) const;
  size_t CostOf(Grammar::Node node) const;

  const Grammar& grammar_;
  std::vector<size_t> costs_;  // [nodes] bytes to the end of the rule, at least
};

// A text with a few changed, removed or added bytes.
std::string Mutated(Random& random, std::string text);

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_SERVICE_GRAMMAR_FORMATS_GRAMMAR_TEXTS_H_
