// Writes the error message for a turn that does not fit into the cache budget.
#include "service/engine/policy/admission_budget.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace longstream {

std::string AdmissionBudget::Refusal(uint64_t wanted) const {
  const uint64_t taken = total - std::min(total, free);
  const uint64_t kept = taken - std::min(taken, most_coming);
  return absl::StrCat(wanted, " more bytes are needed; the budget is ", total, " bytes, of which ",
                      free, " are free; running turns give back ", most_coming,
                      " at most, and sessions keep ", kept);
}

}  // namespace longstream
