// A response that is being made.
#ifndef LONGSTREAM_GATEWAY_RESPONSES_NEW_RESPONSE_H_
#define LONGSTREAM_GATEWAY_RESPONSES_NEW_RESPONSE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "client/connection.h"
#include "gateway/responses/response_log.h"
#include "gateway/responses/responses_writer.h"
#include "gateway/responses/stored_responses.h"
#include "gateway/turns/begun_turns.h"
#include "gateway_notes.pb.h"

namespace longstream::gateway {

// The conversation of a response becomes a request, which is kept, written and read again. So it
// takes so many times its bytes.
inline constexpr uint64_t kResponseCopies = 6;

struct NewResponse {
  std::string id;
  client::Caller caller;
  PreviousResponse previous;
  Conversation::Ptr conversation;  // without the answer
  std::shared_ptr<ResponsesWriter> writer;
  // Of a response in the background: the bytes that it takes, and its note without the turn.
  std::shared_ptr<void> held;
  notes::Begun begun;
  // The session that has this note. Empty: none yet.
  std::string noted_session;
  std::shared_ptr<BegunTurns> taken;  // of a response that another gateway has begun
};

}  // namespace longstream::gateway

#endif  // LONGSTREAM_GATEWAY_RESPONSES_NEW_RESPONSE_H_
