// Moves a matcher along the answer's bytes.
#include "service/engine/logits/format_guide.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/types/span.h"

namespace longstream {

FormatGuide::FormatGuide(std::shared_ptr<const TokenMasks> masks, const Tokenizer& tokenizer,
                         const std::vector<int32_t>& stop_tokens, bool begins_text)
    : masks_(std::move(masks)),
      tokenizer_(tokenizer),
      stop_tokens_(stop_tokens),
      begins_text_(begins_text),
      matcher_(masks_->grammar()),
      allowed_(masks_->words()) {}

bool FormatGuide::IsStop(int32_t token) const {
  return std::find(stop_tokens_.begin(), stop_tokens_.end(), token) != stop_tokens_.end();
}

bool FormatGuide::HasText(int32_t token) const {
  return !tokenizer_.IsSpecial(token) && !tokenizer_.TokenBytes(token).empty();
}

bool FormatGuide::Take(int32_t token) {
  if (IsStop(token)) return matcher_.CanEnd();
  const std::string_view bytes =
      begins_text_ ? tokenizer_.FirstTokenBytes(token) : tokenizer_.TokenBytes(token);
  if (!HasText(token)) return false;
  for (const char byte : bytes) {
    if (!matcher_.Push(static_cast<uint8_t>(byte))) return false;
  }
  matcher_.Commit();
  begins_text_ = false;
  return !overflowed();
}

absl::Status FormatGuide::FindAllowed() {
  absl::Status found =
      begins_text_ ? FindFirst() : masks_->Fill(matcher_, absl::MakeSpan(allowed_));
  if (!found.ok()) return found;
  for (const int32_t token : stop_tokens_) SetBit(token, matcher_.CanEnd());
  const bool any =
      std::any_of(allowed_.begin(), allowed_.end(), [](uint32_t word) { return word != 0; });
  is_over_ = !any && matcher_.CanEnd();
  if (any || is_over_) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "response_format: the format is not complete, and no token of the vocabulary can follow");
}

absl::Status FormatGuide::FindFirst() {
  std::fill(allowed_.begin(), allowed_.end(), 0);
  const uint64_t most_work = matcher_.work() + TokenMasks::kMostWork;
  for (int32_t token = 0; token < tokenizer_.vocab_size(); ++token) {
    if (HasText(token) && CanRead(tokenizer_.FirstTokenBytes(token))) SetBit(token, true);
    if (overflowed() || matcher_.work() > most_work) return TooManyReadings();
  }
  return absl::OkStatus();
}

bool FormatGuide::CanRead(std::string_view bytes) {
  const size_t depth = matcher_.depth();
  const bool can = std::all_of(bytes.begin(), bytes.end(), [&](char byte) {
    return matcher_.Push(static_cast<uint8_t>(byte));
  });
  matcher_.Undo(matcher_.depth() - depth);
  return can;
}

void FormatGuide::SetBit(int32_t token, bool value) {
  uint32_t& word = allowed_[static_cast<size_t>(token) / 32];
  const uint32_t bit = uint32_t{1} << (token % 32);
  word = value ? word | bit : word & ~bit;
}

}  // namespace longstream
