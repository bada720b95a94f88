// Implements equality, order and arithmetic.
#include "service/jinja/builtins/operators.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "service/jinja/builtins/percent_format.h"
namespace longstream::chat {
namespace {

std::string Quoted(const Value& value) { return "'" + std::string(value.TypeName()) + "'"; }

[[noreturn]] void FailOperands(std::string_view op, const Value& left, const Value& right) {
  RequireDefined(left);
  RequireDefined(right);
  Fail("'" + std::string(op) + "' does not apply to " + Quoted(left) + " and " + Quoted(right));
}

[[noreturn]] void FailOverflow() { Fail("a whole number exceeds 64 bits"); }

bool EqualLists(const List& left, const List& right, Meter* meter) {
  if (left.kind != right.kind || left.items.size() != right.items.size()) return false;
  for (size_t i = 0; i < left.items.size(); ++i) {
    if (!Equal(left.items[i], right.items[i], meter)) return false;
  }
  return true;
}

bool EqualDicts(const Dict& left, const Dict& right, Meter* meter) {
  if (left.size() != right.size()) return false;
  return std::ranges::all_of(left.entries(), [&](const Dict::Entry& entry) {
    RequireKey(entry.key, meter);
    const Value* other = right.Find(entry.key);
    return other != nullptr && Equal(entry.value, *other, meter);
  });
}

template <typename T>
int Sign(const T& left, const T& right) {
  return left < right ? -1 : left > right ? 1 : 0;
}

bool Contains(const Value& item, const Value& container, Meter* meter) {
  if (container.is_text()) {
    if (!item.is_text()) FailOperands("in", item, container);
    meter->Read(container.text().size());
    return container.text().bytes().find(item.text().bytes()) != std::string::npos;
  }
  if (container.is_dict()) {
    RequireKey(item, meter);
    return container.dict().Find(item) != nullptr;
  }
  if (!container.is_list() && !container.is_undefined()) FailOperands("in", item, container);
  return std::ranges::any_of(Elements(container, meter), [&](const Value& element) {
    return element.IsSame(item) || Equal(element, item, meter);
  });
}

// Returns the text or the list repeated `times` times.
Value Repeated(const Value& value, int64_t times, Meter* meter) {
  const auto count = static_cast<size_t>(std::max<int64_t>(times, 0));
  if (value.is_text()) {
    const Text& text = value.text();
    Text repeated;
    for (size_t i = 0; i < count && !text.empty(); ++i) {
      meter->Step();
      meter->Make(text.size());
      repeated.Append(text);
    }
    return Value::MakeText(std::move(repeated));
  }
  std::vector<Value> items;
  for (size_t i = 0; i < count && !value.list().items.empty(); ++i) {
    meter->MakeList(value.list().items.size());
    items.insert(items.end(), value.list().items.begin(), value.list().items.end());
  }
  return Value::MakeList(std::move(items), value.list().kind);
}

bool IsRepeatable(const Value& value) {
  if (value.is_text()) return true;
  return value.is_list() &&
         (value.list().kind == ListKind::kList || value.list().kind == ListKind::kTuple);
}

Value Integers(std::string_view op, int64_t a, int64_t b) {
  int64_t result = 0;
  if (op == "+" && !__builtin_add_overflow(a, b, &result)) return Value::MakeInt(result);
  if (op == "-" && !__builtin_sub_overflow(a, b, &result)) return Value::MakeInt(result);
  if (op == "*" && !__builtin_mul_overflow(a, b, &result)) return Value::MakeInt(result);
  if (op == "+" || op == "-" || op == "*") FailOverflow();
  if (b == 0) Fail("division by zero");
  if (b == -1 && a == std::numeric_limits<int64_t>::min()) FailOverflow();
  // Integer division in Python rounds towards minus infinity.
  const int64_t quotient = a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
  return Value::MakeInt(op == "//" ? quotient : a - quotient * b);
}

Value Power(const Value& left, const Value& right) {
  if (left.is_float() || right.is_float() || right.integer() < 0) {
    const double base = left.number();
    const double exponent = right.number();
    if (base == 0.0 && exponent < 0.0) Fail("0 has no negative power");
    const double power = std::pow(base, exponent);
    if (std::isfinite(base) && std::isfinite(exponent) && !std::isfinite(power)) {
      if (base < 0.0 && std::isnan(power)) FailUnsupported("a complex number");
      Fail("a power exceeds the largest float");
    }
    return Value::MakeFloat(power);
  }
  int64_t result = 1;
  const int64_t base = left.integer();
  for (int64_t i = 0; i < right.integer(); ++i) {
    if (base == 0 || base == 1 || base == -1) {
      return Value::MakeInt(base == -1 && right.integer() % 2 == 0 ? 1 : base);
    }
    if (__builtin_mul_overflow(result, base, &result)) FailOverflow();
  }
  return Value::MakeInt(result);
}

Value Numbers(std::string_view op, const Value& left, const Value& right) {
  if (op == "**") return Power(left, right);
  if (op != "/" && !left.is_float() && !right.is_float()) {
    return Integers(op, left.integer(), right.integer());
  }
  const double a = left.number();
  const double b = right.number();
  if (op == "+") return Value::MakeFloat(a + b);
  if (op == "-") return Value::MakeFloat(a - b);
  if (op == "*") return Value::MakeFloat(a * b);
  if (b == 0.0) Fail("division by zero");
  if (op == "/") return Value::MakeFloat(a / b);
  // As in Python, the rest has the sign of b, and a zero has the sign that a / b would have.
  double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest == 0.0) {
    rest = std::copysign(0.0, b);
  } else if ((rest < 0) != (b < 0)) {
    rest += b;
    quotient -= 1.0;
  }
  if (op == "%") return Value::MakeFloat(rest);
  if (quotient == 0.0) return Value::MakeFloat(std::copysign(0.0, a / b));
  return Value::MakeFloat(std::floor(quotient + 0.5));
}

Value AddLists(const Value& left, const Value& right, Meter* meter) {
  meter->MakeList(left.list().items.size() + right.list().items.size());
  std::vector<Value> items = left.list().items;
  items.insert(items.end(), right.list().items.begin(), right.list().items.end());
  return Value::MakeList(std::move(items), left.list().kind);
}

Value AddTexts(const Value& left, const Value& right, Meter* meter) {
  meter->Make(left.text().size() + right.text().size());
  const bool is_safe = left.is_safe() || right.is_safe();
  const auto part = [&](const Value& value) {
    return is_safe && !value.is_safe() ? EscapeHtml(value.text(), meter) : value.text();
  };
  Text sum = part(left);
  sum.Append(part(right));
  const Value text = Value::MakeText(std::move(sum));
  return is_safe ? Value::MakeSafe(text) : text;
}

}  // namespace

