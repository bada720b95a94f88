// Adds up the blocks of values and histories.
#include "service/chat/history_bytes.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace longstream::chat {
namespace {

// std::make_shared puts two counters and a pointer before the object.
constexpr size_t kSharedHeader = 16;

uint64_t BytesOf(const Text& text) { return BlockBytes(text.bytes()) + BlockBytes(text.foreign()); }

// The blocks of a dict, without its values.
uint64_t OwnBytes(const Dict& dict) {
  uint64_t bytes = BlockBytes(dict.entries());
  for (const Dict::Entry& entry : dict.entries()) {
    bytes += BytesOf(entry.key);
    if (dict.size() < Dict::kIndexedSize) continue;
    bytes +=
        NodeBytes<std::pair<const std::string, size_t>>() + BlockBytes(entry.key.text().bytes());
  }
  return bytes;
}

// The charge of a value, and the pointers that keep it alive together with the value.
uint64_t ChargeBytes() {
  return BlockBytes(kSharedHeader + sizeof(HostCharge)) +
         BlockBytes(kSharedHeader + 2 * sizeof(std::shared_ptr<const void>));
}

// The memory of a history without the values of its conversation.
uint64_t OwnBytes(const History& history) {
  // The names of all members are here so that this does not compile if a member is added.
  const auto& [conversation, text, position, now, bytes, charge] = history;
  const auto& [messages, tools, documents, arguments, prompts, continues] = conversation;
  return BlockBytes(kSharedHeader + sizeof(History)) + BytesOf(text) + BlockBytes(messages) +
         OwnBytes(arguments);
}

// Replaces each value of the conversation by visit(value, before). `before`: the value at the same
// place of the earlier conversation, or nullptr.
template <typename Visit>
void Rewrite(const Conversation* earlier, Conversation* conversation, Visit visit) {
  for (size_t i = 0; i < conversation->messages.size(); ++i) {
    const bool has_before = earlier != nullptr && i < earlier->messages.size();
    Value& message = conversation->messages[i];
    message = visit(message, has_before ? &earlier->messages[i] : nullptr);
  }
  for (Value Conversation::*member : {&Conversation::tools, &Conversation::documents}) {
    Value& value = conversation->*member;
    value = visit(value, earlier == nullptr ? nullptr : &(earlier->*member));
  }
  Dict& arguments = conversation->arguments;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Dict::Entry& entry = arguments.entries()[i];
    const Value* before = earlier == nullptr ? nullptr : earlier->arguments.Find(entry.key);
    arguments.Set(entry.key, visit(entry.value, before));
  }
}

}  // namespace

uint64_t BytesOf(const Value& value) {
  if (value.is_text()) {
    return BlockBytes(kSharedHeader + sizeof(Text)) + BytesOf(value.text());
  }
  uint64_t bytes = 0;
  if (value.is_list()) {
    const std::vector<Value>& items = value.list().items;
    bytes += BlockBytes(kSharedHeader + sizeof(List)) + BlockBytes(items);
    for (const Value& item : items) bytes += BytesOf(item);
  } else if (value.is_dict()) {
    bytes += BlockBytes(kSharedHeader + sizeof(Dict)) + OwnBytes(value.dict());
    for (const Dict::Entry& entry : value.dict().entries()) bytes += BytesOf(entry.value);
  }
  return bytes;
}

absl::Status ChargeHistory(const History* before, HostMemory* memory, History* history) {
  const Conversation* const earlier = before == nullptr ? nullptr : &before->conversation;
  uint64_t own_bytes = OwnBytes(*history);
  std::vector<uint64_t> new_bytes;  // of each value, in the order of Rewrite; 0: nothing to count
  history->bytes = own_bytes;
  uint64_t sum = own_bytes;
  Rewrite(earlier, &history->conversation, [&](const Value& value, const Value* same) {
    const uint64_t blocks = BytesOf(value);
    const uint64_t bytes = blocks == 0 ? 0 : blocks + ChargeBytes();
    const bool is_shared = same != nullptr && value.IsSame(*same);
    history->bytes += bytes;
    new_bytes.push_back(is_shared ? 0 : bytes);
    sum += new_bytes.back();
    return value;
  });
  if (memory == nullptr) return absl::OkStatus();
  if (absl::Status status = memory->CheckConversation(history->bytes); !status.ok()) return status;
  HostCharge charge(memory);
  if (absl::Status status = charge.Add(sum); !status.ok()) return status;
  size_t next = 0;
  Rewrite(earlier, &history->conversation, [&](const Value& value, const Value* /*same*/) {
    const uint64_t bytes = new_bytes[next++];
    if (bytes == 0) return value;
    return value.KeepingAlive(std::make_shared<const HostCharge>(charge.Split(bytes)));
  });
  history->charge = std::move(charge);
  return absl::OkStatus();
}

}  // namespace longstream::chat
