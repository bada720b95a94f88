// The error message of a configuration file.
#ifndef LONGSTREAM_TESTS_SERVICE_CONFIG_CONFIG_ERROR_H_
#define LONGSTREAM_TESTS_SERVICE_CONFIG_CONFIG_ERROR_H_

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "service/config/server_config.h"

namespace longstream {

// Returns the error message for `text` as the content of server.yaml, or "" if there is no error.
inline std::string ErrorOf(std::string_view text) {
  ServerConfig config;
  const absl::Status status = ReadConfigText(text, "server.yaml", &config);
  EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_SERVICE_CONFIG_CONFIG_ERROR_H_
