// The regular expressions of pre-tokenizers. Files write them in Oniguruma's syntax, and PCRE2
// matches them.
#ifndef LONGSTREAM_SERVICE_TOKENIZER_TEXT_REGEX_H_
#define LONGSTREAM_SERVICE_TOKENIZER_TEXT_REGEX_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

struct pcre2_real_code_8;

namespace longstream {

// A compiled pattern. Immutable, so any number of threads may use it.
class Regex {
 public:
  struct Match {
    size_t begin = 0;
    size_t end = 0;
  };

  // Compiles a regular expression with the meaning that it has in Oniguruma, which Hugging Face's
  // tokenizers use. UNIMPLEMENTED: the pattern uses a construct that PCRE2 does not support or
  // understands differently (the message names it), or it may match the empty string.
  static absl::StatusOr<Regex> Compile(const std::string& pattern);

  // Compiles a pattern that matches exactly `text`. UNIMPLEMENTED: the text is empty.
  static absl::StatusOr<Regex> CompileLiteral(const std::string& text);

  // Finds the first match that begins at `start` or later. Returns false if there is none.
  // Look-behinds see the text before `start`. Matches are not empty. INVALID_ARGUMENT: the text
  // needs more steps or memory than one match may take.
  // REQUIRES: text is UTF-8, start <= text.size() is at a character.
  absl::StatusOr<bool> Find(std::string_view text, size_t start, Match* match) const;

 private:
  struct CodeDeleter {
    void operator()(pcre2_real_code_8* code) const;
  };

  static absl::StatusOr<Regex> CompilePcre2(const std::string& pattern, uint32_t options);

  std::unique_ptr<pcre2_real_code_8, CodeDeleter> code_;
};

// Converts a pattern from Oniguruma's syntax to PCRE2's syntax with the same meaning, for the
// options UTF and UCP. UNIMPLEMENTED: as for Regex::Compile.
absl::StatusOr<std::string> OnigurumaToPcre2(const std::string& pattern);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_TEXT_REGEX_H_
