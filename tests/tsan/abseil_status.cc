// Tells ThreadSanitizer about the reference counts of Abseil's statuses.
//
// Copies of a status share one object, and the last copy frees it. The header counts up, the
// distribution's library counts down, and the library is built without TSan. So TSan cannot see
// that the other copies were dropped before, and reports a race between their last use and the
// free. The member below does the same as the library's and replaces it in the program, as in
// abseil_locks.cc.
#include <atomic>
#include <cstdint>

#include "absl/base/options.h"
#include "absl/status/internal/status_internal.h"
#include "absl/status/status.h"

namespace absl {
ABSL_NAMESPACE_BEGIN

void Status::UnrefNonInlined(uintptr_t rep) {
  status_internal::StatusRep* const shared = RepToPointer(rep);
  if (shared->ref.fetch_sub(1, std::memory_order_acq_rel) == 1) delete shared;
}

ABSL_NAMESPACE_END
}  // namespace absl
