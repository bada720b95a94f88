// The disk's contents, and the functions that SQLite calls.
#include "tests/service/sessions/store/faulty_vfs.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

namespace longstream::store {
namespace {

// A file that SQLite has opened. SQLite gives the memory; xOpen constructs it and xClose destroys
// it.
struct OpenFile {
  sqlite3_file base;  // first, because SQLite sees only this
  FaultyDisk* disk;
  std::string name;
  int lock;  // SQLITE_LOCK_NONE to SQLITE_LOCK_EXCLUSIVE
  bool delete_on_close;
  bool shares_memory;
};

OpenFile& FileOf(sqlite3_file* file) { return *reinterpret_cast<OpenFile*>(file); }
FaultyDisk& DiskOf(sqlite3_vfs* vfs) { return *static_cast<FaultyDisk*>(vfs->pAppData); }

int Close(sqlite3_file* file) {
  OpenFile& open = FileOf(file);
  open.disk->Lock(open.name, open.lock, SQLITE_LOCK_NONE);
  if (open.delete_on_close) open.disk->Remove(open.name);
  open.name.~basic_string();
  return SQLITE_OK;
}
int Read(sqlite3_file* file, void* data, int amount, sqlite3_int64 offset) {
  return FileOf(file).disk->Read(FileOf(file).name, data, amount, offset);
}
int Write(sqlite3_file* file, const void* data, int amount, sqlite3_int64 offset) {
  return FileOf(file).disk->Write(FileOf(file).name, data, amount, offset);
}
int Truncate(sqlite3_file* file, sqlite3_int64 size) {
  return FileOf(file).disk->Truncate(FileOf(file).name, size);
}
int Sync(sqlite3_file* file, int) { return FileOf(file).disk->Sync(FileOf(file).name); }
int FileSize(sqlite3_file* file, sqlite3_int64* size) {
  *size = FileOf(file).disk->Size(FileOf(file).name);
  return SQLITE_OK;
}
int ChangeLock(sqlite3_file* file, int lock) {
  OpenFile& open = FileOf(file);
  const int code = open.disk->Lock(open.name, open.lock, lock);
  if (code == SQLITE_OK) open.lock = lock;
  return code;
}
int Lock(sqlite3_file* file, int lock) {
  return lock <= FileOf(file).lock ? SQLITE_OK : ChangeLock(file, lock);
}
int Unlock(sqlite3_file* file, int lock) {
  return lock >= FileOf(file).lock ? SQLITE_OK : ChangeLock(file, lock);
}
int CheckReservedLock(sqlite3_file* file, int* reserved) {
  *reserved = FileOf(file).disk->IsReserved(FileOf(file).name) ? 1 : 0;
  return SQLITE_OK;
}
int MapShared(sqlite3_file* file, int region, int size, int make, void volatile** memory) {
  OpenFile& open = FileOf(file);
  if (!open.shares_memory) open.disk->CountSharers(open.name, 1);
  open.shares_memory = true;
  *memory = open.disk->SharedMemory(open.name, region, size, make != 0);
  return SQLITE_OK;
}
int LockShared(sqlite3_file* file, int first, int count, int flags) {
  return FileOf(file).disk->LockShared(FileOf(file).name, first, count, flags);
}
void Barrier(sqlite3_file* file) { FileOf(file).disk->Barrier(); }
int UnmapShared(sqlite3_file* file, int) {
  OpenFile& open = FileOf(file);
  if (open.shares_memory) open.disk->CountSharers(open.name, -1);
  open.shares_memory = false;
  return SQLITE_OK;
}
int FileControl(sqlite3_file*, int, void*) { return SQLITE_NOTFOUND; }
int SectorSize(sqlite3_file*) { return 512; }
// As SQLite's VFS for Unix says.
int DeviceCharacteristics(sqlite3_file*) { return SQLITE_IOCAP_POWERSAFE_OVERWRITE; }

const sqlite3_io_methods kMethods = {
    .iVersion = 2,
    .xClose = Close,
    .xRead = Read,
    .xWrite = Write,
    .xTruncate = Truncate,
    .xSync = Sync,
    .xFileSize = FileSize,
    .xLock = Lock,
    .xUnlock = Unlock,
    .xCheckReservedLock = CheckReservedLock,
    .xFileControl = FileControl,
    .xSectorSize = SectorSize,
    .xDeviceCharacteristics = DeviceCharacteristics,
    .xShmMap = MapShared,
    .xShmLock = LockShared,
    .xShmBarrier = Barrier,
    .xShmUnmap = UnmapShared,
    .xFetch = nullptr,
    .xUnfetch = nullptr,
};

int OpenOf(sqlite3_vfs* vfs, const char* name, sqlite3_file* file, int flags, int* out_flags) {
  static int temporary = 0;
  OpenFile& open = FileOf(file);
  open.base.pMethods = nullptr;
  FaultyDisk& disk = DiskOf(vfs);
  std::string path = name != nullptr ? name : "temporary-" + std::to_string(++temporary);
  if (!disk.Exists(path)) {
    if ((flags & SQLITE_OPEN_CREATE) == 0) return SQLITE_CANTOPEN;
    disk.Make(path);
  }
  new (&open.name) std::string(std::move(path));
  open.disk = &disk;
  open.lock = SQLITE_LOCK_NONE;
  open.shares_memory = false;
  open.delete_on_close = (flags & SQLITE_OPEN_DELETEONCLOSE) != 0;
  open.base.pMethods = &kMethods;
  if (out_flags != nullptr) *out_flags = flags;
  return SQLITE_OK;
}
int Delete(sqlite3_vfs* vfs, const char* name, int) { return DiskOf(vfs).Remove(name); }
int Access(sqlite3_vfs* vfs, const char* name, int, int* result) {
  *result = DiskOf(vfs).Exists(name) ? 1 : 0;
  return SQLITE_OK;
}
int FullPathname(sqlite3_vfs*, const char* name, int size, char* out) {
  sqlite3_snprintf(size, out, "%s", name);
  return SQLITE_OK;
}

}  // namespace

FaultyDisk::FaultyDisk() : name_("faulty-" + std::to_string(reinterpret_cast<uintptr_t>(this))) {
  const sqlite3_vfs* system = sqlite3_vfs_find(nullptr);
  auto vfs = std::make_unique<sqlite3_vfs>(*system);  // randomness, sleep and time are the system's
  vfs->iVersion = 1;
  vfs->szOsFile = sizeof(OpenFile);
  vfs->zName = name_.c_str();
  vfs->pAppData = this;
  vfs->xOpen = OpenOf;
  vfs->xDelete = Delete;
  vfs->xAccess = Access;
  vfs->xFullPathname = FullPathname;
  sqlite3_vfs_register(vfs.get(), 0);
  vfs_ = vfs.release();
}

FaultyDisk::~FaultyDisk() {
  auto* vfs = static_cast<sqlite3_vfs*>(vfs_);
  sqlite3_vfs_unregister(vfs);
  delete vfs;
}

uint64_t FaultyDisk::num_operations() const {
  const std::lock_guard lock(mutex_);
  return operations_;
}

void FaultyDisk::FailAfter(uint64_t after) {
  const std::lock_guard lock(mutex_);
  fail_after_ = operations_ + after;
}

void FaultyDisk::SetFull(bool full) {
  const std::lock_guard lock(mutex_);
  full_ = full;
}

void FaultyDisk::SetFsyncFails(std::optional<std::string> suffix) {
  const std::lock_guard lock(mutex_);
  fsync_fails_ = std::move(suffix);
}

void FaultyDisk::SetBeforeFsync(std::function<void()> before) {
  const std::lock_guard lock(mutex_);
  before_fsync_ = std::move(before);
}

void FaultyDisk::SetBeforeRead(std::function<void()> before) {
  const std::lock_guard lock(mutex_);
  before_read_ = std::move(before);
}

std::map<std::string, std::string> FaultyDisk::Files() const {
  const std::lock_guard lock(mutex_);
  std::map<std::string, std::string> files;
  for (const auto& [name, file] : files_) files[name] = file.now;
  return files;
}

void FaultyDisk::SetFiles(const std::map<std::string, std::string>& files) {
  const std::lock_guard lock(mutex_);
  files_.clear();
  connections_.clear();
  for (const auto& [name, bytes] : files) files_[name] = {bytes, bytes, {}};
}

void FaultyDisk::LosePower(std::mt19937_64& random) {
  const std::lock_guard lock(mutex_);
  for (auto& [name, file] : files_) {
    std::shuffle(file.uncertain.begin(), file.uncertain.end(), random);
    for (Operation& operation : file.uncertain) {
      const uint64_t fate = random() % 4;
      if (fate == 0) continue;  // lost
      if (fate == 1 && !operation.bytes.empty()) {
        operation.bytes.resize(random() % operation.bytes.size());  // torn
      }
      Apply(operation, &file.durable);
    }
    file.uncertain.clear();
    file.now = file.durable;
  }
  connections_.clear();
  fail_after_ = UINT64_MAX;
  full_ = false;
  fsync_fails_.reset();
}

bool FaultyDisk::FlipBits(const std::string& suffix, uint64_t offset, char bits) {
  const std::lock_guard lock(mutex_);
  for (auto& [name, file] : files_) {
    if (!name.ends_with(suffix) || offset >= file.now.size()) continue;
    file.now[offset] = static_cast<char>(file.now[offset] ^ bits);
    file.durable = file.now;
    return true;
  }
  return false;
}

std::string FaultyDisk::Contents(const std::string& suffix) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [name, file] : files_) {
    if (name.ends_with(suffix)) return file.now;
  }
  return "";
}

