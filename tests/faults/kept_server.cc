// Keeps a server running, and tells the library under it what fails.
#include "tests/faults/kept_server.h"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>

namespace longstream {
namespace {

constexpr char kLibrary[] = LONGSTREAM_BINARY_DIR "/test_plugins/store_faults.so";
constexpr char kServer[] = LONGSTREAM_BINARY_DIR "/bin/longstream-server";

}  // namespace

int NumberFromEnvironment(const char* name, int otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : std::atoi(value);
}

KeptServer::KeptServer(std::vector<std::string> arguments, const std::string& store_url)
    : arguments_({std::string("LD_PRELOAD=") + kLibrary, "LONGSTREAM_FAULT_DIRECTORY=" + store_,
                  "LONGSTREAM_FAULT_FILE=" + fault_file_, kServer, "--store",
                  store_url.empty() ? store_ : store_url}),
      proxy_(0) {
  arguments_.insert(arguments_.end(), arguments.begin(), arguments.end());
  keeper_ = std::thread([this] { Keep(); });
}

KeptServer::~KeptServer() {
  stopping_ = true;
  keeper_.join();
}

void KeptServer::Keep() {
  while (!stopping_) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      StartIfEnded();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

void KeptServer::StartIfEnded() {
  if (server_ != nullptr && server_->running()) return;
  proxy_.set_target(0);
  proxy_.Drop();
  SetFault(std::exchange(next_fault_, "none"));
  ++starts_;
  try {
    server_ = std::make_unique<ServerProcess>("/usr/bin/env", arguments_);
  } catch (const std::runtime_error&) {
    server_ = nullptr;  // a fault has killed it before it listened; the next one has none
    return;
  }
  proxy_.set_target(server_->port());
}

void KeptServer::SetFault(const std::string& fault) {
  // A reader sees the old file or the new one.
  std::ofstream(fault_file_ + ".new") << fault;
  std::filesystem::rename(fault_file_ + ".new", fault_file_);
}

long KeptServer::CountedCalls() const {
  long calls = 0;
  std::ifstream(fault_file_ + ".count") >> calls;
  return calls;
}

void KeptServer::Kill() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (server_ == nullptr) return;
  server_->Signal(SIGKILL);
  server_->Wait();
}

void KeptServer::RestartWithFault(const std::string& fault) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (server_ != nullptr) {
    server_->Signal(SIGKILL);
    server_->Wait();
  }
  next_fault_ = fault;
}

int KeptServer::metrics_port() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return server_ == nullptr ? 0 : server_->metrics_port();
}

ServerRun KeptServer::Stop() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (server_ == nullptr) return {-1, ""};
  const int exit_code = server_->Stop();
  return {exit_code, server_->Log()};
}

void KeptServer::WaitUntilServing(const std::string& model) const {
  client::Connection(address()).WaitUntilServing(model, std::chrono::minutes(2));
}

std::string KeptServer::Log() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return server_ == nullptr ? "" : server_->Log();
}

}  // namespace longstream
