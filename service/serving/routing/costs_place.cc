// The path and the key of the file of costs.
#include "service/serving/routing/costs_place.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "service/routing/costs_file.h"

namespace longstream {
namespace {

constexpr uint64_t kLeastWeights = uint64_t{64} << 20;

std::string PackedCacheOf(const ModelSource& source) {
  const auto options =
      nlohmann::json::parse(source.options_json, nullptr, /*allow_exceptions=*/false);
  if (!options.is_object()) return "auto";
  const auto found = options.find("packed_cache");
  return found != options.end() && found->is_string() ? found->get<std::string>() : "auto";
}

// "AMD EPYC 9R14", from the first "model name" of /proc/cpuinfo. Empty: it has none.
std::string ProcessorName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const size_t colon = line.find(": ");
    return colon == std::string::npos ? "" : line.substr(colon + 2);
  }
  return "";
}

}  // namespace

CostsPlace PlaceOfCosts(const ServedModel& model, uint32_t threads) {
  const ls_model_info& info = model.backend().info();
  const Plugin& plugin = model.backend().plugin();
  const ModelSource& source = model.source();
  CostsPlace place;
  place.key = absl::StrCat(absl::StrFormat("weights=%016x", info.fingerprint),
                           " kernels=", info.kernels, " backend=", plugin.name(), " ",
                           plugin.table().version, " device=", source.device, " ", plugin.device(),
                           " threads=", threads, " step=", source.max_batch_tokens,
                           " context=", info.context_limit, " processor=", ProcessorName());
  std::replace(place.key.begin(), place.key.end(), '\n', ' ');
  std::string directory = PackedCacheOf(source);
  if (directory == "off") return place;
  if (directory == "auto") {
    if (model.backend().memory().weights < kLeastWeights) return place;
    directory = source.directory;
    std::error_code ignored;  // a GGUF file
    if (!std::filesystem::is_directory(directory, ignored)) {
      directory = std::filesystem::path(directory).parent_path().string();
      if (directory.empty()) directory = ".";
    }
  }
  place.path = absl::StrCat(directory, "/", absl::StrFormat("costs-%016x.txt", Fnv1a(place.key)));
  return place;
}

}  // namespace longstream
