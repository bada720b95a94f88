// PCRE2, as an independent matcher for the tests.
#ifndef LONGSTREAM_TESTS_SERVICE_GRAMMAR_FORMATS_PCRE_H_
#define LONGSTREAM_TESTS_SERVICE_GRAMMAR_FORMATS_PCRE_H_

#include <memory>
#include <string>
#include <string_view>

struct pcre2_real_code_8;

namespace longstream {

class Pcre {
 public:
  // `pattern`: in the syntax of AddRegex.
  explicit Pcre(const std::string& pattern);

  // Whether PCRE2 understands the pattern.
  bool ok() const { return code_ != nullptr; }
  // Whether the pattern matches the whole text. REQUIRES: the text is UTF-8.
  bool MatchesWhole(std::string_view text) const;
  // Whether the pattern matches somewhere in the text.
  bool MatchesPart(std::string_view text) const;

 private:
  struct Deleter {
    void operator()(pcre2_real_code_8* code) const;
  };

  bool Matches(std::string_view text, unsigned options) const;

  std::unique_ptr<pcre2_real_code_8, Deleter> code_;
};

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_SERVICE_GRAMMAR_FORMATS_PCRE_H_
