// Keeps the sessions in the order of their last use.
#include "gateway/conversations/conversation_index.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace longstream::gateway {

std::optional<ConversationIndex::Found> ConversationIndex::Find(
    const std::vector<ConversationKey>& keys) {
  absl::MutexLock lock(&mutex_);
  for (size_t length = keys.size(); length > 0; --length) {
    const auto place = places_.find(keys[length - 1]);
    if (place == places_.end()) continue;
    const Entries::iterator entry = place->second.entry;
    Found found;
    found.session_id = entry->session.id;
    found.turn_id = place->second.turn_id;
    found.length = length;
    found.taken = !entry->used && entry->head == keys[length - 1];
    found.position = entry->position;
    if (found.taken) SetUsed(entry, true);
    entry->last_use = absl::Now();
    entries_.splice(entries_.end(), entries_, entry);
    return found;
  }
  return std::nullopt;
}

bool ConversationIndex::Take(const Session& session) {
  absl::MutexLock lock(&mutex_);
  const auto known = by_id_.find(session.id);
  if (known == by_id_.end()) {
    Insert(session);
    return true;
  }
  if (known->second->used) return false;
  SetUsed(known->second, true);
  return true;
}

void ConversationIndex::Add(Session session) {
  absl::MutexLock lock(&mutex_);
  const auto known = by_id_.find(session.id);
  if (known != by_id_.end()) Erase(known->second);
  Insert(std::move(session));
}

void ConversationIndex::Insert(Session session) {
  Entry entry;
  entry.session = std::move(session);
  entries_.push_back(std::move(entry));
  by_id_[entries_.back().session.id] = std::prev(entries_.end());
}

void ConversationIndex::SetUsed(Entries::iterator entry, bool used) {
  if (entry->used == used) return;
  entry->used = used;
  size_t& of_owner = by_owner_[entry->session.owner].unused_sessions;
  of_owner = used ? of_owner - 1 : of_owner + 1;
  unused_ = used ? unused_ - 1 : unused_ + 1;
}

void ConversationIndex::Commit(const std::string& session_id, const std::string& turn_id,
                               const std::vector<ConversationKey>& keys, uint64_t position) {
  absl::MutexLock lock(&mutex_);
  const auto found = by_id_.find(session_id);
  if (found == by_id_.end() || keys.empty()) return;
  const Entries::iterator entry = found->second;
  SetUsed(entry, false);
  entry->head = keys.back();
  entry->position = position;
  entry->last_use = absl::Now();
  entries_.splice(entries_.end(), entries_, entry);
  for (size_t i = 0; i + 1 < keys.size(); ++i) {
    // An earlier turn that has read this beginning has read less of anything else.
    if (places_.count(keys[i]) == 0) SetPlace(keys[i], entry, turn_id);
  }
  SetPlace(keys.back(), entry, turn_id);
}

void ConversationIndex::SetPlace(const ConversationKey& key, Entries::iterator entry,
                                 const std::string& turn_id) {
  const auto [found, inserted] = places_.try_emplace(key);
  Place& place = found->second;
  place.turn_id = turn_id;
  if (!inserted) {
    if (place.entry == entry) return;
    TakeKey(place);
  }
  place.entry = entry;
  place.at = entry->keys.size();
  entry->keys.push_back(key);
  ++by_owner_[entry->session.owner].keys;
}

void ConversationIndex::TakeKey(const Place& place) {
  std::vector<ConversationKey>& keys = place.entry->keys;
  keys[place.at] = keys.back();
  places_.at(keys[place.at]).at = place.at;
  keys.pop_back();
  --by_owner_[place.entry->session.owner].keys;
}

void ConversationIndex::Release(const std::string& session_id) {
  absl::MutexLock lock(&mutex_);
  const auto found = by_id_.find(session_id);
  if (found != by_id_.end()) SetUsed(found->second, false);
}

void ConversationIndex::Remove(const std::string& session_id) {
  absl::MutexLock lock(&mutex_);
  const auto found = by_id_.find(session_id);
  if (found != by_id_.end()) Erase(found->second);
}

template <typename MayEnd>
std::optional<ConversationIndex::Session> ConversationIndex::TakeOldestThat(const MayEnd& may_end) {
  const auto oldest = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return !entry.used && may_end(entry.session.owner);
  });
  if (oldest == entries_.end()) return std::nullopt;
  Session session = oldest->session;
  Erase(oldest);
  return session;
}

std::optional<ConversationIndex::Session> ConversationIndex::TakeOldest() {
  absl::MutexLock lock(&mutex_);
  return TakeOldestThat([](const std::string& /*owner*/) { return true; });
}

std::optional<ConversationIndex::Session> ConversationIndex::TakeOldestOf(
    const std::string& owner) {
  absl::MutexLock lock(&mutex_);
  return TakeOldestThat([&owner](const std::string& other) { return other == owner; });
}

std::optional<ConversationIndex::Session> ConversationIndex::TakeBeyondLimits() {
  absl::MutexLock lock(&mutex_);
  size_t Amounts::*exceeded = nullptr;
  if (unused_ > limits_.sessions) exceeded = &Amounts::unused_sessions;
  if (places_.size() > limits_.keys) exceeded = &Amounts::keys;
  if (exceeded == nullptr) return std::nullopt;
  size_t most = 0;
  for (const auto& [owner, amounts] : by_owner_) most = std::max(most, amounts.*exceeded);
  std::unordered_set<std::string> largest;
  for (const auto& [owner, amounts] : by_owner_) {
    if (amounts.*exceeded == most) largest.insert(owner);
  }
  const auto has_most = [&largest](const std::string& owner) { return largest.count(owner) > 0; };
  std::optional<Session> session = TakeOldestThat(has_most);
  return session.has_value() ? session
                             : TakeOldestThat([](const std::string& /*owner*/) { return true; });
}

void ConversationIndex::ForgetUnusedFor(absl::Duration time) {
  absl::MutexLock lock(&mutex_);
  const absl::Time before = absl::Now() - time;
  for (auto entry = entries_.begin(); entry != entries_.end() && entry->last_use < before;) {
    const auto next = std::next(entry);
    if (!entry->used) Erase(entry);
    entry = next;
  }
}

size_t ConversationIndex::num_sessions() const {
  absl::MutexLock lock(&mutex_);
  return entries_.size();
}

void ConversationIndex::Erase(Entries::iterator entry) {
  for (const ConversationKey& key : entry->keys) places_.erase(key);
  SetUsed(entry, true);
  if (const auto owner = by_owner_.find(entry->session.owner); owner != by_owner_.end()) {
    owner->second.keys -= entry->keys.size();
    if (owner->second.unused_sessions == 0 && owner->second.keys == 0) by_owner_.erase(owner);
  }
  by_id_.erase(entry->session.id);
  entries_.erase(entry);
}

}  // namespace longstream::gateway
