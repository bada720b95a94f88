// An open file, closed at the end of its scope.
#ifndef LONGSTREAM_BACKENDS_CHECKPOINT_FILE_DESCRIPTOR_H_
#define LONGSTREAM_BACKENDS_CHECKPOINT_FILE_DESCRIPTOR_H_

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace longstream {

class FileDescriptor {
 public:
  // Takes what open returned; negative: none.
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) close(fd_);
  }
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&&) = delete;

  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }

  // Bytes [offset, offset + to.size()) of the file; `*read` says how many, fewer where the file
  // ends before. Returns 0 or an error number. Safe to call on several threads.
  int ReadAt(uint64_t offset, std::span<std::byte> to, size_t* read) const;

 private:
  int fd_;
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CHECKPOINT_FILE_DESCRIPTOR_H_