int FaultyDisk::Read(const std::string& file, void* data, int amount, int64_t offset) {
  std::function<void()> before;
  {
    const std::lock_guard lock(mutex_);
    before = before_read_;
  }
  if (before) before();
  const std::lock_guard lock(mutex_);
  const std::string& bytes = files_[file].now;
  const auto begin = std::min(static_cast<size_t>(offset), bytes.size());
  const auto wanted = static_cast<size_t>(amount);
  const size_t there = std::min(wanted, bytes.size() - begin);
  std::memcpy(data, bytes.data() + begin, there);
  std::memset(static_cast<char*>(data) + there, 0, wanted - there);
  return there == wanted ? SQLITE_OK : SQLITE_IOERR_SHORT_READ;
}

int FaultyDisk::Write(const std::string& name, const void* data, int amount, int64_t offset) {
  const std::lock_guard lock(mutex_);
  File& file = files_[name];
  const bool grows = static_cast<size_t>(offset + amount) > file.now.size();
  if (CountFails()) return SQLITE_IOERR_WRITE;
  if (full_ && grows) return SQLITE_FULL;
  file.uncertain.push_back(
      {offset, std::string(static_cast<const char*>(data), static_cast<size_t>(amount)), false});
  Apply(file.uncertain.back(), &file.now);
  return SQLITE_OK;
}

