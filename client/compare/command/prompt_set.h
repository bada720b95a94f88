// Compares models on a file of prompts, and writes the reports.
#ifndef LONGSTREAM_CLIENT_COMPARE_COMMAND_PROMPT_SET_H_
#define LONGSTREAM_CLIENT_COMPARE_COMMAND_PROMPT_SET_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/commands/commands.h"
#include "longstream/v1/longstream.pb.h"

namespace longstream::client {

struct PromptSetOptions {
  std::string prompts;  // the file; client/compare/command/prompts.h describes it
  std::string json;     // the reports; empty: that report is not written
  std::string html;
  std::optional<uint64_t> plan;              // planned prompts; absent: all in the file
  std::vector<std::string> minimum_effects;  // METRIC=VALUE
  uint32_t time_tokens = 32;                 // generated to measure latencies; 0: none are measured
  bool free_running = false;
};

// Runs Compare for each of the first `plan` prompts, and then one turn on each arm to measure its
// latencies, one arm at a time. Writes the reports, and prints the verdicts or, with --json, the
// report.
//
// `request` has what all prompts have in common. Its `forced` is absent or answer_of or
// prompt_from. If it is absent, the arms run freely if the options say so; else they read the
// continuations of the prompts or, if these have none, the answer of the first arm.
//
// Prompts that have ended are kept in the file <report>.partial until the reports are written; the
// report is that of JSON if both are wanted. After an interrupt or a failed call, the same command
// goes on there. Without a report, nothing is kept.
void ComparePromptSet(const Global& global, const PromptSetOptions& options,
                      v1::CompareRequest request);

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_COMPARE_COMMAND_PROMPT_SET_H_
