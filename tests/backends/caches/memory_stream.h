// A snapshot in memory: the ABI's writer and reader over one string.
#ifndef LONGSTREAM_TESTS_BACKENDS_CACHES_MEMORY_STREAM_H_
#define LONGSTREAM_TESTS_BACKENDS_CACHES_MEMORY_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "backends/api/backend.h"

namespace longstream {

class MemoryStream {
 public:
  MemoryStream() = default;
  explicit MemoryStream(std::string bytes) : bytes_(std::move(bytes)) {}

  // This writer gives up before it holds more than `limit` bytes.
  const ls_writer& writer(size_t limit = std::numeric_limits<size_t>::max()) {
    limit_ = limit;
    return writer_;
  }
  // Reads from the beginning. A read past the end fails.
  const ls_reader& reader() {
    read_ = 0;
    return reader_;
  }

  const std::string& bytes() const { return bytes_; }
  bool at_end() const { return read_ == bytes_.size(); }

 private:
  static int32_t Write(void* context, const void* data, size_t size) {
    auto* stream = static_cast<MemoryStream*>(context);
    if (size > stream->limit_ - stream->bytes_.size()) return 1;
    stream->bytes_.append(static_cast<const char*>(data), size);
    return 0;
  }
  static int32_t Read(void* context, void* data, size_t size) {
    auto* stream = static_cast<MemoryStream*>(context);
    if (size > stream->bytes_.size() - stream->read_) return 1;
    std::memcpy(data, stream->bytes_.data() + stream->read_, size);
    stream->read_ += size;
    return 0;
  }

  std::string bytes_;
  size_t read_ = 0;
  size_t limit_ = 0;
  const ls_writer writer_{this, Write};
  const ls_reader reader_{this, Read};
};

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_BACKENDS_CACHES_MEMORY_STREAM_H_
