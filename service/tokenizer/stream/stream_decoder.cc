// Decodes tokens, searches for stop strings, and counts the tokens whose text was delivered.
#include "service/tokenizer/stream/stream_decoder.h"

#include <utility>

#include "service/tokenizer/text/utf8.h"

namespace longstream {
namespace {

// `held` bytes of an incomplete character were held back, and `text` begins with that character or
// its replacement. Returns the length of this beginning.
size_t HeldLength(std::string_view text, size_t held, InvalidUtf8 invalid) {
  size_t length = 0;
  NextCodePoint(text, &length);
  if (invalid == InvalidUtf8::kOneReplacement) return length;
  const std::string_view replacement = kReplacementCharacter;
  for (size_t i = 1; i < held && text.substr(length).starts_with(replacement); ++i) {
    length += replacement.size();
  }
  return length;
}

}  // namespace

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, StopMatcher stop_strings,
                             StreamDecoderOptions options)
    : stop_strings_(std::move(stop_strings)),
      options_(std::move(options)),
      invalid_(tokenizer.decode_rules().invalid),
      decoder_(tokenizer, options_.decode, options_.incomplete) {}

TextDelta StreamDecoder::Push(int32_t token) {
  const size_t held = decoder_.pending().size();
  std::string text;
  decoder_.Push(token, &text);
  ++pushed_;

  // If the last byte of an earlier token lies within the held-back character, the text of that
  // token ends where the character ends.
  if (held > 0 && !text.empty()) {
    AddTokenEnd(pushed_ - 1, decoded_ + HeldLength(text, held, invalid_));
  }
  decoded_ += text.size();
  if (decoder_.pending().empty()) AddTokenEnd(pushed_, decoded_);
  return Deliver(text, pushed_ > options_.min_tokens);
}

TextDelta StreamDecoder::Finish() {
  std::string text;
  decoder_.Finish(&text);
  decoded_ += text.size();
  AddTokenEnd(pushed_, decoded_);
  TextDelta delta = Deliver(text, pushed_ > options_.min_tokens);
  if (!delta.stop) Release(&delta);
  return delta;
}

TextDelta StreamDecoder::Pause() {
  TextDelta delta;
  Release(&delta);
  return delta;
}

void StreamDecoder::AddTokenEnd(uint64_t tokens, uint64_t text_end) {
  if (!ends_.empty() && ends_.back().text_end == text_end) {
    ends_.back().tokens = tokens;
  } else {
    ends_.push_back({tokens, text_end});
  }
}

TextDelta StreamDecoder::Deliver(std::string_view text, bool searched) {
  TextDelta delta;
  if (searched) {
    delta.stop = stop_strings_.Push(text, &delta.text);
  } else {
    delta.text = text;
  }
  Count(delta.text.size(), &delta);
  return delta;
}

void StreamDecoder::Release(TextDelta* delta) {
  const size_t before = delta->text.size();
  stop_strings_.Flush(&delta->text);
  Count(delta->text.size() - before, delta);
}

void StreamDecoder::Count(size_t bytes, TextDelta* delta) {
  delivered_bytes_ += bytes;
  while (!ends_.empty() && ends_.front().text_end <= delivered_bytes_) {
    delivered_tokens_ = ends_.front().tokens;
    ends_.pop_front();
  }
  delta->position = options_.start_position + delivered_tokens_;
}

}  // namespace longstream
