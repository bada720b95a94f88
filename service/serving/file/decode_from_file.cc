#include "service/serving/file/decode_from_file.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include "service/wire/request_memory.h"
#include "service/wire/wire_decoder.h"

namespace longstream {

absl::Status DecodeFromFile(std::string_view bytes, google::protobuf::Message* message) {
  // A short record may have many small parts, which take more memory than their bytes.
  constexpr uint64_t kShortBytes = uint64_t{32} << 20;
  RequestMemory memory(std::numeric_limits<uint64_t>::max());
  RequestCharge charge(
      &memory, std::max<uint64_t>(bytes.size(), std::min<uint64_t>(8 * bytes.size(), kShortBytes)));
  absl::Status status = DecodeMessage(bytes, &charge, message);
  if (absl::IsInvalidArgument(status)) {
    return absl::InvalidArgumentError("file: " + std::string(status.message()));
  }
  return status;
}

}  // namespace longstream
