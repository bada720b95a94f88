// Numbers of a range are compared with its bounds digit by digit. As long as all digits are those
// of a bound, the next digit decides: it is the bound's again, or any other digit on the allowed
// side, after which all digits are free.
#include "service/grammar/formats/number_range.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace longstream {
namespace {

using Expression = GrammarBuilder::Expression;

// A bound of a number without its sign. Its digits after the point are zeros behind the last one.
struct Magnitude {
  std::string whole;
  std::string fraction;
  bool is_exclusive = false;

  size_t places() const { return fraction.size(); }
  char Digit(size_t place) const { return place < places() ? fraction[place] : '0'; }
};

class DigitsBuilder {
 public:
  explicit DigitsBuilder(GrammarBuilder& builder) : builder_(builder) {}

  // The whole numbers from `low` to `high`; nullopt: without a limit.
  Expression Whole(const std::string& low, const std::optional<std::string>& high);

  // The parts of numbers after their whole part: nothing, or a point and digits.
  Expression AnyFraction() { return builder_.Optional(Seq({Byte('.'), Plus(Any())})); }
  // ... at least `low`.
  Expression FractionFrom(const Magnitude& low);
  // ... at most `high`.
  Expression FractionTo(const Magnitude& high);
  // ... from `low` to `high`.
  Expression FractionBetween(const Magnitude& low, const Magnitude& high);

  Expression Seq(absl::Span<const Expression> parts) { return builder_.Sequence(parts); }
  Expression Byte(char c) { return builder_.Literal(std::string_view(&c, 1)); }
  Expression Text(std::string_view text) { return builder_.Literal(text); }

 private:
  // One of the digits; nothing, if first > last.
  Expression Range(char first, char last) {
    if (first > last) return builder_.Nothing();
    return builder_.Character({{static_cast<char32_t>(first), static_cast<char32_t>(last)}});
  }
  Expression Any() { return Range('0', '9'); }
  Expression Star(Expression part) { return builder_.Repeat(part, 0, std::nullopt); }
  Expression Plus(Expression part) { return builder_.Repeat(part, 1, std::nullopt); }
  // `count` digits.
  Expression Free(size_t count);

  // As many digits as `low` has, from `low` on, and so on.
  Expression SameLengthFrom(std::string_view low);
  Expression SameLengthTo(std::string_view high, char least_first);
  Expression SameLengthBetween(std::string_view low, std::string_view high);

  // The digits from a place on, if those before are equal to the bound's.
  Expression PlacesFrom(const Magnitude& low, size_t place);
  Expression PlacesTo(const Magnitude& high, size_t place);
  // The same where no digit need follow. The number then is equal to the bound, or below `high`.
  Expression RestTo(const Magnitude& high, size_t place) {
    const bool may_end = place < high.places() || !high.is_exclusive;
    const Expression digits = PlacesTo(high, place);
    return may_end ? builder_.Optional(digits) : digits;
  }

