// ExportSession, the server-streaming call that reads a session out as a file.
#ifndef LONGSTREAM_SERVICE_SERVER_TRANSFER_EXPORT_REACTOR_H_
#define LONGSTREAM_SERVICE_SERVER_TRANSFER_EXPORT_REACTOR_H_

#include <grpcpp/grpcpp.h>

#include "longstream/v1/longstream.pb.h"
#include "service/server/transfer/transfer_call.h"

namespace longstream {

// Makes a reactor that deletes itself when its call is done. `context` must outlive it.
grpc::ServerWriteReactor<v1::ExportSessionResponse>* NewExportReactor(
    grpc::CallbackServerContext* context, const v1::ExportSessionRequest& request,
    TransferCall call);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_TRANSFER_EXPORT_REACTOR_H_
