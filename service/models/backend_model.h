// An opened model and its sequences: the backend ABI as C++ with ownership and absl::Status.
#ifndef LONGSTREAM_SERVICE_MODELS_BACKEND_MODEL_H_
#define LONGSTREAM_SERVICE_MODELS_BACKEND_MODEL_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backends/api/backend.h"
#include "service/config/batch_limits.h"
#include "service/models/host.h"
#include "service/models/plugin.h"

namespace longstream {

// The status that an ABI code and its sentence stand for.
absl::Status StatusFromCode(ls_code code, std::string_view message);
// The status of the turn that this result ends. REQUIRES: it is not LS_OK.
absl::Status FailureOf(const ls_result& result);

class Sequence;

// Thread-safety is the ABI's: one thread at a time, any thread, uses the model and its sequences;
// memory() and info() may be called at any time.
class BackendModel {
 public:
  struct Options {
    std::string directory;
    std::string options_json = "{}";
    std::vector<std::string> devices = {"cpu"};
    uint64_t cache_bytes_budget = 0;  // 0: unlimited
    uint32_t max_batch_tokens = kDefaultBatchTokens;
    uint32_t max_batch_sequences = kDefaultBatchSequences;
  };

  // `host` outlives the model. FAILED_PRECONDITION: its prefill_grid does not fit into a step.
  static absl::StatusOr<std::unique_ptr<BackendModel>> Open(std::shared_ptr<const Plugin> plugin,
                                                            const Options& options,
                                                            const Host* host);
  ~BackendModel();
  BackendModel(const BackendModel&) = delete;
  BackendModel& operator=(const BackendModel&) = delete;

  const Plugin& plugin() const { return *plugin_; }
  const ls_model_info& info() const { return info_; }
  ls_memory memory() const;
  // LS_CAP_LOOK_AHEAD: two tickets in flight gain time, the second fed by the first.
  bool CanLookAhead() const {
    return plugin_->Can(LS_CAP_LOOK_AHEAD) && plugin_->Can(LS_CAP_IN_FLIGHT_TOKENS);
  }

  absl::StatusOr<Sequence> CreateSequence();
  // UNIMPLEMENTED where the backend cannot fork.
  absl::StatusOr<Sequence> ForkSequence(const Sequence& source);

  // One step; two may be in flight. The results' pointers are valid until the second Submit after
  // this one.
  absl::StatusOr<uint64_t> Submit(std::span<const ls_batch_entry> entries);
  absl::StatusOr<std::span<const ls_result>> Wait(uint64_t ticket);

 private:
  friend class Sequence;
  BackendModel(std::shared_ptr<const Plugin> plugin, ls_model* model);

  const ls_backend& table() const { return plugin_->table(); }

  // Shared, because a library stays loaded for as long as any model of it is open.
  const std::shared_ptr<const Plugin> plugin_;
  ls_model* const model_;
  ls_model_info info_{};
};

// A session's caches on a model. Movable; freed with the object, before its model.
class Sequence {
 public:
  Sequence() = default;
  Sequence(BackendModel* model, ls_sequence* handle) : model_(model), handle_(handle) {}
  ~Sequence() { Free(); }
  Sequence(Sequence&& other) noexcept { *this = std::move(other); }
  Sequence& operator=(Sequence&& other) noexcept;

  bool valid() const { return handle_ != nullptr; }
  ls_sequence* handle() const { return handle_; }

  uint64_t position() const;
  ls_sequence_bytes bytes() const;

  absl::Status Reserve(uint64_t tokens);
  absl::Status MarkRollbackPoint();
  // The position restored, <= `position`.
  absl::StatusOr<uint64_t> Truncate(uint64_t position);

 private:
  void Free();

  BackendModel* model_ = nullptr;
  ls_sequence* handle_ = nullptr;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_MODELS_BACKEND_MODEL_H_
