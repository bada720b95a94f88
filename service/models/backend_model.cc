// Calls the functions of the backend's table.
#include "service/models/backend_model.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/errors/retry_after.h"

namespace longstream {
namespace {

// The buffer into which a backend writes its error message.
class ErrorText {
 public:
  ErrorText() { text_[0] = '\0'; }
  ls_error abi() { return ls_error{text_.data(), text_.size()}; }
  absl::Status ToStatus(ls_code code) const { return StatusFromCode(code, text_.data()); }

 private:
  std::array<char, 1024> text_;
};

// Checks the prefill grid. The engine divides by it, so it must not be 0. The engine cuts prompts
// at multiples of the grid. So a step with a full batch of decode rows must also have room for one
// interval of the grid, or a prompt would wait forever.
absl::Status CheckInfo(const ls_model_info& info, const BackendModel::Options& options) {
  const uint32_t decode_rows = std::min(options.max_batch_sequences, options.max_batch_tokens);
  const uint32_t room = options.max_batch_tokens - decode_rows;
  if (info.prefill_grid == 0 || info.prefill_grid > std::max(room, 1u)) {
    return absl::FailedPreconditionError(
        absl::StrCat("the backend's prefill_grid is ", info.prefill_grid, ", a step of ",
                     options.max_batch_tokens, " tokens has room for 1 ... ", room, " beside ",
                     options.max_batch_sequences, " decode rows"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status StatusFromCode(ls_code code, std::string_view message) {
  if (code == LS_OK) return absl::OkStatus();
  const absl::string_view text(message.data(), message.size());
  switch (code) {
    case LS_INVALID_ARGUMENT:
    case LS_NOT_FOUND:
    case LS_RESOURCE_EXHAUSTED:
    case LS_FAILED_PRECONDITION:
    case LS_UNIMPLEMENTED:
    case LS_INTERNAL:
    case LS_DATA_LOSS:
      return absl::Status(static_cast<absl::StatusCode>(code), text);
    case LS_UNAVAILABLE:  // the device is missing or lost
      return UntilMended(absl::UnavailableError(text));
    default:  // the backend is defective: the ABI does not have this code
      return absl::InternalError(text);
  }
}

absl::Status FailureOf(const ls_result& result) {
  const absl::string_view message = result.message == nullptr ? "" : result.message;
  switch (result.code) {
    case LS_INVALID_ARGUMENT:
      return absl::InvalidArgumentError(absl::StrCat("sampling: ", message));
    case LS_RESOURCE_EXHAUSTED:
      return absl::ResourceExhaustedError(absl::StrCat("the backend has no memory: ", message));
    case LS_UNAVAILABLE:
      return UntilMended(absl::UnavailableError(absl::StrCat("the device is lost: ", message)));
    default:
      return absl::InternalError(absl::StrCat("the backend failed the turn: ", message));
  }
}

absl::StatusOr<std::unique_ptr<BackendModel>> BackendModel::Open(
    std::shared_ptr<const Plugin> plugin, const Options& options, const Host* host) {
  std::vector<const char*> devices;
  devices.reserve(options.devices.size());
  for (const std::string& device : options.devices) devices.push_back(device.c_str());

  ls_model_options abi{};
  abi.struct_size = sizeof(abi);
  abi.directory = options.directory.c_str();
  abi.options = options.options_json.c_str();
  abi.devices = devices.data();
  abi.num_devices = static_cast<uint32_t>(devices.size());
  abi.cache_bytes_budget = options.cache_bytes_budget;
  abi.max_batch_tokens = options.max_batch_tokens;
  abi.max_batch_sequences = options.max_batch_sequences;
  abi.host = host->table();

  ErrorText error;
  ls_model* handle = nullptr;
  if (const ls_code code = plugin->table().model_open(&abi, &handle, error.abi()); code != LS_OK) {
    return error.ToStatus(code);
  }
  std::unique_ptr<BackendModel> model(new BackendModel(std::move(plugin), handle));
  model->info_.struct_size = sizeof(ls_model_info);
  if (const ls_code code = model->table().model_info(handle, &model->info_); code != LS_OK) {
    return StatusFromCode(code, "the backend gave no information on the model that it opened");
  }
  model->OwnInfo();
  if (absl::Status status = CheckInfo(model->info_, options); !status.ok()) return status;
  return model;
}

BackendModel::BackendModel(std::shared_ptr<const Plugin> plugin, ls_model* model)
    : plugin_(std::move(plugin)), model_(model) {}

BackendModel::~BackendModel() { Close(); }

void BackendModel::Close() {
  {
    absl::MutexLock lock(&close_mutex_);
    if (closed_.exchange(true)) return;
  }
  // No other thread uses the model from now on, and none waits while it is closed.
  for (ls_snapshot* const snapshot : snapshots_) table().snapshot_free(model_, snapshot);
  for (ls_import* const import : imports_) table().import_free(model_, import);
  snapshots_.clear();
  imports_.clear();
  table().model_close(model_);
}

absl::Status BackendModel::ClosedError() const {
  return absl::FailedPreconditionError("the model was unloaded");
}

const char* BackendModel::Own(const char* text) {
  return text == nullptr ? nullptr : texts_.emplace_back(text).c_str();
}

void BackendModel::OwnInfo() {
  layers_.assign(info_.layers, info_.layers + info_.num_layers);
  for (ls_layer_info& layer : layers_) layer.position = Own(layer.position);
  info_.layers = layers_.data();
  info_.architecture = Own(info_.architecture);
  info_.kernels = Own(info_.kernels);
}

ls_memory BackendModel::memory() const {
  ls_memory memory{};
  memory.struct_size = sizeof(memory);
  absl::ReaderMutexLock lock(&close_mutex_);
  if (!closed()) table().model_memory(model_, &memory);
  return memory;
}

void BackendModel::Free(ls_snapshot* snapshot) {
  if (!closed() && snapshots_.erase(snapshot) > 0) table().snapshot_free(model_, snapshot);
}

void BackendModel::Free(ls_import* import) {
  if (!closed() && imports_.erase(import) > 0) table().import_free(model_, import);
}

absl::Status BackendModel::SetBudget(uint64_t cache_bytes_budget) {
  if (closed()) return ClosedError();
  if (!plugin_->Can(LS_CAP_SET_BUDGET)) {
    return absl::UnimplementedError("the model's backend cannot change its budget");
  }
  ErrorText error;
  return error.ToStatus(table().model_set_budget(model_, cache_bytes_budget, error.abi()));
}

absl::StatusOr<Sequence> BackendModel::CreateSequence() {
  if (closed()) return ClosedError();
  ErrorText error;
  ls_sequence* handle = nullptr;
  const ls_code code = table().sequence_create(model_, &handle, error.abi());
  if (code != LS_OK) return error.ToStatus(code);
  return Sequence(this, handle);
}

absl::StatusOr<Sequence> BackendModel::ForkSequence(const Sequence& source) {
  if (closed()) return ClosedError();
  if (!plugin_->Can(LS_CAP_FORK)) {
    return absl::UnimplementedError("the model's backend cannot fork a session");
  }
  ErrorText error;
  ls_sequence* handle = nullptr;
  const ls_code code = table().sequence_fork(model_, source.handle(), &handle, error.abi());
  if (code != LS_OK) return error.ToStatus(code);
  return Sequence(this, handle);
}

absl::StatusOr<Snapshot> BackendModel::BeginSnapshot(const Sequence& sequence, uint64_t from) {
  if (closed()) return ClosedError();
  if (!CanSnapshot()) {
    return absl::UnimplementedError("the model's backend cannot make snapshots in segments");
  }
  ErrorText error;
  ls_snapshot* handle = nullptr;
  ls_snapshot_info info{};
  info.struct_size = sizeof(info);
  const ls_code code =
      table().snapshot_begin(model_, sequence.handle(), from, &handle, &info, error.abi());
  if (code != LS_OK) return error.ToStatus(code);
  snapshots_.insert(handle);
  return Snapshot(this, handle, info);
}

absl::StatusOr<SnapshotImport> BackendModel::BeginImport(uint64_t position) {
  if (closed()) return ClosedError();
  if (!CanSnapshot()) {
    return absl::UnimplementedError("the model's backend cannot make snapshots in segments");
  }
  ErrorText error;
  ls_import* handle = nullptr;
  const ls_code code = table().import_begin(model_, position, &handle, error.abi());
  if (code != LS_OK) return error.ToStatus(code);
  imports_.insert(handle);
  return SnapshotImport(this, handle);
}

absl::StatusOr<uint64_t> BackendModel::Submit(std::span<const ls_batch_entry> entries) {
  ls_batch batch{};
  batch.struct_size = sizeof(batch);
  batch.entries = entries.data();
  batch.num_entries = static_cast<uint32_t>(entries.size());
  ErrorText error;
  uint64_t ticket = 0;
  const ls_code code = table().submit(model_, &batch, &ticket, error.abi());
  if (code != LS_OK) return error.ToStatus(code);
  return ticket;
}

absl::StatusOr<std::span<const ls_result>> BackendModel::Wait(uint64_t ticket) {
  ErrorText error;
  ls_results results{};
  const ls_code code = table().wait(model_, ticket, &results, error.abi());
  if (code != LS_OK) return error.ToStatus(code);
  return std::span<const ls_result>(results.results, results.num_results);
}

Sequence& Sequence::operator=(Sequence&& other) noexcept {
  if (this != &other) {
    Free();
    model_ = std::exchange(other.model_, nullptr);
    handle_ = std::exchange(other.handle_, nullptr);
  }
  return *this;
}

void Sequence::Free() {
  if (handle_ != nullptr && !model_->closed()) {
    model_->table().sequence_free(model_->model_, handle_);
  }
  handle_ = nullptr;
}

uint64_t Sequence::position() const { return model_->table().sequence_position(handle_); }

ls_sequence_bytes Sequence::bytes() const { return Bytes(offsetof(ls_sequence_bytes, shared)); }

uint64_t Sequence::bytes_alone() const {
  const ls_sequence_bytes bytes = Bytes(sizeof(ls_sequence_bytes));
  return bytes.kv - std::min(bytes.kv, bytes.shared) + bytes.window + bytes.state;
}

ls_sequence_bytes Sequence::Bytes(uint32_t struct_size) const {
  ls_sequence_bytes bytes{};
  bytes.struct_size = struct_size;
  model_->table().sequence_bytes(model_->model_, handle_, &bytes);
  return bytes;
}

absl::Status Sequence::Reserve(uint64_t tokens) {
  ErrorText error;
  return error.ToStatus(
      model_->table().sequence_reserve(model_->model_, handle_, tokens, error.abi()));
}

absl::Status Sequence::MarkRollbackPoint() {
  ErrorText error;
  return error.ToStatus(model_->table().sequence_checkpoint(model_->model_, handle_, error.abi()));
}

absl::StatusOr<uint64_t> Sequence::Truncate(uint64_t position) {
  ErrorText error;
  uint64_t restored = 0;
  const ls_code code =
      model_->table().sequence_truncate(model_->model_, handle_, position, &restored, error.abi());
  if (code != LS_OK) return error.ToStatus(code);
  return restored;
}

Snapshot& Snapshot::operator=(Snapshot&& other) noexcept {
  if (this != &other) {
    Free();
    model_ = std::exchange(other.model_, nullptr);
    handle_ = std::exchange(other.handle_, nullptr);
    info_ = other.info_;
  }
  return *this;
}

void Snapshot::Free() {
  if (handle_ != nullptr) model_->Free(handle_);
  handle_ = nullptr;
}

absl::StatusOr<size_t> Snapshot::Read(Segment segment, std::span<std::byte> out) {
  absl::ReaderMutexLock lock(&model_->close_mutex_);
  if (model_->closed()) return model_->ClosedError();
  ErrorText error;
  size_t size = 0;
  const ls_code code = model_->table().snapshot_read(handle_, static_cast<int32_t>(segment),
                                                     out.data(), out.size(), &size, error.abi());
  if (code != LS_OK) return error.ToStatus(code);
  return size;
}

SnapshotImport& SnapshotImport::operator=(SnapshotImport&& other) noexcept {
  if (this != &other) {
    Free();
    model_ = std::exchange(other.model_, nullptr);
    handle_ = std::exchange(other.handle_, nullptr);
  }
  return *this;
}

void SnapshotImport::Free() {
  if (handle_ != nullptr) model_->Free(handle_);
  handle_ = nullptr;
}

absl::Status SnapshotImport::Write(std::span<const std::byte> bytes) {
  absl::ReaderMutexLock lock(&model_->close_mutex_);
  if (model_->closed()) return model_->ClosedError();
  ErrorText error;
  return error.ToStatus(
      model_->table().import_write(handle_, bytes.data(), bytes.size(), error.abi()));
}

absl::StatusOr<Sequence> SnapshotImport::Attach() {
  if (model_->closed()) return model_->ClosedError();
  ErrorText error;
  ls_sequence* sequence = nullptr;
  const ls_code code =
      model_->table().import_attach(model_->model_, handle_, &sequence, error.abi());
  if (code != LS_OK) return error.ToStatus(code);
  model_->imports_.erase(std::exchange(handle_, nullptr));
  return Sequence(model_, sequence);
}

}  // namespace longstream
