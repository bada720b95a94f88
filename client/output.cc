// Writes to standard output and checks for failures.
#include "client/output.h"

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>

namespace longstream::client {

OutputError::OutputError(int error_number)
    : std::runtime_error(std::string("standard output cannot be written: ") +
                         std::strerror(error_number)),
      broken_pipe_(error_number == EPIPE) {}

void Print(std::string_view text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw OutputError(errno);
  }
}

std::string Number(double value, const char* format) {
  if (std::isnan(value)) return "-";
  char text[64];
  std::snprintf(text, sizeof(text), format, value);
  return text;
}

void FlushOutput() {
  errno = 0;
  const bool flushed = std::fflush(stdout) == 0;
  if (flushed && std::ferror(stdout) == 0) return;
  // If an earlier write failed, the stream remembers the failure but not its reason.
  throw OutputError(errno != 0 ? errno : EIO);
}

}  // namespace longstream::client
