// A TCP connection as a test controls it: what it sends, and how it ends.
#ifndef LONGSTREAM_TESTS_TCP_CLIENT_H_
#define LONGSTREAM_TESTS_TCP_CLIENT_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace longstream {

// A client's first bytes of HTTP/2: the preface and an empty SETTINGS frame.
inline constexpr std::string_view kHttp2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
inline constexpr std::string_view kEmptySettings{"\0\0\0\x04\0\0\0\0\0", 9};

// A connection to 127.0.0.1:PORT, or to [::1]:PORT. It sends nothing by itself. The destructor
// closes it.
class TcpClient {
 public:
  // Throws std::runtime_error if it cannot connect.
  explicit TcpClient(int port, int family = AF_INET)
      : fd_(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(static_cast<uint16_t>(port));
    v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = v4.sin_port;
    v6.sin6_addr = IN6ADDR_LOOPBACK_INIT;
    const bool connected =
        family == AF_INET6 ? connect(fd_, reinterpret_cast<const sockaddr*>(&v6), sizeof(v6)) == 0
                           : connect(fd_, reinterpret_cast<const sockaddr*>(&v4), sizeof(v4)) == 0;
    if (connected) return;
    close(fd_);
    throw std::runtime_error("nobody listens on port " + std::to_string(port));
  }
  ~TcpClient() { Close(); }
  TcpClient(TcpClient&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  TcpClient& operator=(TcpClient&&) = delete;

  // Returns whether the connection took all bytes.
  bool Send(std::string_view bytes) const {
    return send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }

  // Reads until the server closes the connection, and returns what it sent. Throws
  // std::runtime_error if the server does not close it within `patience`.
  std::string ReceiveAll(std::chrono::milliseconds patience = std::chrono::seconds(30)) const {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    std::string received;
    for (;;) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
          deadline - std::chrono::steady_clock::now());
      pollfd readable{fd_, POLLIN, 0};
      if (left.count() <= 0 || poll(&readable, 1, static_cast<int>(left.count())) <= 0) {
        throw std::runtime_error("the server keeps the connection open");
      }
      char bytes[4096];
      const ssize_t count = recv(fd_, bytes, sizeof(bytes), 0);
      if (count <= 0) return received;  // closed or reset
      received.append(bytes, static_cast<size_t>(count));
    }
  }

  // Ends the side of the client; the server may still send.
  void CloseForWriting() const { shutdown(fd_, SHUT_WR); }
  // Closes the connection with RST instead of FIN.
  void Reset() {
    const linger at_once{1, 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    Close();
  }
  void Close() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }

  int fd() const { return fd_; }

 private:
  int fd_;
};

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_TCP_CLIENT_H_
