// JSON as values of a template.
#ifndef LONGSTREAM_SERVICE_JINJA_VALUES_JSON_READER_H_
#define LONGSTREAM_SERVICE_JINJA_VALUES_JSON_READER_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "service/jinja/values/value.h"

namespace longstream::chat {

// Members of objects keep their order; of two with the same name the last counts. `is_foreign`:
// every text in it, keys included, is the caller's (Text). A whole number over 64 bits, such as
// model_max_length in many tokenizer_config.json files, becomes a float; in a caller's JSON it is
// refused. INVALID_ARGUMENT, with the place: such a number, no JSON, or deeper nesting than
// kMaxDataDepth.
absl::StatusOr<Value> ReadJson(std::string_view json, bool is_foreign);

}  // namespace longstream::chat

#endif  // LONGSTREAM_SERVICE_JINJA_VALUES_JSON_READER_H_
