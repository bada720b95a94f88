#include "tests/e2e/hostile/attack_connection.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

namespace longstream {
namespace {

constexpr int kSendPatienceMs = 500;
constexpr std::chrono::milliseconds kGoodbyePatience{50};

}  // namespace

AttackConnection::AttackConnection(int port) : socket_(port) {
  fcntl(socket_.fd(), F_SETFL, O_NONBLOCK);
}

bool AttackConnection::Send(std::string_view bytes) {
  while (!bytes.empty() && !ended_) {
    const ssize_t count = send(socket_.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count > 0) {
      bytes.remove_prefix(static_cast<size_t>(count));
      sent_ += static_cast<uint64_t>(count);
      continue;
    }
    pollfd writable{socket_.fd(), POLLOUT, 0};
    const bool full = count < 0 && errno == EAGAIN;
    ended_ = !full || poll(&writable, 1, kSendPatienceMs) <= 0;
  }
  return bytes.empty();
}

bool AttackConnection::Greet(std::string_view settings) {
  return Send(kHttp2Preface) && SendFrame(Http2Frame::kSettings, 0, 0, settings) &&
         SendFrame(Http2Frame::kSettings, Http2Frame::kAck, 0, "");
}

bool AttackConnection::SendFrame(uint8_t type, uint8_t flags, uint32_t stream,
                                 std::string_view payload) {
  return Send(Frame(type, flags, stream, payload));
}

bool AttackConnection::BeginCall(uint32_t stream, const Http2Headers& headers) {
  return SendFrame(Http2Frame::kHeaders, Http2Frame::kEndHeaders, stream, HpackBlock(headers));
}

void AttackConnection::Receive(std::chrono::milliseconds patience) {
  const auto until = std::chrono::steady_clock::now() + patience;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        until - std::chrono::steady_clock::now());
    if (left.count() <= 0 || !ReceiveOnce(left)) return;
  }
}

void AttackConnection::ReceiveSome(std::chrono::milliseconds patience) { ReceiveOnce(patience); }

bool AttackConnection::ReceiveOnce(std::chrono::milliseconds patience) {
  pollfd readable{socket_.fd(), POLLIN, 0};
  if (ended_ || poll(&readable, 1, static_cast<int>(patience.count())) <= 0) return false;
  char bytes[16384];
  const ssize_t count = recv(socket_.fd(), bytes, sizeof(bytes), 0);
  ended_ = count == 0 || (count < 0 && errno != EAGAIN);
  return !ended_;
}

void AttackConnection::Leave(std::mt19937& random) {
  switch (random() % 3) {
    case 0:
      socket_.Reset();
      break;
    case 1:
      socket_.CloseForWriting();
      Receive(kGoodbyePatience);
      break;
    default:
      break;
  }
  socket_.Close();
  ended_ = true;
}

}  // namespace longstream
