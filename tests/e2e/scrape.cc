// Sends an HTTP GET over a socket and reads samples from the Prometheus text format.
#include "tests/e2e/scrape.h"

#include <cstdlib>
#include <sstream>
#include <stdexcept>

#include "tests/tcp_client.h"

namespace longstream {

std::string Scrape(int port) {
  // HTTP 1.0: the server sends the answer in one piece and closes the connection.
  const std::string request = "GET /metrics HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n";
  const TcpClient connection(port);
  const std::string answer = connection.Send(request) ? connection.ReceiveAll() : "";
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