int FaultyDisk::Truncate(const std::string& name, int64_t size) {
  const std::lock_guard lock(mutex_);
  File& file = files_[name];
  if (CountFails()) return SQLITE_IOERR_TRUNCATE;
  file.uncertain.push_back({size, "", true});
  Apply(file.uncertain.back(), &file.now);
  return SQLITE_OK;
}

int FaultyDisk::Sync(const std::string& name) {
  std::function<void()> before;
  {
    const std::lock_guard lock(mutex_);
    before = before_fsync_;
  }
  if (before) before();
  const std::lock_guard lock(mutex_);
  if (CountFails()) return SQLITE_IOERR_FSYNC;
  File& file = files_[name];
  const bool fails = fsync_fails_ && name.ends_with(*fsync_fails_);
  for (const Operation& operation : file.uncertain) {
    if (!fails) Apply(operation, &file.durable);
  }
  file.uncertain.clear();
  return fails ? SQLITE_IOERR_FSYNC : SQLITE_OK;
}

int64_t FaultyDisk::Size(const std::string& file) const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(files_.at(file).now.size());
}

bool FaultyDisk::Exists(const std::string& file) const {
  const std::lock_guard lock(mutex_);
  return files_.contains(file);
}

void FaultyDisk::Make(const std::string& file) {
  const std::lock_guard lock(mutex_);
  files_[file];
}

