// The sessions whose caches are being saved, and those that wait for it.
#ifndef LONGSTREAM_SERVICE_SERVING_CACHES_SAVE_QUEUE_H_
#define LONGSTREAM_SERVICE_SERVING_CACHES_SAVE_QUEUE_H_

#include <algorithm>
#include <cstddef>
#include <deque>
#include <optional>
#include <set>
#include <utility>

namespace longstream {

// A snapshot holds memory from its beginning until it is written, so few have begun at any time. A
// session waits at most once, however many turns end meanwhile. Its next snapshot is that of the
// last of these turns. `Name` names a session. Not thread-safe.
template <typename Name>
class SaveQueue {
 public:
  SaveQueue(size_t most_begun, size_t most_waiting)
      : most_begun_(most_begun), most_waiting_(most_waiting) {}

  // Whether the session's snapshot may begin now. It may not while an earlier one of this session
  // is being written. If it may not, the session waits, unless too many do.
  bool Begin(const Name& session) {
    if (!paused_ && begun_.size() < most_begun_ && begun_.insert(session).second) {
      std::erase(waiting_, session);
      return true;
    }
    Wait(session);
    return false;
  }
  // The session waits, unless too many do.
  void Wait(const Name& session) {
    const bool waits = std::find(waiting_.begin(), waiting_.end(), session) != waiting_.end();
    if (!waits && waiting_.size() < most_waiting_) waiting_.push_back(session);
  }

  // The session's snapshot was written or given up.
  void End(const Name& session) { begun_.erase(session); }
  // A session whose snapshot may begin now, and which does not wait any more: call Begin for it.
  std::optional<Name> Next() {
    if (paused_ || begun_.size() >= most_begun_) return std::nullopt;
    // A session with a snapshot that is not written goes on to wait.
    const auto next = std::find_if(waiting_.begin(), waiting_.end(), [this](const Name& session) {
      return !begun_.contains(session);
    });
    if (next == waiting_.end()) return std::nullopt;
    std::optional<Name> found = std::move(*next);
    waiting_.erase(next);
    return found;
  }

  void ForgetWaiting() { waiting_.clear(); }

  // While the queue is paused, no snapshot begins.
  void SetPaused(bool paused) { paused_ = paused; }
  bool paused() const { return paused_; }

  size_t num_begun() const { return begun_.size(); }
  size_t num_waiting() const { return waiting_.size(); }

 private:
  const size_t most_begun_;
  const size_t most_waiting_;
  bool paused_ = false;
  std::set<Name> begun_;
  std::deque<Name> waiting_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_CACHES_SAVE_QUEUE_H_
