// Statuses by name, and the calls that watch them.
#include "service/server/standard/health_service.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "service/server/transport/grpc_status.h"

namespace longstream {
namespace {

// A call that watches keeps the name.
constexpr size_t kMaxServiceNameBytes = 1024;

absl::Status CheckName(const std::string& name) {
  if (name.size() <= kMaxServiceNameBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("service: at most ", kMaxServiceNameBytes, " bytes, found ", name.size()));
}

}  // namespace

// A call of Watch. It writes one status at a time. If the status changes twice meanwhile, the
// client gets the last one. Tell and Refuse need the service's mutex to be locked.
class HealthService::Watcher final : public grpc::ServerWriteReactor<Response> {
 public:
  Watcher(HealthService* service, std::string name) : service_(service), name_(std::move(name)) {}

  const std::string& name() const { return name_; }

  void Tell(ServingStatus status) {
    next_.set_status(status);
    WriteNext();
  }
  // Ends the call.
  void Refuse(const absl::Status& status) { FinishOnce(ToGrpc(status)); }

  void OnWriteDone(bool ok) override {
    absl::MutexLock lock(&service_->mutex_);
    writing_ = false;
    if (!ok) return FinishOnce(grpc::Status::CANCELLED);
    WriteNext();
  }
  void OnCancel() override {
    absl::MutexLock lock(&service_->mutex_);
    FinishOnce(grpc::Status::CANCELLED);
  }
  void OnDone() override {
    {
      absl::MutexLock lock(&service_->mutex_);
      service_->watchers_.erase(this);
    }
    delete this;
  }

 private:
  void WriteNext() {
    if (finished_ || writing_ || next_.status() == written_.status()) return;
    writing_ = true;
    written_ = next_;
    StartWrite(&written_);
  }
  void FinishOnce(const grpc::Status& status) {
    if (std::exchange(finished_, true)) return;
    Finish(status);
  }

  HealthService* const service_;
  const std::string name_;
  Response next_;  // the last status
  // The status that the client has. Before the first one UNKNOWN, which no name has.
  Response written_;
  bool writing_ = false;
  bool finished_ = false;
};

HealthService::HealthService(RequestMemory* memory, Authorize authorize)
    : DecodingService(memory, std::move(authorize)) {
  AddUnary("/grpc.health.v1.Health/Check", &HealthService::Check);
  AddServerStream("/grpc.health.v1.Health/Watch", &HealthService::Watch);
}

void HealthService::SetServing(const std::string& name, bool serving) {
  absl::MutexLock lock(&mutex_);
  Set(name, serving ? Response::SERVING : Response::NOT_SERVING);
}

void HealthService::Forget(const std::string& name) {
  absl::MutexLock lock(&mutex_);
  statuses_.erase(name);
  for (Watcher* watcher : watchers_) {
    if (watcher->name() == name) watcher->Tell(Response::SERVICE_UNKNOWN);
  }
}

void HealthService::SetNotServing() {
  absl::MutexLock lock(&mutex_);
  for (const auto& [name, status] : statuses_) Set(name, Response::NOT_SERVING);
}

void HealthService::Set(const std::string& name, ServingStatus status) {
  statuses_[name] = status;
  for (Watcher* watcher : watchers_) {
    if (watcher->name() == name) watcher->Tell(status);
  }
}

HealthService::ServingStatus HealthService::StatusOf(const std::string& name) const {
  const auto found = statuses_.find(name);
  return found == statuses_.end() ? Response::SERVICE_UNKNOWN : found->second;
}

grpc::ServerUnaryReactor* HealthService::Check(grpc::CallbackServerContext* context,
                                               const Caller& /*caller*/, const Request& request,
                                               Response* response) {
  absl::Status status = CheckName(request.service());
  if (status.ok()) {
    absl::MutexLock lock(&mutex_);
    response->set_status(StatusOf(request.service()));
    if (response->status() == Response::SERVICE_UNKNOWN) {
      status = absl::NotFoundError("service name unknown");
    }
  }
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  reactor->Finish(ToGrpc(status));
  return reactor;
}

grpc::ServerWriteReactor<HealthService::Response>* HealthService::Watch(
    grpc::CallbackServerContext* /*context*/, const Caller& /*caller*/, Decoded<Request> request) {
  const absl::Status status = CheckName(request.message->service());
  auto* const watcher =
      new Watcher(this, status.ok() ? std::move(*request.message->mutable_service()) : "");
  absl::MutexLock lock(&mutex_);
  if (!status.ok()) {
    watcher->Refuse(status);
    return watcher;
  }
  watchers_.insert(watcher);
  watcher->Tell(StatusOf(watcher->name()));
  return watcher;
}

}  // namespace longstream