int FaultyDisk::Remove(const std::string& file) {
  const std::lock_guard lock(mutex_);
  files_.erase(file);
  return SQLITE_OK;
}

int FaultyDisk::Lock(const std::string& file, int from, int to) {
  const std::lock_guard lock(mutex_);
  Connections& all = connections_[file];
  const int others = all.shared - (from >= SQLITE_LOCK_SHARED ? 1 : 0);
  const bool reserved = all.reserved && from < SQLITE_LOCK_RESERVED;
  const bool exclusive = all.exclusive && from < SQLITE_LOCK_EXCLUSIVE;
  if (to > from) {
    if (exclusive || (to >= SQLITE_LOCK_RESERVED && reserved)) return SQLITE_BUSY;
    if (to == SQLITE_LOCK_EXCLUSIVE && others > 0) return SQLITE_BUSY;
  }
  all.shared = others + (to >= SQLITE_LOCK_SHARED ? 1 : 0);
  all.reserved = reserved || to >= SQLITE_LOCK_RESERVED;
  all.exclusive = exclusive || to == SQLITE_LOCK_EXCLUSIVE;
  return SQLITE_OK;
}

bool FaultyDisk::IsReserved(const std::string& file) const {
  const std::lock_guard lock(mutex_);
  const auto found = connections_.find(file);
  return found != connections_.end() && found->second.reserved;
}

void* FaultyDisk::SharedMemory(const std::string& file, int region, int size, bool make) {
  const std::lock_guard lock(mutex_);
  auto& regions = connections_[file].regions;
  while (make && regions.size() <= static_cast<size_t>(region)) {
    regions.push_back(std::make_unique<char[]>(static_cast<size_t>(size)));
  }
  return static_cast<size_t>(region) < regions.size() ? regions[static_cast<size_t>(region)].get()
                                                      : nullptr;
}

int FaultyDisk::LockShared(const std::string& file, int first, int count, int flags) {
  const std::lock_guard lock(mutex_);
  Connections& all = connections_[file];
  const bool shared = (flags & SQLITE_SHM_SHARED) != 0;
  if ((flags & SQLITE_SHM_UNLOCK) != 0) {
    for (int i = first; i < first + count; ++i) {
      if (shared) --all.readers[i];
      if (!shared) all.writer[i] = false;
    }
    return SQLITE_OK;
  }
  for (int i = first; i < first + count; ++i) {
    if (all.writer[i] || (!shared && all.readers[i] > 0)) return SQLITE_BUSY;
  }
  for (int i = first; i < first + count; ++i) {
    if (shared) ++all.readers[i];
    if (!shared) all.writer[i] = true;
  }
  return SQLITE_OK;
}

void FaultyDisk::CountSharers(const std::string& file, int change) {
  const std::lock_guard lock(mutex_);
  Connections& all = connections_[file];
  all.sharers += change;
  if (all.sharers == 0) all.regions.clear();
}

void FaultyDisk::Apply(const Operation& operation, std::string* bytes) {
  const auto offset = static_cast<size_t>(operation.offset);
  if (operation.is_truncation) {
    if (offset < bytes->size()) bytes->resize(offset);
    return;
  }
  if (operation.bytes.empty()) return;
  if (bytes->size() < offset + operation.bytes.size()) {
    bytes->resize(offset + operation.bytes.size(), '\0');
  }
  std::memcpy(bytes->data() + offset, operation.bytes.data(), operation.bytes.size());
}

bool FaultyDisk::CountFails() { return ++operations_ > fail_after_; }

}  // namespace longstream::store
