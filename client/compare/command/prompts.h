// The file of prompts that a comparison runs: JSON Lines, one object a line.
#ifndef LONGSTREAM_CLIENT_COMPARE_COMMAND_PROMPTS_H_
#define LONGSTREAM_CLIENT_COMPARE_COMMAND_PROMPTS_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "longstream/v1/longstream.pb.h"

namespace longstream::client {

struct Prompt {
  std::string id;  // unique in the file; by default the number of the line
  v1::Input input;
  std::optional<std::string> continuation;  // a text that follows the prompt
  size_t line = 0;                          // from 1
};

// Parses a file. Each line has exactly one of
//   "text": a string,  "tokens": an array of token ids,  "messages": an array of messages,
// and may have "id": a string or a whole number, and "continuation": a string. Members of a message
// besides "role" and "content" go into Message.json. Blank lines are skipped. Throws
// std::invalid_argument, which names the line and the field.
std::vector<Prompt> ParsePrompts(std::string_view file);

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_COMPARE_COMMAND_PROMPTS_H_
