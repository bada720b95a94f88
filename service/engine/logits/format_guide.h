// The tokens with which an answer can still get the form that its turn asks for.
#ifndef LONGSTREAM_SERVICE_ENGINE_LOGITS_FORMAT_GUIDE_H_
#define LONGSTREAM_SERVICE_ENGINE_LOGITS_FORMAT_GUIDE_H_

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "service/grammar/matcher.h"
#include "service/grammar/token_masks.h"
#include "service/tokenizer/tokenizer.h"

namespace longstream {

// Follows the answer of one turn. Used by one thread.
class FormatGuide {
 public:
  // `stop_tokens` end the turn, and give no text. They are allowed where the form is complete, and
  // nowhere else. `begins_text`: no token before the answer gives text, so the tokenizer may remove
  // a space from the first one. The tokenizer must outlive the guide.
  FormatGuide(std::shared_ptr<const TokenMasks> masks, const Tokenizer& tokenizer,
              const std::vector<int32_t>& stop_tokens, bool begins_text);

  // The answer goes on with the token, or ends with it. Returns whether the form allows this, and
  // whether the matcher could read it (overflowed()).
  bool Take(int32_t token);
  bool overflowed() const { return matcher_.overflowed() || matcher_.bytes() > kMostBytes; }

  // Finds allowed() for the next token. FAILED_PRECONDITION: the form is not complete, but no token
  // can follow. TooManyReadings: as for TokenMasks::Fill.
  absl::Status FindAllowed();
  // Bit t % 32 of word t / 32: token t may follow. Valid until the next FindAllowed.
  const uint32_t* allowed() const { return allowed_.data(); }
  // Whether FindAllowed has found no token, because the form is complete.
  bool IsOver() const { return is_over_; }

 private:
  // Of the readings of one answer.
  static constexpr size_t kMostBytes = size_t{32} << 20;

  bool IsStop(int32_t token) const;
  bool HasText(int32_t token) const;
  // Finds the tokens with text if the answer begins the text of its sequence. Errors as for Fill.
  absl::Status FindFirst();
  // Whether the answer can go on with these bytes. Changes nothing.
  bool CanRead(std::string_view bytes);
  void SetBit(int32_t token, bool value);

  const std::shared_ptr<const TokenMasks> masks_;
  const Tokenizer& tokenizer_;
  const std::vector<int32_t> stop_tokens_;
  bool begins_text_;
  Matcher matcher_;
  std::vector<uint32_t> allowed_;
  bool is_over_ = false;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_LOGITS_FORMAT_GUIDE_H_