Text EscapeHtml(const Text& text, Meter* meter) {
  std::string escaped;
  for (const char c : text.bytes()) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      case '"':
        escaped += "&#34;";
        break;
      default:
        escaped += c;
    }
  }
  if (escaped == text.bytes()) return text;
  meter->Make(escaped.size());
  return text.Changed(std::move(escaped));
}

void RequireDefined(const Value& value) {
  if (value.is_undefined()) Fail(*value.undefined().why);
}

bool CanBeKey(const Value& value, Meter* meter) {
  constexpr size_t kCodeBytes = 24;  // of one value in a KeyCode
  meter->Step();
  if (value.is_text()) meter->Read(value.text().size());
  if (value.is_dict()) return false;
  if (!value.is_list()) return true;
  switch (value.list().kind) {
    case ListKind::kGenerator:
    case ListKind::kRange:
      return true;
    case ListKind::kList:
    case ListKind::kView:
      return false;
    case ListKind::kTuple:
      break;
  }
  return std::ranges::all_of(value.list().items, [meter](const Value& item) {
    meter->Make(kCodeBytes + (item.is_text() ? item.text().size() : 0));
    return CanBeKey(item, meter);
  });
}

void RequireKey(const Value& value, Meter* meter) {
  if (CanBeKey(value, meter)) return;
  Fail("a " + std::string(value.TypeName()) + " cannot be a key: it has no hash");
}

