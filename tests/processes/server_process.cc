// Starts, watches and stops the server.
#include "tests/processes/server_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <thread>
#include <utility>

namespace longstream {
namespace {

// The number after `key` in the log, or 0.
int NumberAfter(const std::string& log, const std::string& key) {
  const size_t found = log.find(key);
  return found == std::string::npos ? 0 : std::atoi(log.c_str() + found + key.size());
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Lowers a limit of this process; 0 keeps it.
bool SetLimit(decltype(RLIMIT_NOFILE) resource, uint64_t most) {
  const rlimit limit = {most, most};
  return most == 0 || setrlimit(resource, &limit) == 0;
}

// Starts `binary` with its standard error in a new file, whose path it puts into *log_path.
pid_t Spawn(const std::string& binary, std::vector<std::string> arguments,
            const ProcessLimits& limits, std::string* log_path) {
  *log_path = (std::filesystem::temp_directory_path() / "longstream_server_XXXXXX").string();
  const int log = mkostemp(log_path->data(), O_CLOEXEC);
  if (log < 0) throw std::runtime_error("no temporary file for the server's log");
  arguments.insert(arguments.begin(), binary);
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // a test that is killed leaves no server behind
    dup2(log, STDERR_FILENO);
    const bool limited = SetLimit(RLIMIT_FSIZE, limits.max_file_bytes) &&
                         SetLimit(RLIMIT_NOFILE, limits.max_descriptors);
    if (!limited) _exit(126);
    execv(binary.c_str(), argv.data());
    _exit(127);
  }
  close(log);
  return pid;
}

}  // namespace

ServerRun RunServer(const std::string& binary, const std::vector<std::string>& arguments) {
  std::string log_path;
  const pid_t pid = Spawn(binary, arguments, {}, &log_path);
  int status = 0;
  bool ended = false;
  for (int i = 0; i < 600 && !ended; ++i) {
    ended = waitpid(pid, &status, WNOHANG) == pid;
    if (!ended) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  if (!ended) {
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
  }
  ServerRun run{WIFEXITED(status) ? WEXITSTATUS(status) : -1, ReadFile(log_path)};
  std::filesystem::remove(log_path);
  return run;
}

ServerProcess::ServerProcess(const std::string& binary, std::vector<std::string> arguments,
                             const ProcessLimits& limits, std::string host)
    : host_(std::move(host)) {
  arguments.insert(arguments.end(), {"--listen", host_ + ":0", "--metrics-listen", "127.0.0.1:0"});
  pid_ = Spawn(binary, std::move(arguments), limits, &log_path_);
  for (int i = 0; i < 1200; ++i) {
    if (ReadPorts()) return;
    if (!running()) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  const std::string log = Log();
  End();
  throw std::runtime_error("the server does not listen: " + log);
}

ServerProcess::~ServerProcess() { End(); }

void ServerProcess::End() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  std::filesystem::remove(log_path_);
}

bool ServerProcess::ReadPorts() {
  const std::string log = Log();
  port_ = NumberAfter(log, "\"event\":\"listening\",\"port\":\"");
  metrics_port_ = NumberAfter(log, "\"metrics_port\":\"");
  http_port_ = NumberAfter(log, "\"http_port\":\"");
  return port_ != 0;
}

std::string ServerProcess::Log() const { return ReadFile(log_path_); }

uint64_t ServerProcess::resident_bytes() const {
  std::ifstream statm("/proc/" + std::to_string(pid_) + "/statm");
  uint64_t size = 0;
  uint64_t resident = 0;
  statm >> size >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

size_t ServerProcess::descriptors() const {
  const std::filesystem::directory_iterator all("/proc/" + std::to_string(pid_) + "/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

std::map<std::string, size_t> ServerProcess::threads() const {
  std::map<std::string, size_t> names;
  const std::filesystem::path tasks("/proc/" + std::to_string(pid_) + "/task");
  for (const auto& task : std::filesystem::directory_iterator(tasks)) {
    // The file is empty if the thread has just ended.
    std::string name = ReadFile((task.path() / "comm").string());
    if (name.ends_with('\n')) name.pop_back();
    if (!name.empty()) ++names[name];
  }
  return names;
}

double ServerProcess::processor_seconds() const {
  clockid_t clock{};
  timespec used{};
  if (clock_getcpuclockid(pid_, &clock) != 0) throw std::runtime_error("no clock of the server");
  clock_gettime(clock, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

bool ServerProcess::running() {
  if (pid_ <= 0) return false;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) == 0) return true;
  Ended(status);
  return false;
}

void ServerProcess::Signal(int signal) const {
  if (pid_ > 0) kill(pid_, signal);  // -1 would be all processes
}

int ServerProcess::Stop() {
  if (pid_ > 0) Signal(SIGTERM);
  return Wait();
}

int ServerProcess::Wait() {
  if (pid_ > 0) {
    int status = 0;
    waitpid(pid_, &status, 0);
    Ended(status);
  }
  return exit_code_;
}

void ServerProcess::Ended(int status) {
  pid_ = -1;
  exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace longstream
