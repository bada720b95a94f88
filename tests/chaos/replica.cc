// A thread watches the server and starts it again.
#include "tests/chaos/replica.h"

#include <algorithm>
#include <csignal>
#include <fstream>
#include <stdexcept>
#include <utility>

#include "tests/processes/free_port.h"

namespace longstream::chaos {
namespace {

// A busy machine may add so much to the time in which a replica must have drained.
constexpr seconds kDrainMargin{10};

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

Replica::Replica(const Options& options, int number, std::string folder,
                 const std::vector<int>& database_ports,
                 const std::function<std::string(const std::vector<int>& ports)>& store_url)
    : name_("replica-" + std::to_string(number)),
      folder_(std::move(folder)),
      longest_drain_(options.grace() + options.drain_timeout() + kDrainMargin),
      in_fleet_(options.replicas > 1),
      peer_port_(FreePort()),
      binaries_{options.server},
      calls_(0, FreePort()),
      peers_(peer_port_, FreePort()) {
  calls_.Refuse();
  if (!options.other_server.empty()) {
    // Replicas of both versions from the beginning.
    binaries_.insert(number % 2 == 0 ? binaries_.begin() : binaries_.end(), options.other_server);
  }
  std::vector<int> ports;
  for (const int port : database_ports) {
    database_.push_back(std::make_unique<DroppingProxy>(port, FreePort()));
    ports.push_back(database_.back()->port());
  }
  WriteConfig(options, store_url(ports));
  arguments_ = {"--config", config_};
  keeper_ = std::thread([this] { Keep(); });
}

Replica::~Replica() {
  stopping_ = true;
  keeper_.join();
  if (server_ != nullptr) SaveLog(server_->Log());
}

void Replica::WriteConfig(const Options& options, const std::string& store_url) {
  std::ofstream file(config_);
  file << "threads: 1\ngrace: " << options.grace().count() << "s\nlog_level: " << options.log_level
       << "\n"
       << "scheduler: {max_waiting_turns: 1024}\n"
       << "store:\n  url: " << store_url << "\n  commit_timeout: 5s\n  segments: " << folder_
       << "/segments\n";
  if (in_fleet_) {
    file << "drain_timeout: " << options.drain_timeout().count() << "s\n"
         << "fleet:\n  replica_id: " << name_ << "\n  peer_listen: 127.0.0.1:" << peer_port_
         << "\n  peer_address: " << peers_.address() << "\n  client_address: " << calls_.address()
         << "\n  lease_ttl: " << options.lease_seconds << "s\n  min_residency: 1s\n";
  }
  file << "models:\n";
  for (const char* model : {"dense", "hwfa2", "hypenet"}) {
    file << "  - {name: " << model << ", directory: " << options.models << "/" << model
         << ", device: cpu, cache_bytes: 256MiB}\n";
  }
  if (!file.flush()) throw std::runtime_error("cannot write " + config_);
}

void Replica::Keep() {
  while (!stopping_) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (server_ == nullptr) {
        if (!is_last_ && Clock::now() >= start_at_) Start();
      } else if (server_->running()) {
        Watch();
      } else {
        HasEnded();
      }
    }
    std::this_thread::sleep_for(milliseconds(5));
  }
}

void Replica::Start() {
  const std::string& binary =
      binaries_[static_cast<size_t>(counts_.starts + counts_.failed_starts) % binaries_.size()];
  try {
    server_ = std::make_unique<ServerProcess>(binary, arguments_);
  } catch (const std::runtime_error& error) {
    ++counts_.failed_starts;
    SaveLog(error.what());
    start_at_ = Clock::now() + milliseconds(500);
    return;
  }
  ++counts_.starts;
  killed_ = false;
  calls_.set_target(server_->port());
  calls_.Listen();
  state_ = State::kUp;
}

void Replica::Watch() {
  if (state_ == State::kPaused && Clock::now() >= wake_at_) {
    server_->Signal(SIGCONT);
    state_ = State::kUp;
  }
  if (state_ == State::kDraining && Clock::now() >= drained_since_ + longest_drain_ && !killed_) {
    counts_.faults.push_back(name_ + " did not exit in time after SIGTERM");
    killed_ = true;
    server_->Signal(SIGABRT);
  }
}

void Replica::HasEnded() {
  const int exit_code = server_->Wait();
  const bool drained = state_ == State::kDraining;
  if (drained)
    counts_.slowest_drain = std::max(counts_.slowest_drain, SecondsSince(drained_since_));
  if (!killed_ && !(drained && exit_code == 0)) {
    counts_.faults.push_back(name_ + (drained ? " drained and" : "") + " ended with " +
                             (exit_code < 0 ? "a signal" : std::to_string(exit_code)));
  }
  calls_.Refuse();
  peers_.Drop();
  SaveLog(server_->Log());
  server_ = nullptr;
  start_at_ = Clock::now() + down_;
  state_ = State::kDown;
}

bool Replica::Kill(milliseconds down) {
  if (state_ != State::kUp) return false;  // while it starts, the lock is held
  const std::lock_guard<std::mutex> lock(mutex_);
  if (state_ != State::kUp || killed_) return false;
  ++counts_.kills;
  down_ = down;
  killed_ = true;
  server_->Signal(SIGKILL);
  return true;
}

bool Replica::Drain(milliseconds down) {
  if (state_ != State::kUp) return false;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (state_ != State::kUp || killed_) return false;
  ++counts_.drains;
  down_ = down;
  drained_since_ = Clock::now();
  state_ = State::kDraining;
  server_->Signal(SIGTERM);
  return true;
}

bool Replica::Pause(milliseconds time) {
  if (state_ != State::kUp) return false;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (state_ != State::kUp || killed_) return false;
  ++counts_.pauses;
  wake_at_ = Clock::now() + time;
  state_ = State::kPaused;
  server_->Signal(SIGSTOP);
  return true;
}

void Replica::CutStore() {
  for (const std::unique_ptr<DroppingProxy>& proxy : database_) proxy->Drop();
}

void Replica::RefuseDatabase(size_t server) { database_[server]->Refuse(); }

void Replica::End() {
  while (state_ == State::kPaused) std::this_thread::sleep_for(milliseconds(10));
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_last_ = true;
    if (state_ == State::kUp && !killed_) {
      drained_since_ = Clock::now();
      state_ = State::kDraining;
      server_->Signal(SIGTERM);
    }
  }
  while (state_ != State::kDown) std::this_thread::sleep_for(milliseconds(10));
}

Replica::Counts Replica::counts() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return counts_;
}

void Replica::SaveLog(const std::string& text) const {
  std::ofstream(folder_ + "/" + name_ + ".log", std::ios::app) << text << "=== ended\n";
}

}  // namespace longstream::chaos
