// Sets of code points, for the classes of regular expressions and grammars.
#ifndef LONGSTREAM_SERVICE_GRAMMAR_FORMATS_CODE_POINTS_H_
#define LONGSTREAM_SERVICE_GRAMMAR_FORMATS_CODE_POINTS_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "service/grammar/utf8_ranges.h"

namespace longstream {

inline constexpr char32_t kMaxCodePoint = 0x10FFFF;

inline bool IsSurrogate(char32_t c) { return c >= 0xD800 && c <= 0xDFFF; }

// Ranges of code points, as Normalized returns them: in order, disjoint, without surrogates.
using CodePointSet = std::vector<CodePoints>;

// All code points that are in both sets.
CodePointSet IntersectionOf(const CodePointSet& a, const CodePointSet& b);

// The code points of a Unicode general category, such as "L" or "Nd". nullopt: no such category.
std::optional<CodePointSet> CodePointsOfCategory(std::string_view name);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_GRAMMAR_FORMATS_CODE_POINTS_H_
