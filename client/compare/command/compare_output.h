// Shows a comparison of models: their texts, and what their tokens and logits say.
#ifndef LONGSTREAM_CLIENT_COMPARE_COMMAND_COMPARE_OUTPUT_H_
#define LONGSTREAM_CLIENT_COMPARE_COMMAND_COMPARE_OUTPUT_H_

#include "client/compare/command/compared_text.h"
#include "nlohmann/json_fwd.hpp"

namespace longstream::client {

// Everything that the server has sent, and the quantiles of the times between tokens.
nlohmann::ordered_json ToJson(const ComparedText& comparison);

// Prints the text of each arm, with a mark where it differs from the first one, then a table of the
// arms and a table of the pairs. Throws OutputError.
void PrintComparison(const ComparedText& comparison);

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_COMPARE_COMMAND_COMPARE_OUTPUT_H_
