// Finds GGUF files and reads their headers.
#include "backends/checkpoint/gguf/gguf_model.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <set>
#include <span>
#include <system_error>
#include <utility>

#include "backends/errors/error.h"
#include "backends/errors/quote.h"
#include "backends/files/file_descriptor.h"

namespace longstream {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kExtension = ".gguf";
constexpr std::string_view kVision = "mmproj";
constexpr std::string_view kOf = "-of-";
constexpr size_t kDigits = 5;
// llama.cpp writes five digits.
constexpr int64_t kMaxParts = 99999;

[[noreturn]] void Invalid(const std::string& path, const std::string& problem) {
  throw BackendError(LS_INVALID_ARGUMENT, path + ": " + problem);
}

// The number that exactly kDigits digits spell.
std::optional<int> FiveDigits(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool all = text.size() == kDigits && error == std::errc() && end == text.end();
  return all && number > 0 ? std::optional<int>(number) : std::nullopt;
}

// The parts of a name NAME-00001-of-00003.gguf.
struct SplitName {
  std::string begin;
  int part = 1;
  int count = 1;

  std::string Part(int number) const {
    char text[32];
    std::snprintf(text, sizeof(text), "-%05d-of-%05d", number, count);
    return begin + text + std::string(kExtension);
  }
};

std::optional<SplitName> ParseSplitName(std::string_view path) {
  path.remove_suffix(kExtension.size());
  constexpr size_t kSuffix = 1 + kDigits + kOf.size() + kDigits;
  if (path.size() <= kSuffix) return std::nullopt;
  const std::string_view suffix = path.substr(path.size() - kSuffix);
  const std::optional<int> part = FiveDigits(suffix.substr(1, kDigits));
  const std::optional<int> count = FiveDigits(suffix.substr(kSuffix - kDigits));
  if (suffix[0] != '-' || suffix.substr(1 + kDigits, kOf.size()) != kOf || !part || !count ||
      *part > *count) {
    return std::nullopt;
  }
  return SplitName{std::string(path.substr(0, path.size() - kSuffix)), *part, *count};
}

// All files of the model whose first file is at `path`.
std::vector<std::string> PartsOf(const std::string& path) {
  const std::optional<SplitName> split = ParseSplitName(path);
  if (!split) return {path};
  if (split->part != 1) {
    Invalid(path, "is part " + std::to_string(split->part) + " of a split model, expected part 1");
  }
  std::vector<std::string> parts;
  for (int part = 1; part <= split->count; ++part) parts.push_back(split->Part(part));
  return parts;
}

bool Exists(const fs::path& path) {
  std::error_code ignored;
  return fs::symlink_status(path, ignored).type() != fs::file_type::not_found;
}

// The first files of the GGUF models in a directory.
std::vector<std::string> ModelsIn(const fs::path& directory) {
  std::vector<std::string> models;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string path = entry->path().string();
    const std::string name = entry->path().filename().string();
    if (!path.ends_with(kExtension) || name.starts_with(kVision)) continue;
    const std::optional<SplitName> split = ParseSplitName(path);
    if (!split || split->part == 1) models.push_back(path);
  }
  std::sort(models.begin(), models.end());
  return models;
}

// An open regular file.
class RegularFile {
 public:
  // Without O_NONBLOCK, open() of a FIFO would wait for a writer.
  explicit RegularFile(const std::string& path)
      : path_(path), file_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (!file_.is_open()) {
      const int why = errno;
      throw BackendError(
          LS_NOT_FOUND,
          path + (why == ENOENT ? ": there is no such file"
                                : ": cannot be opened: " + std::generic_category().message(why)));
    }
    struct stat status = {};
    if (fstat(file_.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
      throw BackendError(LS_NOT_FOUND, path + ": is no regular file");
    }
    bytes_ = static_cast<uint64_t>(status.st_size);
  }

  uint64_t bytes() const { return bytes_; }

  // LS_DATA_LOSS: the file does not have these bytes, or they cannot be read.
  void Read(uint64_t offset, std::span<std::byte> to) const {
    size_t got = 0;
    const int problem = file_.ReadAt(offset, to, &got);
    if (problem == 0 && got == to.size()) return;
    throw BackendError(
        LS_DATA_LOSS,
        path_ + (problem == 0 ? ": was shortened while it was read"
                              : ": cannot be read: " + std::generic_category().message(problem)));
  }

 private:
  const std::string path_;
  const FileDescriptor file_;
  uint64_t bytes_ = 0;
};

GgufModel::Part ReadPart(const std::string& path) {
  const RegularFile file(path);
  GgufModel::Part part;
  part.path = path;
  part.file_bytes = file.bytes();
  part.front =
      ReadGgufFront(part.file_bytes, path,
                    [&file](uint64_t offset, std::span<std::byte> to) { file.Read(offset, to); });
  return part;
}

int64_t IntegerOf(const GgufHeader& header, const std::string& path, const char* key,
                  int64_t absent) {
  const auto found = header.metadata.find(key);
  if (found == header.metadata.end()) return absent;
  const std::optional<int64_t> number = found->second.Integer();
  if (!number || *number < 0) {
    Invalid(path, std::string(key) + " must be a number from 0 on, found " + found->second.Found());
  }
  return *number;
}

