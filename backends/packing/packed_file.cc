// Packed weights in a file.
#include "backends/packing/packed_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "backends/packing/fingerprint.h"

namespace longstream {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::array<char, 8> kMagic = {'L', 'S', 'P', 'A', 'C', 'K', 'E', 'D'};
constexpr uint32_t kFormat = 1;
constexpr uint64_t kDataAlignment = 4096;
constexpr uint32_t kMaxKeyBytes = 64u << 20;
// A chunk is two huge pages, so that tasks that read neighbouring chunks never fill the same page.
constexpr uint64_t kChunkBytes = uint64_t{4} << 20;
constexpr mode_t kMode = 0644;

struct Front {
  std::array<char, 8> magic = kMagic;
  uint32_t format = kFormat;
  uint32_t key_bytes = 0;
  uint64_t data_begin = 0;
  uint64_t data_bytes = 0;
  uint64_t num_parameters = 0;
  uint64_t fingerprint = 0;
  uint64_t hash = 0;
};
static_assert(sizeof(Front) == 56);

uint64_t RoundUp(uint64_t bytes, uint64_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

uint64_t NumChunks(uint64_t data_bytes) { return (data_bytes + kChunkBytes - 1) / kChunkBytes; }

uint64_t HashesBegin(uint64_t key_bytes) {
  return RoundUp(sizeof(Front) + key_bytes, sizeof(uint64_t));
}

uint64_t DataBegin(uint64_t key_bytes, uint64_t data_bytes) {
  return RoundUp(HashesBegin(key_bytes) + NumChunks(data_bytes) * sizeof(uint64_t), kDataAlignment);
}

[[noreturn]] void FailWith(const std::string& what, int code) {
  throw PackedFileError(what + ": " + std::generic_category().message(code));
}

int WriteAt(int fd, uint64_t offset, std::span<const std::byte> from) {
  while (!from.empty()) {
    const ssize_t put = pwrite(fd, from.data(), from.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return put < 0 ? errno : EIO;
    offset += static_cast<uint64_t>(put);
    from = from.subspan(static_cast<size_t>(put));
  }
  return 0;
}

// All bytes before the data, with their own hash in place.
std::vector<std::byte> MakeFront(const std::string& key, const WeightTotals& totals,
                                 uint64_t data_bytes, const std::vector<uint64_t>& hashes) {
  Front front;
  front.key_bytes = static_cast<uint32_t>(key.size());
  front.data_begin = DataBegin(key.size(), data_bytes);
  front.data_bytes = data_bytes;
  front.num_parameters = totals.num_parameters;
  front.fingerprint = totals.fingerprint;
  std::vector<std::byte> bytes(front.data_begin);
  std::memcpy(bytes.data() + sizeof(front), key.data(), key.size());
  std::memcpy(bytes.data() + HashesBegin(key.size()), hashes.data(),
              hashes.size() * sizeof(uint64_t));
  std::memcpy(bytes.data(), &front, sizeof(front));
  front.hash = HashBytes(bytes, Executor());
  std::memcpy(bytes.data(), &front, sizeof(front));
  return bytes;
}

// Calls body(chunk, its bytes) for every chunk of the data on all threads, until one returns
// something other than 0. Returns that value, or 0.
template <typename Byte, typename Body>
int ForEachChunk(std::span<Byte> data, const Executor& executor, const Body& body) {
  std::atomic<int> failure{0};
  ParallelFor(executor, static_cast<uint32_t>(NumChunks(data.size())), [&](uint32_t chunk) {
    if (failure.load(std::memory_order_relaxed) != 0) return;
    const uint64_t begin = chunk * kChunkBytes;
    const int result = body(chunk, data.subspan(begin, std::min(kChunkBytes, data.size() - begin)));
    if (result != 0) failure.store(result, std::memory_order_relaxed);
  });
  return failure.load();
}

// Opens an empty file for this process alone. Throws if another process has it open.
FileDescriptor OpenToWrite(const std::string& path) {
  FileDescriptor file(
      open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, kMode));
  if (!file.is_open()) FailWith("cannot be written", errno);
  if (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) throw PackedFileError("is being written by another process");
    FailWith("cannot be locked", errno);
  }
  // Between open and flock another process may have renamed the file to its final name.
  struct stat locked = {};
  struct stat named = {};
  if (fstat(file.get(), &locked) != 0 || stat(path.c_str(), &named) != 0 ||
      locked.st_ino != named.st_ino || locked.st_dev != named.st_dev) {
    throw PackedFileError("has just been written by another process");
  }
  if (!S_ISREG(locked.st_mode)) throw PackedFileError("is no regular file");
  if (ftruncate(file.get(), 0) != 0) FailWith("cannot be written", errno);
  return file;
}

void WriteAll(int fd, const std::string& key, const WeightTotals& totals,
              std::span<const std::byte> data, const Executor& executor) {
  const uint64_t data_begin = DataBegin(key.size(), data.size());
  // If the disk is full, this fails before gigabytes are written. Some file systems do not support
  // it; on those the write fails.
  if (fallocate(fd, 0, 0, static_cast<off_t>(data_begin + data.size())) != 0 &&
      errno != EOPNOTSUPP && errno != ENOSYS) {
    FailWith("cannot be written", errno);
  }
  std::vector<uint64_t> hashes(NumChunks(data.size()));
  int failure = ForEachChunk(data, executor, [&](uint32_t i, std::span<const std::byte> chunk) {
    hashes[i] = HashBytes(chunk, Executor());
    return WriteAt(fd, data_begin + i * kChunkBytes, chunk);
  });
  if (failure == 0) failure = WriteAt(fd, 0, MakeFront(key, totals, data.size(), hashes));
  if (failure == 0 && fsync(fd) != 0) failure = errno;
  if (failure != 0) FailWith("cannot be written", failure);
}

}  // namespace

