// Finds and reads the tensors of a model directory.
#include "backends/checkpoint/checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "backends/checkpoint/gguf/gguf_model.h"
#include "backends/checkpoint/gguf_file.h"
#include "backends/checkpoint/json.h"
#include "backends/checkpoint/safetensors.h"
#include "backends/errors/error.h"
#include "backends/errors/quote.h"

namespace longstream {
namespace {

constexpr const char* kSingleFile = "/model.safetensors";
constexpr const char* kIndexFile = "/model.safetensors.index.json";

// A dangling link counts as existing, because the directory was meant to have this file.
bool Exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::symlink_status(path, ignored).type() !=
         std::filesystem::file_type::not_found;
}

}  // namespace

Checkpoint::Checkpoint(const std::string& path) : path_(path), directory_(path) {
  if (const std::vector<std::string> gguf = FindGgufFiles(path); !gguf.empty()) {
    path_ = gguf.front();
    directory_ = std::filesystem::path(path_).parent_path().string();
    if (directory_.empty()) directory_ = ".";
    AddGgufFiles(gguf, this);
    return;
  }
  const std::string& directory = path;
  const std::string single = directory + kSingleFile;
  const std::string index = directory + kIndexFile;
  if (Exists(single)) {
    AddFile(std::make_unique<SafetensorsFile>(single));
  } else if (Exists(index)) {
    ReadIndex(index);
  } else {
    throw BackendError(LS_NOT_FOUND, directory +
                                         ": expected model.safetensors, "
                                         "model.safetensors.index.json or a GGUF file, found none");
  }
}

Checkpoint::Checkpoint(std::string directory, std::unique_ptr<TensorFile> file)
    : path_(directory), directory_(std::move(directory)) {
  AddFile(std::move(file));
}

void Checkpoint::AddFile(std::unique_ptr<TensorFile> file) {
  const TensorFile& added = *files_.emplace_back(std::move(file));
  for (const StoredTensor& tensor : added.tensors()) {
    if (!tensors_.emplace(tensor.name, &tensor).second) {
      throw BackendError(LS_INVALID_ARGUMENT, added.path() + ": tensor " + Quoted(tensor.name) +
                                                  " is in another shard too, " +
                                                  FileOf(*Find(tensor.name)));
    }
    sources_[&tensor] = {{&added, &tensor}, nullptr};
  }
}

void Checkpoint::AddComputed(std::unique_ptr<ComputedTensor> computed,
                             std::span<const std::string> parts) {
  for (const std::string& part : parts) tensors_.erase(part);
  const Tensor& tensor = computed->tensor();
  if (!tensors_.emplace(tensor.name, &tensor).second) {
    throw BackendError(LS_INVALID_ARGUMENT, computed->path() + ": tensor " + Quoted(tensor.name) +
                                                " is there twice: as it is in " +
                                                FileOf(*Find(tensor.name)) +
                                                ", and in a form that it is computed from");
  }
  sources_[&tensor] = {{}, computed.get()};
  computed_.push_back(std::move(computed));
}

// The index has the form {"metadata": ..., "weight_map": {tensor name: file name}}.
void Checkpoint::ReadIndex(const std::string& path) {
  const nlohmann::json index = ParseJsonObject(ReadTextFile(path), path, LS_DATA_LOSS);
  const auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object()) {
    throw BackendError(LS_DATA_LOSS, path + ": weight_map must be an object, found " +
                                         (map == index.end() ? "nothing" : map->type_name()));
  }
  std::map<std::string, std::string> shards;  // path by file name
  for (const auto& [tensor, file] : map->items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    if (name.empty() || name.find('/') != std::string::npos || name == "..") {
      throw BackendError(LS_INVALID_ARGUMENT, path + ": tensor " + Quoted(tensor) +
                                                  " must be in a file of this directory, found " +
                                                  Shortened(file.dump()));
    }
    std::string& shard = shards[name];
    if (shard.empty()) shard.append(directory_).append("/").append(name);
  }
  for (const auto& [name, shard] : shards) AddFile(std::make_unique<SafetensorsFile>(shard));
  for (const auto& [tensor, file] : map->items()) {
    const std::string& shard = shards.at(file.get<std::string>());
    const Tensor* stored = Find(tensor);
    if (stored == nullptr || FileOf(*stored) != shard) {
      std::string message = shard + ": tensor " + Quoted(tensor);
      message.append(" is missing, though ").append(path).append(" says that it is there");
      throw BackendError(LS_INVALID_ARGUMENT, message);
    }
  }
  for (const auto& [tensor, stored] : tensors_) {
    if (!map->contains(tensor)) {
      throw BackendError(LS_INVALID_ARGUMENT,
                         FileOf(*stored) + ": tensor " + Quoted(tensor) + " is not in " + path);
    }
  }
}

