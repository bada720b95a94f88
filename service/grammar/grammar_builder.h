// Builds a grammar from expressions.
#ifndef LONGSTREAM_SERVICE_GRAMMAR_GRAMMAR_BUILDER_H_
#define LONGSTREAM_SERVICE_GRAMMAR_GRAMMAR_BUILDER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/grammar/grammar.h"
#include "service/grammar/utf8_ranges.h"

namespace longstream {

// The size of a grammar, in states before and in nodes after it is made deterministic.
struct GrammarLimits {
  size_t states = 400'000;
  size_t nodes = 100'000;
};

// An expression stands for a set of byte strings. Expressions are values: one of them may occur in
// several others. A rule gives an expression a name, so that expressions can be recursive, and is
// compiled once, wherever it is called.
//
// Not thread-safe. A builder never fails before Build. An expression costs memory in proportion to
// its operands, not to the strings that it stands for.
class GrammarBuilder {
 public:
  struct Expression {
    uint32_t index = 0;
  };
  struct Rule {
    uint32_t index = 0;
  };

  // Matches the empty string.
  Expression Empty();
  // Matches nothing: no string fits a sequence with it.
  Expression Nothing() { return Choice({}); }
  // Matches exactly these bytes.
  Expression Literal(std::string_view bytes);
  // Matches one character of the ranges, in UTF-8. Ignores surrogates and values above 0x10ffff.
  Expression Character(absl::Span<const CodePoints> ranges);
  // Matches one character that is in no range.
  Expression CharacterExcept(absl::Span<const CodePoints> ranges);
  Expression Sequence(absl::Span<const Expression> parts);
  Expression Choice(absl::Span<const Expression> options);
  // Matches `least` to `most` strings of `part`, one after the other. nullopt: without a limit.
  // REQUIRES: least <= most.
  Expression Repeat(Expression part, uint32_t least, std::optional<uint32_t> most);
  Expression Optional(Expression part) { return Repeat(part, 0, 1); }

  // A rule without an expression. Define it before Build, once.
  Rule Declare();
  void Define(Rule rule, Expression expression);
  // Matches a string of the rule.
  Expression Call(Rule rule);
  // Declares a rule, defines it and calls it.
  Expression Named(Expression expression);

  // The strings of `start`. INVALID_ARGUMENT: the grammar needs more states than the limits allow,
  // or no string fits it. REQUIRES: every declared rule is defined.
  absl::StatusOr<Grammar> Build(Rule start, const GrammarLimits& limits = {}) const;

 private:
  enum class Kind : uint8_t { kLiteral, kCharacter, kSequence, kChoice, kRepeat, kCall };
  struct Part {
    Kind kind = Kind::kSequence;
    size_t begin = 0;    // of the operands in their array
    size_t end = 0;      // of the operands
    uint32_t least = 0;  // of a repetition; of a call: the rule
    std::optional<uint32_t> most = std::nullopt;
  };
  friend class RuleStates;  // writes the expressions as states

  Expression Add(Part part);
  Expression AddOperands(Kind kind, absl::Span<const Expression> operands);

  std::vector<Part> parts_;
  std::vector<uint8_t> bytes_;          // operands of kLiteral
  std::vector<CodePoints> characters_;  // operands of kCharacter, normalized
  std::vector<Expression> operands_;    // of the other kinds
  std::vector<std::optional<Expression>> rules_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_GRAMMAR_GRAMMAR_BUILDER_H_
