// docs/envoy.yaml with other addresses.
#ifndef LONGSTREAM_TESTS_E2E_ENVOY_ENVOY_CONFIG_H_
#define LONGSTREAM_TESTS_E2E_ENVOY_ENVOY_CONFIG_H_

#include <string>

namespace longstream {

// Ports of the loopback. 0: the test does not use it, and Envoy takes any port for a listener.
struct EnvoyPorts {
  int grpc = 0;         // where Envoy listens for gRPC
  int server_grpc = 0;  // where the server does
  int http = 0;         // the same for HTTP
  int server_http = 0;
};

// Throws std::runtime_error if the file has no such address to replace.
std::string EnvoyConfig(const EnvoyPorts& ports);

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_E2E_ENVOY_ENVOY_CONFIG_H_
