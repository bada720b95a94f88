// The reactors of the calls, which answer once: with the result, or when the client has gone.
#include "service/server/admin/admin_service.h"

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/server/routing/wire_times.h"
#include "service/server/transport/grpc_status.h"

namespace longstream {
namespace {

namespace admin_v1 = admin::v1;

admin_v1::ModelState ToAdminProto(ModelState state) {
  switch (state) {
    case ModelState::kLoading:
      return admin_v1::MODEL_STATE_LOADING;
    case ModelState::kWarming:
      return admin_v1::MODEL_STATE_WARMING;
    case ModelState::kReady:
      return admin_v1::MODEL_STATE_READY;
    case ModelState::kDraining:
      return admin_v1::MODEL_STATE_DRAINING;
    case ModelState::kFailed:
      return admin_v1::MODEL_STATE_FAILED;
    case ModelState::kGone:
      break;
  }
  return admin_v1::MODEL_STATE_UNSPECIFIED;
}

void SetBytes(const ls_memory& memory, admin_v1::ModelBytes* bytes) {
  bytes->set_weights(memory.weights);
  bytes->set_pages(memory.pages);
  bytes->set_rings(memory.rings);
  bytes->set_states(memory.states);
  bytes->set_checkpoints(memory.checkpoints);
  bytes->set_workspace(memory.workspace);
  bytes->set_budget(memory.budget);
  bytes->set_reserved(memory.reserved);
}

void ToAdminProto(const ModelStatus& status, admin_v1::Model* model) {
  model->set_name(status.name);
  model->set_version(status.version);
  model->set_state(ToAdminProto(status.state));
  model->set_error(std::string(status.error.message()));
  model->set_directory(status.directory);
  model->set_expected_bytes(status.expected_bytes);
  if (status.engine == nullptr) return;
  const BackendModel& backend = status.engine->model().backend();
  model->set_backend(backend.plugin().name());
  model->set_device(backend.plugin().device());
  SetBytes(backend.memory(), model->mutable_bytes());
  model->set_running_turns(status.engine->num_turns());
}

ModelAdmin::Wanted WantedOf(const admin_v1::ModelSpec& spec) {
  return {spec.name(),    spec.directory(),   spec.backend(), spec.device(),
          spec.version(), spec.cache_bytes(), spec.options()};
}

AliasConfig AliasOf(const admin_v1::Alias& from) {
  AliasConfig alias{from.name(), {}};
  for (const admin_v1::AliasArm& arm : from.arms())
    alias.arms.push_back({arm.model(), arm.weight()});
  if (from.has_shadow()) alias.shadow = AliasShadow{from.shadow().model(), from.shadow().share()};
  if (!from.has_route()) return alias;
  const admin_v1::AliasRoute& wanted = from.route();
  RouteConfig& route = alias.route.emplace();
  route.budgets = BudgetsFrom(wanted);
  if (wanted.prompt_tokens() != 0) route.prompt_tokens = wanted.prompt_tokens();
  if (wanted.max_tokens() != 0) route.max_tokens = wanted.max_tokens();
  return alias;
}

void ToAdminProto(const ArmCosts& from, admin_v1::ArmCosts* costs) {
  SetDuration(absl::Seconds(from.prefill.base), costs->mutable_prompt_token());
  SetDuration(absl::Seconds(from.prefill.slope * 1000), costs->mutable_prompt_token_per_1000());
  SetDuration(absl::Seconds(from.decode.base), costs->mutable_generated_token());
  SetDuration(absl::Seconds(from.decode.slope * 1000), costs->mutable_generated_token_per_1000());
  costs->set_measured_depth(from.measured_depth);
  costs->set_context_limit(from.context_limit);
  costs->set_bytes_per_token(from.page_tokens == 0 ? 0 : from.kv_bytes_per_token);
  costs->set_bytes_fixed(from.fixed_bytes);
}

void ToAdminProto(const AliasConfig& from, const AliasAdmin& admin, const ModelRegistry& models,
                  admin_v1::Alias* alias) {
  alias->set_name(from.name);
  alias->set_changed_at_run_time(admin.IsChanged(from));
  if (from.shadow.has_value()) {
    alias->mutable_shadow()->set_model(from.shadow->model);
    alias->mutable_shadow()->set_share(from.shadow->share);
  }
  for (const AliasArm& arm : from.arms) {
    admin_v1::AliasArm* const added = alias->add_arms();
    added->set_model(arm.model);
    added->set_weight(static_cast<uint32_t>(arm.weight));
    const absl::StatusOr<ModelStatus> status = models.Status(arm.model);
    if (status.ok()) added->set_state(ToAdminProto(status->state));
    if (!from.route.has_value()) continue;
    const std::optional<ArmCosts> costs = admin.CostsOf(arm.model);
    if (costs.has_value()) ToAdminProto(*costs, added->mutable_costs());
  }
  if (from.route.has_value()) SetRoute(*from.route, alias->mutable_route());
}

// A time that is absent stays absent.
absl::StatusOr<std::optional<absl::Duration>> ReadTime(const char* field, bool present,
                                                       const google::protobuf::Duration& time) {
  if (!present) return std::optional<absl::Duration>();
  constexpr int64_t kMostSeconds = int64_t{3650} * 24 * 3600;
  if (time.seconds() < 0 || time.nanos() < 0 || time.nanos() > 999'999'999 ||
      time.seconds() > kMostSeconds) {
    return absl::InvalidArgumentError(absl::StrCat(field, ": expected 0 to ", kMostSeconds,
                                                   " seconds, found ", time.seconds(),
                                                   " seconds and ", time.nanos(), " nanos"));
  }
  return std::optional(absl::Seconds(time.seconds()) + absl::Nanoseconds(time.nanos()));
}

// A stream with a message for each state of a model. Any thread may call Show and End.
template <typename Response>
class LoadCall final : public grpc::ServerWriteReactor<Response>,
                       public std::enable_shared_from_this<LoadCall<Response>> {
 public:
  static std::shared_ptr<LoadCall> New() {
    auto call = std::make_shared<LoadCall>();
    call->self_ = call;
    return call;
  }

  void Show(const ModelStatus& status) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    ToAdminProto(status, waiting_.emplace_back().mutable_model());
    Continue();
  }
  // The end comes after the messages.
  void End(const absl::StatusOr<ModelStatus>& loaded) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (loaded.ok()) ToAdminProto(*loaded, waiting_.emplace_back().mutable_model());
    end_ = loaded.status();
    Continue();
  }

