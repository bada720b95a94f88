// Starts the client, writes to it, reads from it and waits for it.
#include "tests/processes/client_process.h"

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <fstream>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <utility>

namespace longstream {
namespace {

constexpr char kBinary[] = LONGSTREAM_BINARY_DIR "/bin/longstream";
constexpr int kPatienceMilliseconds = 300000;

void Close(int* descriptor) {
  if (*descriptor >= 0) close(std::exchange(*descriptor, -1));
}

// Runs in the forked child and replaces it by the program.
[[noreturn]] void Execute(std::vector<std::string> arguments) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  execv(kBinary, argv.data());
  _exit(127);
}

}  // namespace

ClientProcess::ClientProcess(const std::vector<std::string>& arguments, Terminal terminal,
                             const std::string& output) {
  std::vector<std::string> argv = {kBinary};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  if (terminal == Terminal::kYes) {
    pid_ = forkpty(&in_, nullptr, nullptr, nullptr);
    if (pid_ == 0) Execute(argv);
    from_[0] = fcntl(in_, F_DUPFD_CLOEXEC, 0);
    return;
  }
  std::array<std::array<int, 2>, 3> pipes;
  for (std::array<int, 2>& ends : pipes) {
    if (pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  }
  pid_ = fork();
  if (pid_ == 0) {
    dup2(pipes[0][0], STDIN_FILENO);
    dup2(output.empty() ? pipes[1][1] : open(output.c_str(), O_WRONLY), STDOUT_FILENO);
    dup2(pipes[2][1], STDERR_FILENO);
    Execute(argv);
  }
  close(pipes[0][0]);
  close(pipes[1][1]);
  close(pipes[2][1]);
  in_ = pipes[0][1];
  from_ = {pipes[1][0], pipes[2][0]};
}

ClientProcess::~ClientProcess() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Close(&in_);
  for (int& descriptor : from_) Close(&descriptor);
}

void ClientProcess::Write(const std::string& text) const {
  if (write(in_, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    throw std::runtime_error("the client reads no input");
  }
}

void ClientProcess::CloseInput() { Close(&in_); }

void ClientProcess::CloseOutput() { Close(&from_[0]); }

void ClientProcess::Signal(int signal) const { kill(pid_, signal); }

void ClientProcess::WaitUntilItHandles(int signal) const {
  const uint64_t bit = uint64_t{1} << (signal - 1);
  for (int waited = 0; waited < kPatienceMilliseconds; waited += 5) {
    std::ifstream status("/proc/" + std::to_string(pid_) + "/status");
    for (std::string line; std::getline(status, line);) {
      // The client blocks the signals for which one of its threads waits.
      constexpr std::string_view kKey = "SigBlk:";
      if (!line.starts_with(kKey)) continue;
      if ((std::stoull(line.substr(kKey.size()), nullptr, 16) & bit) != 0) return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  throw std::runtime_error("the client handles no signal " + std::to_string(signal));
}

void ClientProcess::ReadInto(int* descriptor, std::string* text) {
  std::array<char, 65536> bytes;
  const ssize_t count = read(*descriptor, bytes.data(), bytes.size());
  // At the end, read() on a terminal fails and read() on a pipe returns 0.
  if (count <= 0) return Close(descriptor);
  text->append(bytes.data(), static_cast<size_t>(count));
  all_.append(bytes.data(), static_cast<size_t>(count));
}

bool ClientProcess::Read() {
  if (from_[0] < 0 && from_[1] < 0) return false;
  // poll() ignores closed descriptors, which are -1.
  std::array<pollfd, 2> polled = {{{from_[0], POLLIN, 0}, {from_[1], POLLIN, 0}}};
  if (poll(polled.data(), polled.size(), kPatienceMilliseconds) <= 0) {
    throw std::runtime_error("the client is silent; so far: " + all_);
  }
  if (polled[0].revents != 0) ReadInto(&from_[0], &out_);
  if (polled[1].revents != 0) ReadInto(&from_[1], &err_);
  return true;
}

void ClientProcess::WaitFor(const std::string& text) {
  size_t found = all_.find(text, seen_);
  while (found == std::string::npos) {
    if (!Read()) throw std::runtime_error("the client ended without '" + text + "': " + all_);
    found = all_.find(text, seen_);
  }
  seen_ = found + text.size();
}

void ClientProcess::WaitForMore() {
  while (all_.size() == seen_) {
    if (!Read()) throw std::runtime_error("the client ended after: " + all_);
  }
}

void ClientProcess::WaitForOutput(size_t bytes) {
  while (out_.size() < bytes) {
    if (!Read()) throw std::runtime_error("the client ended after: " + all_);
  }
}

int ClientProcess::Wait() {
  while (Read()) {
  }
  int status = 0;
  for (int waited = 0; waitpid(pid_, &status, WNOHANG) == 0; waited += 10) {
    if (waited > kPatienceMilliseconds) throw std::runtime_error("the client does not end");
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

ClientRun RunClient(const std::vector<std::string>& arguments, const std::string& input) {
  ClientProcess client(arguments);
  client.Write(input);
  client.CloseInput();
  const int exit_code = client.Wait();
  return {exit_code, client.out(), client.err()};
}

}  // namespace longstream
