// Files that another program replaces while the server runs.
#ifndef LONGSTREAM_SERVICE_SECURITY_WATCHED_FILES_H_
#define LONGSTREAM_SERVICE_SECURITY_WATCHED_FILES_H_

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace longstream {

// The contents of several files, in the order of their paths.
using FileContents = std::vector<std::string>;

// The users that files may have. kOwner: only the owner may write, and only the owner and the group
// may read. (Kubernetes mounts secrets with mode 440 or 640.) kAnybody: files may have any mode.
enum class FileUsers { kOwner, kAnybody };

// NOT_FOUND, INVALID_ARGUMENT: a file cannot be read, is no regular file, or has more than 1 MiB.
// FAILED_PRECONDITION: others than `users` may read or change a file, whatever it holds. The
// message names the file. Links are followed. An empty path has empty contents.
absl::StatusOr<FileContents> ReadFiles(const std::vector<std::string>& paths, FileUsers users);

// A thread reads the files again and again and compares what they hold. Unlike the kernel's
// notifications, that sees every kind of change: a rename, a write in place, and the symbolic links
// that Kubernetes exchanges. A change is reported when two readings one after the other give the
// same contents, so that a file that is being written is not taken by halves. Thread-safe.
class WatchedFiles {
 public:
  // Called on the thread, once for each change. An error: the files cannot be read.
  using OnChange = std::function<void(const absl::StatusOr<FileContents>& contents)>;

  // `interval`: between two readings. Throws std::system_error if the system gives no thread.
  explicit WatchedFiles(absl::Duration interval = absl::Milliseconds(500));
  // Waits for the function that is being called.
  ~WatchedFiles();
  WatchedFiles(const WatchedFiles&) = delete;
  WatchedFiles& operator=(const WatchedFiles&) = delete;

  // Watches a group of files that belong together. `known`: their contents as the caller has read
  // them. A new mode that lets others use a file, or no longer lets them, is a change too.
  void Watch(std::vector<std::string> paths, FileUsers users, FileContents known,
             OnChange on_change);

 private:
  struct Group {
    std::vector<std::string> paths;
    FileUsers users;
    OnChange on_change;
    absl::StatusOr<FileContents> reported;
    absl::StatusOr<FileContents> read_last;
  };

  void Run();
  static void Look(Group* group);

  const absl::Duration interval_;
  std::mutex mutex_;  // guards the members below; held while a function is called
  // absl::CondVar waits by the wall clock, which may be set back.
  std::condition_variable stop_;
  bool stopping_ = false;
  std::vector<Group> groups_;
  std::thread thread_;  // last, so that it starts after the other members
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SECURITY_WATCHED_FILES_H_
