// An interceptor of gRPC sees the metadata of every call, those of the health service included.
#include "service/interceptors/request_id.h"

#include <algorithm>
#include <map>
#include <utility>

#include "service/sessions/session_id.h"

namespace longstream {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::Interceptor;
using grpc::experimental::InterceptorBatchMethods;
using grpc::experimental::ServerRpcInfo;

using ClientMetadata = std::multimap<grpc::string_ref, grpc::string_ref>;

// The client's id, or a drawn one. Of several ids the first one counts.
std::string IdFrom(const ClientMetadata& metadata) {
  const auto found = metadata.find(kRequestIdKey);
  if (found != metadata.end()) {
    const std::string_view id(found->second.data(), found->second.size());
    if (IsRequestId(id)) return std::string(id);
  }
  return SessionId::Random().ToString();
}

struct Listeners {
  CallArrivalListener on_arrival;
  CallEndListener on_end;
};

// The interceptor of one call. gRPC calls it for one batch of operations at a time.
class RequestIdInterceptor final : public Interceptor {
 public:
  RequestIdInterceptor(ServerRpcInfo* call, const Listeners* listeners)
      : call_(call), method_(call->method()), listeners_(listeners) {}

  void Intercept(InterceptorBatchMethods* methods) override {
    const auto is_at = [methods](InterceptionHookPoints point) {
      return methods->QueryInterceptionHookPoint(point);
    };
    if (is_at(InterceptionHookPoints::POST_RECV_INITIAL_METADATA)) {
      ClientMetadata* const metadata = methods->GetRecvInitialMetadata();
      id_ = IdFrom(*metadata);
      // The reactor of the call finds the id here.
      metadata->erase(kRequestIdKey);
      metadata->emplace(kRequestIdKey, id_);
      if (listeners_->on_arrival != nullptr) {
        listeners_->on_arrival(call_->server_context()->peer());
      }
    }
    if (is_at(InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
      methods->GetSendInitialMetadata()->emplace(kRequestIdKey, id_);
    }
    if (is_at(InterceptionHookPoints::PRE_SEND_STATUS)) {
      const grpc::Status status = methods->GetSendStatus();
      if (!status.ok()) methods->GetSendTrailingMetadata()->emplace(kRequestIdKey, id_);
      Report(status);
    }
    methods->Proceed();
  }

 private:
  void Report(const grpc::Status& status) const {
    if (listeners_->on_end == nullptr) return;
    listeners_->on_end(
        id_, method_,
        absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message()));
  }

  ServerRpcInfo* const call_;
  const std::string method_;
  const Listeners* const listeners_;
  std::string id_;
};

class Factory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit Factory(Listeners listeners) : listeners_(std::move(listeners)) {}

  Interceptor* CreateServerInterceptor(ServerRpcInfo* info) override {
    return new RequestIdInterceptor(info, &listeners_);
  }

 private:
  const Listeners listeners_;
};

}  // namespace

bool IsRequestId(std::string_view text) {
  return !text.empty() && text.size() <= kMaxRequestIdBytes &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; });
}

std::string_view RequestIdOf(const grpc::ServerContextBase& context) {
  const auto found = context.client_metadata().find(kRequestIdKey);
  if (found == context.client_metadata().end()) return {};
  return {found->second.data(), found->second.size()};
}

std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>>
RequestIdInterceptors(CallArrivalListener on_arrival, CallEndListener on_end) {
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> factories;
  factories.push_back(
      std::make_unique<Factory>(Listeners{std::move(on_arrival), std::move(on_end)}));
  return factories;
}

}  // namespace longstream