const Text& RequireText(const Value& value, std::string_view where) {
  RequireDefined(value);
  if (!value.is_text()) {
    Fail(std::string(where) + ": expected a string, found " + std::string(value.TypeName()));
  }
  return value.text();
}

bool Equal(const Value& left, const Value& right, Meter* meter) {
  meter->Step();
  if (left.is_number() && right.is_number()) {
    if (left.is_float() || right.is_float()) return left.number() == right.number();
    return left.integer() == right.integer();
  }
  if (left.is_text() && right.is_text()) {
    meter->Read(std::min(left.text().size(), right.text().size()));
    return left.text().bytes() == right.text().bytes();
  }
  if (left.is_list() && right.is_list() && left.list().kind != ListKind::kGenerator) {
    return EqualLists(left.list(), right.list(), meter);
  }
  if (left.is_dict() && right.is_dict()) return EqualDicts(left.dict(), right.dict(), meter);
  return left.IsSame(right);
}

std::optional<int> Compare(const Value& left, const Value& right, std::string_view op,
                           Meter* meter) {
  meter->Step();
  if (left.is_number() && right.is_number()) {
    if (!left.is_float() && !right.is_float()) return Sign(left.integer(), right.integer());
    if (std::isnan(left.number()) || std::isnan(right.number())) return std::nullopt;
    return Sign(left.number(), right.number());
  }
  if (left.is_text() && right.is_text()) {
    meter->Read(std::min(left.text().size(), right.text().size()));
    return Sign(left.text().bytes(), right.text().bytes());
  }
  if (!left.is_list() || !right.is_list() || left.list().kind != right.list().kind ||
      !IsRepeatable(left)) {
    FailOperands(op, left, right);
  }
  const std::vector<Value>& a = left.list().items;
  const std::vector<Value>& b = right.list().items;
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
    if (!Equal(a[i], b[i], meter)) return Compare(a[i], b[i], op, meter);
  }
  return Sign(a.size(), b.size());
}

bool Related(std::string_view op, const Value& left, const Value& right, Meter* meter) {
  if (op == "==") return Equal(left, right, meter);
  if (op == "!=") return !Equal(left, right, meter);
  if (op == "in") return Contains(left, right, meter);
  if (op == "not in") return !Contains(left, right, meter);
  const std::optional<int> order = Compare(left, right, op, meter);
  if (!order) return false;
  if (op == "<") return *order < 0;
  if (op == "<=") return *order <= 0;
  return op == ">" ? *order > 0 : *order >= 0;
}

Value Binary(std::string_view op, const Value& left, const Value& right, Meter* meter) {
  if (left.is_number() && right.is_number()) return Numbers(op, left, right);
  if (op == "+" && left.is_text() && right.is_text()) return AddTexts(left, right, meter);
  if (left.is_safe() || right.is_safe()) {
    FailUnsupported("'" + std::string(op) + "' on a text from the filter safe");
  }
  if (op == "+" && left.is_list() && right.is_list() && IsRepeatable(left) &&
      left.list().kind == right.list().kind) {
    return AddLists(left, right, meter);
  }
  if (op == "%" && left.is_text()) return Value::MakeText(PercentFormat(left.text(), right, meter));
  const auto is_count = [](const Value& value) { return value.is_int() || value.is_bool(); };
  if (op == "*" && IsRepeatable(left) && is_count(right)) {
    return Repeated(left, right.integer(), meter);
  }
  if (op == "*" && IsRepeatable(right) && is_count(left)) {
    return Repeated(right, left.integer(), meter);
  }
  FailOperands(op, left, right);
}

Value Unary(std::string_view op, const Value& operand) {
  RequireDefined(operand);
  if (!operand.is_number()) Fail("'" + std::string(op) + "' does not apply to " + Quoted(operand));
  if (operand.is_float()) {
    return Value::MakeFloat(op == "-" ? -operand.number() : operand.number());
  }
  return Integers(op, 0, operand.integer());
}

}  // namespace longstream::chat