// Checks that the headers of split files belong together: split.no, split.count and the number of
// all tensors. Also that no two have a tensor of one name. Throws as GgufModel does.
void CheckGgufParts(const std::vector<const GgufHeader*>& headers,
                    const std::vector<std::string>& paths) {
  const auto count = static_cast<int64_t>(headers.size());
  std::set<std::string_view> names;
  for (size_t i = 0; i < headers.size(); ++i) {
    const GgufHeader& header = *headers[i];
    // llama.cpp writes a split.count of 0 or 1 into files that are not split.
    const int64_t stated = std::max<int64_t>(IntegerOf(header, paths[i], "split.count", 1), 1);
    if (stated != count) {
      Invalid(paths[i], "split.count must be " + std::to_string(count) +
                            ", the number of files that the name states, found " +
                            std::to_string(stated));
    }
    const int64_t number = IntegerOf(header, paths[i], "split.no", count == 1 ? 0 : -1);
    if (number != static_cast<int64_t>(i)) {
      Invalid(paths[i], "split.no must be " + std::to_string(i) + ", found " +
                            (number < 0 ? "nothing" : std::to_string(number)));
    }
    for (const GgufTensor& tensor : header.tensors) {
      if (names.insert(tensor.name).second) continue;
      Invalid(paths[i], "tensor " + Quoted(tensor.name) + " is in another part too");
    }
  }
  const auto all = static_cast<int64_t>(names.size());
  const int64_t stated = IntegerOf(*headers[0], paths[0], "split.tensors.count", all);
  if (stated != all) {
    Invalid(paths[0], "split.tensors.count must be " + std::to_string(all) +
                          ", the number of tensors in all parts, found " + std::to_string(stated));
  }
}

}  // namespace

std::vector<std::string> FindGgufFiles(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) {
    if (!path.ends_with(kExtension)) return {};
    return PartsOf(path);
  }
  const fs::path directory = path;
  if (Exists(directory / "model.safetensors") ||
      Exists(directory / "model.safetensors.index.json")) {
    return {};
  }
  const std::vector<std::string> models = ModelsIn(directory);
  if (models.empty()) return {};
  if (models.size() > 1) {
    Invalid(path, "holds " + std::to_string(models.size()) +
                      " GGUF models, expected the path of one, such as " + Quoted(models.front()));
  }
  return PartsOf(models.front());
}

GgufModel::GgufModel(const std::vector<std::string>& files, uint64_t most_header_bytes) {
  if (files.size() > static_cast<size_t>(kMaxParts)) Invalid(files.front(), "has too many parts");
  std::vector<const GgufHeader*> headers;
  parts_.reserve(files.size());
  headers.reserve(files.size());
  uint64_t bytes = 0;
  for (const std::string& file : files) {
    parts_.push_back(ReadPart(file));
    bytes += parts_.back().front.bytes.size();
    if (bytes <= most_header_bytes) continue;
    throw BackendError(LS_DATA_LOSS, file + ": the headers up to this part have " +
                                         std::to_string(bytes) + " bytes, expected at most " +
                                         std::to_string(most_header_bytes));
  }
  for (const Part& part : parts_) headers.push_back(&part.front.header);
  CheckGgufParts(headers, files);
  const GgufValue* const type = Find("general.type");
  if (type != nullptr && type->String() != "model") {
    Invalid(path(), "general.type must be \"model\", found " + type->Found());
  }
}

std::optional<GgufModel> GgufModel::Open(const std::string& path) {
  const std::vector<std::string> files = FindGgufFiles(path);
  if (files.empty()) return std::nullopt;
  return GgufModel(files);
}

const GgufValue* GgufModel::Find(std::string_view key) const {
  const auto found = metadata().find(key);
  return found == metadata().end() ? nullptr : &found->second;
}

const GgufTensor* GgufModel::FindTensor(std::string_view name) const {
  for (const Part& part : parts_) {
    for (const GgufTensor& tensor : part.front.header.tensors) {
      if (tensor.name == name) return &tensor;
    }
  }
  return nullptr;
}

std::vector<float> GgufModel::ReadVector(const GgufTensor& tensor, uint64_t most) const {
  const auto holder = std::find_if(parts_.begin(), parts_.end(), [&tensor](const Part& part) {
    const std::vector<GgufTensor>& tensors = part.front.header.tensors;
    return std::any_of(tensors.begin(), tensors.end(),
                       [&tensor](const GgufTensor& other) { return &other == &tensor; });
  });
  const std::string what = "tensor " + Quoted(tensor.name);
  if (tensor.type->name != "F32" || tensor.shape.size() != 1 ||
      static_cast<uint64_t>(tensor.shape[0]) > most) {
    Invalid(holder->path, what + " must be a vector of type F32 with at most " +
                              std::to_string(most) + " elements, found " +
                              std::string(tensor.type->name));
  }
  std::vector<float> numbers(static_cast<size_t>(tensor.shape[0]));
  RegularFile(holder->path).Read(tensor.offset, std::as_writable_bytes(std::span(numbers)));
  return numbers;
}

}  // namespace longstream
