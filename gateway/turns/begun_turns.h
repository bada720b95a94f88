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
  // The session must have this position when the turn starts; absent: any.
  std::optional<uint64_t> expected_position = {};
};

// A session for each answer, if it could be made: an answer without one reads the prompt by itself.
// A session belongs to this object until its turn takes it. Several threads may use it at once,
// each for other answers.
class BegunTurns {
 public:
  // `end` ends the sessions that no turn has taken.
  using End = std::function<void(const std::vector<Receipt>& receipts)>;
  BegunTurns(size_t answers, End end) : receipts_(answers), end_(std::move(end)) {}
  ~BegunTurns() {
    std::vector<Receipt> left;
    for (Receipt& receipt : receipts_) {
      if (!receipt.session_id.empty()) left.push_back(std::move(receipt));
    }
    if (!left.empty()) end_(left);
  }
  BegunTurns(const BegunTurns&) = delete;
  BegunTurns& operator=(const BegunTurns&) = delete;

  size_t size() const { return receipts_.size(); }
  void Set(size_t answer, Receipt receipt) { receipts_[answer] = std::move(receipt); }
  // The session for an answer. Without an id: there is none.
  const Receipt& session(size_t answer) const { return receipts_[answer]; }
  // The turn of the answer has the session from now on.
  void GiveAway(size_t answer) { receipts_[answer] = {}; }

  // Tokens of the prompt that were in the caches when it was read. Absent: it was not read.
  std::optional<uint64_t> cached_tokens;

 private:
  std::vector<Receipt> receipts_;
  const End end_;
};

// The session for one answer.
struct BegunTurn {
  BegunTurns* turns = nullptr;
  size_t answer = 0;

  // Null: there is none.
  const Receipt* session() const {
    if (turns == nullptr || turns->session(answer).session_id.empty()) return nullptr;
    return &turns->session(answer);
  }
  void GiveAway() const {
    if (turns != nullptr) turns->GiveAway(answer);
  }
};

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_TURNS_BEGUN_TURNS_H_
