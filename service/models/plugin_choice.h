// Chooses the plugin that serves a checkpoint.
#ifndef LONGSTREAM_SERVICE_MODELS_PLUGIN_CHOICE_H_
#define LONGSTREAM_SERVICE_MODELS_PLUGIN_CHOICE_H_

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "service/models/plugin.h"
#include "service/models/served_model.h"

namespace longstream {

using Plugins = std::span<const std::shared_ptr<const Plugin>>;

// The devices to try, best first.
std::vector<std::string> DevicesOf(const ModelSource& source);

// Returns the plugin that fits the checkpoint on `device` best, or an error that says why no plugin
// fits.
absl::StatusOr<std::shared_ptr<const Plugin>> ChoosePlugin(const ModelSource& source,
                                                           const std::string& device,
                                                           Plugins plugins);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_MODELS_PLUGIN_CHOICE_H_
