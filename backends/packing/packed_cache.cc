// Keeps packed weights between starts.
#include "backends/packing/packed_cache.h"

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "backends/packing/fingerprint.h"
#include "backends/packing/packed_key.h"

namespace longstream {
namespace {

// Severities of ls_host.log.
constexpr int32_t kInfo = 1;
constexpr int32_t kWarning = 2;

std::string PathOf(const LoadOptions& options, const Checkpoint& checkpoint, const OpTable& ops,
                   const PackedWeightsPlan& plan) {
  const std::string& place = options.packed_cache();
  if (place == "off" || (place == "auto" && plan.bytes < PackedCache::kLeastBytes)) return "";
  uint64_t hash = HashAppend(0, plan.recipes);
  if (place != "auto") {
    std::error_code ignored;  // on an error, two paths of one checkpoint count as two checkpoints
    hash = HashAppend(hash, std::filesystem::canonical(checkpoint.path(), ignored).string());
  } else if (checkpoint.is_one_file()) {  // the directory may have several checkpoints
    hash = HashAppend(hash, std::filesystem::path(checkpoint.path()).filename().string());
  }
  char name[17];
  std::snprintf(name, sizeof(name), "%016llx", static_cast<unsigned long long>(hash));
  const std::string type = options.weights() ? NameOf(*options.weights()) : "auto";
  return (place == "auto" ? checkpoint.directory() : place) + "/weights-" + type + "-" +
         std::string(ops.name) + "-" + name + ".packed";
}

// Makes the directory of the file and its parents if they do not exist.
void MakeDirectoryOf(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  if (!error) return;
  throw PackedFileError("cannot be written: its directory cannot be made: " + error.message());
}

}  // namespace

PackedCache::PackedCache(const LoadOptions& options, const Checkpoint& checkpoint,
                         const OpTable& ops, const PackedWeightsPlan& plan, LoadLog log)
    : checkpoint_(checkpoint),
      log_(log ? std::move(log) : [](int32_t, const std::string&) {}),
      path_(PathOf(options, checkpoint, ops, plan)) {
  if (!path_.empty()) key_ = PackedKey(checkpoint, ops, plan.recipes);
}

std::optional<WeightTotals> PackedCache::Read(std::span<std::byte> memory,
                                              const Executor& executor) const {
  if (path_.empty()) return std::nullopt;
  try {
    const std::unique_ptr<PackedFile> file = PackedFile::Open(path_);
    if (file == nullptr) return std::nullopt;
    if (file->key() != key_ || file->data_bytes() != memory.size()) {
      log_(kInfo, "packed weights " + path_ + " are not used: " + DifferenceOf(key_, file->key()));
      return std::nullopt;
    }
    file->Read(memory, executor);
    log_(kInfo, "packed weights " + path_ + " are used");
    return file->totals();
  } catch (const PackedFileError& error) {
    log_(kInfo, "packed weights " + path_ + " are not used: the file " + error.what());
    return std::nullopt;
  }
}

void PackedCache::Write(std::span<const std::byte> memory, const WeightTotals& totals,
                        const Executor& executor) const {
  if (path_.empty()) return;
  try {
    if (!checkpoint_.IsUnchanged()) {
      throw PackedFileError("is not written: the checkpoint has changed meanwhile");
    }
    MakeDirectoryOf(path_);
    WritePackedFile(path_, key_, totals, memory, executor);
    log_(kInfo,
         "packed weights " + path_ + " are written, " + std::to_string(memory.size()) + " bytes");
  } catch (const PackedFileError& error) {
    log_(kWarning, "packed weights " + path_ + " are not kept: the file " + error.what());
  }
}

}  // namespace longstream
