// Starts the replicas, and reads their metrics.
#include "tests/bench/handover/replica_pair.h"

#include <chrono>
#include <csignal>
#include <fstream>
#include <stdexcept>
#include <thread>
#include <utility>

#include "tests/e2e/scrape.h"

namespace longstream::bench {
namespace {

constexpr std::chrono::minutes kPatience{5};
constexpr std::chrono::seconds kLease{2};

}  // namespace

Replica::Replica(const std::string& binary, const std::vector<std::string>& arguments,
                 const std::string& model)
    : server_(binary, arguments), connection_(server_.address()) {
  connection_.WaitUntilServing(model, kPatience);
}

Received Replica::received() const {
  const std::string text = Scrape(server_.metrics_port());
  const auto value = [&](const char* name, const char* label, const char* of) {
    return SampleValue(text, name, {{label, of}}).value_or(0);
  };
  return {value("longstream_handover_seconds_count", "part", "whole"),
          value("longstream_handover_seconds_sum", "part", "whole"),
          value("longstream_handover_seconds_sum", "part", "caches"),
          value("longstream_handover_bytes_total", "op", "received")};
}

void Replica::End() {
  if (server_.Stop() != 0) {
    throw std::runtime_error("a server ended with an error:\n" + server_.Log());
  }
}

void Replica::Kill() {
  server_.Signal(SIGKILL);
  server_.Wait();
}

ReplicaPair::ReplicaPair(std::string binary, const std::string& models, std::string model,
                         int threads, uint64_t context)
    : binary_(std::move(binary)),
      model_(std::move(model)),
      model_config_("  - {name: " + model_ + ", directory: " + models + "/" + model_ +
                    ", device: cpu, cache_bytes: 4GiB, options: {context_limit: " +
                    std::to_string(context) + "}}\n"),
      threads_(threads),
      home_(Start("home")),
      away_(Start("away")) {}

std::unique_ptr<Replica> ReplicaPair::Start(const std::string& id) const {
  const std::string config = directory_.string() + "/" + id + ".yaml";
  std::ofstream(config) << "threads: " << threads_ << "\n"
                        << "drain_timeout: 60s\n"
                        << "fleet:\n  replica_id: " << id << "\n  peer_listen: 127.0.0.1:0\n"
                        << "  min_residency: 0s\n  lease_ttl: " << kLease.count() << "s\n"
                        << "models:\n"
                        << model_config_;
  return std::make_unique<Replica>(
      binary_, std::vector<std::string>{"--config", config, "--store", url_}, model_);
}

void ReplicaPair::EndAway(Ending ending) {
  if (ending == Ending::kDrained) {
    away_->End();
  } else {
    away_->Kill();
    std::this_thread::sleep_for(2 * kLease);
  }
  away_ = nullptr;
}

}  // namespace longstream::bench
