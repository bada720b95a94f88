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

  // Keeps a response: its conversation with the answer, and its JSON. Forgets the oldest ones
  // beyond the limit.
  void Add(const std::string& id, const std::string& owner, ConversationPtr conversation,
           std::string json) ABSL_LOCKS_EXCLUDED(mutex_);

  // Null, or absent: the owner has no such response, or it was forgotten.
  ConversationPtr Find(const std::string& id, const std::string& owner) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  std::optional<std::string> FindJson(const std::string& id, const std::string& owner) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  // False: there is none.
  bool Remove(const std::string& id, const std::string& owner) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Entry {
    std::string id;
    std::string owner;
    ConversationPtr conversation;
    std::string json;
  };
  using Entries = std::list<Entry>;  // the oldest one first

  Entries::iterator FindEntry(const std::string& id, const std::string& owner) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Erase(Entries::iterator entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const uint64_t max_bytes_;
  // Of all parts of conversations that exist, and of the JSON of entries_.
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
