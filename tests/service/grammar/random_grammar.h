// Random grammars, with a simple recogniser of their strings.
#ifndef LONGSTREAM_TESTS_SERVICE_GRAMMAR_RANDOM_GRAMMAR_H_
#define LONGSTREAM_TESTS_SERVICE_GRAMMAR_RANDOM_GRAMMAR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "service/grammar/grammar_builder.h"

namespace longstream {

// Rules over the letters a, b and c, with every kind of expression. Rules may call each other in
// any way, so that left recursion, rules without a string and ambiguous rules occur.
class RandomGrammar {
 public:
  explicit RandomGrammar(uint64_t seed);

  const GrammarBuilder& builder() const { return builder_; }
  GrammarBuilder::Rule start() const { return {0}; }

  // Whether the text is a string of the start rule, by definition: the sets of ends of each
  // expression from each place of the text are computed until they do not grow any more.
  bool Has(std::string_view text) const;
  // Whether a string of the start rule of at most `longest` bytes begins with the text.
  bool HasWithPrefix(std::string_view text, size_t longest) const;

  static constexpr std::string_view kLetters = "abc";

 private:
  // A copy of an expression that the recogniser reads.
  struct Tree {
    enum Kind { kLetter, kSequence, kChoice, kRepeat, kCall } kind = kLetter;
    std::string letters{};  // any one of them
    std::vector<Tree> parts{};
    uint32_t least = 0;
    uint32_t most = 0;  // kNoMost: without a limit
    uint32_t rule = 0;
  };
  static constexpr uint32_t kNoMost = 1000;
  using Ends = std::set<size_t>;
  // ends[rule][place]: where the strings of the rule that begin at the place end.
  using Table = std::vector<std::vector<Ends>>;

  Tree Draw(int depth);
  GrammarBuilder::Expression Add(const Tree& tree);
  static Ends EndsOf(const Tree& tree, std::string_view text, size_t place, const Table& table);

  std::mt19937_64 random_;
  std::vector<Tree> rules_;
  GrammarBuilder builder_;
};

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_SERVICE_GRAMMAR_RANDOM_GRAMMAR_H_
