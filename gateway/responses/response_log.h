// The responses that clients may refer to later.
#ifndef LONGSTREAM_GATEWAY_RESPONSES_RESPONSE_LOG_H_
#define LONGSTREAM_GATEWAY_RESPONSES_RESPONSE_LOG_H_

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "gateway/responses/response_stream.h"
#include "longstream/v1/longstream.pb.h"

namespace longstream::gateway {

// Keeps responses in memory, the last ones within a limit of bytes. A response belongs to its
// owner: for others it does not exist. Thread-safe.
class ResponseLog {
 public:
  // A conversation, as a chain of what each response has added to it.
  class Conversation;
  using ConversationPtr = std::shared_ptr<const Conversation>;

  explicit ResponseLog(uint64_t max_bytes) : max_bytes_(max_bytes) {}

  // A conversation that goes on behind `earlier` (null: it begins) with these messages.
  ConversationPtr Extend(ConversationPtr earlier, std::vector<v1::Message> messages);

  struct Stored {
    ConversationPtr conversation;  // with the answer, if it has ended
    std::string json;
    // The events of a response that is or was made in the background; nullptr: it was not.
    std::shared_ptr<ResponseStream> events;
    bool running = false;
  };

  // Keeps a response. Forgets the oldest ones beyond the limit, but none that is running.
  void Add(const std::string& id, const std::string& owner, Stored response)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // A running response has ended. Nothing happens if it was removed.
  void End(const std::string& id, ConversationPtr conversation, std::string json)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Absent: the owner has no such response, or it was forgotten.
  std::optional<Stored> Find(const std::string& id, const std::string& owner) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Cancels the response if it is running. False: there is none.
  bool Remove(const std::string& id, const std::string& owner) ABSL_LOCKS_EXCLUDED(mutex_);
  // Cancels all that are running.
  void CancelAll() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Entry {
    std::string id;
    std::string owner;
    Stored response;
    uint64_t bytes = 0;  // of the JSON and the events, as far as they are counted
  };
  using Entries = std::list<Entry>;  // the oldest one first

  Entries::iterator FindEntry(const std::string& id, const std::string& owner) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Erase(Entries::iterator entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Count(Entry* entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EraseBeyondLimit() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const uint64_t max_bytes_;
  // Of all parts of conversations that exist, and of entries_.
  const std::shared_ptr<std::atomic<uint64_t>> bytes_ = std::make_shared<std::atomic<uint64_t>>(0);
  mutable absl::Mutex mutex_;
  mutable Entries entries_ ABSL_GUARDED_BY(mutex_);
  std::unordered_map<std::string, Entries::iterator> by_id_ ABSL_GUARDED_BY(mutex_);
};

class ResponseLog::Conversation {
 public:
  Conversation(std::shared_ptr<std::atomic<uint64_t>> total, ConversationPtr earlier,
               std::vector<v1::Message> messages);
  ~Conversation();
  Conversation(const Conversation&) = delete;
  Conversation& operator=(const Conversation&) = delete;

  // All messages, from the first one on.
  std::vector<v1::Message> Messages() const;

 private:
  const std::shared_ptr<std::atomic<uint64_t>> total_;
  mutable ConversationPtr earlier_;
  const std::vector<v1::Message> messages_;
  uint64_t bytes_ = 0;
};

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_RESPONSES_RESPONSE_LOG_H_
