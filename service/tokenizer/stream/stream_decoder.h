// Turns a stream of sampled tokens into text that can be sent as it comes.
//
// The text of all deltas put together is Decode() of the tokens, up to the first stop string. No
// delta splits a UTF-8 character, and none reveals part of a stop string: undecided text is held
// back. Memory is bounded by the longest stop string, whatever the stream.
//
// Not thread-safe; one per generated text.
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
  // Position of the first token to be pushed; the positions of the deltas count from here.
  uint64_t start_position = 0;
  // The first min_tokens tokens are not searched for stop strings.
  uint64_t min_tokens = 0;
};

// The text that can be sent after a token.
struct TextDelta {
  std::string text;  // UTF-8; may be empty
  // start_position plus the number of tokens whose text lies wholly in the deltas so far, this one
  // included. Text of the token at this position may have been sent in part.
  uint64_t position = 0;
  // Index of the stop string that was found: the text ends before it, and this is the last delta.
  std::optional<size_t> stop = std::nullopt;
};

class StreamDecoder {
 public:
  // The tokenizer must outlive the decoder. `stop_strings` is taken as created.
  StreamDecoder(const Tokenizer& tokenizer, StopMatcher stop_strings,
                StreamDecoderOptions options = {});

  // REQUIRES: no delta had a stop, and Finish was not called.
  TextDelta Push(int32_t token);

  // The text held back, an incomplete character as U+FFFD; its position covers every token, unless
  // that U+FFFD completes a stop string. REQUIRES: as Push.
  TextDelta Finish();

 private:
  // The first `tokens` tokens end at byte `text_end` of the text of the whole stream.
  struct TokenEnd {
    uint64_t tokens;
    uint64_t text_end;
  };

  void AddTokenEnd(uint64_t tokens, uint64_t text_end);
  TextDelta Deliver(std::string_view text, bool searched);

  StopMatcher stop_strings_;
  const StreamDecoderOptions options_;
  const InvalidUtf8 invalid_;
  TextDecoder decoder_;

  uint64_t pushed_ = 0;            // tokens
  uint64_t decoded_ = 0;           // bytes of text that decoder_ gave
  uint64_t delivered_bytes_ = 0;   // bytes of text in the deltas
  uint64_t delivered_tokens_ = 0;  // tokens whose text lies wholly in them
  std::deque<TokenEnd> ends_;      // of the other tokens; text_end ascends strictly
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_STREAM_STREAM_DECODER_H_
