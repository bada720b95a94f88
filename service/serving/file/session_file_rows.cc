// Copies the members of rows to messages and back, and checks those that come from a file.
#include "service/serving/file/session_file_rows.h"

#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "service/serving/file/decode_from_file.h"
#include "session_file.pb.h"
#include "turn_log.pb.h"

namespace longstream {
namespace {

constexpr size_t kMaxNameBytes = 256;
constexpr size_t kMaxPropertyBytes = size_t{1} << 20;
constexpr size_t kMaxDigestBytes = 64;
constexpr int64_t kMaxTimeUs = int64_t{250'000'000'000} * 1'000'000;  // about the year 9890

absl::Status Wrong(const char* field, const char* expected) {
  return absl::InvalidArgumentError(absl::StrCat("file: ", field, ": expected ", expected));
}

absl::StatusOr<SessionId> IdFrom(const char* field, const std::string& bytes) {
  if (bytes.size() != SessionId::kBytes) return Wrong(field, "16 bytes");
  return SessionId::FromBytes(bytes);
}

absl::StatusOr<absl::Time> TimeFrom(const char* field, int64_t us) {
  if (us < 0 || us > kMaxTimeUs) return Wrong(field, "0 ... the year 9890");
  return absl::FromUnixMicros(us);
}

}  // namespace

std::string EncodeFileSession(const FileSession& session) {
  file::Session to;
  const store::SessionRow& row = session.row;
  to.set_id(row.key.id.Bytes());
  to.set_model(row.model);
  to.set_create_time_us(absl::ToUnixMicros(row.create_time));
  to.set_last_use_time_us(absl::ToUnixMicros(row.last_use_time));
  if (row.forked_from.has_value()) to.set_forked_from(row.forked_from->Bytes());
  to.set_properties(row.properties);
  to.set_turns(session.turns);
  to.set_caches_position(session.caches_position);
  to.set_caches_bytes(session.caches_bytes);
  return to.SerializeAsString();
}

absl::StatusOr<FileSession> DecodeFileSession(std::string_view bytes) {
  file::Session from;
  if (absl::Status status = DecodeFromFile(bytes, &from); !status.ok()) return status;
  FileSession to;
  const absl::StatusOr<SessionId> id = IdFrom("session.id", from.id());
  if (!id.ok()) return id.status();
  to.row.key.id = *id;
  if (from.model().size() > kMaxNameBytes) return Wrong("session.model", "at most 256 bytes");
  to.row.model = from.model();
  for (const auto& [us, field, time] :
       {std::tuple(from.create_time_us(), "session.create_time_us", &to.row.create_time),
        std::tuple(from.last_use_time_us(), "session.last_use_time_us", &to.row.last_use_time)}) {
    const absl::StatusOr<absl::Time> read = TimeFrom(field, us);
    if (!read.ok()) return read.status();
    *time = *read;
  }
  if (!from.forked_from().empty()) {
    const absl::StatusOr<SessionId> source = IdFrom("session.forked_from", from.forked_from());
    if (!source.ok()) return source.status();
    to.row.forked_from = *source;
  }
  if (from.properties().size() > kMaxPropertyBytes) {
    return Wrong("session.properties", "at most a MiB");
  }
  to.row.properties = from.properties();
  to.turns = from.turns();
  to.caches_position = from.caches_position();
  to.caches_bytes = from.caches_bytes();
  return to;
}

absl::StatusOr<std::string> EncodeFileTurn(store::TurnRow turn, const SessionId& session) {
  if (turn.session.id != session) {
    log::TurnStart start;
    if (!start.ParseFromString(turn.request)) {
      return absl::DataLossError(
          absl::StrCat("store: the request of turn ", turn.number, " is not as written"));
    }
    start.set_drawn_id(true);
    turn.request = start.SerializeAsString();
    turn.id = SessionId::Random();
  }
  file::Turn to;
  to.set_id(turn.id.Bytes());
  to.set_kept_position(turn.kept_position);
  to.set_position(turn.position);
  to.set_start_time_us(absl::ToUnixMicros(turn.start_time));
  to.set_end_time_us(absl::ToUnixMicros(turn.end_time));
  to.set_request_digest(turn.request_digest);
  to.set_request(std::move(turn.request));
  to.set_result(std::move(turn.result));
  return to.SerializeAsString();
}

absl::StatusOr<store::TurnRow> DecodeFileTurn(std::string_view bytes) {
  file::Turn from;
  if (absl::Status status = DecodeFromFile(bytes, &from); !status.ok()) return status;
  store::TurnRow to;
  const absl::StatusOr<SessionId> id = IdFrom("turn.id", from.id());
  if (!id.ok()) return id.status();
  to.id = *id;
  to.state = store::TurnState::kCommitted;
  to.kept_position = from.kept_position();
  to.position = from.position();
  for (const auto& [us, field, time] :
       {std::tuple(from.start_time_us(), "turn.start_time_us", &to.start_time),
        std::tuple(from.end_time_us(), "turn.end_time_us", &to.end_time)}) {
    const absl::StatusOr<absl::Time> read = TimeFrom(field, us);
    if (!read.ok()) return read.status();
    *time = *read;
  }
  if (from.request_digest().size() > kMaxDigestBytes) {
    return Wrong("turn.request_digest", "at most 64 bytes");
  }
  to.request_digest = from.request_digest();
  to.request = std::move(*from.mutable_request());
  to.result = std::move(*from.mutable_result());
  return to;
}

}  // namespace longstream
