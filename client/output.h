// Writes to standard output and reports failures: a full disk, a reader that went away.
#ifndef LONGSTREAM_CLIENT_OUTPUT_H_
#define LONGSTREAM_CLIENT_OUTPUT_H_

#include <stdexcept>
#include <string_view>

namespace longstream::client {

// Standard output cannot be written.
class OutputError : public std::runtime_error {
 public:
  explicit OutputError(int error_number);

  // The reader went away (`| head`); nothing needs to be printed about it.
  bool broken_pipe() const { return broken_pipe_; }

 private:
  bool broken_pipe_;
};

// Writes `text` to standard output at once. Throws OutputError.
void Print(std::string_view text);

// Writes what printf left in its buffer. Throws OutputError if that or an earlier write failed.
void FlushOutput();

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_OUTPUT_H_
