// ImportSession, the client-streaming call that makes a session from a file.
#ifndef LONGSTREAM_SERVICE_SERVER_TRANSFER_IMPORT_REACTOR_H_
#define LONGSTREAM_SERVICE_SERVER_TRANSFER_IMPORT_REACTOR_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <string_view>

#include "absl/status/statusor.h"
#include "google/protobuf/message.h"
#include "longstream/v1/longstream.pb.h"
#include "service/server/transfer/transfer_call.h"
#include "service/server/transport/raw_request.h"

namespace longstream {

// Checks the fields of the first message, but for the data.
using CheckImport =
    std::function<absl::StatusOr<SessionImport::Wanted>(const v1::ImportSessionRequest& request)>;
// Fills the response.
using AnswerImport = std::function<void(const SessionView& session)>;

// Makes a reactor that deletes itself when its call is done. `context` and `memory` must outlive
// it.
grpc::ServerReadReactor<RawRequest<v1::ImportSessionRequest>>* NewImportReactor(
    grpc::CallbackServerContext* context, RequestMemory* memory, TransferCall call,
    CheckImport check, AnswerImport answer);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_TRANSFER_IMPORT_REACTOR_H_
