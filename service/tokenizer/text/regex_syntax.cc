// Converts Oniguruma's syntax to PCRE2's syntax. Accepts only constructs that mean the same in both
// or that can be rewritten, and refuses all others. A pattern with another meaning would silently
// give wrong ids.
#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/tokenizer/text/regex.h"

namespace longstream {
namespace {

bool IsAlphanumeric(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

class Translator {
 public:
  explicit Translator(const std::string& pattern) : pattern_(pattern) {}

  absl::StatusOr<std::string> Run() {
    while (!AtEnd() && error_.empty()) TranslateOutside();
    if (error_.empty()) return std::move(out_);
    return absl::UnimplementedError(absl::StrCat("the pattern \"", pattern_, "\" uses ", error_,
                                                 " at byte ", at_, ", which is not supported"));
  }

 private:
  bool AtEnd() const { return at_ == pattern_.size(); }
  std::string_view Rest() const {
    const std::string_view pattern = pattern_;
    return pattern.substr(at_);
  }

  void Copy(size_t count) {
    out_.append(pattern_, at_, count);
    at_ += count;
  }
  void Replace(size_t count, std::string_view replacement) {
    out_ += replacement;
    at_ += count;
  }
  void Refuse(std::string construct) { error_ = std::move(construct); }

  void TranslateOutside() {
    const char c = Rest().front();
    if (c == '{') return TranslateRepeat();
    if (c == '(') return TranslateGroup();
    if (c == ')') return CloseGroup();
    if (c == '?' || c == '*' || c == '+') return Copy(1);
    constexpr int kTop = 0xC0;
    if ((c & kTop) != 0x80) item_ = out_.size();  // not in the middle of a character
    switch (c) {
      case '\\':
        return IsAnchor() ? Copy(2) : TranslateEscape();
      case '[':
        return TranslateClass();
      case '^':
        return Refuse("the anchor ^");
      case '$':  // in Oniguruma always the end of a line
        return Replace(1, "(?m:$)");
      default:
        return Copy(1);
    }
  }

  // Whether an anchor is next: \A, the beginning of the text; \z, its end; or \G, where the search
  // began.
  bool IsAnchor() const {
    return Rest().starts_with("\\A") || Rest().starts_with("\\z") || Rest().starts_with("\\G");
  }

  // Translates escapes that have the same meaning inside and outside a class.
  void TranslateEscape() {
    const char kind = Rest().size() > 1 ? Rest()[1] : '\0';
    switch (kind) {
      case 's':  // PCRE2's \s also matches U+180E, which is not white space since Unicode 6.3
        return Replace(2, "\\p{White_Space}");
      case 'S':
        return Replace(2, "\\P{White_Space}");
      case 'd':
        return Replace(2, "\\p{Nd}");
      case 'D':
        return Replace(2, "\\P{Nd}");
      case 'p':
      case 'P':
        return TranslateProperty();
      case 'r':
      case 'n':
      case 't':
      case 'f':
        return Copy(2);
      case 'u':
        return TranslateCodePoint(4, 2);
      case 'x': {
        const size_t close = Rest().find('}');
        if (!Rest().starts_with("\\x{") || close == std::string_view::npos) {
          return Refuse("\\x without braces");
        }
        return TranslateCodePoint(close - 3, 3);
      }
      default:
        if (kind == '\0') return Refuse("a \\ at its end");
        if (IsAlphanumeric(kind)) return Refuse(std::string("the escape \\") + kind);
        return Copy(2);
    }
  }

  // Translates \uHHHH or \x{H...}: `digits` hexadecimal digits after `prefix` bytes.
  void TranslateCodePoint(size_t digits, size_t prefix) {
    const std::string_view hex = Rest().substr(std::min(prefix, Rest().size()), digits);
    bool valid = hex.size() == digits && digits >= 1 && digits <= 8;
    for (const char c : hex) valid = valid && std::isxdigit(static_cast<unsigned char>(c)) != 0;
    if (!valid) return Refuse("a malformed \\u or \\x");
    const size_t length = prefix + digits + (Rest()[1] == 'x' ? 1 : 0);
    Replace(length, absl::StrCat("\\x{", std::string(hex), "}"));
  }

  // Translates properties. \p{L}, \p{^L} and \P{Lu} name general categories. \p{Han} names a
  // script; for a plain script name PCRE2 would use the wider property Script_Extensions.
  void TranslateProperty() {
    const size_t close = Rest().find('}');
    if (Rest().size() < 3 || Rest()[2] != '{' || close == std::string_view::npos) {
      return Refuse("\\p without braces");
    }
    std::string_view name = Rest().substr(3, close - 3);
    bool negated = Rest()[1] == 'P';
    if (name.starts_with('^')) {
      negated = !negated;
      name.remove_prefix(1);
    }
    bool valid = !name.empty();
    for (const char c : name) valid = valid && (IsAlphanumeric(c) || c == '_');
    if (!valid) return Refuse("a malformed property name");
    const std::string_view kind = name.size() <= 2 ? "" : "sc:";
    Replace(close + 1,
            absl::StrCat(negated ? "\\P{" : "\\p{", std::string(kind), std::string(name), "}"));
  }

  void TranslateClass() {
    Copy(1);
    if (Rest().starts_with('^')) Copy(1);
    if (Rest().starts_with(']')) return Refuse("] as the first member of a class");
    for (int depth = 1; depth > 0 && error_.empty();) {
      if (AtEnd()) return Refuse("a class without ]");
      const char c = Rest().front();
      if (Rest().starts_with("&&")) return Refuse("an intersection of classes");
      if (c == ']') {
        if (--depth == 0) return Copy(1);
        CloseInnerClass();
      } else if (c == '[') {
        ++depth;
        OpenInnerClass();
      } else if (c == '\\') {
        TranslateEscape();
      } else {
        Copy(1);
      }
    }
  }

  // In Oniguruma, a class within a class adds its members to the outer class. PCRE2 would read the
  // inner [ as a member.
  void OpenInnerClass() {
    for (const char* refused : {"[^", "[]", "[:", "[-"}) {
      if (Rest().starts_with(refused)) return Refuse(absl::StrCat(refused, " within a class"));
    }
    if (out_.ends_with('-')) return Refuse("- before a class within a class");
    Replace(1, "");
  }

  void CloseInnerClass() {
    if (out_.ends_with('-') || Rest().starts_with("]-")) {
      return Refuse("- at the end of a class within a class");
    }
    Replace(1, "");
  }

  void TranslateGroup() {
    static constexpr std::array<std::string_view, 7> kGroups = {"(?:",  "(?i:", "(?=", "(?!",
                                                                "(?<=", "(?<!", "(?>"};
    open_groups_.push_back(out_.size());
    for (const std::string_view group : kGroups) {
      if (Rest().starts_with(group)) return Copy(group.size());
    }
    if (Rest().starts_with("(?") || Rest().starts_with("(*")) {
      return Refuse(absl::StrCat("the group ", std::string(Rest().substr(0, 4))));
    }
    Copy(1);
  }

  void CloseGroup() {
    if (open_groups_.empty()) return Refuse("a ) without (");
    item_ = open_groups_.back();
    open_groups_.pop_back();
    Copy(1);
  }

  // Translates {n}, {n,} and {n,m}. Refuses {,m}, and ? or + after the braces, because Oniguruma
  // gives them another meaning.
  void TranslateRepeat() {
    size_t length = 1;
    const auto skip_digits = [&] {
      const size_t first = length;
      while (length < Rest().size() && Rest()[length] >= '0' && Rest()[length] <= '9') ++length;
      return length > first;
    };
    bool valid = skip_digits();
    if (valid && length < Rest().size() && Rest()[length] == ',') {
      ++length;
      skip_digits();
    }
    valid = valid && length < Rest().size() && Rest()[length] == '}';
    if (!valid) return Refuse("{ that is not {n}, {n,} or {n,m}");
    ++length;
    Copy(length);
    if (Rest().starts_with('?')) return Refuse("? after {n}");
    if (Rest().starts_with('+')) {
      out_.insert(item_, "(?:");
      Replace(1, ")+");
    }
  }

  const std::string& pattern_;
  size_t at_ = 0;
  std::string out_;
  size_t item_ = 0;                  // offset in out_ of the item that a repetition would repeat
  std::vector<size_t> open_groups_;  // offsets in out_ of the groups that are open
  std::string error_;                // the refused construct; empty: none
};

}  // namespace

absl::StatusOr<std::string> OnigurumaToPcre2(const std::string& pattern) {
  return Translator(pattern).Run();
}

}  // namespace longstream
