// What the commands read: files, and lines of standard input.
#ifndef LONGSTREAM_CLIENT_INPUT_H_
#define LONGSTREAM_CLIENT_INPUT_H_

#include <optional>
#include <string>

namespace longstream::client {

// All bytes of the file at `path`; "-" is standard input. Throws CLI::ValidationError, which names
// `argument`, where it cannot be read, a directory included, and Interruption.
std::string ReadFile(const std::string& path, const std::string& argument);

// Lines of standard input that an interrupt can end. Nothing else may read standard input.
class LineReader {
 public:
  // The next line without its end; nothing at the end of the input and when the program is
  // interrupted.
  std::optional<std::string> Next();

 private:
  std::string buffer_;  // read, but not yet returned
};

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_INPUT_H_