  GrammarBuilder& builder_;
  std::vector<Expression> free_;
};

Expression DigitsBuilder::Free(size_t count) {
  // Each position of a long bound needs the rest of the digits. So they share them as rules.
  constexpr size_t kMostInline = 24;
  if (count <= kMostInline) {
    return builder_.Repeat(Any(), static_cast<uint32_t>(count), static_cast<uint32_t>(count));
  }
  if (free_.empty()) free_.push_back(Free(kMostInline));
  while (free_.size() <= count - kMostInline) {
    free_.push_back(builder_.Named(Seq({Any(), free_.back()})));
  }
  return free_[count - kMostInline];
}

Expression DigitsBuilder::SameLengthFrom(std::string_view low) {
  Expression rest = builder_.Empty();
  for (size_t i = low.size(); i-- > 0;) {
    const auto more = static_cast<char>(low[i] + 1);
    rest = builder_.Choice(
        {Seq({Byte(low[i]), rest}), Seq({Range(more, '9'), Free(low.size() - i - 1)})});
  }
  return rest;
}

Expression DigitsBuilder::SameLengthTo(std::string_view high, char least_first) {
  Expression rest = builder_.Empty();
  for (size_t i = high.size(); i-- > 0;) {
    const auto less = static_cast<char>(high[i] - 1);
    rest = builder_.Choice(
        {Seq({Byte(high[i]), rest}),
         Seq({Range(i == 0 ? least_first : '0', less), Free(high.size() - i - 1)})});
  }
  return rest;
}

Expression DigitsBuilder::SameLengthBetween(std::string_view low, std::string_view high) {
  const auto differ = std::ranges::mismatch(low, high).in1;
  const auto same = static_cast<size_t>(differ - low.begin());
  if (same == low.size()) return Text(low);
  const std::string_view low_rest = low.substr(same + 1);
  const std::string_view high_rest = high.substr(same + 1);
  const auto more = static_cast<char>(low[same] + 1);
  const auto less = static_cast<char>(high[same] - 1);
  return Seq({Text(low.substr(0, same)),
              builder_.Choice({Seq({Byte(low[same]), SameLengthFrom(low_rest)}),
                               Seq({Range(more, less), Free(low_rest.size())}),
                               Seq({Byte(high[same]), SameLengthTo(high_rest, '0')})})});
}

Expression DigitsBuilder::Whole(const std::string& low, const std::optional<std::string>& high) {
  if (high.has_value() && CompareDigits(low, *high) > 0) return builder_.Nothing();
  if (low == "0") {
    if (high == "0") return Byte('0');
    return builder_.Choice({Byte('0'), Whole("1", high)});
  }
  if (high.has_value() && low.size() == high->size()) return SameLengthBetween(low, *high);
  std::vector<Expression> options = {SameLengthFrom(low)};
  const auto shortest = static_cast<uint32_t>(low.size());
  if (high.has_value()) {
    options.push_back(SameLengthTo(*high, '1'));
    const auto longest = static_cast<uint32_t>(high->size() - 2);
    if (longest >= shortest) {
      options.push_back(Seq({Range('1', '9'), builder_.Repeat(Any(), shortest, longest)}));
    }
  } else {
    options.push_back(Seq({Range('1', '9'), builder_.Repeat(Any(), shortest, std::nullopt)}));
  }
  return builder_.Choice(options);
}

Expression DigitsBuilder::PlacesFrom(const Magnitude& low, size_t place) {
  // Beyond its last place, the bound has zeros.
  Expression rest =
      low.is_exclusive ? Seq({Star(Byte('0')), Range('1', '9'), Star(Any())}) : Star(Any());
  for (size_t i = low.places(); i-- > place;) {
    const auto more = static_cast<char>(low.fraction[i] + 1);
    rest =
        builder_.Choice({Seq({Byte(low.fraction[i]), rest}), Seq({Range(more, '9'), Star(Any())})});
  }
  return rest;
}

Expression DigitsBuilder::PlacesTo(const Magnitude& high, size_t place) {
  Expression rest = high.is_exclusive ? builder_.Nothing() : Plus(Byte('0'));
  for (size_t i = high.places(); i-- > place;) {
    const auto less = static_cast<char>(high.fraction[i] - 1);
    const bool may_end = i + 1 < high.places() || !high.is_exclusive;
    const Expression equal = may_end ? builder_.Optional(rest) : rest;
    rest = builder_.Choice(
        {Seq({Byte(high.fraction[i]), equal}), Seq({Range('0', less), Star(Any())})});
  }
  return rest;
}

Expression DigitsBuilder::FractionFrom(const Magnitude& low) {
  if (low.places() == 0 && !low.is_exclusive) return AnyFraction();
  return Seq({Byte('.'), PlacesFrom(low, 0)});
}

Expression DigitsBuilder::FractionTo(const Magnitude& high) {
  const bool may_end = high.places() > 0 || !high.is_exclusive;
  if (!may_end) return builder_.Nothing();
  return builder_.Optional(Seq({Byte('.'), PlacesTo(high, 0)}));
}

Expression DigitsBuilder::FractionBetween(const Magnitude& low, const Magnitude& high) {
  const size_t places = std::max(low.places(), high.places());
  size_t same = 0;
  while (same < places && low.Digit(same) == high.Digit(same)) ++same;
  // From the last place to the first: the digits after `i` equal digits. None may follow if the
  // number is not below `low` then.
  const auto may_end = [&low, &high](size_t i) {
    return i >= low.places() && !low.is_exclusive && (i < high.places() || !high.is_exclusive);
  };
  const auto ended = [this, &may_end](size_t i, Expression digits) {
    return may_end(i) ? builder_.Optional(digits) : digits;
  };
  Expression rest = builder_.Nothing();
  if (same < places) {
    const char first = low.Digit(same);
    const char last = high.Digit(same);
    const auto more = static_cast<char>(first + 1);
    const auto less = static_cast<char>(last - 1);
    rest = builder_.Choice({Seq({Byte(first), PlacesFrom(low, same + 1)}),
                            Seq({Range(more, less), Star(Any())}),
                            Seq({Byte(last), RestTo(high, same + 1)})});
  } else if (!low.is_exclusive && !high.is_exclusive) {
    rest = Plus(Byte('0'));
  }
  for (size_t i = same; i-- > 0;) rest = Seq({Byte(low.Digit(i)), ended(i + 1, rest)});
  return ended(0, Seq({Byte('.'), rest}));
}

// The numbers from `low` to `high` without their sign.
std::optional<Expression> AddMagnitudes(GrammarBuilder& builder, const Magnitude& low,
                                        const std::optional<Magnitude>& high) {
  DigitsBuilder digits(builder);
  const Expression from_low = digits.Seq({digits.Text(low.whole), digits.FractionFrom(low)});
  const std::string next = NextDigits(low.whole);
  if (!high.has_value()) {
    return builder.Choice(
        {from_low, digits.Seq({digits.Whole(next, std::nullopt), digits.AnyFraction()})});
  }
  std::strong_ordering order = CompareDigits(low.whole, high->whole);
  if (order > 0) return std::nullopt;
  if (order == 0) {
    order = low.fraction <=> high->fraction;
    if (order > 0) return std::nullopt;
    if (order == 0 && (low.is_exclusive || high->is_exclusive)) return std::nullopt;
    return digits.Seq({digits.Text(low.whole), digits.FractionBetween(low, *high)});
  }
  return builder.Choice(
      {from_low,
       digits.Seq({digits.Whole(next, PreviousDigits(high->whole)), digits.AnyFraction()}),
       digits.Seq({digits.Text(high->whole), digits.FractionTo(*high)})});
}

Magnitude MagnitudeOf(const Bound& bound) {
  return {bound.value.whole, bound.value.fraction, bound.is_exclusive};
}

bool IsNegative(const std::optional<Bound>& bound) {
  return bound.has_value() && bound->value.is_negative;
}

// Moves a bound to the next whole number inside the range. `is_low`: which bound it is.
Bound ToWhole(Bound bound, bool is_low) {
  Decimal& value = bound.value;
  const bool leaves_range = value.is_negative != is_low;  // if its fraction is cut
  const bool is_moved = value.IsWhole() ? bound.is_exclusive : leaves_range;
  value.fraction.clear();
  bound.is_exclusive = false;
  if (is_moved && value.IsZero()) {
    value.whole = "1";
    value.is_negative = !is_low;
  } else if (is_moved) {
    value.whole = leaves_range ? NextDigits(value.whole) : PreviousDigits(value.whole);
  }
  if (value.IsZero()) value.is_negative = false;
  return bound;
}

// Divides a range at zero, and joins the expressions of both parts. `add` makes an expression for
// the numbers between two magnitudes.
template <typename Add>
std::optional<Expression> AddSigned(GrammarBuilder& builder, const NumberRange& range,
                                    const Magnitude& least_below_zero, const Add& add) {
  std::vector<Expression> options;
  if (!IsNegative(range.high)) {
    const Magnitude low = range.low.has_value() && !range.low->value.is_negative
                              ? MagnitudeOf(*range.low)
                              : Magnitude{"0", "", false};
    const std::optional<Expression> part =
        add(low, range.high.has_value() ? std::optional(MagnitudeOf(*range.high)) : std::nullopt);
    if (part.has_value()) options.push_back(*part);
  }
  if (!range.low.has_value() || IsNegative(range.low)) {
    const Magnitude low = IsNegative(range.high) ? MagnitudeOf(*range.high) : least_below_zero;
    const std::optional<Expression> part =
        add(low, range.low.has_value() ? std::optional(MagnitudeOf(*range.low)) : std::nullopt);
    if (part.has_value()) options.push_back(builder.Sequence({builder.Literal("-"), *part}));
  }
  if (options.empty()) return std::nullopt;
  return builder.Choice(options);
}

}  // namespace

