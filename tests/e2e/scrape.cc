// Sends an HTTP GET over a socket and reads samples from the Prometheus text format.
#include "tests/e2e/scrape.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>
#include <stdexcept>

namespace longstream {

TcpConnection::TcpConnection(int port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    close(fd_);
    throw std::runtime_error("nobody listens on port " + std::to_string(port));
  }
}

TcpConnection::~TcpConnection() { close(fd_); }

std::string Scrape(int port) {
  // HTTP 1.0: the server sends the answer in one piece and closes the connection.
  const std::string request = "GET /metrics HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n";
  const TcpConnection connection(port);
  std::string answer;
  if (write(connection.fd(), request.data(), request.size()) ==
      static_cast<ssize_t>(request.size())) {
    char buffer[4096];
    for (ssize_t size; (size = read(connection.fd(), buffer, sizeof(buffer))) > 0;) {
      answer.append(buffer, static_cast<size_t>(size));
    }
  }
  const size_t body = answer.find("\r\n\r\n");
  if (answer.find(" 200 ") > answer.find("\r\n") || body == std::string::npos) {
    throw std::runtime_error("no metrics on port " + std::to_string(port) + ": " + answer);
  }
  return answer.substr(body + 4);
}

std::optional<double> SampleValue(const std::string& text, const std::string& name,
                                  const std::map<std::string, std::string>& labels) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    bool matches = line.starts_with(name + "{");
    for (const auto& [label, value] : labels) {
      std::string pair = label;
      pair.append("=\"").append(value).append("\"");
      matches = matches && line.find(pair) != std::string::npos;
    }
    if (matches) return std::strtod(line.c_str() + line.rfind(' '), nullptr);
  }
  return std::nullopt;
}

}  // namespace longstream
