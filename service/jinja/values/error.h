// The exception for errors of a template. service/jinja throws it, and ChatTemplate turns it into a
// status with the template's name, line and column.
#ifndef LONGSTREAM_SERVICE_JINJA_VALUES_ERROR_H_
#define LONGSTREAM_SERVICE_JINJA_VALUES_ERROR_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"

namespace longstream::chat {

// A place in a template. Lines and columns count from 1.
struct Place {
  uint32_t line = 0;  // 0: unknown
  uint32_t column = 0;
};

struct TemplateError {
  absl::StatusCode code = absl::StatusCode::kInvalidArgument;
  std::string message;
  Place place = {};
};

// Throws INVALID_ARGUMENT: the template or its variables are wrong.
[[noreturn]] inline void Fail(std::string message, Place place = {}) {
  throw TemplateError{absl::StatusCode::kInvalidArgument, std::move(message), place};
}

// Throws UNIMPLEMENTED: the template uses a construct of Jinja that we do not support.
[[noreturn]] inline void FailUnsupported(const std::string& construct, Place place = {}) {
  throw TemplateError{absl::StatusCode::kUnimplemented, construct + " is not supported", place};
}

}  // namespace longstream::chat

#endif  // LONGSTREAM_SERVICE_JINJA_VALUES_ERROR_H_
