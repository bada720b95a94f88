// Reads JSON into values of a template.
#ifndef LONGSTREAM_SERVICE_JINJA_VALUES_JSON_READER_H_
#define LONGSTREAM_SERVICE_JINJA_VALUES_JSON_READER_H_

#include <cstdint>
#include <limits>
#include <string_view>

#include "absl/status/statusor.h"
#include "service/jinja/values/value.h"

namespace longstream::chat {

// Reads a JSON value. The members of an object keep their order; if two have the same name, the
// last one counts. `is_foreign`: all texts, including keys, come from the caller (see Text). A
// whole number that exceeds 64 bits, such as model_max_length in many tokenizer_config.json files,
// becomes a float. INVALID_ARGUMENT: the text is not JSON, is nested deeper than kMaxDataDepth, is
// foreign and holds such a number, or its values take more than `max_bytes` of memory. Sets *bytes,
// if it is given, to the memory that the values take, rounded up.
absl::StatusOr<Value> ReadJson(std::string_view json, bool is_foreign,
                               uint64_t max_bytes = std::numeric_limits<uint64_t>::max(),
                               uint64_t* bytes = nullptr);

}  // namespace longstream::chat

#endif  // LONGSTREAM_SERVICE_JINJA_VALUES_JSON_READER_H_
