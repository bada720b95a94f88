// Set operations on sorted ranges. Unicode's categories come from ICU.
#include "service/grammar/formats/code_points.h"

#include <unicode/uchar.h>

#include <algorithm>

namespace longstream {
namespace {

// ICU calls it for each run of code points [begin, end) with one category.
struct Wanted {
  uint32_t mask;
  std::vector<CodePoints> ranges;
};

UBool AddRange(const void* context, UChar32 begin, UChar32 end, UCharCategory category) {
  // ICU passes the pointer on that it got, which is not const.
  Wanted& wanted = *static_cast<Wanted*>(const_cast<void*>(context));
  if ((wanted.mask & U_MASK(category)) != 0) {
    wanted.ranges.push_back({static_cast<char32_t>(begin), static_cast<char32_t>(end - 1)});
  }
  return true;
}

struct Category {
  std::string_view name;
  uint32_t mask;
};

constexpr Category kCategories[] = {
    {"L", U_GC_L_MASK},   {"LC", U_GC_LC_MASK}, {"Lu", U_GC_LU_MASK}, {"Ll", U_GC_LL_MASK},
    {"Lt", U_GC_LT_MASK}, {"Lm", U_GC_LM_MASK}, {"Lo", U_GC_LO_MASK}, {"M", U_GC_M_MASK},
    {"Mn", U_GC_MN_MASK}, {"Mc", U_GC_MC_MASK}, {"Me", U_GC_ME_MASK}, {"N", U_GC_N_MASK},
    {"Nd", U_GC_ND_MASK}, {"Nl", U_GC_NL_MASK}, {"No", U_GC_NO_MASK}, {"P", U_GC_P_MASK},
    {"Pc", U_GC_PC_MASK}, {"Pd", U_GC_PD_MASK}, {"Ps", U_GC_PS_MASK}, {"Pe", U_GC_PE_MASK},
    {"Pi", U_GC_PI_MASK}, {"Pf", U_GC_PF_MASK}, {"Po", U_GC_PO_MASK}, {"S", U_GC_S_MASK},
    {"Sm", U_GC_SM_MASK}, {"Sc", U_GC_SC_MASK}, {"Sk", U_GC_SK_MASK}, {"So", U_GC_SO_MASK},
    {"Z", U_GC_Z_MASK},   {"Zs", U_GC_ZS_MASK}, {"Zl", U_GC_ZL_MASK}, {"Zp", U_GC_ZP_MASK},
    {"C", U_GC_C_MASK},   {"Cc", U_GC_CC_MASK}, {"Cf", U_GC_CF_MASK}, {"Cn", U_GC_CN_MASK},
    {"Co", U_GC_CO_MASK},
};

}  // namespace

CodePointSet IntersectionOf(const CodePointSet& a, const CodePointSet& b) {
  CodePointSet both;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const char32_t first = std::max(a[i].first, b[j].first);
    const char32_t last = std::min(a[i].last, b[j].last);
    if (first <= last) both.push_back({first, last});
    a[i].last < b[j].last ? ++i : ++j;
  }
  return both;
}

std::optional<CodePointSet> CodePointsOfCategory(std::string_view name) {
  const auto found = std::ranges::find(kCategories, name, &Category::name);
  if (found == std::end(kCategories)) return std::nullopt;
  Wanted wanted{found->mask, {}};
  u_enumCharTypes(&AddRange, &wanted);
  return Normalized(wanted.ranges);
}

}  // namespace longstream
