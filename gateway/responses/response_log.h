// The responses that clients may refer to later.
#ifndef LONGSTREAM_GATEWAY_RESPONSES_RESPONSE_LOG_H_
#define LONGSTREAM_GATEWAY_RESPONSES_RESPONSE_LOG_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "gateway/responses/response_stream.h"
#include "gateway_notes.pb.h"
#include "longstream/v1/longstream.pb.h"

namespace longstream::gateway {

// A conversation, as a chain of what each response has added to it. A chain ends by recursion, so
// it must not have more than kMostParts. Immutable.
class Conversation {
 public:
  using Ptr = std::shared_ptr<const Conversation>;

  // Goes on behind `earlier` (null: it begins) with these messages.
  Conversation(Ptr earlier, std::vector<v1::Message> messages);
  Conversation(const Conversation&) = delete;
  Conversation& operator=(const Conversation&) = delete;

  // All messages, from the first one on.
  std::vector<v1::Message> Messages() const;
  // The messages of the last two parts. If a response ends the conversation, its request and its
  // answer have added them.
  std::vector<v1::Message> LastMessages() const;
  // That all messages take in memory.
  uint64_t bytes() const { return bytes_; }
  size_t parts() const { return parts_; }

  static constexpr size_t kMostParts = 8192;

 private:
  const Ptr earlier_;
  const std::vector<v1::Message> messages_;
  uint64_t bytes_ = 0;
  size_t parts_ = 0;
};

// Where the note of a response is.
struct NotePlace {
  std::string session_id;
  // How many notes of responses before it are needed for its conversation.
  uint32_t earlier_notes = 0;
};

// Keeps responses in memory, within a limit of bytes. A response belongs to its owner: for others
// it does not exist. Thread-safe.
class ResponseLog {
 public:
  struct Limits {
    uint64_t bytes = uint64_t{256} << 20;
    size_t running_of_owner = 16;
  };
  explicit ResponseLog(const Limits& limits) : limits_(limits) {}

  struct Stored {
    // With the answer. Null: the response has failed, or is running.
    Conversation::Ptr conversation;
    std::string json;
    // The events of a response that is or was made in the background; nullptr: it was not.
    std::shared_ptr<ResponseStream> events;
    bool running = false;
    // Of a response that has ended: its note (gateway/notes). Without a session: it has none.
    NotePlace note = {};
    // Of a response that another gateway makes, and FoundResponse::beat.
    std::shared_ptr<const notes::Begun> begun = nullptr;
    absl::Time beat = absl::InfinitePast();
  };

  // Keeps a response. Beyond the limit of bytes, the oldest response of the owner with the most is
  // forgotten, but none that is running. False: as many responses of the owner as allowed are
  // running; it is not kept.
  bool Add(const std::string& id, const std::string& owner, Stored response)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // A running response has another JSON now.
  void Update(const std::string& id, std::string json) ABSL_LOCKS_EXCLUDED(mutex_);
  // A running response has ended. False: it was removed meanwhile.
  bool End(const std::string& id, Conversation::Ptr conversation, std::string json,
           NotePlace note = {}) ABSL_LOCKS_EXCLUDED(mutex_);
  // Counts the events of a response that has ended: all of them are written.
  void CountEvents(const std::string& id) ABSL_LOCKS_EXCLUDED(mutex_);

  // Absent: the owner has no such response, or it was forgotten.
  std::optional<Stored> Find(const std::string& id, const std::string& owner) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Cancels the response if it is running. False: there is none.
  bool Remove(const std::string& id, const std::string& owner) ABSL_LOCKS_EXCLUDED(mutex_);
  // Cancels all that are running, and takes no others. `leave`: without their turns.
  void CancelAll(bool leave) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Entry {
    std::string id;
    std::string owner;
    Stored response;
    // That were counted last. Responses share parts of conversations, and each counts its whole
    // one.
    uint64_t bytes = 0;
  };
  using Entries = std::list<Entry>;  // the oldest one first
  struct Amounts {
    size_t entries = 0;
    size_t running = 0;
    uint64_t bytes = 0;
  };

  Entries::iterator FindEntry(const std::string& id, const std::string& owner) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Erase(Entries::iterator entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Count(Entry* entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EraseBeyondLimit() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Limits limits_;
  mutable absl::Mutex mutex_;
  bool takes_running_ ABSL_GUARDED_BY(mutex_) = true;
  mutable Entries entries_ ABSL_GUARDED_BY(mutex_);
  std::unordered_map<std::string, Entries::iterator> by_id_ ABSL_GUARDED_BY(mutex_);
  std::unordered_map<std::string, Amounts> by_owner_ ABSL_GUARDED_BY(mutex_);
  uint64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // the sum over entries_
};

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_RESPONSES_RESPONSE_LOG_H_
