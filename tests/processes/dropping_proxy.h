// A TCP proxy whose connections a test can cut.
#ifndef LONGSTREAM_TESTS_PROCESSES_DROPPING_PROXY_H_
#define LONGSTREAM_TESTS_PROCESSES_DROPPING_PROXY_H_

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace longstream {

// Forwards connections on a loopback port to another loopback port. While the other port is 0, new
// connections wait.
class DroppingProxy {
 public:
  // `port`: 0: any free one. A port that is refused for long should be one of FreePort().
  explicit DroppingProxy(int target, int port = 0) : target_(target), port_(port) { Listen(); }
  ~DroppingProxy() {
    stopping_ = true;
    if (listener_ >= 0) Refuse();
    for (std::thread& thread : threads_) thread.join();
  }
  DroppingProxy(const DroppingProxy&) = delete;
  DroppingProxy& operator=(const DroppingProxy&) = delete;

  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  int port() const { return port_; }
  int connections() const { return connections_; }

  // Further connections go to another port.
  void set_target(int port) { target_ = port; }

  // Cuts all connections. Further ones are served again.
  void Drop() {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const int socket : open_) shutdown(socket, SHUT_RDWR);
  }

  // Cuts all connections and closes the port, so that further ones are refused.
  void Refuse() {
    shutdown(listener_, SHUT_RDWR);
    accepting_.join();
    close(listener_);
    listener_ = -1;
    Drop();
  }
  // Opens the port again. REQUIRES: Refuse was called.
  void Listen() {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int reuse = 1;
    setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof(reuse));
    sockaddr_in address = Loopback(port_);
    socklen_t size = sizeof(address);
    bind(listener_, reinterpret_cast<sockaddr*>(&address), size);
    listen(listener_, 16);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    accepting_ = std::thread([this] { Accept(); });
  }

 private:
  static sockaddr_in Loopback(int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }

  void Accept() {
    while (!stopping_) {
      const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (client < 0) return;
      while (target_ == 0 && !stopping_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      const int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      sockaddr_in address = Loopback(target_);
      if (connect(server, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
        close(server);
        close(client);
        continue;
      }
      ++connections_;
      threads_.emplace_back([this, client, server] { Forward(client, server); });
    }
  }

  // Copies bytes in both directions until one side ends.
  void Forward(int client, int server) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      open_.push_back(client);
      open_.push_back(server);
    }
    pollfd ends[] = {{client, POLLIN, 0}, {server, POLLIN, 0}};
    while (poll(ends, 2, -1) > 0) {
      if (!Copy(ends[0], server) || !Copy(ends[1], client)) break;
    }
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      open_.remove(client);
      open_.remove(server);
    }
    close(client);
    close(server);
  }

  static bool Copy(const pollfd& from, int to) {
    if (from.revents == 0) return true;
    char bytes[4096];
    const ssize_t size = recv(from.fd, bytes, sizeof(bytes), 0);
    return size > 0 && send(to, bytes, static_cast<size_t>(size), MSG_NOSIGNAL) == size;
  }

  std::atomic<int> target_;
  int listener_ = -1;
  int port_ = 0;  // 0: not chosen yet
  std::atomic<bool> stopping_{false};
  std::atomic<int> connections_{0};
  std::mutex mutex_;
  std::list<int> open_;
  std::vector<std::thread> threads_;  // used by accepting_, then by the destructor
  std::thread accepting_;
};

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_PROCESSES_DROPPING_PROXY_H_
