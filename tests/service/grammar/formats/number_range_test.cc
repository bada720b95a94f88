// Numbers between bounds, compared with arithmetic.
#include "service/grammar/formats/number_range.h"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/service/grammar/formats/grammar_texts.h"

namespace longstream {
namespace {

std::optional<Bound> BoundOf(const std::string& text, bool is_exclusive = false) {
  if (text.empty()) return std::nullopt;
  return Bound{*Decimal::Parse(text), is_exclusive};
}

// nullopt: no number is in the range.
std::optional<Grammar> Build(const NumberRange& range, bool is_integer) {
  GrammarBuilder builder;
  const auto numbers = is_integer ? AddIntegers(builder, range) : AddNumbers(builder, range);
  if (!numbers.has_value()) return std::nullopt;
  const GrammarBuilder::Rule start = builder.Declare();
  builder.Define(start, *numbers);
  absl::StatusOr<Grammar> grammar = builder.Build(start);
  EXPECT_TRUE(grammar.ok()) << grammar.status();
  return *std::move(grammar);
}

TEST(DecimalTest, OneValueHasOneForm) {
  const auto form = [](const char* text) {
    const Decimal value = *Decimal::Parse(text);
    return absl::StrCat(value.is_negative ? "-" : "", value.whole, ".", value.fraction);
  };
  EXPECT_EQ(form("0"), "0.");
  EXPECT_EQ(form("-0.0e5"), "0.");
  EXPECT_EQ(form("12.500"), "12.5");
  EXPECT_EQ(form("-12e3"), "-12000.");
  EXPECT_EQ(form("1.25e1"), "12.5");
  EXPECT_EQ(form("125E-1"), "12.5");
  EXPECT_EQ(form("5e-3"), "0.005");
  EXPECT_EQ(form("0.05e+1"), "0.5");
  EXPECT_EQ(form("1e-2"), "0.01");
  EXPECT_EQ(form("100e-2"), "1.");
  EXPECT_EQ(form("0e99999999999999999999"), "0.");
  EXPECT_EQ(Decimal::Parse("1e308")->whole.size(), 309u);
  EXPECT_FALSE(Decimal::Parse("1e400").has_value());
  EXPECT_FALSE(Decimal::Parse("1e-401").has_value());
  EXPECT_FALSE(Decimal::Parse("1e99999999999999999999").has_value());
  EXPECT_FALSE(Decimal::Parse("1e-99999999999999999999").has_value());
}

TEST(DecimalTest, Compares) {
  const char* const ordered[] = {"-1e9", "-12.5", "-12.25", "-12", "-0.5", "-0.49",
                                 "0",    "1e-3",  "0.01",   "0.1", "9.99", "10"};
  for (size_t i = 0; i < std::size(ordered); ++i) {
    for (size_t j = 0; j < std::size(ordered); ++j) {
      EXPECT_EQ(*Decimal::Parse(ordered[i]) <=> *Decimal::Parse(ordered[j]), i <=> j)
          << ordered[i] << " " << ordered[j];
    }
  }
}

TEST(NumberRangeTest, AllWholeNumbersOfSmallRanges) {
  const int least = -123;
  const int most = 123;
  for (int low = least - 1; low <= most; low += 1 + (low % 5 == 0 ? 4 : 0)) {
    for (int high = low - 1; high <= most + 1; high += 3) {
      // Beyond the ends, there is no bound.
      NumberRange range;
      if (low >= least) range.low = BoundOf(absl::StrCat(low));
      if (high <= most) range.high = BoundOf(absl::StrCat(high));
      const std::optional<Grammar> grammar = Build(range, /*is_integer=*/true);
      const bool is_empty = low >= least && high <= most && low > high;
      ASSERT_EQ(grammar.has_value(), !is_empty) << low << " " << high;
      if (is_empty) continue;
      for (int i = -1100; i <= 1100; i += std::abs(i) < 130 ? 1 : 17) {
        const bool fits = (low < least || i >= low) && (high > most || i <= high);
        ASSERT_EQ(Fits(*grammar, absl::StrCat(i)), fits) << low << " " << high << " " << i;
      }
      for (const char* wrong : {"", "-", "-0", "00", "01", "-01", "1.0", "1e0", "+1"}) {
        ASSERT_FALSE(Fits(*grammar, wrong)) << low << " " << high << " " << wrong;
      }
    }
  }
}

TEST(NumberRangeTest, WholeNumbersBetweenAnyBounds) {
  struct Case {
    const char* low;
    bool is_low_exclusive;
    const char* high;
    bool is_high_exclusive;
    const char* fits;  // the least and the greatest number
    const char* fits_too;
  };
  const Case cases[] = {
      {"1.5", false, "3.5", false, "2", "3"},
      {"-3.5", false, "-1.5", false, "-3", "-2"},
      {"-0.5", false, "0.5", false, "0", "0"},
      {"0", true, "2", true, "1", "1"},
      {"-2", true, "0", true, "-1", "-1"},
      {"-1", true, "1", true, "0", "0"},
      {"9", true, "1e2", true, "10", "99"},
      {"-1e2", true, "-9", true, "-99", "-10"},
      {"-9223372036854775808", false, "18446744073709551615", false, "-9223372036854775808",
       "18446744073709551615"},
      {"1e30", false, "1e30", false, "1000000000000000000000000000000",
       "1000000000000000000000000000000"},
  };
  const auto next = [](std::string number, bool is_up) {
    const bool is_negative = number.starts_with('-');
    if (number == "0") return std::string(is_up ? "1" : "-1");
    if (is_negative) number.erase(0, 1);
    number = is_up != is_negative ? NextDigits(number) : PreviousDigits(number);
    return (is_negative && number != "0" ? "-" : "") + number;
  };
  for (const Case& c : cases) {
    const NumberRange range = {BoundOf(c.low, c.is_low_exclusive),
                               BoundOf(c.high, c.is_high_exclusive)};
    const std::optional<Grammar> grammar = Build(range, /*is_integer=*/true);
    ASSERT_TRUE(grammar.has_value()) << c.low;
    EXPECT_TRUE(Fits(*grammar, c.fits)) << c.low << " " << c.fits;
    EXPECT_TRUE(Fits(*grammar, c.fits_too)) << c.high << " " << c.fits_too;
    EXPECT_FALSE(Fits(*grammar, next(c.fits, false))) << c.low << " " << next(c.fits, false);
    EXPECT_FALSE(Fits(*grammar, next(c.fits_too, true))) << c.high;
  }
  EXPECT_FALSE(Build({BoundOf("0.1"), BoundOf("0.9")}, true).has_value());
  EXPECT_FALSE(Build({BoundOf("-0.9"), BoundOf("-0.1")}, true).has_value());
  EXPECT_FALSE(Build({BoundOf("1", true), BoundOf("2", true)}, true).has_value());
}

TEST(NumberRangeTest, RandomWholeNumbersOf64Bits) {
  Random random(3);
  const auto draw = [&random] {
    const uint64_t bits = static_cast<uint64_t>(random()) << 32 | random();
    return static_cast<int64_t>(bits) >> Draw(random, 64);
  };
  for (int trial = 0; trial < 300; ++trial) {
    int64_t low = draw();
    int64_t high = draw();
    if (low > high) std::swap(low, high);
    const NumberRange range = {BoundOf(absl::StrCat(low)), BoundOf(absl::StrCat(high))};
    const std::optional<Grammar> grammar = Build(range, /*is_integer=*/true);
    ASSERT_TRUE(grammar.has_value());
    const GrammarWalker walker(*grammar);
    for (int i = 0; i < 30; ++i) {
      const int64_t near = (i % 2 == 0 ? low : high);
      const auto delta = static_cast<int64_t>(Draw(random, 5)) - 2;
      int64_t value = draw();
      if (i % 3 != 0 && !__builtin_add_overflow(near, delta, &value)) value = near + delta;
      ASSERT_EQ(Fits(*grammar, absl::StrCat(value)), value >= low && value <= high)
          << low << " " << high << " " << value;
      const std::string text = walker.Walk(random, 10);
      ASSERT_TRUE(range.Contains(*Decimal::Parse(text))) << low << " " << high << " " << text;
      ASSERT_EQ(text, absl::StrCat(std::stoll(text)));
    }
  }
}

// All numbers with up to two places, between all bounds with up to two places.
TEST(NumberRangeTest, AllNumbersOfSmallRanges) {
  const auto text_of = [](int hundredths) {
    const char* const sign = hundredths < 0 ? "-" : "";
    return absl::StrFormat("%s%d.%02d", sign, std::abs(hundredths) / 100,
                           std::abs(hundredths) % 100);
  };
  for (int low = -230; low <= 230; low += 1 + std::abs(low) % 23) {
    for (int high = low; high <= 240; high += 1 + std::abs(high) % 29) {
      for (int exclusive = 0; exclusive < 4; ++exclusive) {
        const NumberRange range = {BoundOf(text_of(low), exclusive % 2 != 0),
                                   BoundOf(text_of(high), exclusive / 2 != 0)};
        const std::optional<Grammar> grammar = Build(range, /*is_integer=*/false);
        ASSERT_EQ(grammar.has_value(), low < high || exclusive == 0);
        if (!grammar.has_value()) continue;
        for (int i = -250; i <= 250; i += 1 + std::abs(i) % 3) {
          const bool is_above = exclusive % 2 != 0 ? i > low : i >= low;
          const bool is_below = exclusive / 2 != 0 ? i < high : i <= high;
          const bool fits = is_above && is_below;
          std::string text = text_of(i);
          ASSERT_EQ(Fits(*grammar, text), fits)
              << text_of(low) << " " << text_of(high) << " " << exclusive << " " << text;
          ASSERT_EQ(Fits(*grammar, text + "0"), fits) << text;
          if (i % 10 == 0) text.pop_back();
          ASSERT_EQ(Fits(*grammar, text), fits) << text;
          if (i % 100 == 0) text.erase(text.find('.'));
          ASSERT_EQ(Fits(*grammar, text), fits) << text;
        }
        for (const char* wrong : {"", "-", "-0", "-0.0", "00", "1.", ".5", "1e0"}) {
          ASSERT_FALSE(Fits(*grammar, wrong)) << wrong;
        }
      }
    }
  }
}

TEST(NumberRangeTest, RandomNumbers) {
  Random random(5);
  const auto draw = [&random] {
    std::string text = Draw(random, 2) == 0 ? "-" : "";
    text += absl::StrCat(random() >> Draw(random, 32));
    if (Draw(random, 3) != 0) text += absl::StrCat(".", random() >> Draw(random, 32));
    return text;
  };
  for (int trial = 0; trial < 500; ++trial) {
    NumberRange range;
    if (Draw(random, 4) != 0) range.low = BoundOf(draw(), Draw(random, 2) == 0);
    if (Draw(random, 4) != 0) range.high = BoundOf(draw(), Draw(random, 2) == 0);
    if (!range.low.has_value() && !range.high.has_value()) continue;
    const std::optional<Grammar> grammar = Build(range, /*is_integer=*/false);
    const bool is_empty =
        range.low.has_value() && range.high.has_value() && range.low->value >= range.high->value;
    ASSERT_EQ(grammar.has_value(), !is_empty);
    if (is_empty) continue;
    const GrammarWalker walker(*grammar);
    for (int i = 0; i < 30; ++i) {
      const std::string text = walker.Walk(random, Draw(random, 20));
      ASSERT_TRUE(range.Contains(*Decimal::Parse(text))) << text;
      std::string other = draw();
      if (*Decimal::Parse(other) == Decimal()) other = "0";
      ASSERT_EQ(Fits(*grammar, other), range.Contains(*Decimal::Parse(other))) << other;
    }
  }
}

TEST(NumberRangeTest, NumbersWithoutBounds) {
  const std::optional<Grammar> grammar = Build({}, /*is_integer=*/false);
  for (const char* fits : {"0", "-0", "10", "-3.25", "1e5", "1E+05", "2.5e-10", "0.000"}) {
    EXPECT_TRUE(Fits(*grammar, fits)) << fits;
  }
  for (const char* wrong : {"", "-", "01", "1.", ".1", "+1", "1e", "1e100", "1e+", "NaN"}) {
    EXPECT_FALSE(Fits(*grammar, wrong)) << wrong;
  }
}

TEST(NumberRangeTest, LongBoundsTakeFewNodes) {
  const std::string high(300, '7');
  const NumberRange range = {BoundOf("-" + high), BoundOf(high)};
  const std::optional<Grammar> grammar = Build(range, /*is_integer=*/true);
  EXPECT_LT(grammar->num_nodes(), 5000u);
  EXPECT_TRUE(Fits(*grammar, high));
  EXPECT_TRUE(Fits(*grammar, "-" + high));
  EXPECT_TRUE(Fits(*grammar, high.substr(1)));
  EXPECT_TRUE(Fits(*grammar, std::string(299, '7') + "0"));
  EXPECT_FALSE(Fits(*grammar, std::string(299, '7') + "8"));
  EXPECT_FALSE(Fits(*grammar, high + "0"));
}

}  // namespace
}  // namespace longstream
