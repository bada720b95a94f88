// The gRPC service. Each call has a reactor that translates between messages and the session
// manager.
#ifndef LONGSTREAM_SERVICE_SERVER_SERVICE_IMPL_H_
#define LONGSTREAM_SERVICE_SERVER_SERVICE_IMPL_H_

#include <grpcpp/grpcpp.h>

#include "longstream/v1/longstream.grpc.pb.h"
#include "service/server/call_count.h"
#include "service/server/text_threads.h"
#include "service/serving/session_manager.h"

namespace longstream {

// Thread-safe. The arguments of the constructor must outlive every call.
class ServiceImpl final : public v1::Longstream::CallbackService {
 public:
  // `max_waiting_bytes`: the limit for requests whose long texts wait for a thread.
  ServiceImpl(const ModelRegistry* models, SessionManager* sessions, uint64_t max_waiting_bytes)
      : models_(models), sessions_(sessions), text_threads_(kTextThreads, max_waiting_bytes) {}

  // Blocks until no call is in progress, at most until `deadline`.
  void WaitForCalls(MonotonicTime deadline) { calls_.WaitUntilNone(deadline); }

  grpc::ServerUnaryReactor* OpenSession(grpc::CallbackServerContext* context,
                                        const v1::OpenSessionRequest* request,
                                        v1::Session* response) override;
  grpc::ServerReadReactor<v1::AppendRequest>* Append(grpc::CallbackServerContext* context,
                                                     v1::AppendResponse* response) override;
  grpc::ServerWriteReactor<v1::GenerateResponse>* Generate(
      grpc::CallbackServerContext* context, const v1::GenerateRequest* request) override;
  grpc::ServerUnaryReactor* GetSession(grpc::CallbackServerContext* context,
                                       const v1::GetSessionRequest* request,
                                       v1::Session* response) override;
  grpc::ServerUnaryReactor* ListSessions(grpc::CallbackServerContext* context,
                                         const v1::ListSessionsRequest* request,
                                         v1::ListSessionsResponse* response) override;
  grpc::ServerUnaryReactor* ForkSession(grpc::CallbackServerContext* context,
                                        const v1::ForkSessionRequest* request,
                                        v1::Session* response) override;
  grpc::ServerUnaryReactor* CloseSession(grpc::CallbackServerContext* context,
                                         const v1::CloseSessionRequest* request,
                                         v1::CloseSessionResponse* response) override;
  grpc::ServerWriteReactor<v1::ScoreResponse>* Score(grpc::CallbackServerContext* context,
                                                     const v1::ScoreRequest* request) override;
  grpc::ServerUnaryReactor* ListModels(grpc::CallbackServerContext* context,
                                       const v1::ListModelsRequest* request,
                                       v1::ListModelsResponse* response) override;
  grpc::ServerUnaryReactor* GetModel(grpc::CallbackServerContext* context,
                                     const v1::GetModelRequest* request,
                                     v1::Model* response) override;

 private:
  // Two threads, so that one text of many megabytes does not block the next text.
  static constexpr int kTextThreads = 2;

  const ModelRegistry* const models_;
  SessionManager* const sessions_;
  CallCount calls_;
  TextThreads text_threads_;  // the last member: its work uses the others
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_SERVICE_IMPL_H_
