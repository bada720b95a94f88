// Counts the memory of the conversations that sessions remember.
#ifndef LONGSTREAM_SERVICE_CHAT_HISTORY_BYTES_H_
#define LONGSTREAM_SERVICE_CHAT_HISTORY_BYTES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "service/chat/history.h"
#include "service/host_memory/host_memory.h"
#include "service/jinja/values/value.h"

namespace longstream::chat {

// The bytes that the allocator has given for a value of a conversation and for everything inside
// it, without the Value object itself. It is right to a few percent. REQUIRES: the value consists
// of texts, lists, dicts, numbers, booleans and None, like all values from JSON.
uint64_t BytesOf(const Value& value);

// Counts a new history in `memory` and sets its `bytes` and `charge`. Call it once the text has
// been rendered. Messages and arguments that the history shares with `before`, the history that it
// continues, are counted once: each value keeps its own charge, which ends with the last history
// that holds the value. before nullptr: the history shares nothing. memory nullptr: only `bytes` is
// set. RESOURCE_EXHAUSTED: as for HostCharge::Add and HostMemory::CheckConversation; the history is
// then of no use.
absl::Status ChargeHistory(const History* before, HostMemory* memory, History* history);

}  // namespace longstream::chat

#endif  // LONGSTREAM_SERVICE_CHAT_HISTORY_BYTES_H_
