// The regular expressions of pre-tokenizers: Oniguruma's syntax in the file, PCRE2 at run time.
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

// A compiled pattern. Immutable: may be used by any number of threads.
class Regex {
 public:
  struct Match {
    size_t begin = 0;
    size_t end = 0;
  };

  // A regular expression with the meaning that Hugging Face's tokenizers, that is Oniguruma, give
  // it.
  // UNIMPLEMENTED: it uses a construct that PCRE2 understands in another way or not at all (the
  // error names it), or it may match the empty string.
  static absl::StatusOr<Regex> Compile(const std::string& pattern);

  // A pattern that matches this text and nothing else. UNIMPLEMENTED: it is empty.
  static absl::StatusOr<Regex> CompileLiteral(const std::string& text);

  // Finds the first match that begins at `start` or later; false if there is none. Look-behinds see
  // the text before `start`. Matches are not empty.
  // INVALID_ARGUMENT: the text needs more steps or memory than one match may take.
  // REQUIRES: text is UTF-8, start <= text.size() is at a character.
  absl::StatusOr<bool> Find(std::string_view text, size_t start, Match* match) const;

 private:
  struct CodeDeleter {
    void operator()(pcre2_real_code_8* code) const;
  };

  static absl::StatusOr<Regex> CompilePcre2(const std::string& pattern, uint32_t options);

  std::unique_ptr<pcre2_real_code_8, CodeDeleter> code_;
};

// A pattern in Oniguruma's syntax as one with the same meaning in PCRE2's (UTF and UCP set).
// UNIMPLEMENTED as Regex::Compile.
absl::StatusOr<std::string> OnigurumaToPcre2(const std::string& pattern);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_TEXT_REGEX_H_
