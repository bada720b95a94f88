// Append, the client-streaming call that adds tokens to a session.
#ifndef LONGSTREAM_SERVICE_SERVER_APPEND_REACTOR_H_
#define LONGSTREAM_SERVICE_SERVER_APPEND_REACTOR_H_

#include <grpcpp/grpcpp.h>

#include "longstream/v1/longstream.pb.h"
#include "service/security/caller.h"
#include "service/server/text_threads.h"
#include "service/server/transport/call_count.h"
#include "service/server/transport/raw_request.h"
#include "service/serving/session_manager.h"

namespace longstream {

// Makes a reactor that deletes itself when its call is done. The arguments must outlive it, except
// `caller`.
grpc::ServerReadReactor<RawRequest<v1::AppendRequest>>* NewAppendReactor(
    grpc::CallbackServerContext* context, const Caller& caller, v1::AppendResponse* response,
    SessionManager* sessions, TextThreads* threads, RequestMemory* memory, CallCount* calls);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_APPEND_REACTOR_H_
