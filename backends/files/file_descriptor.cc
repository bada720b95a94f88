// Reads open files.
#include "backends/files/file_descriptor.h"

#include <cerrno>

namespace longstream {

int FileDescriptor::ReadAt(uint64_t offset, std::span<std::byte> to, size_t* read) const {
  for (*read = 0; *read < to.size();) {
    const ssize_t got =
        pread(fd_, to.data() + *read, to.size() - *read, static_cast<off_t>(offset + *read));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno;
    if (got == 0) return 0;
    *read += static_cast<size_t>(got);
  }
  return 0;
}

}  // namespace longstream
