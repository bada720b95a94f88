// Repeats texts.
#ifndef LONGSTREAM_TESTS_SERVICE_TOKENIZER_TEXT_TIMES_H_
#define LONGSTREAM_TESTS_SERVICE_TOKENIZER_TEXT_TIMES_H_

#include <string>
#include <string_view>

namespace longstream {

inline std::string Times(int count, std::string_view text) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_SERVICE_TOKENIZER_TEXT_TIMES_H_
