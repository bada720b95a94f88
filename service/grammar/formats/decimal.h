// Decimal numbers of any size, as bounds of numbers in JSON Schema.
#ifndef LONGSTREAM_SERVICE_GRAMMAR_FORMATS_DECIMAL_H_
#define LONGSTREAM_SERVICE_GRAMMAR_FORMATS_DECIMAL_H_

#include <compare>
#include <optional>
#include <string>
#include <string_view>

namespace longstream {

// The value is (whole).(fraction). One value has one form.
struct Decimal {
  bool is_negative = false;  // never for 0
  std::string whole = "0";   // without leading zeros
  std::string fraction;      // without trailing zeros

  // Reads a number of JSON. nullopt: without an exponent, it has more than 400 digits.
  // REQUIRES: `text` is a number of JSON.
  static std::optional<Decimal> Parse(std::string_view text);

  bool IsWhole() const { return fraction.empty(); }
  bool IsZero() const { return whole == "0" && fraction.empty(); }
  Decimal Negated() const;
};

std::strong_ordering operator<=>(const Decimal& a, const Decimal& b);
bool operator==(const Decimal& a, const Decimal& b);

// Compares whole numbers without a sign and without leading zeros.
std::strong_ordering CompareDigits(std::string_view a, std::string_view b);

// The next or the previous whole number, without a sign. REQUIRES: for PreviousDigits, it is not 0.
std::string NextDigits(std::string digits);
std::string PreviousDigits(std::string digits);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_GRAMMAR_FORMATS_DECIMAL_H_
