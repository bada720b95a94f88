// A session's history as JSON.
#ifndef LONGSTREAM_CLIENT_JSON_HISTORY_JSON_H_
#define LONGSTREAM_CLIENT_JSON_HISTORY_JSON_H_

#include <string>

#include "longstream/v1/longstream.pb.h"

namespace longstream::client {

// "prompt", "message" or "answer".
const char* KindName(v1::HistoryKind kind);

// An object in one line: kind, turn_id, and message (an object with role and content, as the APIs
// of other servers write it) or text and position. Bytes that are no UTF-8 become U+FFFD.
std::string HistoryJson(const v1::HistoryEntry& entry);

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_JSON_HISTORY_JSON_H_
