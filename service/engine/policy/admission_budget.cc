// Arithmetic of cache budgets.
#include "service/engine/policy/admission_budget.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace longstream {

uint64_t PageBytes(const ls_model_info& info, uint64_t tokens) {
  if (info.page_tokens == 0) return 0;
  const uint64_t pages = (tokens + info.page_tokens - 1) / info.page_tokens;
  return pages * info.page_tokens * info.kv_bytes_per_token;
}

std::string AdmissionBudget::Refusal(uint64_t wanted) const {
  const uint64_t taken = total - std::min(total, free);
  const uint64_t kept = taken - std::min(taken, most_coming);
  return absl::StrCat(wanted, " bytes more are needed of a budget of ", total, ", of which ", free,
                      " are free; running turns give back ", most_coming,
                      " at most, and sessions keep ", kept);
}

}  // namespace longstream
