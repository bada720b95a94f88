// What a configuration says about plugins and models.
#ifndef LONGSTREAM_SERVICE_MODEL_SOURCES_H_
#define LONGSTREAM_SERVICE_MODEL_SOURCES_H_

#include <string>
#include <vector>

#include "service/config/server_config.h"
#include "service/models/served_model.h"

namespace longstream {

// The plugin directory. If the configuration names none, it is found relative to the binary:
// `plugins` beside `bin` in a build, or the directory of an installation under any prefix.
std::string PluginDirectoryOf(const ServerConfig& config);

std::vector<ModelSource> ModelSourcesOf(const ServerConfig& config);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_MODEL_SOURCES_H_
