// The gRPC service. Each call has a reactor that translates between messages and the session
// manager. Requests are decoded with bounds (transport/).
#ifndef LONGSTREAM_SERVICE_SERVER_SERVICE_IMPL_H_
#define LONGSTREAM_SERVICE_SERVER_SERVICE_IMPL_H_

#include <grpcpp/grpcpp.h>

#include "longstream/v1/longstream.pb.h"
#include "service/server/compare/compare_limits.h"
#include "service/server/peer/relayed_stream.h"
#include "service/server/text_threads.h"
#include "service/server/transfer/transfer_call.h"
#include "service/server/transport/call_count.h"
#include "service/server/transport/decoding_service.h"
#include "service/serving/session_manager.h"

namespace longstream {

struct CompareTools;

// Thread-safe. The arguments of the constructor must outlive every call.
class ServiceImpl final : public DecodingService {
 public:
  // `max_request_bytes`: the limit for the memory of requests that are being read, and also for the
  // requests whose long texts wait for a thread.
  // `relays`: as for NewGenerateReactor.
  ServiceImpl(const ModelRegistry* models, SessionManager* sessions, uint64_t max_request_bytes,
              Authorize authorize = AuthorizeEverybody, const CompareLimits& compare_limits = {},
              Relays* relays = nullptr);

  // Blocks until no call is in progress, at most until `deadline`. A call whose request could not
  // be decoded does not count.
  void WaitForCalls(MonotonicTime deadline) { calls_.WaitUntilNone(deadline); }

  grpc::ServerUnaryReactor* OpenSession(grpc::CallbackServerContext* context, const Caller& caller,
                                        const v1::OpenSessionRequest& request,
                                        v1::Session* response);
  grpc::ServerReadReactor<RawRequest<v1::AppendRequest>>* Append(
      grpc::CallbackServerContext* context, const Caller& caller, v1::AppendResponse* response);
  grpc::ServerWriteReactor<v1::GenerateResponse>* Generate(grpc::CallbackServerContext* context,
                                                           const Caller& caller,
                                                           Decoded<v1::GenerateRequest> request);
  grpc::ServerUnaryReactor* GetSession(grpc::CallbackServerContext* context, const Caller& caller,
                                       const v1::GetSessionRequest& request, v1::Session* response);
  grpc::ServerUnaryReactor* ListSessions(grpc::CallbackServerContext* context, const Caller& caller,
                                         const v1::ListSessionsRequest& request,
                                         v1::ListSessionsResponse* response);
  grpc::ServerUnaryReactor* ForkSession(grpc::CallbackServerContext* context, const Caller& caller,
                                        const v1::ForkSessionRequest& request,
                                        v1::Session* response);
  grpc::ServerUnaryReactor* RewindSession(grpc::CallbackServerContext* context,
                                          const Caller& caller,
                                          const v1::RewindSessionRequest& request,
                                          v1::Session* response);
  grpc::ServerUnaryReactor* CancelTurn(grpc::CallbackServerContext* context, const Caller& caller,
                                       const v1::CancelTurnRequest& request, v1::Turn* response);
  grpc::ServerUnaryReactor* ListTurns(grpc::CallbackServerContext* context, const Caller& caller,
                                      const v1::ListTurnsRequest& request,
                                      v1::ListTurnsResponse* response);
  grpc::ServerUnaryReactor* ReadHistory(grpc::CallbackServerContext* context, const Caller& caller,
                                        const v1::ReadHistoryRequest& request,
                                        v1::ReadHistoryResponse* response);
  grpc::ServerUnaryReactor* CloseSession(grpc::CallbackServerContext* context, const Caller& caller,
                                         const v1::CloseSessionRequest& request,
                                         v1::CloseSessionResponse* response);
  grpc::ServerWriteReactor<v1::ExportSessionResponse>* ExportSession(
      grpc::CallbackServerContext* context, const Caller& caller,
      Decoded<v1::ExportSessionRequest> request);
  grpc::ServerReadReactor<RawRequest<v1::ImportSessionRequest>>* ImportSession(
      grpc::CallbackServerContext* context, const Caller& caller, v1::Session* response);
  grpc::ServerUnaryReactor* PutNotes(grpc::CallbackServerContext* context, const Caller& caller,
                                     Decoded<v1::PutNotesRequest> request,
                                     v1::PutNotesResponse* response);
  grpc::ServerUnaryReactor* FindNotes(grpc::CallbackServerContext* context, const Caller& caller,
                                      const v1::FindNotesRequest& request,
                                      v1::FindNotesResponse* response);
  grpc::ServerWriteReactor<v1::ScoreResponse>* Score(grpc::CallbackServerContext* context,
                                                     const Caller& caller,
                                                     Decoded<v1::ScoreRequest> request);
  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* context, const Caller& caller,
                                     Decoded<v1::TokenizeRequest> request,
                                     v1::TokenizeResponse* response);
  grpc::ServerUnaryReactor* Detokenize(grpc::CallbackServerContext* context, const Caller& caller,
                                       Decoded<v1::DetokenizeRequest> request,
                                       v1::DetokenizeResponse* response);
  grpc::ServerWriteReactor<v1::CompareResponse>* Compare(grpc::CallbackServerContext* context,
                                                         const Caller& caller,
                                                         Decoded<v1::CompareRequest> request);
  grpc::ServerUnaryReactor* ListModels(grpc::CallbackServerContext* context, const Caller& caller,
                                       const v1::ListModelsRequest& request,
                                       v1::ListModelsResponse* response);
  grpc::ServerUnaryReactor* GetModel(grpc::CallbackServerContext* context, const Caller& caller,
                                     const v1::GetModelRequest& request, v1::Model* response);

 private:
  TransferCall NewTransfer(const Caller& caller);
  CompareTools NewCompareTools();

  // Two threads, so that one text of many megabytes does not block the next text.
  static constexpr int kTextThreads = 2;
  static constexpr int kCompareThreads = 2;  // for the logits of comparisons

  const CompareLimits compare_limits_;
  const ModelRegistry* const models_;
  SessionManager* const sessions_;
  Relays* const relays_;
  CallCount calls_;
  RequestMemory request_memory_;
  // The last members: their work uses the others.
  TextThreads compare_threads_;
  TextThreads text_threads_;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_SERVICE_IMPL_H_
