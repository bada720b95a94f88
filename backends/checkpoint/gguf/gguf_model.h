// A model in GGUF files.
#ifndef LONGSTREAM_BACKENDS_CHECKPOINT_GGUF_GGUF_MODEL_H_
#define LONGSTREAM_BACKENDS_CHECKPOINT_GGUF_GGUF_MODEL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/checkpoint/gguf/gguf_header.h"

namespace longstream {

// Finds the files of the GGUF model at a path: a file *.gguf, or a directory that has files *.gguf
// and neither model.safetensors nor model.safetensors.index.json. Files whose names begin with
// "mmproj", which hold vision models, do not count. Empty: the path leads to no GGUF model.
//
// A model may be split into files NAME-00001-of-0000N.gguf. The path names the first of them; the
// result has all, in order. Looks at names only. Throws BackendError: LS_INVALID_ARGUMENT if a
// directory holds several models, or the path names a later part.
std::vector<std::string> FindGgufFiles(const std::string& path);

// The most bytes that the headers of all parts may have together. Only the first part of a split
// model has a vocabulary, so the others have small headers.
inline constexpr uint64_t kMaxModelHeaderBytes = uint64_t{512} << 20;

// The headers of a model's files, without the tensors' data. Immutable; thread-safe.
class GgufModel {
 public:
  struct Part {
    std::string path;
    uint64_t file_bytes = 0;
    GgufFront front;
  };

  // Reads the headers. BackendError: LS_NOT_FOUND if a file cannot be opened; LS_INVALID_ARGUMENT
  // if the parts do not belong together, or the files hold no model but an adapter or a vocabulary;
  // LS_DATA_LOSS if all headers together have more than `most_header_bytes`; others as for
  // ParseGguf. REQUIRES: `files` is not empty.
  explicit GgufModel(const std::vector<std::string>& files,
                     uint64_t most_header_bytes = kMaxModelHeaderBytes);
  // The model at a path; nullopt: there is none (FindGgufFiles).
  static std::optional<GgufModel> Open(const std::string& path);

  const std::vector<Part>& parts() const { return parts_; }
  // The path of the first file, which has the metadata.
  const std::string& path() const { return parts_.front().path; }
  // Returns nullptr if there is no such value.
  const GgufValue* Find(std::string_view key) const;
  const std::map<std::string, GgufValue, std::less<>>& metadata() const {
    return parts_.front().front.header.metadata;
  }
  // Returns nullptr if no part has such a tensor.
  const GgufTensor* FindTensor(std::string_view name) const;
  // Reads a vector of type F32. LS_INVALID_ARGUMENT: it is none, or has more than `most` elements.
  std::vector<float> ReadVector(const GgufTensor& tensor, uint64_t most) const;

 private:
  std::vector<Part> parts_;
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CHECKPOINT_GGUF_GGUF_MODEL_H_
