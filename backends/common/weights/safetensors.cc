// Safetensors files mapped into memory, and checkpoints made of them.
#include "backends/common/weights/safetensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <system_error>
#include <utility>

#include "backends/common/error.h"
#include "backends/common/weights/json.h"
#include "backends/common/weights/quote.h"

namespace longstream {
namespace {

constexpr const char* kSingleFile = "/model.safetensors";
constexpr const char* kIndexFile = "/model.safetensors.index.json";

std::string SystemError(int code) { return std::generic_category().message(code); }

FileStamp StampOf(const struct stat& status) {
  const auto nanoseconds = [](const timespec& time) {
    return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  };
  return {static_cast<uint64_t>(status.st_size), nanoseconds(status.st_mtim),
          nanoseconds(status.st_ctim)};
}

// A file's pages, read-only; unmapped by the caller.
std::span<const std::byte> MapFile(const std::string& path, FileStamp* stamp) {
  // Without waiting: a FIFO would keep open from ever getting to the check below.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    const std::error_code why(errno, std::generic_category());
    throw BackendError(LS_NOT_FOUND, path + ": cannot be opened: " + WhyNotOpened(path, why));
  }
  struct stat status = {};
  const bool regular = fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
  const auto size = static_cast<size_t>(status.st_size);
  *stamp = StampOf(status);
  void* map = nullptr;
  int problem = 0;
  if (regular && size > 0) {
    map = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED) problem = errno;
  }
  close(fd);
  if (!regular) throw BackendError(LS_NOT_FOUND, path + ": is no regular file");
  if (problem != 0) {
    throw BackendError(LS_RESOURCE_EXHAUSTED, path + ": cannot be mapped: " + SystemError(problem));
  }
  return {static_cast<const std::byte*>(map), size};
}

// A link that leads nowhere counts: the file is meant to be there.
bool Exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::symlink_status(path, ignored).type() !=
         std::filesystem::file_type::not_found;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path)
    : path_(path), map_(MapFile(path, &stamp_)) {
  try {
    tensors_ = ParseSafetensors(map_, path_);
    uint64_t length = 0;  // checked; little-endian, as every machine served
    std::memcpy(&length, map_.data(), sizeof(length));
    header_bytes_ = sizeof(length) + length;
  } catch (...) {
    Unmap();
    throw;
  }
}

SafetensorsFile::~SafetensorsFile() { Unmap(); }

void SafetensorsFile::Unmap() {
  // The mapping is read-only; munmap's parameter merely is not const.
  if (!map_.empty()) munmap(const_cast<std::byte*>(map_.data()), map_.size());
}

void SafetensorsFile::Release(std::span<const std::byte> bytes) const {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const auto first = static_cast<size_t>(bytes.data() - map_.data());
  const size_t begin = (first + page - 1) / page * page;
  const size_t end = (first + bytes.size()) / page * page;
  if (begin < end) {
    madvise(const_cast<std::byte*>(map_.data()) + begin, end - begin, MADV_DONTNEED);
  }
}

Checkpoint::Checkpoint(const std::string& directory) : directory_(directory) {
  const std::string single = directory + kSingleFile;
  const std::string index = directory + kIndexFile;
  if (Exists(single)) {
    AddFile(single);
  } else if (Exists(index)) {
    ReadIndex(index);
  } else {
    throw BackendError(LS_NOT_FOUND, directory +
                                         ": expected model.safetensors or "
                                         "model.safetensors.index.json, found neither");
  }
}

void Checkpoint::AddFile(const std::string& path) {
  files_.push_back(std::make_unique<SafetensorsFile>(path));
  for (const StoredTensor& tensor : files_.back()->tensors()) {
    if (!tensors_.emplace(tensor.name, &tensor).second) {
      throw BackendError(LS_INVALID_ARGUMENT, path + ": tensor " + Quoted(tensor.name) +
                                                  " is in another shard too, " +
                                                  FileOf(*Find(tensor.name)));
    }
  }
}

// {"metadata": ..., "weight_map": {tensor name: file name}}
void Checkpoint::ReadIndex(const std::string& path) {
  const nlohmann::json index = ParseJsonObject(ReadTextFile(path), path, LS_DATA_LOSS);
  const auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object()) {
    throw BackendError(LS_DATA_LOSS, path + ": weight_map must be an object, found " +
                                         (map == index.end() ? "nothing" : map->type_name()));
  }
  std::map<std::string, std::string> shards;  // file name: path
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
  for (const auto& [name, shard] : shards) AddFile(shard);
  for (const auto& [tensor, file] : map->items()) {
    const std::string& shard = shards.at(file.get<std::string>());
    const StoredTensor* stored = Find(tensor);
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

bool Checkpoint::IsUnchanged() const {
  return std::all_of(files_.begin(), files_.end(), [](const auto& file) {
    struct stat status = {};
    return stat(file->path().c_str(), &status) == 0 && StampOf(status) == file->stamp();
  });
}

const StoredTensor* Checkpoint::Find(std::string_view name) const {
  const auto it = tensors_.find(name);
  return it == tensors_.end() ? nullptr : it->second;
}

const StoredTensor& Checkpoint::Get(std::string_view name, std::span<const int64_t> shape) const {
  const StoredTensor* tensor = Find(name);
  if (tensor == nullptr) {
    throw BackendError(LS_INVALID_ARGUMENT, directory_ + ": tensor " + Quoted(name) +
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

const SafetensorsFile& Checkpoint::Holder(const StoredTensor& tensor) const {
  return **std::find_if(files_.begin(), files_.end(), [&tensor](const auto& file) {
    const std::vector<StoredTensor>& tensors = file->tensors();
    const std::less_equal<> not_after;  // a total order, unlike the operator's
    return !tensors.empty() && not_after(&tensors.front(), &tensor) &&
           not_after(&tensor, &tensors.back());
  });
}

const std::string& Checkpoint::FileOf(const StoredTensor& tensor) const {
  return Holder(tensor).path();
}

void Checkpoint::Release(const StoredTensor& tensor, size_t bytes) const {
  Holder(tensor).Release(tensor.data.first(bytes));
}

}  // namespace longstream
