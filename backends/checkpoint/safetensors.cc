// Reads safetensors files, and checkpoints made of them.
#include "backends/checkpoint/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <system_error>
#include <utility>

#include "backends/checkpoint/json.h"
#include "backends/errors/error.h"
#include "backends/errors/quote.h"

namespace longstream {
namespace {

constexpr const char* kSingleFile = "/model.safetensors";
constexpr const char* kIndexFile = "/model.safetensors.index.json";
constexpr size_t kPieceBytes = size_t{1} << 20;  // read by one task

std::string SystemError(int code) { return std::generic_category().message(code); }

FileStamp StampOf(const struct stat& status) {
  const auto nanoseconds = [](const timespec& time) {
    return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  };
  return {static_cast<uint64_t>(status.st_size), nanoseconds(status.st_mtim),
          nanoseconds(status.st_ctim)};
}

// Opens a regular file for reading and stores its stamp in *stamp.
FileDescriptor OpenFile(const std::string& path, FileStamp* stamp) {
  // Without O_NONBLOCK, open() of a FIFO would wait forever, and the check below could not refuse
  // it.
  FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) {
    const std::error_code why(errno, std::generic_category());
    throw BackendError(LS_NOT_FOUND, path + ": cannot be opened: " + WhyNotOpened(path, why));
  }
  struct stat status = {};
  if (fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    throw BackendError(LS_NOT_FOUND, path + ": is no regular file");
  }
  *stamp = StampOf(status);
  return file;
}

// A dangling link counts as existing, because the directory was meant to have this file.
bool Exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::symlink_status(path, ignored).type() !=
         std::filesystem::file_type::not_found;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path)
    : path_(path), file_(OpenFile(path, &stamp_)) {
  front_.resize(std::min(stamp_.bytes, kSafetensorsBegin));
  Read(0, front_, Executor());
  front_.resize(SafetensorsFrontBytes(front_, stamp_.bytes, path_));
  Read(0, front_, Executor());
  tensors_ = ParseSafetensors(front_, stamp_.bytes, path_);
  posix_fadvise(file_.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
}

void SafetensorsFile::Read(uint64_t offset, std::span<std::byte> to,
                           const Executor& executor) const {
  constexpr int kEnds = -1;
  std::atomic<int> failure{0};
  const auto pieces = static_cast<uint32_t>((to.size() + kPieceBytes - 1) / kPieceBytes);
  ParallelFor(executor, pieces, [&](uint32_t i) {
    const size_t begin = i * kPieceBytes;
    const std::span<std::byte> piece = to.subspan(begin, std::min(kPieceBytes, to.size() - begin));
    size_t got = 0;
    const int problem = file_.ReadAt(offset + begin, piece, &got);
    if (problem != 0 || got < piece.size()) failure.store(problem != 0 ? problem : kEnds);
  });
  if (failure == 0) return;
  throw BackendError(LS_DATA_LOSS,
                     path_ + (failure == kEnds ? ": was shortened while it was read, expected " +
                                                     std::to_string(stamp_.bytes) + " bytes"
                                               : ": cannot be read: " + SystemError(failure)));
}

void SafetensorsFile::RequireUnwritten() const {
  struct stat status = {};
  if (fstat(file_.get(), &status) != 0) {
    throw BackendError(LS_UNAVAILABLE, path_ + ": cannot be looked at: " + SystemError(errno));
  }
  // Does not compare changed_ns (st_ctim), which also changes when the file gets a new name or
  // owner.
  const FileStamp now = StampOf(status);
  if (now.bytes == stamp_.bytes && now.written_ns == stamp_.written_ns) return;
  const auto text = [](const FileStamp& stamp) {
    return std::to_string(stamp.bytes) + " bytes, written " + std::to_string(stamp.written_ns) +
           " ns after 1970";
  };
  throw BackendError(LS_UNAVAILABLE, path_ + ": was written to while it was read, expected " +
                                         text(stamp_) + ", found " + text(now));
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

void Checkpoint::RequireUnwritten() const {
  for (const auto& file : files_) file->RequireUnwritten();
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
    // std::less_equal<> orders all pointers; the operator <= need not.
    const std::less_equal<> not_after;
    return !tensors.empty() && not_after(&tensors.front(), &tensor) &&
           not_after(&tensor, &tensors.back());
  });
}

const std::string& Checkpoint::FileOf(const StoredTensor& tensor) const {
  return Holder(tensor).path();
}

void Checkpoint::Read(const StoredTensor& tensor, uint64_t first, std::span<std::byte> to,
                      const Executor& executor) const {
  Holder(tensor).Read(tensor.offset + first, to, executor);
}

}  // namespace longstream
