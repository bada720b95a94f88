// Shows what the twin of a turn has said.
#ifndef LONGSTREAM_CLIENT_COMMANDS_TWIN_OUTPUT_H_
#define LONGSTREAM_CLIENT_COMMANDS_TWIN_OUTPUT_H_

#include "client/connection.h"
#include "nlohmann/json_fwd.hpp"

namespace longstream::client {

// Prints the tokens at which the two models differ most, at most 10, to standard output. Nothing if
// there are no rows. Throws OutputError.
void PrintTwinTable(const Generation& generation);

// Prints one line to standard error: how far the twin agrees, or why it was lost. Nothing if the
// turn has no twin.
void PrintTwinSummary(const Generation& generation);

// Returns the summary and all rows as a JSON object. REQUIRES: the turn has a twin.
nlohmann::ordered_json TwinJson(const Generation& generation);

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_COMMANDS_TWIN_OUTPUT_H_
