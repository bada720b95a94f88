// Errors of a template. They are thrown within this directory and caught at its edge
// (ChatTemplate), where they become a status with the template's name, line and column.
#ifndef LONGSTREAM_SERVICE_JINJA_VALUES_ERROR_H_
#define LONGSTREAM_SERVICE_JINJA_VALUES_ERROR_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"

namespace longstream::chat {

// A place in a template; both count from 1.
struct Place {
  uint32_t line = 0;  // 0: not known
  uint32_t column = 0;
};

struct TemplateError {
  absl::StatusCode code = absl::StatusCode::kInvalidArgument;
  std::string message;
  Place place = {};
};

// INVALID_ARGUMENT: the template, or what it was given, is wrong.
[[noreturn]] inline void Fail(std::string message, Place place = {}) {
  throw TemplateError{absl::StatusCode::kInvalidArgument, std::move(message), place};
}

// UNIMPLEMENTED: a construct that Jinja has and we do not.
[[noreturn]] inline void FailUnsupported(const std::string& construct, Place place = {}) {
  throw TemplateError{absl::StatusCode::kUnimplemented, construct + " is not supported", place};
}

}  // namespace longstream::chat

#endif  // LONGSTREAM_SERVICE_JINJA_VALUES_ERROR_H_
