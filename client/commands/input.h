// Input of the commands: files, and lines of standard input.
#ifndef LONGSTREAM_CLIENT_COMMANDS_INPUT_H_
#define LONGSTREAM_CLIENT_COMMANDS_INPUT_H_

#include <optional>
#include <string>

namespace longstream::client {

// Returns all bytes of the file at `path`; "-" is standard input. Throws CLI::ValidationError,
// which names `argument`, if the file cannot be read or is a directory. Throws Interruption.
std::string ReadFile(const std::string& path, const std::string& argument);

// Reads lines of standard input until an interrupt. Nothing else may read standard input.
class LineReader {
 public:
  // Returns the next line without its newline. Returns nothing at the end of the input or after an
  // interrupt.
  std::optional<std::string> Next();

 private:
  std::string buffer_;  // bytes that were read but not yet returned
};

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_COMMANDS_INPUT_H_
