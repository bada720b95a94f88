// Reads small files, and compares their contents.
#include "service/security/watched_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"

namespace longstream {
namespace {

constexpr size_t kMaxBytes = size_t{1} << 20;

absl::Status CheckMode(const struct stat& found, const std::string& path) {
  if ((found.st_mode & (S_IWGRP | S_IRWXO)) == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrFormat("the mode of %s is %03o, so others may read or change it; run `chmod 600 %s`",
                      path, found.st_mode & 0777, path));
}

absl::StatusOr<std::string> ReadFile(const std::string& path, FileUsers users) {
  if (path.empty()) return std::string();
  // O_NONBLOCK: opening a named pipe must not wait for a writer.
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return absl::NotFoundError(absl::StrCat(path, ": ", std::strerror(errno)));
  const absl::Cleanup close_file = [file] { close(file); };
  struct stat status {};
  if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is no regular file"));
  }
  if (users == FileUsers::kOwner) {
    if (absl::Status mode = CheckMode(status, path); !mode.ok()) return mode;
  }
  std::string text(kMaxBytes + 1, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t count = read(file, text.data() + size, text.size() - size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return absl::NotFoundError(absl::StrCat(path, ": ", std::strerror(errno)));
    if (count == 0) break;
    size += static_cast<size_t>(count);
  }
  if (size > kMaxBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected at most ", kMaxBytes, " bytes"));
  }
  text.resize(size);
  text.shrink_to_fit();
  return text;
}

bool AreSame(const absl::StatusOr<FileContents>& one, const absl::StatusOr<FileContents>& other) {
  return one.ok() && other.ok() ? *one == *other : one.status() == other.status();
}

}  // namespace

absl::StatusOr<FileContents> ReadFiles(const std::vector<std::string>& paths, FileUsers users) {
  FileContents contents;
  for (const std::string& path : paths) {
    absl::StatusOr<std::string> text = ReadFile(path, users);
    if (!text.ok()) return text.status();
    contents.push_back(*std::move(text));
  }
  return contents;
}

WatchedFiles::WatchedFiles(absl::Duration interval)
    : interval_(interval), thread_([this] { Run(); }) {}

WatchedFiles::~WatchedFiles() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  stop_.notify_one();
  thread_.join();
}

void WatchedFiles::Watch(std::vector<std::string> paths, FileUsers users, FileContents known,
                         OnChange on_change) {
  const std::lock_guard<std::mutex> lock(mutex_);
  groups_.push_back({std::move(paths), users, std::move(on_change), known, std::move(known)});
}

void WatchedFiles::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (
      !stop_.wait_for(lock, absl::ToChronoNanoseconds(interval_), [this] { return stopping_; })) {
    for (Group& group : groups_) Look(&group);
  }
}

void WatchedFiles::Look(Group* group) {
  absl::StatusOr<FileContents> read = ReadFiles(group->paths, group->users);
  const bool is_settled = AreSame(read, group->read_last);
  group->read_last = std::move(read);
  if (!is_settled || AreSame(group->read_last, group->reported)) return;
  group->reported = group->read_last;
  group->on_change(group->reported);
}

}  // namespace longstream