bool NumberRange::Contains(const Decimal& value) const {
  const bool is_above =
      !low.has_value() || value > low->value || (value == low->value && !low->is_exclusive);
  const bool is_below =
      !high.has_value() || value < high->value || (value == high->value && !high->is_exclusive);
  return is_above && is_below;
}

std::optional<Expression> AddIntegers(GrammarBuilder& builder, const NumberRange& range) {
  NumberRange whole = range;
  if (whole.low.has_value()) whole.low = ToWhole(*whole.low, /*is_low=*/true);
  if (whole.high.has_value()) whole.high = ToWhole(*whole.high, /*is_low=*/false);
  const auto add = [&builder](const Magnitude& low,
                              const std::optional<Magnitude>& high) -> std::optional<Expression> {
    if (!high.has_value()) return DigitsBuilder(builder).Whole(low.whole, std::nullopt);
    if (CompareDigits(low.whole, high->whole) > 0) return std::nullopt;
    return DigitsBuilder(builder).Whole(low.whole, high->whole);
  };
  return AddSigned(builder, whole, {"1", "", false}, add);
}

std::optional<Expression> AddNumbers(GrammarBuilder& builder, const NumberRange& range) {
  if (!range.low.has_value() && !range.high.has_value()) {
    DigitsBuilder digits(builder);
    const Expression digit = builder.Character({{'0', '9'}});
    const Expression sign = builder.Optional(builder.Character({{'+', '+'}, {'-', '-'}}));
    const Expression e = builder.Character({{'E', 'E'}, {'e', 'e'}});
    const Expression exponent = builder.Sequence({e, sign, builder.Repeat(digit, 1, 2)});
    return builder.Sequence({builder.Optional(builder.Literal("-")),
                             digits.Whole("0", std::nullopt), digits.AnyFraction(),
                             builder.Optional(exponent)});
  }
  const auto add = [&builder](const Magnitude& low, const std::optional<Magnitude>& high) {
    return AddMagnitudes(builder, low, high);
  };
  return AddSigned(builder, range, {"0", "", true}, add);
}

}  // namespace longstream
