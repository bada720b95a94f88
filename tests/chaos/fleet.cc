// Starts the parts of the fleet in their order.
#include "tests/chaos/fleet.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <thread>

#include "client/connection.h"
#include "tests/processes/free_port.h"

namespace longstream::chaos {
namespace {

constexpr seconds kStartPatience{120};

void Replace(const std::string& word, const std::string& value, std::string* text) {
  const size_t found = text->find(word);
  if (found == std::string::npos) throw std::runtime_error("deploy/local/envoy.yaml: no " + word);
  text->replace(found, word.size(), value);
}

}  // namespace

Fleet::Fleet(const Options& options, const std::string& folder)
    : database_(std::make_unique<Database>(options.failover)) {
  std::filesystem::create_directory(folder + "/segments");
  for (int number = 1; number <= options.replicas; ++number) {
    replicas_.push_back(std::make_unique<Replica>(
        options, number, folder, database_->ports(),
        [this](const std::vector<int>& ports) { return database_->Url(ports); }));
  }
  WaitUntilServing();
  if (!options.direct) StartEnvoy(folder);
  fronts_ = std::make_unique<Fronts>(envoy_port_, replicas(), options.seed);
  client::Connection(fronts_->address(0)).WaitUntilServing("dense", kStartPatience);
}

void Fleet::StartEnvoy(const std::string& folder) {
  envoy_port_ = FreePort();
  std::ifstream file(LONGSTREAM_SOURCE_DIR "/deploy/local/envoy.yaml");
  std::string text{std::istreambuf_iterator<char>(file), {}};
  std::string endpoints;
  for (const Replica* replica : replicas()) {
    endpoints += (endpoints.empty() ? "" : ", ") +
                 ("{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: " +
                  std::to_string(replica->port()) + "}}}}");
  }
  Replace("@PORT@", std::to_string(envoy_port_), &text);
  Replace("@ADMIN_PORT@", std::to_string(FreePort()), &text);
  Replace("@REPLICAS@", endpoints, &text);
  Replace("@HTTP_PORT@", std::to_string(FreePort()), &text);
  Replace("@GATEWAYS@", "", &text);  // no client speaks HTTP
  const std::string config = folder + "/envoy.yaml";
  std::ofstream(config) << text;
  envoy_ = std::make_unique<EnvoyProcess>(config, folder + "/envoy.log", envoy_port_);
}

std::vector<Replica*> Fleet::replicas() const {
  std::vector<Replica*> all;
  all.reserve(replicas_.size());
  for (const std::unique_ptr<Replica>& replica : replicas_) all.push_back(replica.get());
  return all;
}

void Fleet::WaitUntilServing() const {
  for (const Replica* replica : replicas()) WaitUntilServing(*replica);
}

void Fleet::WaitUntilServing(const Replica& replica) {
  client::Connection connection(replica.address());
  for (const char* model : {"dense", "hwfa2", "hypenet"}) {
    try {
      connection.WaitUntilServing(model, kStartPatience);
    } catch (const client::CallError& error) {
      throw std::runtime_error(replica.name() + " does not serve " + model + ": " + error.what());
    }
  }
}

void Fleet::End() {
  std::vector<std::thread> ends;
  for (Replica* replica : replicas()) ends.emplace_back([replica] { replica->End(); });
  for (std::thread& end : ends) end.join();
}

}  // namespace longstream::chaos
