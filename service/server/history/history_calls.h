// ReadHistory: the text of a session.
#ifndef LONGSTREAM_SERVICE_SERVER_HISTORY_HISTORY_CALLS_H_
#define LONGSTREAM_SERVICE_SERVER_HISTORY_HISTORY_CALLS_H_

#include <grpcpp/grpcpp.h>

#include <string>

#include "longstream/v1/longstream.pb.h"
#include "service/server/transport/call_count.h"
#include "service/serving/session_manager.h"
#include "service/wire/request_memory.h"

namespace longstream {

// The pointers outlive the calls. `memory` counts the answers.
struct HistoryCallTools {
  SessionManager* sessions = nullptr;
  RequestMemory* memory = nullptr;
  CallCount* calls = nullptr;
};

// Makes a reactor that deletes itself when its call is done. A call whose caller leaves ends at
// once.
grpc::ServerUnaryReactor* NewReadHistoryCall(const HistoryCallTools& tools,
                                             const std::string& tenant,
                                             const v1::ReadHistoryRequest& request,
                                             v1::ReadHistoryResponse* response);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_HISTORY_HISTORY_CALLS_H_
