#include "gateway/responses/response_log.h"

#include <algorithm>
#include <utility>

namespace longstream::gateway {

Conversation::Conversation(Ptr earlier, std::vector<v1::Message> messages)
    : earlier_(std::move(earlier)), messages_(std::move(messages)) {
  bytes_ = sizeof(*this) + (earlier_ == nullptr ? 0 : earlier_->bytes_);
  parts_ = 1 + (earlier_ == nullptr ? 0 : earlier_->parts_);
  for (const v1::Message& message : messages_) bytes_ += message.SpaceUsedLong();
}

std::vector<v1::Message> Conversation::Messages() const {
  std::vector<const Conversation*> parts;
  for (const Conversation* part = this; part != nullptr; part = part->earlier_.get()) {
    parts.push_back(part);
  }
  std::vector<v1::Message> messages;
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    messages.insert(messages.end(), (*part)->messages_.begin(), (*part)->messages_.end());
  }
  return messages;
}

std::vector<v1::Message> Conversation::LastMessages() const {
  std::vector<v1::Message> messages;
  if (earlier_ != nullptr) messages = earlier_->messages_;
  messages.insert(messages.end(), messages_.begin(), messages_.end());
  return messages;
}

bool ResponseLog::Add(const std::string& id, const std::string& owner, Stored response) {
  absl::MutexLock lock(&mutex_);
  Amounts& amounts = by_owner_[owner];
  if (response.running && (!takes_running_ || amounts.running >= limits_.running_of_owner)) {
    if (amounts.entries == 0) by_owner_.erase(owner);
    return false;
  }
  ++amounts.entries;
  if (response.running) ++amounts.running;
  entries_.push_back({id, owner, std::move(response)});
  by_id_[id] = std::prev(entries_.end());
  Count(&entries_.back());
  EraseBeyondLimit();
  return true;
}

void ResponseLog::Update(const std::string& id, std::string json) {
  absl::MutexLock lock(&mutex_);
  const auto found = by_id_.find(id);
  if (found == by_id_.end() || !found->second->response.running) return;
  found->second->response.json = std::move(json);
  Count(&*found->second);
}

bool ResponseLog::End(const std::string& id, Conversation::Ptr conversation, std::string json,
                      NotePlace note) {
  absl::MutexLock lock(&mutex_);
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return false;
  Entry& entry = *found->second;
  if (std::exchange(entry.response.running, false)) --by_owner_[entry.owner].running;
  entry.response.conversation = std::move(conversation);
  entry.response.json = std::move(json);
  entry.response.note = std::move(note);
  Count(&entry);
  EraseBeyondLimit();
  return true;
}

void ResponseLog::CountEvents(const std::string& id) {
  absl::MutexLock lock(&mutex_);
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return;
  Count(&*found->second);
  EraseBeyondLimit();
}

void ResponseLog::Count(Entry* entry) {
  const Stored& response = entry->response;
  uint64_t bytes = sizeof(Entry) + 2 * entry->id.size() + entry->owner.size();
  bytes += response.json.size();
  if (response.conversation != nullptr) bytes += response.conversation->bytes();
  if (response.events != nullptr) bytes += response.events->bytes();
  bytes_ += bytes - entry->bytes;
  by_owner_[entry->owner].bytes += bytes - entry->bytes;
  entry->bytes = bytes;
}

void ResponseLog::EraseBeyondLimit() {
  while (bytes_ > limits_.bytes) {
    const auto most = std::max_element(
        by_owner_.begin(), by_owner_.end(),
        [](const auto& a, const auto& b) { return a.second.bytes < b.second.bytes; });
    const auto oldest = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
      return !entry.response.running && entry.owner == most->first;
    });
    const auto any = std::find_if(entries_.begin(), entries_.end(),
                                  [](const Entry& entry) { return !entry.response.running; });
    if (any == entries_.end()) return;
    Erase(oldest == entries_.end() ? any : oldest);
  }
}

void ResponseLog::CancelAll(bool leave) {
  absl::MutexLock lock(&mutex_);
  takes_running_ = false;
  for (const Entry& entry : entries_) {
    if (!entry.response.running) continue;
    leave ? entry.response.events->Leave() : entry.response.events->Cancel();
  }
}

ResponseLog::Entries::iterator ResponseLog::FindEntry(const std::string& id,
                                                      const std::string& owner) const {
  const auto found = by_id_.find(id);
  if (found == by_id_.end() || found->second->owner != owner) return entries_.end();
  return found->second;
}

std::optional<ResponseLog::Stored> ResponseLog::Find(const std::string& id,
                                                     const std::string& owner) const {
  absl::MutexLock lock(&mutex_);
  const auto entry = FindEntry(id, owner);
  return entry == entries_.end() ? std::nullopt : std::optional<Stored>(entry->response);
}

bool ResponseLog::Remove(const std::string& id, const std::string& owner) {
  absl::MutexLock lock(&mutex_);
  const auto entry = FindEntry(id, owner);
  if (entry == entries_.end()) return false;
  if (entry->response.running) entry->response.events->Cancel();
  Erase(entry);
  return true;
}

void ResponseLog::Erase(Entries::iterator entry) {
  const auto amounts = by_owner_.find(entry->owner);
  bytes_ -= entry->bytes;
  amounts->second.bytes -= entry->bytes;
  if (entry->response.running) --amounts->second.running;
  if (--amounts->second.entries == 0) by_owner_.erase(amounts);
  by_id_.erase(entry->id);
  entries_.erase(entry);
}

}  // namespace longstream::gateway
