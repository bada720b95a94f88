// Texts that do not contain another text.
#ifndef LONGSTREAM_SERVICE_GRAMMAR_FORMATS_TEXT_WITHOUT_H_
#define LONGSTREAM_SERVICE_GRAMMAR_FORMATS_TEXT_WITHOUT_H_

#include <string_view>

#include "service/grammar/grammar_builder.h"

namespace longstream {

// Matches all UTF-8 texts in which `text` does not occur, also the empty one. Such a text may end
// with a beginning of `text`. REQUIRES: `text` is UTF-8 and not empty.
GrammarBuilder::Expression AddTextWithout(GrammarBuilder& builder, std::string_view text);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_GRAMMAR_FORMATS_TEXT_WITHOUT_H_
