// The file that keeps the measured costs of a model between starts.
#ifndef LONGSTREAM_SERVICE_ROUTING_COSTS_FILE_H_
#define LONGSTREAM_SERVICE_ROUTING_COSTS_FILE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/routing/arm_costs.h"

namespace longstream {

// FNV-1a, 64 bits, of the bytes.
uint64_t Fnv1a(std::string_view text);

// The file is text, for people, too:
//   longstream-arm-costs 1
//   key KEY
//   NAME VALUE ...
//   checksum HEX           FNV-1a, 64 bits, of all bytes before this line
//
// `key`: names all that the costs depend on: weights, kernels, threads and processor. One line.
// bytes_per_token is not in the file, because it depends on the tokenizer alone.
std::string EncodeCosts(std::string_view key, const ArmCosts& costs);

// DATA_LOSS: the text is not such a file, or a byte of it has changed. FAILED_PRECONDITION: it is
// of another key.
absl::StatusOr<ArmCosts> DecodeCosts(std::string_view key, std::string_view text);

// NOT_FOUND: there is no file. Other errors as for DecodeCosts, or those of the system.
absl::StatusOr<ArmCosts> ReadCostsFile(const std::string& path, std::string_view key);

// Writes a temporary file and renames it, so that a reader finds the whole file or none. Errors are
// those of the system, such as PERMISSION_DENIED in a directory that is read-only.
absl::Status WriteCostsFile(const std::string& path, std::string_view key, const ArmCosts& costs);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ROUTING_COSTS_FILE_H_
