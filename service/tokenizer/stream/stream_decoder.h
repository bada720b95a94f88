// Decodes a stream of sampled tokens to text that can be sent at once.
//
// The texts of all deltas, joined, are Decode() of the tokens up to the first stop string. No delta
// splits a UTF-8 character or contains part of a stop string, because undecided text is held back.
// The length of the longest stop string bounds the memory.
//
// If more tokens may come later, in another decoder, Pause ends a stream instead of Finish. Then
// the incomplete character at the end is not part of the deltas, and the other decoder begins with
// it.
//
// Not thread-safe. Each generated text needs its own decoder.
#ifndef LONGSTREAM_SERVICE_TOKENIZER_STREAM_STREAM_DECODER_H_
#define LONGSTREAM_SERVICE_TOKENIZER_STREAM_STREAM_DECODER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "service/tokenizer/stream/stop_matcher.h"
#include "service/tokenizer/text/utf8.h"
#include "service/tokenizer/text_decoder.h"
#include "service/tokenizer/tokenizer.h"

namespace longstream {

struct StreamDecoderOptions {
  DecodeOptions decode = {};
  // The position of the first token that will be pushed. The positions of deltas count from here.
  uint64_t start_position = 0;
  // The text of the first min_tokens tokens is not searched for stop strings.
  uint64_t min_tokens = 0;
  // incomplete() of the decoder of the tokens before, if this decoder continues their text.
  std::string incomplete = {};
};

// The text that can be sent after a token.
struct TextDelta {
  std::string text;  // UTF-8; may be empty
  // start_position plus the number of tokens whose text is completely in the deltas so far,
  // including this one. The text of the token at this position may have been sent in part.
  uint64_t position = 0;
  // The index of the stop string that was found. The text ends before it, and this is the last
  // delta.
  std::optional<size_t> stop = std::nullopt;
};

class StreamDecoder {
 public:
  // The tokenizer must outlive the decoder. `stop_strings` must not have seen any text.
  StreamDecoder(const Tokenizer& tokenizer, StopMatcher stop_strings,
                StreamDecoderOptions options = {});

  // Takes the next token and returns the text that can be sent. REQUIRES: no delta had a stop, and
  // neither Finish nor Pause was called.
  TextDelta Push(int32_t token);

  // Returns the text that was held back. An incomplete character becomes U+FFFD. The position of
  // the delta covers every token, unless that U+FFFD completes a stop string. REQUIRES: as for
  // Push.
  TextDelta Finish();

  // Returns the text that was held back, without an incomplete character. REQUIRES: as for Push.
  TextDelta Pause();

  // The bytes of an incomplete character at the end. Valid until the decoder changes.
  std::string_view incomplete() const { return decoder_.pending(); }
  // How many bytes of text no delta has, without incomplete(). After a stop: the stop string and
  // the text after it.
  uint64_t undelivered_bytes() const { return decoded_ - delivered_bytes_; }

 private:
  // The text of the first `tokens` tokens ends at byte `text_end` of the whole text.
  struct TokenEnd {
    uint64_t tokens;
    uint64_t text_end;
  };

  void AddTokenEnd(uint64_t tokens, uint64_t text_end);
  TextDelta Deliver(std::string_view text, bool searched);
  // Adds the text that may begin a stop string to the delta.
  void Release(TextDelta* delta);
  // Counts `bytes` more bytes of text as delivered in `delta`.
  void Count(size_t bytes, TextDelta* delta);

  StopMatcher stop_strings_;
  const StreamDecoderOptions options_;
  const InvalidUtf8 invalid_;
  TextDecoder decoder_;

  uint64_t pushed_ = 0;            // tokens that were pushed
  uint64_t decoded_ = 0;           // bytes of text that decoder_ returned
  uint64_t delivered_bytes_ = 0;   // bytes of text in the deltas
  uint64_t delivered_tokens_ = 0;  // tokens whose text is completely in the deltas
  // Ends of tokens whose text is not completely in the deltas; text_end strictly ascends.
  std::deque<TokenEnd> ends_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_STREAM_STREAM_DECODER_H_
