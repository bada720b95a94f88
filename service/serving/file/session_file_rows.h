// Converts the rows of a session and its turns to the records of a file and back.
#ifndef LONGSTREAM_SERVICE_SERVING_FILE_SESSION_FILE_ROWS_H_
#define LONGSTREAM_SERVICE_SERVING_FILE_SESSION_FILE_ROWS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/sessions/store/log_records.h"

namespace longstream {

// The first record of a file.
struct FileSession {
  store::SessionRow row;  // without epoch, version, head and position
  uint64_t turns = 0;
  uint64_t caches_position = 0;
  uint64_t caches_bytes = 0;
};

std::string EncodeFileSession(const FileSession& session);
// INVALID_ARGUMENT: the bytes are not such a record, or a value is out of its range. Also returns
// the errors of DecodeFromFile. The same for the function below.
absl::StatusOr<FileSession> DecodeFileSession(std::string_view bytes);

// `session`: the id of the session that the file is made of. A turn that the session has from the
// source of a fork gets another id, which is drawn, because the ids of turns belong to the session
// where they ran. DATA_LOSS: the turn's request is not as written.
absl::StatusOr<std::string> EncodeFileTurn(store::TurnRow turn, const SessionId& session);
absl::StatusOr<store::TurnRow> DecodeFileTurn(std::string_view bytes);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_FILE_SESSION_FILE_ROWS_H_
