#include "tests/e2e/envoy/envoy_config.h"

#include <fstream>
#include <iterator>
#include <stdexcept>

namespace longstream {

std::string EnvoyConfig(const EnvoyPorts& ports) {
  std::ifstream file(LONGSTREAM_SOURCE_DIR "/docs/envoy.yaml");
  std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto replace = [&text](const std::string& address, int port) {
    const size_t found = text.find(address);
    if (found == std::string::npos) throw std::runtime_error("docs/envoy.yaml: no " + address);
    text.replace(found, address.size(), "address: 127.0.0.1, port_value: " + std::to_string(port));
  };
  replace("address: 0.0.0.0, port_value: 8443", ports.grpc);
  replace("address: 0.0.0.0, port_value: 8444", ports.http);
  replace("address: 127.0.0.1, port_value: 50051", ports.server_grpc);
  replace("address: 127.0.0.1, port_value: 8080", ports.server_http);
  return text;
}

}  // namespace longstream
