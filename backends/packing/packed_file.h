// A file that holds a model's weights in a kernel library's packed form, and its checks.
//
//   magic "LSPACKED" | u32 format | u32 bytes of the key | u64 where the data begin | u64 bytes of
//   the data | u64 parameters | u64 fingerprint of the weights | u64 hash of all before the data,
//   itself zero | the key | zeros to a multiple of 8 | u64 hashes of the data's chunks | zeros to a
//   multiple of 4096 | the data, in chunks of 4 MiB
//
// Numbers are little-endian, hashes are HashBytes (fingerprint.h). The key is a text that names
// everything that decides the data (packed_key.h). A reader compares it with the key that it
// expects.
#ifndef LONGSTREAM_BACKENDS_PACKING_PACKED_FILE_H_
#define LONGSTREAM_BACKENDS_PACKING_PACKED_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "backends/files/file_descriptor.h"
#include "kernels/core/executor.h"

namespace longstream {

// Facts about all of a checkpoint's tensors together.
struct WeightTotals {
  uint64_t num_parameters = 0;
  uint64_t fingerprint = 0;
};

// A file cannot be read or written. The text is half a sentence, to follow the file's name.
class PackedFileError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// An open packed file. Replacing or removing the path does not affect it. Used by one thread.
class PackedFile {
 public:
  // nullptr: there is no such file. PackedFileError: not a packed file, another format, truncated,
  // or damaged in front of its data.
  static std::unique_ptr<PackedFile> Open(const std::string& path);

  const std::string& key() const { return key_; }
  const WeightTotals& totals() const { return totals_; }
  uint64_t data_bytes() const { return data_bytes_; }

  // Reads all data on all threads and checks every chunk. PackedFileError if the data differ from
  // those that were written. REQUIRES: memory.size() == data_bytes()
  void Read(std::span<std::byte> memory, const Executor& executor) const;

 private:
  explicit PackedFile(FileDescriptor file) : file_(std::move(file)) {}
  void ReadFront();

  FileDescriptor file_;
  std::string key_;
  WeightTotals totals_;
  uint64_t data_begin_ = 0;
  uint64_t data_bytes_ = 0;
  std::vector<uint64_t> chunk_hashes_;
};

// Replaces `path` by a new packed file, all of it or nothing: writes PATH.new, flushes it to the
// disk and renames it. A process that dies leaves PATH.new behind; the next writer reuses it.
// PackedFileError: the file cannot be written, or another process is writing it.
void WritePackedFile(const std::string& path, const std::string& key, const WeightTotals& totals,
                     std::span<const std::byte> data, const Executor& executor);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_PACKING_PACKED_FILE_H_
