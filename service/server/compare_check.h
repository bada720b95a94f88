// Checks a CompareRequest and prepares the turns of its arms.
#ifndef LONGSTREAM_SERVICE_SERVER_COMPARE_CHECK_H_
#define LONGSTREAM_SERVICE_SERVER_COMPARE_CHECK_H_

#include <string>

#include "absl/status/statusor.h"
#include "longstream/v1/longstream.pb.h"
#include "service/clock/monotonic_time.h"
#include "service/server/compare/compare_plan.h"
#include "service/serving/session_manager.h"
#include "service/wire/request_memory.h"

namespace longstream {

inline constexpr int kLeastArms = 2;
inline constexpr int kMostArms = 8;

// The size of the texts of the request for TextThreads.
size_t TextBytes(const v1::CompareRequest& request);

// The errors are those that the wire contract names; those of one arm begin with "arms[1]".
// `memory` counts what the inputs of the arms take while they are read. `session`: the answer of
// SessionManager::LoadTurn for the request's session; nullptr: the request names none. Must run on
// a thread that may tokenize long texts.
absl::StatusOr<ComparePlan> CheckCompare(const std::string& tenant, const std::string& request_id,
                                         MonotonicTime deadline, const v1::CompareRequest& request,
                                         RequestMemory* memory, const SessionManager& sessions,
                                         absl::StatusOr<NewTurn>* session);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_COMPARE_CHECK_H_