  void OnWriteDone(bool ok) override ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    writing_ = false;
    waiting_.pop_front();
    if (!ok) return FinishOnce(absl::CancelledError("the caller has gone"));
    Continue();
  }
  void OnCancel() override ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    FinishOnce(absl::CancelledError("the caller has gone; the operation goes on"));
  }
  void OnDone() override {
    const std::shared_ptr<LoadCall> self = std::move(self_);  // destroyed last
  }

 private:
  void Continue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (writing_ || finished_) return;
    if (waiting_.empty()) {
      if (end_.has_value()) FinishOnce(*end_);
      return;
    }
    writing_ = true;
    this->StartWrite(&waiting_.front());
  }
  void FinishOnce(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!std::exchange(finished_, true)) this->Finish(ToGrpc(status));
  }

  absl::Mutex mutex_;
  std::deque<Response> waiting_ ABSL_GUARDED_BY(mutex_);  // the first one is being written
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<LoadCall> self_;  // keeps this object alive until OnDone
};

// The reactor of a call whose answer comes later. Any thread may call End and Answer.
class LateCall final : public grpc::ServerUnaryReactor {
 public:
  static std::shared_ptr<LateCall> New() {
    auto call = std::make_shared<LateCall>();
    call->self_ = call;
    return call;
  }

  void End(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_) {
    Answer(status, [] {});
  }
  // Calls `write` if the status is OK and the call has not ended: the response is still there.
  void Answer(const absl::Status& status, const std::function<void()>& write)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (std::exchange(finished_, true)) return;
    if (status.ok()) write();
    Finish(ToGrpc(status));
  }
  void OnCancel() override {
    End(absl::CancelledError("the caller has gone; the operation goes on"));
  }
  void OnDone() override {
    const std::shared_ptr<LateCall> self = std::move(self_);  // destroyed last
  }

 private:
  absl::Mutex mutex_;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<LateCall> self_;  // keeps this object alive until OnDone
};

}  // namespace

AdminService::AdminService(ModelAdmin* admin, RequestMemory* memory, Authorize authorize)
    : DecodingService(memory, std::move(authorize)), admin_(admin) {
  AddServerStream("/longstream.admin.v1.Admin/LoadModel", &AdminService::LoadModel);
  AddServerStream("/longstream.admin.v1.Admin/SwapModel", &AdminService::SwapModel);
  AddUnary("/longstream.admin.v1.Admin/UnloadModel", &AdminService::UnloadModel);
  AddUnary("/longstream.admin.v1.Admin/ListModels", &AdminService::ListModels);
  AddUnary("/longstream.admin.v1.Admin/SetAlias", &AdminService::SetAlias);
  AddUnary("/longstream.admin.v1.Admin/DeleteAlias", &AdminService::DeleteAlias);
  AddUnary("/longstream.admin.v1.Admin/ListAliases", &AdminService::ListAliases);
}

