// The program `longstream` as a child process: its pipes or its terminal, signals, exit code.
#ifndef LONGSTREAM_TESTS_PROCESSES_CLIENT_PROCESS_H_
#define LONGSTREAM_TESTS_PROCESSES_CLIENT_PROCESS_H_

#include <sys/types.h>

#include <array>
#include <string>
#include <vector>

namespace longstream {

// Killed with the object if it still runs. Waiting gives up after five minutes with
// std::runtime_error.
class ClientProcess {
 public:
  enum class Terminal { kNo, kYes };

  // On a terminal, standard output and error are one, and come as out(). A path in `output` is what
  // standard output goes to instead.
  explicit ClientProcess(const std::vector<std::string>& arguments,
                         Terminal terminal = Terminal::kNo, const std::string& output = "");
  ~ClientProcess();
  ClientProcess(const ClientProcess&) = delete;
  ClientProcess& operator=(const ClientProcess&) = delete;

  // To standard input; on a terminal "\x03" is Ctrl-C and "\x04" Ctrl-D.
  void Write(const std::string& text) const;
  void CloseInput();
  // As `| head` does once it has seen enough.
  void CloseOutput();
  void Signal(int signal) const;
  // Waits until the program has taken over what a signal does.
  void WaitUntilItHandles(int signal) const;

  // Waits until standard output and error together, beyond what earlier calls waited for, hold
  // `text`.
  void WaitFor(const std::string& text);
  // Waits for something beyond what earlier calls of WaitFor waited for.
  void WaitForMore();
  // Waits until standard output has so many bytes.
  void WaitForOutput(size_t bytes);
  // Waits for the end. The exit code, -1 where a signal ended it.
  int Wait();

  const std::string& out() const { return out_; }
  const std::string& err() const { return err_; }

 private:
  // Reads what there is, waiting for some. False once both are at their end.
  bool Read();
  void ReadInto(int* descriptor, std::string* text);

  pid_t pid_ = -1;
  int in_ = -1;
  std::array<int, 2> from_ = {-1, -1};  // standard output and error
  std::string out_;
  std::string err_;
  std::string all_;  // both, in the order they came
  size_t seen_ = 0;  // of all_, by WaitFor
};

struct ClientRun {
  int exit_code;
  std::string out;
  std::string err;
};

// A run from start to end on pipes.
ClientRun RunClient(const std::vector<std::string>& arguments, const std::string& input = "");

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_PROCESSES_CLIENT_PROCESS_H_
