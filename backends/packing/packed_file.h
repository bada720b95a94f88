// A file that holds a model's weights as a kernel library reads them, and how it is checked.
//
//   magic "LSPACKED" | u32 format | u32 bytes of the key | u64 where the data begin | u64 bytes of
//   the data | u64 parameters | u64 fingerprint of the weights | u64 hash of all before the data,
//   itself zero | the key | zeros to a multiple of 8 | u64 hashes of the data's chunks | zeros to a
//   multiple of 4096 | the data, in chunks of 4 MiB
//
// Numbers are little-endian, hashes are HashBytes (fingerprint.h). The key is a text that says what
// decided the data (packed_key.h); whoever reads the file compares it with the one that he expects.
#ifndef LONGSTREAM_BACKENDS_PACKING_PACKED_FILE_H_
#define LONGSTREAM_BACKENDS_PACKING_PACKED_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "backends/checkpoint/file_descriptor.h"
#include "kernels/core/executor.h"

namespace longstream {

// What a checkpoint's tensors say about a model as a whole.
struct WeightTotals {
  uint64_t num_parameters = 0;
  uint64_t fingerprint = 0;
};

// Why a file cannot be read or written: half a sentence, to follow the file's name.
class PackedFileError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// One that is open to be read; replacing or removing it changes nothing. Used by one thread.
class PackedFile {
 public:
  // nullptr: there is no such file. PackedFileError for one that is no packed file, of another
  // format, truncated, or damaged in front of its data.
  static std::unique_ptr<PackedFile> Open(const std::string& path);

  const std::string& key() const { return key_; }
  const WeightTotals& totals() const { return totals_; }
  uint64_t data_bytes() const { return data_bytes_; }

  // All data, on all threads, each chunk checked as it comes: what returns holds what was written.
  // PackedFileError otherwise. REQUIRES: memory.size() == data_bytes()
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

// Puts such a file in the place of what is there, all of it or nothing: it is written as
// PATH.new, brought to the disk, and renamed. A process that dies leaves that name behind, which
// the next one uses again. PackedFileError where it cannot be written, or another process writes
// it.
void WritePackedFile(const std::string& path, const std::string& key, const WeightTotals& totals,
                     std::span<const std::byte> data, const Executor& executor);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_PACKING_PACKED_FILE_H_