grpc::ServerWriteReactor<admin_v1::LoadModelResponse>* AdminService::LoadModel(
    grpc::CallbackServerContext* /*context*/, const Caller& /*caller*/,
    Decoded<admin_v1::LoadModelRequest> request) {
  const auto call = LoadCall<admin_v1::LoadModelResponse>::New();
  auto* const reactor = call.get();
  admin_->Load(
      WantedOf(request.message->model()), [call](const ModelStatus& status) { call->Show(status); },
      [call](const absl::StatusOr<ModelStatus>& loaded) { call->End(loaded); });
  return reactor;
}

grpc::ServerWriteReactor<admin_v1::SwapModelResponse>* AdminService::SwapModel(
    grpc::CallbackServerContext* /*context*/, const Caller& /*caller*/,
    Decoded<admin_v1::SwapModelRequest> request) {
  const auto call = LoadCall<admin_v1::SwapModelResponse>::New();
  auto* const reactor = call.get();
  const admin_v1::SwapModelRequest& wanted = *request.message;
  const auto timeout =
      ReadTime("drain_timeout", wanted.has_drain_timeout(), wanted.drain_timeout());
  if (!timeout.ok()) {
    call->End(timeout.status());
    return reactor;
  }
  admin_->Swap(
      WantedOf(wanted.model()), {wanted.recompute_sessions(), *timeout},
      [call](const ModelStatus& status) { call->Show(status); },
      [call](const absl::StatusOr<ModelStatus>& loaded) { call->End(loaded); });
  return reactor;
}

grpc::ServerUnaryReactor* AdminService::UnloadModel(grpc::CallbackServerContext* /*context*/,
                                                    const Caller& /*caller*/,
                                                    const admin_v1::UnloadModelRequest& request,
                                                    admin_v1::UnloadModelResponse* /*response*/) {
  const std::shared_ptr<LateCall> call = LateCall::New();
  LateCall* const reactor = call.get();
  const auto grace = ReadTime("grace", request.has_grace(), request.grace());
  if (!grace.ok()) {
    call->End(grace.status());
    return reactor;
  }
  admin_->Unload(request.name(), *grace, [call](const absl::Status& status) { call->End(status); });
  return reactor;
}

grpc::ServerUnaryReactor* AdminService::ListModels(grpc::CallbackServerContext* context,
                                                   const Caller& /*caller*/,
                                                   const admin_v1::ListModelsRequest& /*request*/,
                                                   admin_v1::ListModelsResponse* response) {
  for (const ModelAdmin::Model& listed : admin_->List()) {
    admin_v1::Model* const model = response->add_models();
    ToAdminProto(listed.status, model);
    model->set_sessions(listed.sessions);
  }
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerUnaryReactor* AdminService::SetAlias(grpc::CallbackServerContext* /*context*/,
                                                 const Caller& /*caller*/,
                                                 const admin_v1::SetAliasRequest& request,
                                                 admin_v1::SetAliasResponse* response) {
  const std::shared_ptr<LateCall> call = LateCall::New();
  LateCall* const reactor = call.get();
  const AliasConfig alias = AliasOf(request.alias());
  admin_->aliases().Set(alias, [this, call, alias, response](const absl::Status& status) {
    call->Answer(status, [&] {
      ToAdminProto(alias, admin_->aliases(), admin_->models(), response->mutable_alias());
    });
  });
  return reactor;
}

grpc::ServerUnaryReactor* AdminService::DeleteAlias(grpc::CallbackServerContext* /*context*/,
                                                    const Caller& /*caller*/,
                                                    const admin_v1::DeleteAliasRequest& request,
                                                    admin_v1::DeleteAliasResponse* /*response*/) {
  const std::shared_ptr<LateCall> call = LateCall::New();
  LateCall* const reactor = call.get();
  admin_->aliases().Delete(request.name(),
                           [call](const absl::Status& status) { call->End(status); });
  return reactor;
}

grpc::ServerUnaryReactor* AdminService::ListAliases(grpc::CallbackServerContext* context,
                                                    const Caller& /*caller*/,
                                                    const admin_v1::ListAliasesRequest& /*request*/,
                                                    admin_v1::ListAliasesResponse* response) {
  for (const AliasConfig& alias : admin_->aliases().List()) {
    ToAdminProto(alias, admin_->aliases(), admin_->models(), response->add_aliases());
  }
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

}  // namespace longstream
