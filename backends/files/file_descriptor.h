// An open file, closed at the end of its scope.
#ifndef LONGSTREAM_BACKENDS_FILES_FILE_DESCRIPTOR_H_
#define LONGSTREAM_BACKENDS_FILES_FILE_DESCRIPTOR_H_

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace longstream {

class FileDescriptor {
 public:
  // Takes ownership of the result of open(); a negative `fd` means no file.
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) close(fd_);
  }
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&&) = delete;

  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }

  // Reads bytes [offset, offset + to.size()) of the file. `*read` is the number of bytes read; it
  // is smaller than to.size() if the file ends earlier. Returns 0 or an error number. Thread-safe.
  int ReadAt(uint64_t offset, std::span<std::byte> to, size_t* read) const;

 private:
  int fd_;
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_FILES_FILE_DESCRIPTOR_H_
