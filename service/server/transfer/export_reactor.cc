// Reads a piece of the file when the client has taken the one before it.
#include "service/server/transfer/export_reactor.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "service/server/transfer/client_watch.h"
#include "service/server/transfer/transfer_pace.h"
#include "service/server/transport/grpc_status.h"

namespace longstream {
namespace {

// A piece takes a fraction of a millisecond, so that other work of the machine hardly waits for it.
constexpr size_t kPieceBytes = size_t{256} << 10;

// At any moment either a piece is being read, or a message is being written, or the reactor pauses.
// So its functions run one at a time.
class ExportReactor final : public grpc::ServerWriteReactor<v1::ExportSessionResponse>,
                            public std::enable_shared_from_this<ExportReactor> {
 public:
  ExportReactor(grpc::CallbackServerContext* context, TransferCall call)
      : call_(std::move(call)),
        context_(context),
        watch_(context, call_.sessions->timers(), call_.sessions->client_timeout()) {}

  void Begin(const v1::ExportSessionRequest& request) {
    self_ = shared_from_this();
    const absl::StatusOr<SessionId> id = SessionId::Parse(request.session_id(), "session_id");
    if (!id.ok()) return End(id.status());
    call_.sessions->ExportSession(
        {call_.tenant, *id},
        [self = self_](absl::StatusOr<std::shared_ptr<SessionExport>> exported) {
          if (!exported.ok()) return self->End(exported.status());
          self->export_ = *std::move(exported);
          self->WriteNext();
        },
        request.sealed());
  }

  void OnWriteDone(bool ok) override {
    watch_.End();
    if (!ok) return End(watch_.Why());
    bytes_ += response_.data().size();
    pace_.End(export_->model_is_busy(), [self = self_] { self->WriteNext(); });
  }

  void OnDone() override { self_.reset(); }

 private:
  // Reads the store and the caches on a thread that may wait for the disk.
  void WriteNext() {
    if (context_->IsCancelled()) return End(watch_.Why());
    pace_.Begin();
    call_.sessions->Read<std::string>(
        {call_.tenant},
        [reading = export_]() mutable -> absl::StatusOr<std::string> {
          // End frees the pages, unless it comes before this read ends.
          const std::shared_ptr<SessionExport> held = std::move(reading);
          std::string bytes;
          if (absl::Status status = held->Read(kPieceBytes, &bytes); !status.ok()) return status;
          return bytes;
        },
        [self = self_](absl::StatusOr<std::string> piece) { self->Write(std::move(piece)); });
  }

  void Write(absl::StatusOr<std::string> piece) {
    if (!piece.ok() || piece->empty()) return End(piece.status());
    response_.set_data(*std::move(piece));
    watch_.Begin(self_);
    StartWrite(&response_);
  }

  void End(const absl::Status& status) {
    export_.reset();  // the pages are free before the client gets the end
    call_.sessions->CountTransfer("export", status, bytes_);
    Finish(ToGrpc(status));
  }

  const TransferCall call_;
  const grpc::CallbackServerContext* const context_;
  std::shared_ptr<SessionExport> export_;
  uint64_t bytes_ = 0;  // that were written
  v1::ExportSessionResponse response_;
  TransferPace pace_{call_.sessions->timers()};
  ClientWatch watch_;
  std::shared_ptr<ExportReactor> self_;  // keeps this object alive until OnDone
};

}  // namespace

grpc::ServerWriteReactor<v1::ExportSessionResponse>* NewExportReactor(
    grpc::CallbackServerContext* context, const v1::ExportSessionRequest& request,
    TransferCall call) {
  auto reactor = std::make_shared<ExportReactor>(context, std::move(call));
  reactor->Begin(request);
  return reactor.get();
}

}  // namespace longstream
