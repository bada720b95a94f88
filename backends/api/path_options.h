// The options of model_open whose values are paths. Not part of the ABI.
#ifndef LONGSTREAM_BACKENDS_API_PATH_OPTIONS_H_
#define LONGSTREAM_BACKENDS_API_PATH_OPTIONS_H_

#include <algorithm>
#include <iterator>
#include <string_view>

namespace longstream {

// A plugin writes to such a path, as the server's user. So the configuration may have these
// options, and calls may not. Add an option here if its value names a file or a directory.
inline constexpr std::string_view kPathOptions[] = {"packed_cache"};

inline bool IsPathOption(std::string_view option) {
  return std::find(std::begin(kPathOptions), std::end(kPathOptions), option) !=
         std::end(kPathOptions);
}

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_API_PATH_OPTIONS_H_
