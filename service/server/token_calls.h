// Tokenize and Detokenize: calls that only need a model's tokenizer and chat template.
#ifndef LONGSTREAM_SERVICE_SERVER_TOKEN_CALLS_H_
#define LONGSTREAM_SERVICE_SERVER_TOKEN_CALLS_H_

#include <grpcpp/grpcpp.h>

#include <string>

#include "longstream/v1/longstream.pb.h"
#include "service/server/text_threads.h"
#include "service/server/transport/call_count.h"
#include "service/server/transport/raw_request.h"
#include "service/serving/session_manager.h"

namespace longstream {

// An answer has at most this many bytes. gRPC's clients refuse messages of more than 4 MiB.
inline constexpr uint64_t kMaxTokenAnswerBytes = 4'000'000;

// The pointers outlive the calls. `memory` counts the answers.
struct TokenCallTools {
  const SessionManager* sessions = nullptr;
  TextThreads* threads = nullptr;
  RequestMemory* memory = nullptr;
  CallCount* calls = nullptr;
};

// Each function makes a reactor that deletes itself when its call is done. The text threads do the
// work. A call whose caller leaves ends at once, and its work is dropped unless it has begun.
grpc::ServerUnaryReactor* NewTokenizeCall(const TokenCallTools& tools, const std::string& tenant,
                                          Decoded<v1::TokenizeRequest> request,
                                          v1::TokenizeResponse* response);
grpc::ServerUnaryReactor* NewDetokenizeCall(const TokenCallTools& tools, const std::string& tenant,
                                            Decoded<v1::DetokenizeRequest> request,
                                            v1::DetokenizeResponse* response);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_TOKEN_CALLS_H_
