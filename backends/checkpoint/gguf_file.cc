// Opens GGUF files as files of tensors.
#include "backends/checkpoint/gguf_file.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "backends/checkpoint/gguf/gguf_config.h"
#include "backends/checkpoint/gguf/gguf_header.h"
#include "backends/checkpoint/gguf/gguf_model.h"
#include "backends/checkpoint/gguf_tensor.h"
#include "backends/errors/error.h"

namespace longstream {
namespace {

// Its tensors have the names of the GGUF file where they must be computed, and those of Hugging
// Face elsewhere.
class GgufFile final : public TensorFile {
 public:
  GgufFile(const std::string& path, const GgufConversions& conversions) : TensorFile(path) {
    GgufFront front =
        ReadGgufFront(stamp().bytes, path,
                      [this](uint64_t at, std::span<std::byte> to) { Read(at, to, Executor()); });
    front_ = std::move(front.bytes);
    header_ = std::move(front.header);
    for (const GgufTensor& tensor : header_.tensors) {
      StoredTensor stored;
      GgufConversion conversion = conversions.Of(tensor);
      if (conversion.name.empty()) continue;
      stored.type = PlainTypeOf(*tensor.type);
      const bool plain = stored.type && conversion.interleaved_heads == 0 && !conversion.plus_one;
      stored.name = plain ? conversion.name : tensor.name;
      stored.type_name = tensor.type->name;
      stored.shape = tensor.shape;
      stored.num_bytes = tensor.num_bytes;
      stored.offset = tensor.offset;
      tensors_.push_back(std::move(stored));
      if (!plain) computed_.emplace_back(&tensor, std::move(conversion));
    }
  }

  // The tensors to compute.
  const std::vector<std::pair<const GgufTensor*, GgufConversion>>& computed() const {
    return computed_;
  }

 private:
  GgufHeader header_;  // points into front_
  std::vector<std::pair<const GgufTensor*, GgufConversion>> computed_;
};

}  // namespace

void AddGgufFiles(const std::vector<std::string>& files, Checkpoint* checkpoint) {
  const GgufModel model(files);
  const GgufConversions conversions(model);
  for (const GgufModel::Part& part : model.parts()) {
    auto file = std::make_unique<GgufFile>(part.path, conversions);
    const GgufFile& added = *file;
    // The conversions are those of the file that `model` was read from.
    if (!std::ranges::equal(added.front(), part.front.bytes)) {
      throw BackendError(LS_UNAVAILABLE, part.path + ": was replaced while it was read");
    }
    checkpoint->AddFile(std::move(file));
    for (const auto& [tensor, conversion] : added.computed()) {
      checkpoint->AddComputed(MakeGgufTensor(added, *tensor, conversion), std::array{tensor->name});
    }
  }
}

}  // namespace longstream
