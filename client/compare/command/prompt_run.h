// Converts the answers of the service to the plain values of a comparison.
#ifndef LONGSTREAM_CLIENT_COMPARE_COMMAND_PROMPT_RUN_H_
#define LONGSTREAM_CLIENT_COMPARE_COMMAND_PROMPT_RUN_H_

#include <string>

#include "client/compare/command/compared_text.h"
#include "client/compare/state_file.h"
#include "longstream/v1/longstream.pb.h"

namespace longstream::client {

// Converts all messages of a call. The request must have asked for a `top` of 1 or more. The run
// has no latencies. A lost arm has an error and nothing else; its pair is empty, and all pairs are
// if the baseline was lost.
FinishedPrompt ToFinishedPrompt(const std::string& id, const ComparedText& text);

// Copies the latencies of a turn as the server has measured them: the time to the first token, and
// the mean time between two tokens. (A client sees short steps in bursts, because several messages
// arrive at once.)
void SetLatencies(const v1::TurnUsage& usage, ArmRun* run);

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_COMPARE_COMMAND_PROMPT_RUN_H_
