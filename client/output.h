// Writes to standard output and reports failures, such as a full disk or a closed pipe.
#ifndef LONGSTREAM_CLIENT_OUTPUT_H_
#define LONGSTREAM_CLIENT_OUTPUT_H_

#include <stdexcept>
#include <string>
#include <string_view>

namespace longstream::client {

// Thrown if standard output cannot be written.
class OutputError : public std::runtime_error {
 public:
  explicit OutputError(int error_number);

  // Whether the reader closed the pipe (as in `| head`). Then no message needs to be printed.
  bool broken_pipe() const { return broken_pipe_; }

 private:
  bool broken_pipe_;
};

// Writes `text` to standard output at once. Throws OutputError.
void Print(std::string_view text);

// Formats a number as printf does, or returns "-" if it is not a number.
std::string Number(double value, const char* format);

// Writes the buffered output of printf. Throws OutputError if this or an earlier write failed.
void FlushOutput();

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_OUTPUT_H_
