// An opened model and its sequences: C++ classes around the backend ABI, with ownership and
// absl::Status.
#ifndef LONGSTREAM_SERVICE_MODELS_BACKEND_MODEL_H_
#define LONGSTREAM_SERVICE_MODELS_BACKEND_MODEL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "backends/api/backend.h"
#include "service/config/batch_limits.h"
#include "service/models/host.h"
#include "service/models/plugin.h"

namespace longstream {

// Returns the status for an ABI code and its message.
absl::Status StatusFromCode(ls_code code, std::string_view message);
// Returns the status of a turn that ends with this result. REQUIRES: result.code != LS_OK.
absl::Status FailureOf(const ls_result& result);

class Sequence;
class Snapshot;
class SnapshotImport;

// Thread-safety as in the ABI: any thread may use the model and its sequences, but only one at a
// time. memory() and info() may be called at any time, and Snapshot::Read and SnapshotImport::Write
// beside any other call.
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

  // `host` outlives the model. FAILED_PRECONDITION: the model's prefill_grid does not fit into a
  // step. Other errors are those of the backend.
  static absl::StatusOr<std::unique_ptr<BackendModel>> Open(std::shared_ptr<const Plugin> plugin,
                                                            const Options& options,
                                                            const Host* host);
  ~BackendModel();
  BackendModel(const BackendModel&) = delete;
  BackendModel& operator=(const BackendModel&) = delete;

  const Plugin& plugin() const { return *plugin_; }
  // Also valid after Close.
  const ls_model_info& info() const { return info_; }
  ls_memory memory() const ABSL_LOCKS_EXCLUDED(close_mutex_);

  // Frees the model, with its weights, snapshots and imports, while other objects may still refer
  // to it. Waits for a Read or a Write that is running. From then on memory() is 0, Read and Write
  // are CANCELLED, and other calls that need the model are FAILED_PRECONDITION. REQUIRES: no
  // sequence is left, and no step is in flight.
  void Close() ABSL_LOCKS_EXCLUDED(close_mutex_);
  bool closed() const { return closed_.load(std::memory_order_acquire); }
  // Whether two steps in flight save time (LS_CAP_LOOK_AHEAD). The second step reads the tokens
  // that the first step draws.
  bool CanLookAhead() const {
    return plugin_->Can(LS_CAP_LOOK_AHEAD) && plugin_->Can(LS_CAP_IN_FLIGHT_TOKENS);
  }

  // Changes the budget for caches, as ls_backend.model_set_budget does. UNIMPLEMENTED: the backend
  // cannot.
  absl::Status SetBudget(uint64_t cache_bytes_budget);

  absl::StatusOr<Sequence> CreateSequence();
  // Copies a sequence. UNIMPLEMENTED: the backend cannot fork.
  absl::StatusOr<Sequence> ForkSequence(const Sequence& source);

  // Whether BeginSnapshot and BeginImport work (LS_CAP_SEGMENTS).
  bool CanSnapshot() const { return plugin_->Can(LS_CAP_SEGMENTS); }
  // Begins a snapshot of the sequence as it is now, with a span from token `from` on, as
  // ls_backend.snapshot_begin does. UNIMPLEMENTED: the backend cannot.
  absl::StatusOr<Snapshot> BeginSnapshot(const Sequence& sequence, uint64_t from);
  // Takes the memory of a sequence at `position`, to be filled from segments. UNIMPLEMENTED: the
  // backend cannot. RESOURCE_EXHAUSTED: no room.
  absl::StatusOr<SnapshotImport> BeginImport(uint64_t position);

  // Submit starts a step, and Wait returns its results. Two steps may be in flight. The pointers in
  // the results are valid until the second Submit after this one.
  absl::StatusOr<uint64_t> Submit(std::span<const ls_batch_entry> entries);
  absl::StatusOr<std::span<const ls_result>> Wait(uint64_t ticket);

 private:
  friend class Sequence;
  friend class Snapshot;
  friend class SnapshotImport;
  BackendModel(std::shared_ptr<const Plugin> plugin, ls_model* model);

