// Reads a session out as the bytes of a file.
#ifndef LONGSTREAM_SERVICE_SERVING_SESSION_EXPORT_H_
#define LONGSTREAM_SERVICE_SERVING_SESSION_EXPORT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/engine/engine.h"
#include "service/models/backend_model.h"
#include "service/sealing/sealer.h"
#include "service/sealing/sealing_keys.h"
#include "service/serving/file/file_records.h"
#include "service/serving/transfer_places.h"
#include "service/sessions/store/session_store.h"

namespace longstream {

// The session as it was when the export began; it may change, or be closed, meanwhile. Used by one
// thread at a time.
class SessionExport {
 public:
  // `row`: the session. `engine`: of its model; nullptr if there is no snapshot. `sealing`: without
  // keys, the file is not sealed. `place`: counts the export and its snapshot. `store` outlives the
  // export.
  SessionExport(store::SessionStore* store, store::SessionRow row, std::shared_ptr<Engine> engine,
                Snapshot snapshot, const Sealing& sealing, std::shared_ptr<TransferPlace> place);
  ~SessionExport();
  SessionExport(const SessionExport&) = delete;
  SessionExport& operator=(const SessionExport&) = delete;

  // Writes the next bytes of the file to *bytes, about `size`: more where a turn is larger. No
  // bytes: the file is complete. Blocks while it reads the store. Returns the errors of the store
  // and of Snapshot::Read. RESOURCE_EXHAUSTED: a turn is larger than kMaxRecordBytes.
  absl::Status Read(size_t size, std::string* bytes);

  // Whether turns run on the session's model.
  bool model_is_busy() const { return engine_ != nullptr && engine_->num_turns() > 0; }

 private:
  // As Read, before the file is sealed.
  absl::Status ReadPlain(size_t size, std::string* bytes);
  // Finds the turns of the session, and appends the beginning of the file.
  absl::Status Begin(std::string* bytes);
  absl::Status ReadTurn(std::string* bytes);
  // Appends at most `size` bytes of the caches, and the end of the file behind the last ones.
  absl::Status ReadCaches(size_t size, std::string* bytes);
  void FreeSnapshot();

  store::SessionStore* const store_;
  const store::SessionRow row_;
  const std::shared_ptr<Engine> engine_;
  const std::shared_ptr<TransferPlace> place_;
  Snapshot snapshot_;
  std::vector<store::TurnNumber> turns_;  // from the last to the first; those that are not read
  RecordWriter writer_;
  std::optional<Sealer> sealer_;  // if the file is sealed
  std::string plain_;             // what it seals
  bool is_sealed_ = false;        // to the end
  bool has_begun_ = false;
  Snapshot::Segment segment_ = Snapshot::Segment::kSpan;
  bool has_caches_header_ = false;
  bool is_complete_ = false;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_SESSION_EXPORT_H_
