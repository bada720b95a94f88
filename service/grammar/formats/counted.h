// Repetitions with large counts.
#ifndef LONGSTREAM_SERVICE_GRAMMAR_FORMATS_COUNTED_H_
#define LONGSTREAM_SERVICE_GRAMMAR_FORMATS_COUNTED_H_

#include <cstdint>
#include <optional>

#include "service/grammar/grammar_builder.h"

namespace longstream {

// The largest number of a count in a grammar or a pattern.
inline constexpr uint32_t kMostRepeats = 10'000;

// Matches `least` to `most` strings of `part`, as GrammarBuilder::Repeat. Large counts cost few
// nodes: the function divides them into blocks of equal size, and a block is a rule.
// REQUIRES: least <= most, `part` does not match the empty string.
GrammarBuilder::Expression Counted(GrammarBuilder& builder, GrammarBuilder::Expression part,
                                   uint32_t least, std::optional<uint32_t> most);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_GRAMMAR_FORMATS_COUNTED_H_