  const ls_backend& table() const { return plugin_->table(); }
  // Copies what the pointers of info_ point to.
  void OwnInfo();
  const char* Own(const char* text);
  absl::Status ClosedError() const;
  void Free(ls_snapshot* snapshot);
  void Free(ls_import* import);

  // Shared, because the library must stay loaded while any of its models is open.
  const std::shared_ptr<const Plugin> plugin_;
  ls_model* const model_;
  ls_model_info info_{};
  std::vector<ls_layer_info> layers_;  // of info_
  std::deque<std::string> texts_;      // of info_ and layers_

  // Held by Read, Write and memory(), which other threads call, and by Close.
  mutable absl::Mutex close_mutex_;
  std::atomic<bool> closed_{false};
  // That exist. Used like the model.
  std::set<ls_snapshot*> snapshots_;
  std::set<ls_import*> imports_;
};

// The caches of one session in a model. Movable. The destructor frees the caches; it must run
// before the destructor of the model.
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
  // Leaves the field `shared` 0, which takes time to count.
  ls_sequence_bytes bytes() const;
  // Bytes that are free if only this sequence is freed, without its rollback point. Takes time.
  uint64_t bytes_alone() const;

  absl::Status Reserve(uint64_t tokens);
  absl::Status MarkRollbackPoint();
  // Rolls back to `position`, or to an earlier position if the backend cannot restore it. Returns
  // the new position.
  absl::StatusOr<uint64_t> Truncate(uint64_t position);

 private:
  void Free();
  ls_sequence_bytes Bytes(uint32_t struct_size) const;

  BackendModel* model_ = nullptr;
  ls_sequence* handle_ = nullptr;
};

// The caches of a sequence at one moment. Movable. The sequence may change or go meanwhile. The
// destructor belongs to the thread that uses the model, and must run before the destructor of the
// model; Read may run on another thread beside steps.
class Snapshot {
 public:
  enum class Segment : int32_t { kSpan = LS_SEGMENT_SPAN, kFixed = LS_SEGMENT_FIXED };

  Snapshot() = default;
  Snapshot(BackendModel* model, ls_snapshot* handle, const ls_snapshot_info& info)
      : model_(model), handle_(handle), info_(info) {}
  ~Snapshot() { Free(); }
  Snapshot(Snapshot&& other) noexcept { *this = std::move(other); }
  Snapshot& operator=(Snapshot&& other) noexcept;

  bool valid() const { return handle_ != nullptr; }
  const ls_snapshot_info& info() const { return info_; }

  // Writes the next bytes of a segment to `out` and returns how many: fewer than `out` has only at
  // the segment's end, 0 behind it.
  absl::StatusOr<size_t> Read(Segment segment, std::span<std::byte> out);

 private:
  void Free();

  BackendModel* model_ = nullptr;
  ls_snapshot* handle_ = nullptr;
  ls_snapshot_info info_{};
};

// A sequence that is being read from segments. Movable. The destructor frees the memory, unless
// Attach has made a sequence of it. The destructor and Attach belong to the thread that uses the
// model, and must run before the destructor of the model; Write may run on another thread beside
// steps.
class SnapshotImport {
 public:
  SnapshotImport() = default;
  SnapshotImport(BackendModel* model, ls_import* handle) : model_(model), handle_(handle) {}
  ~SnapshotImport() { Free(); }
  SnapshotImport(SnapshotImport&& other) noexcept { *this = std::move(other); }
  SnapshotImport& operator=(SnapshotImport&& other) noexcept;

  bool valid() const { return handle_ != nullptr; }

  // Reads the next bytes: the spans in the order of their tokens, then the fixed block. After an
  // error every later call fails in the same way.
  absl::Status Write(std::span<const std::byte> bytes);
  // Makes the sequence; the import is then empty. DATA_LOSS: bytes are missing.
  absl::StatusOr<Sequence> Attach();

 private:
  void Free();

  BackendModel* model_ = nullptr;
  ls_import* handle_ = nullptr;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_MODELS_BACKEND_MODEL_H_
