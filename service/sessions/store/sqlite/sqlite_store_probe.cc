// Looks for changes of the disk that no change of the store tells.
#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "service/sessions/store/segments/segment_directory.h"
#include "service/sessions/store/sqlite/sqlite_store.h"

namespace longstream::store {
namespace {

// A disk with less free space counts as full. Otherwise one page, which may find room in the log
// that exists, would end the state again and again.
constexpr uint64_t kLeastRoom = 256 << 10;

// Says what became of the file `path` that was opened as `opened`. Empty: it is still there, or its
// state is not known.
std::string LossOf(const std::string& path, const struct stat& opened) {
  struct stat now {};
  if (stat(path.c_str(), &now) != 0) {
    return errno == ENOENT || errno == ENOTDIR ? path + " was removed" : "";
  }
  const bool same = now.st_dev == opened.st_dev && now.st_ino == opened.st_ino;
  return same ? "" : path + " was replaced by another file";
}

}  // namespace

void SqliteStore::Probe() {
  CheckPlace();
  LookForRoom();
}

void SqliteStore::CheckPlace() {
  if (!Broken().ok()) return;
  struct stat lock {};
  if (fstat(lock_, &lock) != 0) return;
  std::string loss = LossOf(directory_ + "/LOCK", lock);
  if (loss.empty()) loss = LossOf(directory_ + "/log.db", log_);
  if (!loss.empty()) {
    Break(absl::UnavailableError(absl::StrCat("store: ", loss, " while the server runs")));
  }
}

void SqliteStore::LookForRoom() {
  if (Health().state != StoreState::kFull) return;
  const absl::StatusOr<DiskRoom> room = files_.directory().Room();
  if (room.ok() && room->free < kLeastRoom) return;
  // A change that is being made will tell. It may hang, and the caller must not.
  if (!write_mutex_.TryLock()) return;
  if (Broken().ok()) WriteOnePage();
  write_mutex_.Unlock();
}

void SqliteStore::WriteOnePage() {
  int64_t number = 0;
  {
    const absl::StatusOr<StatementUse> version = writer_->Use("PRAGMA user_version");
    if (!version.ok() || (*version)->Step() != Stepped::kRow) return;
    number = (*version)->Int(0);
  }
  // Nobody reads the number. SQLite does not write a page that stays the same.
  const std::string write = absl::StrCat("PRAGMA user_version = ", (number + 1) & 0xffff);
  absl::Status status = writer_->Execute("BEGIN IMMEDIATE");
  if (!status.ok()) return;
  status = writer_->Execute(write.c_str());
  if (status.ok()) status = CommitTransaction();
  if (!status.ok()) writer_->Execute("ROLLBACK").IgnoreError();
  NoteRoom(status, status.ok());
}

}  // namespace longstream::store
