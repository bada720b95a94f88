#include "gateway/responses/response_log.h"

#include <algorithm>
#include <utility>

namespace longstream::gateway {

ResponseLog::Conversation::Conversation(std::shared_ptr<std::atomic<uint64_t>> total,
                                        ConversationPtr earlier, std::vector<v1::Message> messages)
    : total_(std::move(total)), earlier_(std::move(earlier)), messages_(std::move(messages)) {
  bytes_ = sizeof(*this);
  for (const v1::Message& message : messages_) bytes_ += message.SpaceUsedLong();
  *total_ += bytes_;
}

ResponseLog::Conversation::~Conversation() {
  *total_ -= bytes_;
  // A long chain must not end by recursion.
  ConversationPtr next = std::move(earlier_);
  while (next != nullptr && next.use_count() == 1) next = std::move(next->earlier_);
}

std::vector<v1::Message> ResponseLog::Conversation::Messages() const {
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

ResponseLog::ConversationPtr ResponseLog::Extend(ConversationPtr earlier,
                                                 std::vector<v1::Message> messages) {
  return std::make_shared<const Conversation>(bytes_, std::move(earlier), std::move(messages));
}

void ResponseLog::Add(const std::string& id, const std::string& owner, Stored response) {
  absl::MutexLock lock(&mutex_);
  entries_.push_back({id, owner, std::move(response)});
  by_id_[id] = std::prev(entries_.end());
  Count(&entries_.back());
  EraseBeyondLimit();
}

void ResponseLog::End(const std::string& id, ConversationPtr conversation, std::string json) {
  absl::MutexLock lock(&mutex_);
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return;
  Entry& entry = *found->second;
  entry.response.conversation = std::move(conversation);
  entry.response.json = std::move(json);
  entry.response.running = false;
  Count(&entry);
  EraseBeyondLimit();
}

void ResponseLog::Count(Entry* entry) {
  const Stored& response = entry->response;
  *bytes_ -= entry->bytes;
  entry->bytes = response.json.size();
  // The events of a running response grow; their number has a limit of its own.
  if (response.events != nullptr && !response.running) entry->bytes += response.events->bytes();
  *bytes_ += entry->bytes;
}

void ResponseLog::EraseBeyondLimit() {
  for (auto entry = entries_.begin(); entry != entries_.end() && *bytes_ > max_bytes_;) {
    const auto next = std::next(entry);
    if (!entry->response.running) Erase(entry);
    entry = next;
  }
}

void ResponseLog::CancelAll() {
  absl::MutexLock lock(&mutex_);
  for (const Entry& entry : entries_) {
    if (entry.response.running) entry.response.events->Cancel();
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
  *bytes_ -= entry->bytes;
  by_id_.erase(entry->id);
  entries_.erase(entry);
}

}  // namespace longstream::gateway
