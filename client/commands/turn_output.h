// A generated turn on the terminal: its text as it comes, and what it took.
#ifndef LONGSTREAM_CLIENT_COMMANDS_TURN_OUTPUT_H_
#define LONGSTREAM_CLIENT_COMMANDS_TURN_OUTPUT_H_

#include <string>

#include "client/connection.h"

namespace longstream::client {

// Runs the turn. Its text goes to standard output as it comes, unless `quiet`; while a long prompt
// is read, a bar to standard error, if that is a terminal. Throws CallError and OutputError.
Generation StreamTurn(Connection& connection, const v1::GenerateRequest& request, bool quiet);

// One line to standard error: why it ended, tokens, times, bytes held.
void PrintUsage(const Generation& generation);

// The log-probabilities that were asked for, a line per token, to standard output.
void PrintLogProbs(const Generation& generation);

// Everything about the turn as a JSON object, to be read by people or in one line.
std::string TurnJson(const Generation& generation, const std::string& session,
                     bool one_line = false);

// A turn that failed, in one line.
std::string FailedTurnJson(const CallError& error, const std::string& session);

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_COMMANDS_TURN_OUTPUT_H_
