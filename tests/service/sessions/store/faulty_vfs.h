// A disk that fails on purpose, under SQLite.
#ifndef LONGSTREAM_TESTS_SERVICE_SESSIONS_STORE_FAULTY_VFS_H_
#define LONGSTREAM_TESTS_SERVICE_SESSIONS_STORE_FAULTY_VFS_H_

#include <sqlite3.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace longstream::store {

// An SQLite VFS whose files are in memory. It knows for every file the bytes that an fsync has made
// durable, and the writes since then. A loss of power keeps a random part of these writes: any of
// them may be lost, in any order, and one may be torn.
//
// Register() makes SQLite know it by name(). All its files are of the disk, whatever their folder.
// Thread-safe.
class FaultyDisk {
 public:
  FaultyDisk();
  ~FaultyDisk();
  FaultyDisk(const FaultyDisk&) = delete;
  FaultyDisk& operator=(const FaultyDisk&) = delete;

  const std::string& name() const { return name_; }

  // The number of writes, truncations and fsyncs so far.
  uint64_t num_operations() const;
  // After `after` more of them, all fail: the power has gone.
  void FailAfter(uint64_t after);
  // Writes that make a file longer fail as on a full disk.
  void SetFull(bool full);
  // Every fsync of a file whose name ends with `suffix` fails. Like Linux, the disk then forgets
  // that the bytes are to be written: programs read them, no later fsync writes them, and a loss of
  // power takes them. nullopt: no fsync fails.
  void SetFsyncFails(std::optional<std::string> suffix);

  // Every fsync calls this function first; it may wait. An empty function: none does.
  void SetBeforeFsync(std::function<void()> before);
  // The same for every read. SQLite keeps pages in memory, so reading a row need not read the disk.
  void SetBeforeRead(std::function<void()> before);

  // All files as programs see them, by name. SetFiles replaces them for good; all must be closed.
  std::map<std::string, std::string> Files() const;
  void SetFiles(const std::map<std::string, std::string>& files);

  // Loses power and comes back: keeps durable bytes and a random part of the rest. All files must
  // be closed.
  void LosePower(std::mt19937_64& random);

  // Changes bits of one byte of the file whose name ends with `suffix`, for good. Returns whether
  // there is such a file with that many bytes.
  bool FlipBits(const std::string& suffix, uint64_t offset, char bits = 0x41);
  // The bytes of this file as programs see them; none if there is no such file.
  std::string Contents(const std::string& suffix) const;

  // The functions of the VFS call these. A result of type int is an SQLite code.
  int Read(const std::string& file, void* data, int amount, int64_t offset);
  int Write(const std::string& file, const void* data, int amount, int64_t offset);
  int Truncate(const std::string& file, int64_t size);
  int Sync(const std::string& file);
  int64_t Size(const std::string& file) const;
  bool Exists(const std::string& file) const;
  void Make(const std::string& file);
  int Remove(const std::string& file);

  // Locks of a file: a connection goes from `from` to `to` (SQLITE_LOCK_NONE, SHARED, RESERVED,
  // EXCLUSIVE). SQLITE_BUSY: another connection's lock forbids it.
  int Lock(const std::string& file, int from, int to);
  bool IsReserved(const std::string& file) const;
  // The memory that the connections of a file share in WAL mode, and its eight locks.
  void* SharedMemory(const std::string& file, int region, int size, bool make);
  int LockShared(const std::string& file, int first, int count, int flags);
  // Orders accesses to shared memory. A lock does it, because ThreadSanitizer knows no fences.
  void Barrier() { const std::lock_guard lock(mutex_); }
  // A connection begins or ends to share the memory. When the last one ends, its content is lost,
  // as SQLite's VFS for Unix forgets it when the next connection begins.
  void CountSharers(const std::string& file, int change);

 private:
  // A write or, if `is_truncation`, a change of the size to `offset`.
  struct Operation {
    int64_t offset = 0;
    std::string bytes;
    bool is_truncation = false;
  };
  struct File {
    std::string now;  // as programs see it
    std::string durable;
    std::vector<Operation> uncertain;  // since the last fsync
  };

  // The locks and the memory that the connections of a file share.
  struct Connections {
    int shared = 0;         // connections with at least SQLITE_LOCK_SHARED
    bool reserved = false;  // one of them has more
    bool exclusive = false;
    int sharers = 0;
    std::vector<std::unique_ptr<char[]>> regions;
    int readers[SQLITE_SHM_NLOCK] = {};
    bool writer[SQLITE_SHM_NLOCK] = {};
  };

  static void Apply(const Operation& operation, std::string* bytes);
  // Counts an operation. Returns whether it fails.
  bool CountFails();

  const std::string name_;
  void* vfs_;
  mutable std::mutex mutex_;
  std::map<std::string, File> files_;
  std::map<std::string, Connections> connections_;
  uint64_t operations_ = 0;
  uint64_t fail_after_ = UINT64_MAX;
  std::function<void()> before_fsync_;
  std::function<void()> before_read_;
  bool full_ = false;
  std::optional<std::string> fsync_fails_;  // for files with this suffix
};

}  // namespace longstream::store

#endif  // LONGSTREAM_TESTS_SERVICE_SESSIONS_STORE_FAULTY_VFS_H_
