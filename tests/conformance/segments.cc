// Calls the functions of segments.
#include "tests/conformance/segments.h"

#include <algorithm>
#include <utility>

namespace longstream::conformance {
namespace {

// Calls function(error). A failure without a sentence ends the check.
template <typename Function>
ls_code Call(const char* name, Function&& function, std::string* sentence = nullptr) {
  ErrorText text;
  const ls_code code = function(text.get());
  if (code != LS_OK && text.str().empty()) {
    throw CheckFailed{std::string(name) + ": " + NameOf(code) + " without a sentence"};
  }
  if (sentence != nullptr) *sentence = text.str();
  return code;
}

template <typename Function>
void CallOk(const char* name, Function&& function) {
  std::string sentence;
  const ls_code code = Call(name, function, &sentence);
  if (code != LS_OK) throw CheckFailed{std::string(name) + ": " + NameOf(code) + ": " + sentence};
}

}  // namespace

Snapshot::Snapshot(Sequence& sequence, uint64_t from) : model_(&sequence.model()) {
  info_.struct_size = sizeof(info_);
  CallOk("snapshot_begin", [&](ls_error error) {
    return model_->backend().snapshot_begin(model_->handle(), sequence.handle(), from, &handle_,
                                            &info_, error);
  });
}

Snapshot::Snapshot(Snapshot&& other) noexcept
    : model_(other.model_), handle_(std::exchange(other.handle_, nullptr)), info_(other.info_) {}

Snapshot::~Snapshot() {
  if (handle_ != nullptr) model_->backend().snapshot_free(model_->handle(), handle_);
}

ls_code Snapshot::TryBegin(Sequence& sequence, uint64_t from) {
  Model& model = sequence.model();
  ls_snapshot* handle = nullptr;
  ls_snapshot_info info{};
  info.struct_size = sizeof(info);
  const ls_code code = Call("snapshot_begin", [&](ls_error error) {
    return model.backend().snapshot_begin(model.handle(), sequence.handle(), from, &handle, &info,
                                          error);
  });
  if (code == LS_OK) model.backend().snapshot_free(model.handle(), handle);
  if (code != LS_OK && handle != nullptr) throw CheckFailed{"snapshot_begin failed with a handle"};
  return code;
}

ls_code Snapshot::TryRead(int32_t segment, void* data, size_t capacity, size_t* size) {
  return Call("snapshot_read", [&](ls_error error) {
    return model_->backend().snapshot_read(handle_, segment, data, capacity, size, error);
  });
}

std::string Snapshot::Read(int32_t segment, size_t piece) {
  std::string bytes;
  std::string buffer(piece, '\0');
  while (true) {
    size_t size = 0;
    CallOk("snapshot_read", [&](ls_error error) {
      return model_->backend().snapshot_read(handle_, segment, buffer.data(), piece, &size, error);
    });
    bytes.append(buffer, 0, size);
    if (size < piece) break;
  }
  size_t behind = 1;
  const ls_code code = TryRead(segment, buffer.data(), piece, &behind);
  if (code != LS_OK || behind != 0) throw CheckFailed{"snapshot_read: bytes behind the end"};
  const uint64_t expected = segment == LS_SEGMENT_SPAN ? info_.span_bytes : info_.fixed_bytes;
  if (bytes.size() != expected) {
    throw CheckFailed{"snapshot_read: a segment has " + std::to_string(bytes.size()) +
                      " bytes, ls_snapshot_info says " + std::to_string(expected)};
  }
  return bytes;
}

Segments Snapshot::ReadAll(size_t piece) {
  Segments segments;
  segments.span = Read(LS_SEGMENT_SPAN, piece);
  segments.fixed = Read(LS_SEGMENT_FIXED, piece);
  return segments;
}

Import::Import(Model& model, uint64_t position) : model_(model) {
  CallOk("import_begin", [&](ls_error error) {
    return model.backend().import_begin(model.handle(), position, &handle_, error);
  });
}

Import::~Import() {
  if (handle_ != nullptr) model_.backend().import_free(model_.handle(), handle_);
}

ls_code Import::TryBegin(Model& model, uint64_t position) {
  ls_import* handle = nullptr;
  const ls_code code = Call("import_begin", [&](ls_error error) {
    return model.backend().import_begin(model.handle(), position, &handle, error);
  });
  if (code == LS_OK) model.backend().import_free(model.handle(), handle);
  return code;
}

ls_code Import::TryWrite(const std::string& bytes, size_t piece) {
  for (size_t begin = 0; begin < bytes.size(); begin += piece) {
    // A copy of its own, so that a sanitizer notices a read past the end.
    const std::string part = bytes.substr(begin, piece);
    const ls_code code = Call("import_write", [&](ls_error error) {
      return model_.backend().import_write(handle_, part.data(), part.size(), error);
    });
    if (code != LS_OK) return code;
  }
  return LS_OK;
}

ls_code Import::TryAttach(Sequence* sequence) {
  ls_sequence* attached = nullptr;
  const ls_code code = Call("import_attach", [&](ls_error error) {
    return model_.backend().import_attach(model_.handle(), handle_, &attached, error);
  });
  if (code != LS_OK) return code;
  handle_ = nullptr;
  *sequence = Sequence(&model_, attached);
  return LS_OK;
}

ls_code TryImportSegments(Model& model, uint64_t position, const std::string& bytes,
                          Sequence* sequence, size_t piece) {
  Import import(model, position);
  const ls_code written = import.TryWrite(bytes, piece);
  const ls_code attached = import.TryAttach(sequence);
  if (written != LS_OK && attached != written) {
    throw CheckFailed{"import_attach: " + NameOf(attached) + " after a write that failed with " +
                      NameOf(written)};
  }
  return attached;
}

Sequence ImportSegments(Model& model, uint64_t position, const std::string& bytes, size_t piece) {
  Sequence sequence;
  const ls_code code = TryImportSegments(model, position, bytes, &sequence, piece);
  if (code != LS_OK) throw CheckFailed{"an import of good segments: " + NameOf(code)};
  return sequence;
}

}  // namespace longstream::conformance
