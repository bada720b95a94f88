// A client of HTTP/1.1 that blocks.
#ifndef LONGSTREAM_TESTS_GATEWAY_HTTP_HTTP_CLIENT_H_
#define LONGSTREAM_TESTS_GATEWAY_HTTP_HTTP_CLIENT_H_

#include <poll.h>
#include <sys/socket.h>

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "tests/tcp_client.h"

namespace longstream::gateway {

struct HttpResponse {
  int status = 0;      // 0: the connection has ended before the header was complete
  std::string header;  // with the empty line
  std::string body;
  std::vector<std::string> chunks;
  bool whole = false;  // the end of the body has come

  bool Has(std::string_view line) const {
    return header.find("\r\n" + std::string(line) + "\r\n") != std::string::npos;
  }
};

inline std::string GetRequest(const std::string& path, const std::string& headers = "") {
  return "GET " + path + " HTTP/1.1\r\nHost: a\r\n" + headers + "\r\n";
}

inline std::string PostRequest(const std::string& path, const std::string& body) {
  return "POST " + path + " HTTP/1.1\r\nHost: a\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

// The header of a request with a body, after which the client waits for "100 Continue". When that
// has come, the server is reading the request.
inline std::string WaitingHeader(size_t size) {
  return "POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: " + std::to_string(size) +
         "\r\n\r\n";
}

// Functions throw std::runtime_error if the server is silent for 30 s.
class HttpClient {
 public:
  explicit HttpClient(int port) : tcp_(port) {}

  // False: the connection has ended.
  bool Send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t count = send(tcp_.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(count));
    }
    return true;
  }

  // Reads the next answer. An answer without length ends with the connection.
  HttpResponse Read(bool to_head = false) {
    HttpResponse response;
    const size_t end = Find("\r\n\r\n");
    if (end == std::string::npos) return response;
    response.header = Take(end + 4);
    response.status = std::atoi(response.header.c_str() + std::string("HTTP/1.1 ").size());
    const size_t length = response.header.find("\r\nContent-Length: ");
    if (to_head || response.status == 100) {
      response.whole = true;
    } else if (length != std::string::npos) {
      const size_t size = std::strtoul(response.header.c_str() + length + 18, nullptr, 10);
      response.whole = Have(size);
      response.body = Take(size);
    } else if (response.Has("Transfer-Encoding: chunked")) {
      ReadChunks(&response);
    } else {
      while (Receive()) {
      }
      response.body = Take(bytes_.size());
      response.whole = true;
    }
    return response;
  }
  HttpResponse Ask(std::string_view request) {
    Send(request);
    return Read();
  }

  // Waits for the next bytes. False: the connection has ended.
  bool Receive() {
    pollfd readable{tcp_.fd(), POLLIN, 0};
    if (poll(&readable, 1, 30'000) <= 0) throw std::runtime_error("the server is silent");
    char bytes[16 << 10];
    const ssize_t count = recv(tcp_.fd(), bytes, sizeof(bytes), 0);
    if (count <= 0) return false;
    bytes_.append(bytes, static_cast<size_t>(count));
    return true;
  }
  // Waits until the server ends the connection. Returns whether nothing came before that.
  bool Ends() {
    while (Receive()) {
    }
    return bytes_.empty();
  }

  TcpClient& tcp() { return tcp_; }
  const std::string& received() const { return bytes_; }

 private:
  size_t Find(std::string_view text) {
    size_t at = bytes_.find(text);
    while (at == std::string::npos && Receive()) at = bytes_.find(text);
    return at;
  }
  bool Have(size_t size) {
    while (bytes_.size() < size && Receive()) {
    }
    return bytes_.size() >= size;
  }
  std::string Take(size_t size) {
    std::string taken = bytes_.substr(0, size);
    bytes_.erase(0, size);
    return taken;
  }
  void ReadChunks(HttpResponse* response) {
    for (;;) {
      const size_t end = Find("\r\n");
      if (end == std::string::npos) return;
      const size_t size = std::strtoul(Take(end + 2).c_str(), nullptr, 16);
      if (!Have(size + 2)) return;
      const std::string chunk = Take(size + 2).substr(0, size);
      response->whole = size == 0;
      if (response->whole) return;
      response->body += chunk;
      response->chunks.push_back(chunk);
    }
  }

  TcpClient tcp_;
  std::string bytes_;  // received, and not returned yet
};

}  // namespace longstream::gateway

#endif  // LONGSTREAM_TESTS_GATEWAY_HTTP_HTTP_CLIENT_H_
