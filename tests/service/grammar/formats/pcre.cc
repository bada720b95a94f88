#include "tests/service/grammar/formats/pcre.h"

#include <gtest/gtest.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace longstream {

Pcre::Pcre(const std::string& pattern) {
  pcre2_compile_context* const context = pcre2_compile_context_create(nullptr);
  pcre2_set_newline(context, PCRE2_NEWLINE_ANYCRLF);
  pcre2_set_compile_extra_options(context, PCRE2_EXTRA_ALT_BSUX);
  int error = 0;
  PCRE2_SIZE offset = 0;
  code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                            PCRE2_UTF | PCRE2_DOLLAR_ENDONLY, &error, &offset, context));
  pcre2_compile_context_free(context);
}

void Pcre::Deleter::operator()(pcre2_real_code_8* code) const { pcre2_code_free(code); }

bool Pcre::MatchesWhole(std::string_view text) const {
  return Matches(text, PCRE2_ANCHORED | PCRE2_ENDANCHORED);
}

bool Pcre::MatchesPart(std::string_view text) const { return Matches(text, 0); }

bool Pcre::Matches(std::string_view text, unsigned options) const {
  pcre2_match_data* const data = pcre2_match_data_create_from_pattern(code_.get(), nullptr);
  const int result = pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()),
                                 text.size(), 0, options, data, nullptr);
  pcre2_match_data_free(data);
  EXPECT_TRUE(result >= 0 || result == PCRE2_ERROR_NOMATCH) << result;
  return result >= 0;
}

}  // namespace longstream
