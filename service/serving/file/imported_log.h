// The session and the turns that come from a file, checked before anything uses them.
#ifndef LONGSTREAM_SERVICE_SERVING_FILE_IMPORTED_LOG_H_
#define LONGSTREAM_SERVICE_SERVING_FILE_IMPORTED_LOG_H_

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/host_memory/host_memory.h"
#include "service/models/served_model.h"
#include "service/serving/file/session_file_rows.h"
#include "service/serving/log/restore.h"
#include "service/serving/log/turn_codec.h"

namespace longstream {

// The bounds that a model sets for its tokens.
struct TokenBounds {
  uint32_t vocabulary_size = 0;
  uint64_t context_limit = 0;
};

// INVALID_ARGUMENT: a value of the turn could not be that of a committed turn of such a model. The
// message names the field.
absl::Status CheckImportedTurn(const LoggedTurn& turn, const TokenBounds& bounds);

// Gathers the log of one file. A file may come from anybody, so all values are checked that other
// code relies on. A forged file can give its own session wrong tokens, and nothing else.
class ImportedLog {
 public:
  // `memory` counts the rows; nullptr: nothing counts them.
  explicit ImportedLog(HostMemory* memory) : charge_(memory) {}

  // Errors as for DecodeFileSession, and RESOURCE_EXHAUSTED: the host's memory has no room.
  absl::Status SetSession(std::string_view record);
  // Also checks what does not depend on the model.
  absl::Status AddTurn(std::string_view record);

  // Whether the session and all its turns are there.
  bool is_complete() const { return has_session_ && turns_.size() == session_.turns; }
  const FileSession& session() const { return session_; }
  // The properties in the session's row. The turns of its cuts are numbered from 1, as in the file.
  const LoggedProperties& properties() const { return properties_; }
  const std::vector<store::TurnRow>& turns() const { return turns_; }

  // Restores the session's state, as the store's would be, and checks it. Returns how many of its
  // tokens caches may have read. INVALID_ARGUMENT: a value is wrong. Other errors as for
  // RestoreTurns.
  absl::StatusOr<uint64_t> Check(const ServedModel& model, const RestoreOptions& options) const;

  // Moves the turns out.
  std::vector<store::TurnRow> TakeTurns() { return std::move(turns_); }

 private:
  HostCharge charge_;
  bool has_session_ = false;
  FileSession session_;
  LoggedProperties properties_;
  std::vector<store::TurnRow> turns_;
};

// INVALID_ARGUMENT: a state that comes from a file breaks a rule of SessionState.
absl::Status CheckImportedState(const SessionState& state, const TokenBounds& bounds);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_FILE_IMPORTED_LOG_H_
