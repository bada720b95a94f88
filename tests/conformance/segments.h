// Owners of the ABI's snapshots and imports. If a call fails, a method ends the check
// (CheckFailed); the functions Try... return the code instead.
#ifndef LONGSTREAM_TESTS_CONFORMANCE_SEGMENTS_H_
#define LONGSTREAM_TESTS_CONFORMANCE_SEGMENTS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "tests/conformance/model.h"

namespace longstream::conformance {

// The bytes of a snapshot.
struct Segments {
  std::string span;
  std::string fixed;

  std::string all() const { return span + fixed; }
  bool operator==(const Segments&) const = default;
};

// A snapshot; the destructor frees it. Destroy it before its model. Movable. Read may run on
// another thread than the model's.
class Snapshot {
 public:
  // snapshot_begin for a sequence.
  Snapshot(Sequence& sequence, uint64_t from);
  Snapshot(Snapshot&& other) noexcept;
  Snapshot& operator=(Snapshot&&) = delete;
  ~Snapshot();

  static ls_code TryBegin(Sequence& sequence, uint64_t from);

  const ls_snapshot_info& info() const { return info_; }
  // Reads a segment in pieces of at most `piece` bytes.
  std::string Read(int32_t segment, size_t piece = 65536);
  Segments ReadAll(size_t piece = 65536);
  ls_code TryRead(int32_t segment, void* data, size_t capacity, size_t* size);

 private:
  Model* model_;
  ls_snapshot* handle_ = nullptr;
  ls_snapshot_info info_{};
};

// An import; the destructor frees it unless it was attached. Destroy it before its model.
class Import {
 public:
  // import_begin
  Import(Model& model, uint64_t position);
  Import(const Import&) = delete;
  Import& operator=(const Import&) = delete;
  ~Import();

  static ls_code TryBegin(Model& model, uint64_t position);

  // Writes bytes in pieces of at most `piece` bytes, until the first failure.
  ls_code TryWrite(const std::string& bytes, size_t piece = 65536);
  ls_code TryAttach(Sequence* sequence);

 private:
  Model& model_;
  ls_import* handle_ = nullptr;
};

// Imports the bytes and returns the code of the first call that failed.
ls_code TryImportSegments(Model& model, uint64_t position, const std::string& bytes,
                          Sequence* sequence, size_t piece = 65536);
// Imports the bytes. Throws CheckFailed.
Sequence ImportSegments(Model& model, uint64_t position, const std::string& bytes,
                        size_t piece = 65536);

}  // namespace longstream::conformance

#endif  // LONGSTREAM_TESTS_CONFORMANCE_SEGMENTS_H_
