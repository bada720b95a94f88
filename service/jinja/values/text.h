// A text that remembers which of its bytes came from outside.
//
// A caller's text must not become special tokens; the template's own text must. A template joins
// both into one text, so every text carries the runs of bytes that are foreign: given by the
// caller. If a change does not keep bytes in place (upper case, JSON), the whole result is foreign
// if any byte was.
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

  // Ascending, not empty, not adjacent.
  const std::vector<TextRun>& foreign() const { return foreign_; }
  bool AnyForeign() const { return !foreign_.empty(); }

  void Append(const Text& text) { AppendPart(text, 0, text.size()); }
  // Text of the template's own.
  void Append(std::string_view text) { bytes_ += text; }
  // Bytes [begin, end) of `text`; the cuts lie between characters.
  void AppendPart(const Text& text, size_t begin, size_t end);

  Text Part(size_t begin, size_t end) const;
  // The result of a function of this text that does not keep bytes in place.
  Text Changed(std::string bytes) const { return Text(std::move(bytes), AnyForeign()); }

 private:
  std::string bytes_;
  std::vector<TextRun> foreign_;
};

}  // namespace longstream::chat

#endif  // LONGSTREAM_SERVICE_JINJA_VALUES_TEXT_H_
