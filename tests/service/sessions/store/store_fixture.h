// Sessions and turns for the tests of stores.
#ifndef LONGSTREAM_TESTS_SERVICE_SESSIONS_STORE_STORE_FIXTURE_H_
#define LONGSTREAM_TESTS_SERVICE_SESSIONS_STORE_STORE_FIXTURE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "service/sealing/sealing_keys.h"
#include "service/sessions/store/session_store.h"

namespace longstream::store {

// Tests of power loss run with the seeds from 1 to before this one. Each seed has some hundred
// losses; with sanitizers a seed takes five times as long.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr uint64_t kEndOfSeeds = 3;
#else
inline constexpr uint64_t kEndOfSeeds = 6;
#endif

inline constexpr size_t kLarge = 200'000;  // bytes of a segment that is not a row

inline absl::Time At(int64_t second) { return absl::FromUnixSeconds(1'700'000'000 + second); }

inline SessionRow NewSession(uint64_t id, const std::string& tenant = "") {
  SessionRow row;
  row.key = {tenant, SessionId{id >> 3, id}};
  row.model = "dense";
  row.owner = "replica-1";
  row.create_time = row.last_use_time = At(0);
  row.properties = std::string("p\0q", 3);
  return row;
}

inline TurnRow NewTurn(uint64_t id, std::string request = "request") {
  TurnRow row;
  row.id = SessionId{1, id};
  row.kept_position = 3;
  row.start_time = At(1);
  row.request_digest = std::string(32, 'd');
  row.request = std::move(request);
  return row;
}

// The keys with these ids, the first of which seals.
inline Sealing SealedWith(const std::string& ids, Compression compression = Compression::kNone) {
  std::string text;
  for (const char id : ids) text += std::string(1, id) + " " + std::string(64, id) + "\n";
  return {.keys = *SealingKeys::Parse(text, "test"), .compression = compression};
}

// Applies one change.
inline absl::StatusOr<Applied> ApplyOne(SessionStore& store, Change change) {
  return store.Apply({&change, 1})[0];
}

inline SegmentKey NewKey(uint64_t number) {
  SegmentKey key;
  for (size_t i = 0; i < 8; ++i) key.bytes[i] = static_cast<unsigned char>(number >> (8 * i));
  key.bytes[31] = 0xff;
  return key;
}

// A span of 64 tokens. The first one (0) has none before it.
inline SegmentRow NewSpan(uint64_t key, uint64_t index, std::optional<SegmentKey> previous) {
  return {.key = NewKey(key),
          .kind = SegmentKind::kSpan,
          .previous = previous,
          .begin = 64 * index,
          .end = 64 * (index + 1)};
}

inline SegmentRow NewFixed(uint64_t key, uint64_t position) {
  return {.key = NewKey(key), .kind = SegmentKind::kFixed, .begin = position, .end = position};
}

// The bytes that tests write for a segment: its key decides them.
inline std::string SegmentBytes(const SegmentKey& key, size_t size) {
  std::string bytes(size, '\0');
  uint64_t state = 1;
  for (const unsigned char byte : key.bytes) state = state * 31 + byte;
  for (char& byte : bytes) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    byte = static_cast<char>(state >> 56);
  }
  return bytes;
}

struct SegmentToWrite {
  SegmentRow row;
  size_t bytes = 100;
};

// Writes segments with bytes of SegmentBytes, in pieces.
inline absl::StatusOr<std::shared_ptr<WrittenSegments>> WriteAll(
    SessionStore& store, const std::vector<SegmentToWrite>& segments) {
  constexpr size_t kPiece = 50'000;
  auto writer = store.WriteSegments();
  if (!writer.ok()) return writer.status();
  for (const SegmentToWrite& segment : segments) {
    absl::Status status = (*writer)->Begin(segment.row);
    const std::string bytes = SegmentBytes(segment.row.key, segment.bytes);
    for (size_t at = 0; status.ok() && at < bytes.size(); at += kPiece) {
      status = (*writer)->Append(std::string_view(bytes).substr(at, kPiece));
    }
    if (!status.ok()) return status;
  }
  return (*writer)->Finish();
}

// Writes the segments and adds a snapshot of the turn. `fixed`, and the last of the written spans
// or `span`, are its own.
inline absl::Status AddOne(SessionStore& store, TurnNumber turn, uint64_t fixed,
                           std::optional<SegmentKey> span,
                           const std::vector<SegmentToWrite>& segments,
                           std::vector<TurnNumber> drop = {}) {
  const auto written = WriteAll(store, segments);
  if (!written.ok()) return written.status();
  const SnapshotRow row = {
      .turn = turn, .cache = "cache", .position = 1, .span = span, .fixed = NewKey(fixed)};
  return ApplyOne(store, AddSnapshot{"", row, *written, std::move(drop)}).status();
}

// All bytes of a segment.
inline absl::StatusOr<std::string> ReadAll(SessionStore& store, const std::string& tenant,
                                           const SegmentKey& key) {
  const auto reader = store.ReadSegment(tenant, key);
  if (!reader.ok()) return reader.status();
  std::string bytes, piece(30'000, '\0');
  while (true) {
    const auto got = (*reader)->Read(absl::MakeSpan(piece.data(), piece.size()));
    if (!got.ok()) return got.status();
    bytes.append(piece, 0, *got);
    if (*got < piece.size()) return bytes;
  }
}

// The fence of a session as the store has it now. Its epoch is 0 if there is no such session.
inline Fence FenceOf(SessionStore& store, const SessionKey& key) {
  const absl::StatusOr<SessionRow> row = store.Session(key);
  return row.ok() ? Fence{key, row->epoch, row->version} : Fence{key, 0, 0};
}

// Starts and commits a turn. Returns its number, or kNoTurn after an error.
inline TurnNumber CommitOne(SessionStore& store, const SessionKey& key, uint64_t id,
                            uint64_t position) {
  const auto started = ApplyOne(store, StartTurn{FenceOf(store, key), NewTurn(id)});
  if (!started.ok()) return kNoTurn;
  const auto committed = ApplyOne(store, CommitTurn{.fence = FenceOf(store, key),
                                                    .turn = started->turn,
                                                    .position = position,
                                                    .result = "result " + std::to_string(id),
                                                    .now = At(2)});
  return committed.ok() ? started->turn : kNoTurn;
}

}  // namespace longstream::store

#endif  // LONGSTREAM_TESTS_SERVICE_SESSIONS_STORE_STORE_FIXTURE_H_
