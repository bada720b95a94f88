// Reads files that options name, and lines of standard input.
#include "client/commands/input.h"

#include <poll.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <stdexcept>

#include "client/interrupt.h"
#include "client/read_file.h"

namespace longstream::client {

namespace {

// Waits until standard input has bytes and appends them to `buffer`. Returns false at the end of
// the input and after an interrupt.
bool ReadMore(std::string* buffer) {
  std::array<pollfd, 2> descriptors = {
      {{STDIN_FILENO, POLLIN, 0}, {InterruptDescriptor(), POLLIN, 0}}};
  while (poll(descriptors.data(), descriptors.size(), /*timeout=*/-1) < 0) {
  }
  if (descriptors[1].revents != 0) return false;
  std::array<char, 65536> bytes;
  const ssize_t count = read(STDIN_FILENO, bytes.data(), bytes.size());
  if (count > 0) buffer->append(bytes.data(), static_cast<size_t>(count));
  return count > 0;
}

std::string ReadStandardInput() {
  std::string text;
  while (ReadMore(&text)) {
  }
  if (Interrupted()) throw Interruption();
  return text;
}

}  // namespace

std::string ReadFile(const std::string& path, const std::string& argument) {
  if (path == "-") return ReadStandardInput();
  try {
    return ReadFile(path);
  } catch (const std::invalid_argument& error) {
    throw CLI::ValidationError(argument, error.what());
  }
}

std::optional<std::string> LineReader::Next() {
  size_t end = buffer_.find('\n');
  while (end == std::string::npos && ReadMore(&buffer_)) end = buffer_.find('\n');
  if (Interrupted() || buffer_.empty()) return std::nullopt;
  std::string line = buffer_.substr(0, end);
  // The last line may lack its newline.
  buffer_.erase(0, end == std::string::npos ? end : end + 1);
  return line;
}

}  // namespace longstream::client
