// The plugin directory, the models and the memory that a configuration names.
#ifndef LONGSTREAM_SERVICE_PROGRAM_MODEL_SOURCES_H_
#define LONGSTREAM_SERVICE_PROGRAM_MODEL_SOURCES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "service/config/server_config.h"
#include "service/models/served_model.h"

namespace longstream {

// The plugin directory. If the configuration names none, it is found relative to the binary:
// `plugins` beside `bin` in a build, or the directory of an installation under any prefix.
std::string PluginDirectoryOf(const ServerConfig& config);

std::vector<ModelSource> ModelSourcesOf(const ServerConfig& config);

// The memory of the host that the process may use: that of the machine or of its control group, or
// less if the configuration says so.
uint64_t MemoryBytesOf(const ServerConfig& config);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_PROGRAM_MODEL_SOURCES_H_
