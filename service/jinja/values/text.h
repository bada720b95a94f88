// A text that remembers which of its bytes came from the caller.
//
// Text from the caller must not become special tokens, but text from the template must. A template
// joins both kinds into one text. Therefore every text lists its runs of foreign bytes, which are
// the bytes from the caller. If an operation changes bytes (upper case, JSON), its whole result is
// foreign if any byte of its input was.
#ifndef LONGSTREAM_SERVICE_JINJA_VALUES_TEXT_H_
#define LONGSTREAM_SERVICE_JINJA_VALUES_TEXT_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "service/tokenizer/text/byte_range.h"

namespace longstream::chat {

using TextRun = ByteRange;

// Always UTF-8.
class Text {
 public:
  Text() = default;
  // REQUIRES: bytes are UTF-8.
  explicit Text(std::string bytes, bool is_foreign = false);

  const std::string& bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }

  // The runs of foreign bytes. They ascend, are not empty and do not touch each other.
  const std::vector<TextRun>& foreign() const { return foreign_; }
  bool AnyForeign() const { return !foreign_.empty(); }

  void Append(const Text& text) { AppendPart(text, 0, text.size()); }
  // Appends text of the template, which is not foreign.
  void Append(std::string_view text) { bytes_ += text; }
  // Appends the bytes [begin, end) of `text`. REQUIRES: both offsets lie between characters.
  void AppendPart(const Text& text, size_t begin, size_t end);

  Text Part(size_t begin, size_t end) const;
  // Returns `bytes` as the result of an operation that changes the bytes of this text.
  Text Changed(std::string bytes) const { return Text(std::move(bytes), AnyForeign()); }

 private:
  std::string bytes_;
  std::vector<TextRun> foreign_;
};

}  // namespace longstream::chat

#endif  // LONGSTREAM_SERVICE_JINJA_VALUES_TEXT_H_
