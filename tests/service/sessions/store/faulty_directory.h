// A disk that fails on purpose, under the files of segments.
#ifndef LONGSTREAM_TESTS_SERVICE_SESSIONS_STORE_FAULTY_DIRECTORY_H_
#define LONGSTREAM_TESTS_SERVICE_SESSIONS_STORE_FAULTY_DIRECTORY_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "service/sessions/store/segments/segment_directory.h"

namespace longstream::store {

// A directory in memory. For every file it knows the bytes that an fsync has made durable and the
// writes since then; for the directory it knows the same of names. A loss of power keeps a random
// part of the writes and of the changes of names, in any order; a write may be torn. The fsync of a
// file does not make its name durable.
//
// Thread-safe.
class FaultyDirectory {
 public:
  // Makes the directory that a store opens. This object must outlive it.
  std::unique_ptr<SegmentDirectory> View();

  // The number of writes, changes of names and fsyncs so far.
  uint64_t num_operations() const;
  // After `after` more of them, all fail: the power has gone.
  void FailAfter(uint64_t after);
  // Writes fail as on a full disk.
  void SetFull(bool full);
  // Every fsync fails, of files or of the directory. Like Linux, the disk then forgets that the
  // bytes or names are to be written: programs see them, no later fsync writes them, and a loss of
  // power takes them.
  void SetFsyncFails(bool of_files, bool of_directory);
  void SetRoom(DiskRoom room);
  // Called before a file is opened to be read, and before each read of it. It may wait, as a slow
  // disk does, and its error is that of the disk. nullptr: not called.
  using BeforeRead = std::function<absl::Status(const std::string& name)>;
  void SetBeforeRead(BeforeRead before_read);

  // Called before a file is made. It may wait.
  void SetBeforeCreate(std::function<void()> before_create);

  // Loses power and comes back. Nothing may be open.
  void LosePower(std::mt19937_64& random);

  // All files as programs see them, by name. Put adds or replaces one for good.
  std::map<std::string, std::string> Files() const;
  void Put(const std::string& name, std::string bytes, absl::Time write_time);
  void Erase(const std::string& name);

 private:
  struct Write {
    size_t offset = 0;
    std::string bytes;
  };
  struct File {
    std::string now;  // as programs see it
    std::string durable;
    std::vector<Write> uncertain;  // since the last fsync
    absl::Time write_time;
  };
  // A name was given to a file, or taken from it (null).
  struct Naming {
    std::string name;
    std::shared_ptr<File> file;
  };
  using Names = std::map<std::string, std::shared_ptr<File>>;
  class DirectoryView;
  class Output;
  class Input;

  // The functions of the views call these.
  absl::Status WaitToRead(const std::string& name) const;
  absl::StatusOr<std::shared_ptr<File>> Create(const std::string& name);
  absl::StatusOr<std::shared_ptr<File>> Find(const std::string& name) const;
  absl::Status Remove(const std::string& name);
  absl::Status Sync();
  absl::Status AppendTo(File& file, std::string_view bytes);
  absl::Status SyncFile(File& file);

  static void Apply(const Naming& naming, Names* names);
  static void Apply(const Write& write, std::string* bytes);
  // Counts an operation. Not OK: it fails. `mutex_` must be held.
  absl::Status Count();

  mutable std::mutex mutex_;
  Names names_;  // as programs see them
  Names durable_names_;
  std::vector<Naming> uncertain_names_;  // since the last fsync of the directory
  uint64_t operations_ = 0;
  uint64_t fail_after_ = UINT64_MAX;
  bool full_ = false;
  bool file_fsync_fails_ = false;
  bool directory_fsync_fails_ = false;
  std::shared_ptr<const BeforeRead> before_read_;  // shared with the reads that call it
  std::shared_ptr<const std::function<void()>> before_create_;  // likewise
  DiskRoom room_{.capacity = uint64_t{1} << 40, .free = uint64_t{1} << 39};
};

}  // namespace longstream::store

#endif  // LONGSTREAM_TESTS_SERVICE_SESSIONS_STORE_FAULTY_DIRECTORY_H_
