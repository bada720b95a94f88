// Tries random ports.
#include "tests/processes/free_port.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <random>
#include <stdexcept>

namespace longstream {
namespace {

bool IsFree(int port) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  const bool is_free = bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  close(listener);
  return is_free;
}

}  // namespace

int FreePort() {
  std::random_device random;
  std::uniform_int_distribution<int> ports(10'000, 32'767);
  for (int tries = 0; tries < 1000; ++tries) {
    if (const int port = ports(random); IsFree(port)) return port;
  }
  throw std::runtime_error("there is no free port");
}

}  // namespace longstream
