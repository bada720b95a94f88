// Writes the error message for a turn that does not fit into the cache budget.
#include "service/engine/policy/admission_budget.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace longstream {

std::string AdmissionBudget::Refusal(uint64_t wanted) const {
  const uint64_t taken = total - std::min(total, free);
  uint64_t kept = taken;
  for (const uint64_t part : {evictable, safe, most_coming}) kept -= std::min(kept, part);
  return absl::StrCat(wanted, " more bytes are needed; the budget is ", total, " bytes, of which ",
                      free, " are free; evicting idle sessions frees ", evictable,
                      ", running turns give back ", most_coming, " at most, and sessions keep ",
                      kept);
}

}  // namespace longstream
