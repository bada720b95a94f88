// Converts plain values of the service to messages of the wire contract.
#ifndef LONGSTREAM_SERVICE_SERVER_TO_PROTO_H_
#define LONGSTREAM_SERVICE_SERVER_TO_PROTO_H_

#include "longstream/v1/longstream.pb.h"
#include "service/config/alias_config.h"
#include "service/engine/turn/turn_events.h"
#include "service/models/served_model.h"
#include "service/serving/model_registry.h"
#include "service/serving/turns/session_turns.h"
#include "service/sessions/session.h"
#include "service/tokenizer/tokenizer.h"

namespace longstream {

void ToProto(const SessionView& view, v1::Session* message);
void ToProto(const SessionBytes& bytes, v1::SessionBytes* message);
void ToProto(const ModelStatus& status, v1::Model* message);
void ToProto(const AliasConfig& alias, v1::Alias* message);
void ToProto(const TurnView& view, v1::Turn* message);
void ToProto(const TurnUsage& usage, v1::TurnUsage* message);

// Converts one event of a generating turn.
void ToProto(const TurnEvent& event, const Tokenizer& tokenizer, v1::GenerateResponse* message);
// Sets the fields about the model. `in_thoughts`: as StartedEvent::in_thoughts.
void Describe(const ServedModel& model, bool in_thoughts, v1::TurnStarted* message);
// Converts the end of a generating turn. REQUIRES: `end.status` is OK.
void ToProto(const TurnEnd& end, v1::Finish* message);

// Converts an event of a scored text. `num_top`: how many alternatives the caller asked for; the
// event may hold more.
void ToProto(const ScoreEvent& event, const Tokenizer& tokenizer, uint32_t num_top,
             v1::ScoreResponse* message);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_TO_PROTO_H_
