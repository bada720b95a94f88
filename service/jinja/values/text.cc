// Implements Text. When bytes of a text are cut or appended, the runs of foreign bytes are cut or
// moved too.
#include "service/jinja/values/text.h"

#include <algorithm>

namespace longstream::chat {

Text::Text(std::string bytes, bool is_foreign) : bytes_(std::move(bytes)) {
  if (is_foreign && !bytes_.empty()) foreign_.push_back({0, bytes_.size()});
}

void Text::AppendPart(const Text& text, size_t begin, size_t end) {
  const size_t base = bytes_.size();
  bytes_.append(text.bytes_, begin, end - begin);
  const auto first = std::partition_point(text.foreign_.begin(), text.foreign_.end(),
                                          [&](const TextRun& run) { return run.end <= begin; });
  for (auto run = first; run != text.foreign_.end() && run->begin < end; ++run) {
    const TextRun moved{std::max(run->begin, begin) - begin + base,
                        std::min(run->end, end) - begin + base};
    if (!foreign_.empty() && foreign_.back().end == moved.begin) {
      foreign_.back().end = moved.end;
    } else {
      foreign_.push_back(moved);
    }
  }
}

Text Text::Part(size_t begin, size_t end) const {
  Text part;
  part.AppendPart(*this, begin, end);
  return part;
}

}  // namespace longstream::chat
