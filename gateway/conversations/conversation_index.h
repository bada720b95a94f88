// Which session has read the most of a conversation.
#ifndef LONGSTREAM_GATEWAY_CONVERSATIONS_CONVERSATION_INDEX_H_
#define LONGSTREAM_GATEWAY_CONVERSATIONS_CONVERSATION_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gateway/conversations/conversation_key.h"

namespace longstream::gateway {

// Clients of a stateless API send their whole conversation with each request. The index remembers,
// for each beginning of a conversation that a session has read, the session and the turn that has
// read it. So the next request with this beginning finds them.
//
// The index is a hint: a session that it names may be gone. It makes no calls. Thread-safe.
class ConversationIndex {
 public:
  // A session that the index knows, for its end.
  struct Session {
    std::string id;
    std::string owner;  // the credential with which it was opened
  };
  // The longest known beginning of a conversation.
  struct Found {
    std::string session_id;
    std::string turn_id;  // the turn that has read the beginning
    size_t length = 0;    // of the beginning, in keys
    // The session has read the beginning and nothing else, and no request uses it: the caller may
    // go on with it, and calls Commit, Release or Remove later. Otherwise the caller forks it at
    // the end of the turn.
    bool taken = false;
    uint64_t position = 0;  // of the session, if it is taken
  };

  // A limit of all beginnings together, and of sessions that no request uses. Beyond it, sessions
  // have to end (TakeBeyondLimits).
  struct Limits {
    size_t sessions = 1000;
    size_t keys = 1'000'000;
  };
  explicit ConversationIndex(const Limits& limits) : limits_(limits) {}

  // keys[i]: of the first i + 1 parts of the conversation.
  std::optional<Found> Find(const std::vector<ConversationKey>& keys) ABSL_LOCKS_EXCLUDED(mutex_);

  // The caller goes on with a session that it has found elsewhere. False: a request uses it.
  // Otherwise the caller uses it as if Found.taken.
  bool Take(const Session& session) ABSL_LOCKS_EXCLUDED(mutex_);

  // The caller has opened or forked a session, and uses it as if Found.taken. A session with the
  // same id is gone.
  void Add(Session session) ABSL_LOCKS_EXCLUDED(mutex_);

  // A turn of a session that the caller uses has read the conversation with these keys, of which
  // the last one includes the answer of the turn. `position`: of the session after the turn.
  void Commit(const std::string& session_id, const std::string& turn_id,
              const std::vector<ConversationKey>& keys, uint64_t position = 0)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The turn has failed, and the session is as it was.
  void Release(const std::string& session_id) ABSL_LOCKS_EXCLUDED(mutex_);
  // The session is gone.
  void Remove(const std::string& session_id) ABSL_LOCKS_EXCLUDED(mutex_);

  // Each forgets an unused session, so that the caller ends it: the one that was not used for the
  // longest time. Absent: there is none.
  std::optional<Session> TakeOldest() ABSL_LOCKS_EXCLUDED(mutex_);
  // Of the sessions of this owner.
  std::optional<Session> TakeOldestOf(const std::string& owner) ABSL_LOCKS_EXCLUDED(mutex_);
  // If a limit is exceeded: of the sessions of the owner with the most sessions or keys, so that no
  // owner takes the places of all others.
  std::optional<Session> TakeBeyondLimits() ABSL_LOCKS_EXCLUDED(mutex_);

  // Forgets the unused sessions that were not used for this long: they have ended by themselves.
  void ForgetUnusedFor(absl::Duration time) ABSL_LOCKS_EXCLUDED(mutex_);

  size_t num_sessions() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Entry {
    Session session;
    ConversationKey head{};  // of all that it has read
    uint64_t position = 0;   // with its head
    bool used = true;        // by a request
    absl::Time last_use = absl::Now();
    std::vector<ConversationKey> keys;  // those that name it in places_, in any order
  };
  // The amounts that the sessions of one owner take.
  struct Amounts {
    size_t unused_sessions = 0;
    size_t keys = 0;
  };
  // The last use of the first one is the longest ago.
  using Entries = std::list<Entry>;
  struct Place {
    Entries::iterator entry;
    size_t at = 0;  // its place in the keys of the entry
    std::string turn_id;
  };

  void Insert(Session session) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetUsed(Entries::iterator entry, bool used) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetPlace(const ConversationKey& key, Entries::iterator entry, const std::string& turn_id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes the key of a place from the keys of its entry, in constant time.
  void TakeKey(const Place& place) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Erase(Entries::iterator entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The oldest unused session whose owner may lose one.
  template <typename MayEnd>
  std::optional<Session> TakeOldestThat(const MayEnd& may_end)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Limits limits_;
  mutable absl::Mutex mutex_;
  Entries entries_ ABSL_GUARDED_BY(mutex_);
  std::unordered_map<std::string, Entries::iterator> by_id_ ABSL_GUARDED_BY(mutex_);
  std::unordered_map<std::string, Amounts> by_owner_ ABSL_GUARDED_BY(mutex_);
  size_t unused_ ABSL_GUARDED_BY(mutex_) = 0;  // sessions
  std::unordered_map<ConversationKey, Place, KeyHash> places_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_CONVERSATIONS_CONVERSATION_INDEX_H_
