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

void ResponseLog::Add(const std::string& id, const std::string& owner, ConversationPtr conversation,
                      std::string json) {
  absl::MutexLock lock(&mutex_);
  *bytes_ += json.size();
  entries_.push_back({id, owner, std::move(conversation), std::move(json)});
  by_id_[id] = std::prev(entries_.end());
  while (*bytes_ > max_bytes_ && !entries_.empty()) Erase(entries_.begin());
}

ResponseLog::Entries::iterator ResponseLog::FindEntry(const std::string& id,
                                                      const std::string& owner) const {
  const auto found = by_id_.find(id);
  if (found == by_id_.end() || found->second->owner != owner) return entries_.end();
  return found->second;
}

ResponseLog::ConversationPtr ResponseLog::Find(const std::string& id,
                                               const std::string& owner) const {
  absl::MutexLock lock(&mutex_);
  const auto entry = FindEntry(id, owner);
  return entry == entries_.end() ? nullptr : entry->conversation;
}

std::optional<std::string> ResponseLog::FindJson(const std::string& id,
                                                 const std::string& owner) const {
  absl::MutexLock lock(&mutex_);
  const auto entry = FindEntry(id, owner);
  return entry == entries_.end() ? std::nullopt : std::optional<std::string>(entry->json);
}

bool ResponseLog::Remove(const std::string& id, const std::string& owner) {
  absl::MutexLock lock(&mutex_);
  const auto entry = FindEntry(id, owner);
  if (entry == entries_.end()) return false;
  Erase(entry);
  return true;
}

void ResponseLog::Erase(Entries::iterator entry) {
  *bytes_ -= entry->json.size();
  by_id_.erase(entry->id);
  entries_.erase(entry);
}

}  // namespace longstream::gateway
