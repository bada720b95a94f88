// Sessions that have read a prompt, for several answers to it.
#ifndef LONGSTREAM_GATEWAY_TURNS_BEGUN_TURNS_H_
#define LONGSTREAM_GATEWAY_TURNS_BEGUN_TURNS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace longstream::gateway {

// How an answer came about.
struct Receipt {
  enum class How { kNew, kContinued, kForked };

  std::string session_id;
  std::string turn_id;
  How how = How::kNew;
};

// A session for each answer, if it could be made: an answer without one reads the prompt by itself.
// Several threads may take sessions at once.
class BegunTurns {
 public:
  // `end` ends a session that nobody has taken.
  BegunTurns(size_t count, std::function<void(const Receipt&)> end)
      : receipts_(count), end_(std::move(end)) {}
  ~BegunTurns() {
    for (const Receipt& receipt : receipts_) {
      if (!receipt.session_id.empty()) end_(receipt);
    }
  }
  BegunTurns(const BegunTurns&) = delete;
  BegunTurns& operator=(const BegunTurns&) = delete;

  size_t size() const { return receipts_.size(); }
  void Set(size_t answer, Receipt receipt) { receipts_[answer] = std::move(receipt); }
  // The caller takes over the session, once. Without an id: there is none.
  Receipt Take(size_t answer) { return std::exchange(receipts_[answer], {}); }

  // Tokens of the prompt that were in the caches when it was read. Absent: it was not read.
  std::optional<uint64_t> cached_tokens;

 private:
  std::vector<Receipt> receipts_;
  const std::function<void(const Receipt&)> end_;
};

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_TURNS_BEGUN_TURNS_H_
