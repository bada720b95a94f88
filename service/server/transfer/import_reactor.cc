// Reads the next message when the import has taken the one before it.
#include "service/server/transfer/import_reactor.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "service/server/transfer/client_watch.h"
#include "service/server/transfer/transfer_pace.h"
#include "service/server/transport/grpc_status.h"

namespace longstream {
namespace {

// At any moment either a message is being read, or the import takes it, or the reactor pauses. So
// its functions run one at a time, and Finish is called once.
class ImportReactor final : public grpc::ServerReadReactor<RawRequest<v1::ImportSessionRequest>>,
                            public std::enable_shared_from_this<ImportReactor> {
 public:
  ImportReactor(grpc::CallbackServerContext* context, RequestMemory* memory, TransferCall call,
                CheckImport check, AnswerImport answer)
      : call_(std::move(call)),
        context_(context),
        memory_(memory),
        check_(std::move(check)),
        answer_(std::move(answer)),
        watch_(context, call_.sessions->timers(), call_.sessions->client_timeout()) {}

  void Begin() {
    self_ = shared_from_this();
    ReadNext();
  }

  // `ok` is false if there is no further message: the client has closed its side, or the call has
  // failed. Then the file is not complete, or the session is there although nobody knows it.
  void OnReadDone(bool ok) override {
    watch_.End();
    if (!ok) return OnLastMessage();
    absl::StatusOr<Decoded<v1::ImportSessionRequest>> decoded = Decode(raw_, memory_);
    if (!decoded.ok()) return End(decoded.status());
    message_.emplace(*std::move(decoded));
    if (import_ == nullptr) {
      if (absl::Status status = BeginImport(); !status.ok()) return End(status);
    }
    const absl::Status taken =
        call_.run(message_->charge.bytes(), [self = self_] { self->Write(); });
    if (!taken.ok()) End(taken);
  }

  void OnDone() override { self_.reset(); }

 private:
  void ReadNext() {
    watch_.Begin(self_);
    StartRead(&raw_);
  }

  absl::Status BeginImport() {
    const absl::StatusOr<SessionImport::Wanted> wanted = check_(*message_->message);
    if (!wanted.ok()) return wanted.status();
    auto begun = call_.sessions->ImportSession(call_.tenant, *wanted);
    if (!begun.ok()) return begun.status();
    import_ = *std::move(begun);
    return absl::OkStatus();
  }

  void Write() {
    pace_.Begin();
    bytes_ += message_->message->data().size();
    const std::shared_ptr<SessionImport> taker = import_;  // End drops import_
    taker->Write(message_->message->data(), [self = self_](const absl::Status& status) {
      self->message_.reset();
      if (!status.ok()) return self->End(status);
      self->pace_.End(self->import_->model_is_busy(), [self] { self->ReadNext(); });
    });
  }

  void OnLastMessage() {
    if (watch_.expired() || context_->IsCancelled()) return End(watch_.Why());
    if (import_ == nullptr) {
      return End(absl::InvalidArgumentError("data: the stream had no message"));
    }
    const auto finish = [self = self_] {
      const std::shared_ptr<SessionImport> taker = self->import_;  // End drops import_
      taker->Finish([self](const absl::StatusOr<SessionView>& session) {
        if (session.ok()) self->answer_(*session);
        self->End(session.status());
      });
    };
    if (!call_.run(0, finish).ok()) finish();
  }

  void End(const absl::Status& status) {
    if (import_ != nullptr) import_->ReturnPlace();
    import_.reset();
    call_.sessions->CountTransfer("import", status, bytes_);
    Finish(ToGrpc(status));
  }

  const TransferCall call_;
  const grpc::CallbackServerContext* const context_;
  RequestMemory* const memory_;
  const CheckImport check_;
  const AnswerImport answer_;
  RawRequest<v1::ImportSessionRequest> raw_;
  std::optional<Decoded<v1::ImportSessionRequest>> message_;
  std::shared_ptr<SessionImport> import_;
  uint64_t bytes_ = 0;  // that were read
  TransferPace pace_{call_.sessions->timers()};
  ClientWatch watch_;
  std::shared_ptr<ImportReactor> self_;  // keeps this object alive until OnDone
};

}  // namespace

grpc::ServerReadReactor<RawRequest<v1::ImportSessionRequest>>* NewImportReactor(
    grpc::CallbackServerContext* context, RequestMemory* memory, TransferCall call,
    CheckImport check, AnswerImport answer) {
  auto reactor = std::make_shared<ImportReactor>(context, memory, std::move(call), std::move(check),
                                                 std::move(answer));
  reactor->Begin();
  return reactor.get();
}

}  // namespace longstream
