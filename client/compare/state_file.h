// The prompts of a comparison that have ended, in a file. An interrupted comparison goes on there.
#ifndef LONGSTREAM_CLIENT_COMPARE_STATE_FILE_H_
#define LONGSTREAM_CLIENT_COMPARE_STATE_FILE_H_

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/compare/observations.h"

namespace longstream::client {

// A file that cannot be written. The message names the file and the reason.
class FileError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Name and value of everything that the results depend on.
using Conditions = std::vector<std::pair<std::string, std::string>>;

struct FinishedPrompt {
  PromptRun run;
  std::vector<std::string> tokenizers;  // of the arms
};

// The file has a line of JSON with the conditions, and one for each prompt. Texts may hold any
// bytes: byte b is written as the character U+00b. Numbers keep their bits.
class StateFile {
 public:
  // Opens the file, or makes it. No path: there is no file, and nothing is kept. If the program was
  // killed while it wrote a line, drops that line. Throws FileError if the file cannot be opened or
  // written, or if another process has it open; std::invalid_argument if it was made under other
  // conditions (the message names the first one that differs) or is damaged.
  StateFile(std::string path, const Conditions& conditions);
  ~StateFile();
  StateFile(const StateFile&) = delete;
  StateFile& operator=(const StateFile&) = delete;

  const std::string& path() const { return path_; }
  // The prompts in the file, in their order.
  const std::vector<FinishedPrompt>& finished() const { return finished_; }

  // Adds a prompt; it is in the file when the call returns. Throws FileError.
  void Append(FinishedPrompt prompt);
  // Removes the file, because the comparison has ended.
  void Remove();

 private:
  std::string ReadAll() const;
  void Load(const std::string& text, const Conditions& conditions);
  void WriteLine(std::string line);

  std::string path_;
  int descriptor_ = -1;
  std::vector<FinishedPrompt> finished_;
};

// Writes a file as a whole: a reader sees the old content or the new one. Throws FileError.
void ReplaceFile(const std::string& path, std::string_view content);

// A hash of 64 bits as 16 hexadecimal digits (FNV-1a), to notice that a file was edited.
std::string Digest(std::string_view content);

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_COMPARE_STATE_FILE_H_
