// Shows a generated turn on the terminal: its text as it arrives, its times and its bytes.
#ifndef LONGSTREAM_CLIENT_COMMANDS_TURN_OUTPUT_H_
#define LONGSTREAM_CLIENT_COMMANDS_TURN_OUTPUT_H_

#include <string>

#include "client/connection.h"
#include "nlohmann/json_fwd.hpp"

namespace longstream::client {

enum class Show {
  kNothing,
  kText,
  kTextOfTokens,  // without the U+FFFD for an incomplete character of an earlier turn
};

// Runs the turn. Prints its text to standard output while it arrives, unless `show` is kNothing. If
// standard error is a terminal, also shows a progress bar there while the server reads a long
// prompt. Throws CallError and OutputError.
Generation StreamTurn(Connection& connection, const v1::GenerateRequest& request, Show show);

// If the text ends within a character, prints U+FFFD in its place. For a session that ends or gets
// further input, so that no token will complete the character. Throws OutputError.
void PrintIncomplete(const Generation& generation);

// Prints one line to standard error: why the turn ended, its tokens and times, the model, with the
// alias that it was chosen by, and the bytes of the session.
void PrintUsage(const Generation& generation, const v1::Session& session);

// Prints the requested log-probabilities to standard output, one line per token.
void PrintLogProbs(const Generation& generation);

// Returns all results of the turn as a JSON object, indented for people or in one line.
std::string TurnJson(const Generation& generation, const v1::Session& session,
                     bool one_line = false);

// "stop_token", "max_tokens", ...
const char* ReasonName(v1::FinishReason reason);

// Writes JSON. Replaces bytes that are not UTF-8, because a token may be part of a character.
std::string Dump(const nlohmann::ordered_json& json, int indent);

// Returns the bytes by kind as a JSON object.
nlohmann::ordered_json BytesJson(const v1::SessionBytes& bytes);

// Returns a failed turn as a JSON object in one line.
std::string FailedTurnJson(const CallError& error, const std::string& session);

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_COMMANDS_TURN_OUTPUT_H_
