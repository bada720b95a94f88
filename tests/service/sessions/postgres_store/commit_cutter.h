// A TCP proxy that cuts a connection at its COMMIT.
#ifndef LONGSTREAM_TESTS_SERVICE_SESSIONS_POSTGRES_STORE_COMMIT_CUTTER_H_
#define LONGSTREAM_TESTS_SERVICE_SESSIONS_POSTGRES_STORE_COMMIT_CUTTER_H_

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace longstream::store {

// Forwards connections to a port of the loopback. The destructor waits until all have ended.
class CommitCutter {
 public:
  enum class Cut {
    kNone,
    kBefore,  // the server does not get the COMMIT
    kAfter,   // the client does not get the answer
  };

  explicit CommitCutter(int target) : target_(target) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = Loopback(0);
    socklen_t size = sizeof(address);
    bind(listener_, reinterpret_cast<sockaddr*>(&address), size);
    listen(listener_, 16);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    accepting_ = std::thread([this] { Accept(); });
  }
  ~CommitCutter() {
    shutdown(listener_, SHUT_RDWR);
    accepting_.join();
    close(listener_);
    for (std::thread& thread : threads_) thread.join();
  }
  CommitCutter(const CommitCutter&) = delete;
  CommitCutter& operator=(const CommitCutter&) = delete;

  int port() const { return port_; }
  // How the next COMMIT is cut; later ones are not.
  void CutNext(Cut cut) { cut_ = cut; }

 private:
  static sockaddr_in Loopback(int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }

  void Accept() {
    while (true) {
      const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (client < 0) return;
      threads_.emplace_back([this, client] { Forward(client); });
    }
  }

  void Forward(int client) {
    const int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in address = Loopback(target_);
    bool is_open =
        connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
    bool drops_answers = false;
    while (is_open) {
      pollfd both[] = {{client, POLLIN, 0}, {server, POLLIN, 0}};
      if (poll(both, 2, -1) < 0) break;
      char buffer[65536];
      if (both[0].revents != 0) {
        const ssize_t got = recv(client, buffer, sizeof(buffer), 0);
        if (got <= 0) break;
        const std::string_view bytes(buffer, static_cast<size_t>(got));
        const bool commits = bytes.find(std::string_view("COMMIT\0", 7)) != bytes.npos;
        const Cut cut = commits ? cut_.exchange(Cut::kNone) : Cut::kNone;
        if (cut == Cut::kBefore) break;
        drops_answers = drops_answers || cut == Cut::kAfter;
        is_open = send(server, buffer, bytes.size(), MSG_NOSIGNAL) == got;
      }
      if (both[1].revents != 0) {
        const ssize_t got = recv(server, buffer, sizeof(buffer), 0);
        if (got <= 0 || drops_answers) break;
        is_open = is_open && send(client, buffer, static_cast<size_t>(got), MSG_NOSIGNAL) == got;
      }
    }
    close(client);
    close(server);
  }

  const int target_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<Cut> cut_{Cut::kNone};
  std::thread accepting_;
  std::vector<std::thread> threads_;
};

}  // namespace longstream::store

#endif  // LONGSTREAM_TESTS_SERVICE_SESSIONS_POSTGRES_STORE_COMMIT_CUTTER_H_
