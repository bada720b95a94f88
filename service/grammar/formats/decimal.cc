#include "service/grammar/formats/decimal.h"

#include <algorithm>
#include <charconv>

namespace longstream {
namespace {

constexpr int64_t kMostDecimalDigits = 400;

void RemoveLeadingZeros(std::string* digits) {
  digits->erase(0, std::min(digits->find_first_not_of('0'), digits->size()));
  if (digits->empty()) *digits = "0";
}

}  // namespace

std::optional<Decimal> Decimal::Parse(std::string_view text) {
  Decimal number;
  number.is_negative = text.starts_with('-');
  if (number.is_negative) text.remove_prefix(1);
  int64_t exponent = 0;
  const size_t e = text.find_first_of("eE");
  if (e != std::string_view::npos) {
    std::string_view digits = text.substr(e + 1);
    if (digits.starts_with('+')) digits.remove_prefix(1);
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), exponent);
    // Such a number is 0, or has too many digits.
    if (error != std::errc()) exponent = digits.starts_with('-') ? -1'000'000 : 1'000'000;
    text = text.substr(0, e);
  }
  const size_t point = std::min(text.find('.'), text.size());
  std::string digits(text.substr(0, point));
  if (point < text.size()) digits += text.substr(point + 1);
  // The value is 0.(digits) * 10^places.
  int64_t places = static_cast<int64_t>(point) + std::clamp<int64_t>(exponent, -9'999, 9'999);
  const size_t zeros = std::min(digits.find_first_not_of('0'), digits.size());
  digits.erase(0, zeros);
  places -= static_cast<int64_t>(zeros);
  digits.erase(digits.find_last_not_of('0') + 1);
  if (digits.empty()) return Decimal();
  const auto size = static_cast<int64_t>(digits.size());
  if (std::max(places, size) - std::min<int64_t>(places, 0) > kMostDecimalDigits)
    return std::nullopt;
  if (places < 0) digits.insert(0, static_cast<size_t>(-places), '0');
  if (places > size) digits.append(static_cast<size_t>(places - size), '0');
  const auto whole = static_cast<size_t>(std::max<int64_t>(places, 0));
  number.whole = digits.substr(0, whole);
  RemoveLeadingZeros(&number.whole);
  number.fraction = digits.substr(whole);
  return number;
}

Decimal Decimal::Negated() const {
  Decimal other = *this;
  other.is_negative = !is_negative && !IsZero();
  return other;
}

std::strong_ordering CompareDigits(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return a.size() <=> b.size();
  return a <=> b;
}

std::strong_ordering operator<=>(const Decimal& a, const Decimal& b) {
  if (a.is_negative != b.is_negative) {
    return a.is_negative ? std::strong_ordering::less : std::strong_ordering::greater;
  }
  std::strong_ordering order = CompareDigits(a.whole, b.whole);
  if (order == std::strong_ordering::equal) order = a.fraction <=> b.fraction;
  return a.is_negative ? 0 <=> order : order;
}

bool operator==(const Decimal& a, const Decimal& b) { return (a <=> b) == 0; }

std::string NextDigits(std::string digits) {
  size_t i = digits.size();
  while (i > 0 && digits[i - 1] == '9') digits[--i] = '0';
  if (i == 0) return "1" + digits;
  ++digits[i - 1];
  return digits;
}

std::string PreviousDigits(std::string digits) {
  size_t i = digits.size();
  while (i > 0 && digits[i - 1] == '0') digits[--i] = '9';
  if (i > 0) --digits[i - 1];
  RemoveLeadingZeros(&digits);
  return digits;
}

}  // namespace longstream
