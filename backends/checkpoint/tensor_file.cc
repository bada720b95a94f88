// Opens files of tensors and reads them.
#include "backends/checkpoint/tensor_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <system_error>

#include "backends/checkpoint/json.h"
#include "backends/errors/error.h"

namespace longstream {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;  // read by one task
constexpr int kEnds = -1;                        // no error number: the file ends too early

std::string SystemError(int code) { return std::generic_category().message(code); }

FileStamp StampOf(const struct stat& status) {
  const auto nanoseconds = [](const timespec& time) {
    return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  };
  return {static_cast<uint64_t>(status.st_size), nanoseconds(status.st_mtim),
          nanoseconds(status.st_ctim)};
}

// Opens a regular file for reading and stores its stamp in *stamp.
FileDescriptor OpenFile(const std::string& path, FileStamp* stamp) {
  // Without O_NONBLOCK, open() of a FIFO would wait forever, and the check below could not refuse
  // it.
  FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) {
    const std::error_code why(errno, std::generic_category());
    throw BackendError(LS_NOT_FOUND, path + ": cannot be opened: " + WhyNotOpened(path, why));
  }
  struct stat status = {};
  if (fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    throw BackendError(LS_NOT_FOUND, path + ": is no regular file");
  }
  *stamp = StampOf(status);
  return file;
}

}  // namespace

std::string ShapeText(std::span<const int64_t> shape) {
  std::string text;
  for (const int64_t extent : shape) text += (text.empty() ? "" : ", ") + std::to_string(extent);
  return "[" + text + "]";
}

TensorFile::TensorFile(const std::string& path) : path_(path), file_(OpenFile(path, &stamp_)) {
  posix_fadvise(file_.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
}

int TensorFile::ReadPiece(uint64_t offset, std::span<std::byte> to) const {
  size_t got = 0;
  const int problem = file_.ReadAt(offset, to, &got);
  if (problem != 0) return problem;
  return got < to.size() ? kEnds : 0;
}

void TensorFile::RequireRead(int failure) const {
  if (failure == 0) return;
  throw BackendError(LS_DATA_LOSS,
                     path_ + (failure == kEnds ? ": was shortened while it was read, expected " +
                                                     std::to_string(stamp_.bytes) + " bytes"
                                               : ": cannot be read: " + SystemError(failure)));
}

void TensorFile::Read(uint64_t offset, std::span<std::byte> to, const Executor& executor) const {
  std::atomic<int> failure{0};
  const auto pieces = static_cast<uint32_t>((to.size() + kPieceBytes - 1) / kPieceBytes);
  ParallelFor(executor, pieces, [&](uint32_t i) {
    const size_t begin = i * kPieceBytes;
    const int problem =
        ReadPiece(offset + begin, to.subspan(begin, std::min(kPieceBytes, to.size() - begin)));
    if (problem != 0) failure.store(problem);
  });
  RequireRead(failure);
}

void TensorFile::ReadPieces(uint64_t offset, uint64_t stride, size_t piece_bytes,
                            std::span<std::byte> to, const Executor& executor) const {
  if (stride == piece_bytes || to.size() == piece_bytes) return Read(offset, to, executor);
  if (to.empty()) return;
  const size_t pieces = to.size() / piece_bytes;
  const size_t at_once = std::max<size_t>(kPieceBytes / piece_bytes, 1);
  std::atomic<int> failure{0};
  const auto tasks = static_cast<uint32_t>((pieces + at_once - 1) / at_once);
  ParallelFor(executor, tasks, [&](uint32_t task) {
    const size_t end = std::min(pieces, (task + size_t{1}) * at_once);
    for (size_t i = task * at_once; i < end && failure == 0; ++i) {
      const int problem = ReadPiece(offset + i * stride, to.subspan(i * piece_bytes, piece_bytes));
      if (problem != 0) failure.store(problem);
    }
  });
  RequireRead(failure);
}

void TensorFile::RequireUnwritten() const {
  struct stat status = {};
  if (fstat(file_.get(), &status) != 0) {
    throw BackendError(LS_UNAVAILABLE, path_ + ": cannot be looked at: " + SystemError(errno));
  }
  // Does not compare changed_ns (st_ctim), which also changes when the file gets a new name or
  // owner.
  const FileStamp now = StampOf(status);
  if (now.bytes == stamp_.bytes && now.written_ns == stamp_.written_ns) return;
  const auto text = [](const FileStamp& stamp) {
    return std::to_string(stamp.bytes) + " bytes, written " + std::to_string(stamp.written_ns) +
           " ns after 1970";
  };
  throw BackendError(LS_UNAVAILABLE, path_ + ": was written to while it was read, expected " +
                                         text(stamp_) + ", found " + text(now));
}

bool TensorFile::IsUnchanged() const {
  struct stat status = {};
  return stat(path_.c_str(), &status) == 0 && StampOf(status) == stamp_;
}

}  // namespace longstream
