// The program `longstream` as a child process, with pipes or a terminal, signals, and an exit code.
#ifndef LONGSTREAM_TESTS_PROCESSES_CLIENT_PROCESS_H_
#define LONGSTREAM_TESTS_PROCESSES_CLIENT_PROCESS_H_

#include <sys/types.h>

#include <array>
#include <string>
#include <vector>

namespace longstream {

// The destructor kills the process if it still runs. Functions that wait throw std::runtime_error
// after five minutes.
class ClientProcess {
 public:
  enum class Terminal { kNo, kYes };

  // With a terminal, standard output and standard error are one stream, which out() returns. If
  // `output` is a path, standard output goes to that file.
  explicit ClientProcess(const std::vector<std::string>& arguments,
                         Terminal terminal = Terminal::kNo, const std::string& output = "");
  ~ClientProcess();
  ClientProcess(const ClientProcess&) = delete;
  ClientProcess& operator=(const ClientProcess&) = delete;

  // Writes to standard input. On a terminal "\x03" is Ctrl-C and "\x04" is Ctrl-D.
  void Write(const std::string& text) const;
  void CloseInput();
  // Closes the reading end of standard output, as `| head` does when it has enough.
  void CloseOutput();
  void Signal(int signal) const;
  // Waits until the program handles `signal` itself.
  void WaitUntilItHandles(int signal) const;

  // Waits until `text` appears in standard output and standard error together, after the text that
  // earlier calls waited for.
  void WaitFor(const std::string& text);
  // Waits for any output after the text that earlier calls of WaitFor waited for.
  void WaitForMore();
  // Waits until standard output has this many bytes.
  void WaitForOutput(size_t bytes);
  // Waits until the process ends. Returns the exit code, or -1 if a signal ended it.
  int Wait();

  const std::string& out() const { return out_; }
  const std::string& err() const { return err_; }

 private:
  // Waits for output and reads it. Returns false if both streams have ended.
  bool Read();
  void ReadInto(int* descriptor, std::string* text);

  pid_t pid_ = -1;
  int in_ = -1;
  std::array<int, 2> from_ = {-1, -1};  // pipes from standard output and standard error
  std::string out_;
  std::string err_;
  std::string all_;  // the bytes of out_ and err_ in the order in which they were read
  size_t seen_ = 0;  // WaitFor continues at this byte of all_
};

struct ClientRun {
  int exit_code;
  std::string out;
  std::string err;
};

// Runs the client on pipes until it ends.
ClientRun RunClient(const std::vector<std::string>& arguments, const std::string& input = "");

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_PROCESSES_CLIENT_PROCESS_H_
