// Asks each plugin how well it fits.
#include "service/models/plugin_choice.h"

#include <array>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "service/config/names.h"
#include "service/tokenizer/files/gguf.h"

namespace longstream {

std::vector<std::string> DevicesOf(const ModelSource& source) {
  if (source.device == "auto") return {"cuda", "cpu"};
  return {source.device};
}

absl::StatusOr<std::shared_ptr<const Plugin>> ChoosePlugin(const ModelSource& source,
                                                           const std::string& device,
                                                           Plugins plugins) {
  const absl::StatusOr<std::optional<GgufModel>> gguf = FindGguf(source.directory);
  // Also where the files are damaged.
  const bool has_gguf = !gguf.ok() || gguf->has_value();
  std::shared_ptr<const Plugin> best;
  int32_t best_fit = 0;
  bool any_matches = false;
  std::vector<std::string> reasons;
  for (const std::shared_ptr<const Plugin>& plugin : plugins) {
    // The plugin for "cuda" also serves "cuda:0".
    if (plugin->device() != device.substr(0, device.find(':'))) continue;
    any_matches = true;
    if (!source.backend.empty()) {
      if (plugin->name() == source.backend) return plugin;
      reasons.push_back(plugin->name());
      continue;
    }
    std::array<char, 512> text{};
    int32_t fit = 0;
    const ls_code code =
        plugin->table().probe(source.directory.c_str(), &fit, ls_error{text.data(), text.size()});
    // A plugin that reads config.json only does not find it beside a GGUF model.
    const bool reads_no_gguf = code == LS_NOT_FOUND && has_gguf;
    if (code != LS_OK && !reads_no_gguf) return StatusFromCode(code, text.data());
    if (reads_no_gguf) fit = 0;
    if (fit == 0) reasons.push_back(absl::StrCat(plugin->name(), ": ", text.data()));
    if (fit > best_fit) {
      best = plugin;
      best_fit = fit;
    }
  }
  if (best != nullptr) return best;
  if (!any_matches) {
    return absl::NotFoundError(
        absl::StrCat("device: no plugin was found for ", EscapedName(source.device)));
  }
  if (!source.backend.empty()) {
    return absl::NotFoundError(absl::StrCat("backend: no plugin ", EscapedName(source.backend),
                                            " for device ", EscapedName(source.device),
                                            "; available: ", absl::StrJoin(reasons, ", ")));
  }
  if (!gguf.ok()) return gguf.status();
  return absl::InvalidArgumentError(
      absl::StrCat("no plugin for device ", EscapedName(source.device), " serves ",
                   source.directory, " (", absl::StrJoin(reasons, "; "), ")"));
}

}  // namespace longstream