void Checkpoint::Remove(std::string_view name) {
  const auto found = tensors_.find(name);
  if (found != tensors_.end()) tensors_.erase(found);
}

bool Checkpoint::IsUnchanged() const {
  return std::all_of(files_.begin(), files_.end(),
                     [](const auto& file) { return file->IsUnchanged(); });
}

void Checkpoint::RequireUnwritten() const {
  for (const auto& file : files_) file->RequireUnwritten();
}

const Tensor* Checkpoint::Find(std::string_view name) const {
  const auto it = tensors_.find(name);
  return it == tensors_.end() ? nullptr : it->second;
}

std::optional<StoredPart> Checkpoint::FindStored(std::string_view name) const {
  const Tensor* tensor = Find(name);
  if (tensor == nullptr || SourceOf(*tensor).computed != nullptr) return std::nullopt;
  return SourceOf(*tensor).stored;
}

const Tensor& Checkpoint::Get(std::string_view name, std::span<const int64_t> shape) const {
  const Tensor* tensor = Find(name);
  if (tensor == nullptr) {
    throw BackendError(LS_INVALID_ARGUMENT, path_ + ": tensor " + Quoted(name) +
                                                " is missing, expected shape " + ShapeText(shape));
  }
  if (!std::equal(shape.begin(), shape.end(), tensor->shape.begin(), tensor->shape.end())) {
    throw BackendError(LS_INVALID_ARGUMENT, FileOf(*tensor) + ": tensor " + Quoted(name) +
                                                " must have the shape " + ShapeText(shape) +
                                                ", found " + ShapeText(tensor->shape));
  }
  if (!tensor->type) {
    throw BackendError(LS_INVALID_ARGUMENT, FileOf(*tensor) + ": tensor " + Quoted(name) +
                                                " must be F32, F16 or BF16, found " +
                                                tensor->type_name);
  }
  return *tensor;
}

const Checkpoint::Source& Checkpoint::SourceOf(const Tensor& tensor) const {
  return sources_.at(&tensor);
}

const std::string& Checkpoint::FileOf(const Tensor& tensor) const {
  const Source& source = SourceOf(tensor);
  return source.computed != nullptr ? source.computed->path() : source.stored.file->path();
}

std::string Checkpoint::RecipeOf(const Tensor& tensor) const {
  const Source& source = SourceOf(tensor);
  return source.computed != nullptr ? " " + source.computed->recipe() : "";
}

void Checkpoint::Read(const Tensor& tensor, uint64_t first, std::span<std::byte> to,
                      const Executor& executor) const {
  const Source& source = SourceOf(tensor);
  if (source.computed == nullptr) {
    return source.stored.file->Read(source.stored.tensor->offset + first, to, executor);
  }
  if (to.empty()) return;
  // The number of rows is not 0, because the tensor has bytes.
  const uint64_t row_bytes =
      tensor.num_bytes / static_cast<uint64_t>(tensor.shape.empty() ? 1 : tensor.shape.front());
  if (first % row_bytes != 0 || to.size() % row_bytes != 0) {
    throw BackendError(
        LS_INVALID_ARGUMENT,
        FileOf(tensor) + ": tensor " + Quoted(tensor.name) +
            " is read in pieces of rows, expected a plain tensor of F32, F16 or BF16");
  }
  source.computed->ReadRows(static_cast<int64_t>(first / row_bytes),
                            static_cast<int64_t>(to.size() / row_bytes), to.data(), executor);
}

void Checkpoint::ReadGroups(const Tensor& tensor, int64_t first, int64_t rows, WeightGroup* to,
                            const Executor& executor) const {
  SourceOf(tensor).computed->ReadGroups(first, rows, to, executor);
}

}  // namespace longstream
