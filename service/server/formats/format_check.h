// Checks the response format of a request, and compiles it for the request's model.
#ifndef LONGSTREAM_SERVICE_SERVER_FORMATS_FORMAT_CHECK_H_
#define LONGSTREAM_SERVICE_SERVER_FORMATS_FORMAT_CHECK_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "longstream/v1/longstream.pb.h"
#include "service/engine/turn/turn.h"
#include "service/grammar/response/response_format.h"
#include "service/models/served_model.h"

namespace longstream {

inline constexpr int kMaxFormatDepth = 16;
inline constexpr size_t kMaxFormatParts = 10'000;
inline constexpr size_t kMaxFormatBytes = size_t{1} << 20;
inline constexpr uint32_t kMaxFormatRepeats = 10'000;
inline constexpr size_t kMaxTextWithoutBytes = 256;

// Returns the format in plain values. INVALID_ARGUMENT: it exceeds a limit, a text is not UTF-8, or
// a format is missing. The message names the field.
absl::StatusOr<ResponseFormat> ReadFormat(const v1::ResponseFormat& format);

// Sets the format of a turn, whose other fields are set already. May take a second for a large
// format that is new. Errors as GenerateRequest.response_format says.
absl::Status SetFormat(const v1::ResponseFormat& format, const ServedModel& model,
                       TurnRequest* turn);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_FORMATS_FORMAT_CHECK_H_
