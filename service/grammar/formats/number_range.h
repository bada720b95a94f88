// Numbers between bounds.
#ifndef LONGSTREAM_SERVICE_GRAMMAR_FORMATS_NUMBER_RANGE_H_
#define LONGSTREAM_SERVICE_GRAMMAR_FORMATS_NUMBER_RANGE_H_

#include <optional>

#include "service/grammar/formats/decimal.h"
#include "service/grammar/grammar_builder.h"

namespace longstream {

struct Bound {
  Decimal value;
  bool is_exclusive = false;
};

struct NumberRange {
  std::optional<Bound> low;
  std::optional<Bound> high;

  bool Contains(const Decimal& value) const;
};

// The whole numbers of a range, without an exponent, without leading zeros and without -0.
// nullopt: there is none.
std::optional<GrammarBuilder::Expression> AddIntegers(GrammarBuilder& builder,
                                                      const NumberRange& range);

// The numbers of a range, with or without a fraction. Fractions may end in zeros. With a bound,
// numbers have no exponent and there is no -0. Without bounds, exponents have at most two digits.
// nullopt: there is none.
std::optional<GrammarBuilder::Expression> AddNumbers(GrammarBuilder& builder,
                                                     const NumberRange& range);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_GRAMMAR_FORMATS_NUMBER_RANGE_H_