std::unique_ptr<PackedFile> PackedFile::Open(const std::string& path) {
  FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) {
    if (errno == ENOENT) return nullptr;
    FailWith("cannot be opened", errno);
  }
  std::unique_ptr<PackedFile> packed(new PackedFile(std::move(file)));
  packed->ReadFront();
  return packed;
}

void PackedFile::ReadFront() {
  struct stat status = {};
  if (fstat(file_.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    throw PackedFileError("is no regular file");
  }
  const auto file_bytes = static_cast<uint64_t>(status.st_size);
  Front front;
  size_t got = 0;
  int failure = file_.ReadAt(0, std::as_writable_bytes(std::span(&front, 1)), &got);
  if (failure != 0) FailWith("cannot be read", failure);
  if (got < sizeof(front) || front.magic != kMagic) throw PackedFileError("is no packed file");
  if (front.format != kFormat) {
    throw PackedFileError("has the format " + std::to_string(front.format) + ", expected " +
                          std::to_string(kFormat));
  }
  if (front.key_bytes > kMaxKeyBytes || front.data_bytes > file_bytes ||
      front.data_begin != DataBegin(front.key_bytes, front.data_bytes) ||
      front.data_begin + front.data_bytes != file_bytes) {
    throw PackedFileError("is damaged or truncated");
  }
  std::vector<std::byte> bytes(front.data_begin);
  failure = file_.ReadAt(0, bytes, &got);
  if (failure != 0) FailWith("cannot be read", failure);
  const uint64_t hash = std::exchange(front.hash, 0);
  std::memcpy(bytes.data(), &front, sizeof(front));
  if (got < bytes.size() || HashBytes(bytes, Executor()) != hash) {
    throw PackedFileError("is damaged in front of its data");
  }
  key_.assign(reinterpret_cast<const char*>(bytes.data() + sizeof(front)), front.key_bytes);
  totals_ = {front.num_parameters, front.fingerprint};
  data_begin_ = front.data_begin;
  data_bytes_ = front.data_bytes;
  chunk_hashes_.resize(NumChunks(data_bytes_));
  std::memcpy(chunk_hashes_.data(), bytes.data() + HashesBegin(front.key_bytes),
              chunk_hashes_.size() * sizeof(uint64_t));
}

void PackedFile::Read(std::span<std::byte> memory, const Executor& executor) const {
  constexpr int kDamaged = -1;
  const int failure = ForEachChunk(memory, executor, [&](uint32_t i, std::span<std::byte> chunk) {
    size_t got = 0;
    const int problem = file_.ReadAt(data_begin_ + i * kChunkBytes, chunk, &got);
    if (problem != 0) return problem;
    return got == chunk.size() && HashBytes(chunk, Executor()) == chunk_hashes_[i] ? 0 : kDamaged;
  });
  if (failure == kDamaged) throw PackedFileError("is damaged in its data");
  if (failure != 0) FailWith("cannot be read", failure);
}

void WritePackedFile(const std::string& path, const std::string& key, const WeightTotals& totals,
                     std::span<const std::byte> data, const Executor& executor) {
  const std::string unfinished = path + ".new";
  // The lock is held until the file is closed, after it has been renamed or has failed.
  const FileDescriptor file = OpenToWrite(unfinished);
  try {
    WriteAll(file.get(), key, totals, data, executor);
    if (rename(unfinished.c_str(), path.c_str()) != 0) FailWith("cannot be renamed", errno);
  } catch (...) {
    unlink(unfinished.c_str());
    throw;
  }
  // Flush the name too. Without this, a system crash may lose the file; it is then written again.
  const FileDescriptor directory(
      open(std::filesystem::path(path).parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.is_open()) fsync(directory.get());
}

}  // namespace longstream
