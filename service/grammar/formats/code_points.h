// Sets of code points, for the classes of regular expressions and grammars.
#ifndef LONGSTREAM_SERVICE_GRAMMAR_FORMATS_CODE_POINTS_H_
#define LONGSTREAM_SERVICE_GRAMMAR_FORMATS_CODE_POINTS_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "service/grammar/grammar_builder.h"

namespace longstream {

inline constexpr char32_t kMaxCodePoint = 0x10FFFF;

inline bool IsSurrogate(char32_t c) { return c >= 0xD800 && c <= 0xDFFF; }

// Ranges of code points. A set that CodePointsOf returns is in rising order, its ranges are
// disjoint and do not touch each other, and it has no surrogates.
using CodePointSet = std::vector<CodePoints>;

// The set of all code points in these ranges, which may overlap.
CodePointSet CodePointsOf(std::vector<CodePoints> ranges);

// All other code points, as CodePointsOf returns them. REQUIRES: CodePointsOf returned the set.
CodePointSet ComplementOf(const CodePointSet& set);

// All code points that are in both sets. REQUIRES: CodePointsOf returned the sets.
CodePointSet IntersectionOf(const CodePointSet& a, const CodePointSet& b);

// The code points of a Unicode general category, such as "L" or "Nd". nullopt: no such category.
std::optional<CodePointSet> CodePointsOfCategory(std::string_view name);

// Appends the code point in UTF-8. REQUIRES: no surrogate, at most kMaxCodePoint.
void AppendUtf8(char32_t c, std::string* text);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_GRAMMAR_FORMATS_CODE_POINTS_H_
