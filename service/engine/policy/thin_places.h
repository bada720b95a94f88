// Which of the places at the ends of turns are kept.
#ifndef LONGSTREAM_SERVICE_ENGINE_POLICY_THIN_PLACES_H_
#define LONGSTREAM_SERVICE_ENGINE_POLICY_THIN_PLACES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace longstream {

// Keeps the last four of the positions, and of those before them only such whose distances from the
// end double from one to the next. So a long session has few of them, and is never far from one.
// `positions` ascend. Returns the indices of the others, the greatest first.
std::vector<size_t> ThinPlaces(std::vector<uint64_t> positions);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_ENGINE_POLICY_THIN_PLACES_H_
