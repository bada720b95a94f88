// A connection of a hostile client. It never waits long for the server and reports no errors:
// the server may close it at any time.
#ifndef LONGSTREAM_TESTS_E2E_HOSTILE_ATTACK_CONNECTION_H_
#define LONGSTREAM_TESTS_E2E_HOSTILE_ATTACK_CONNECTION_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>

#include "tests/processes/http2_frames.h"
#include "tests/tcp_client.h"

namespace longstream {

class AttackConnection {
 public:
  // Throws std::runtime_error if nobody listens on the port.
  explicit AttackConnection(int port);
  AttackConnection(AttackConnection&&) = default;
  AttackConnection& operator=(AttackConnection&&) = delete;

  // Sends all bytes, unless the server closes the connection or takes none for half a second.
  // Returns whether it has sent all.
  bool Send(std::string_view bytes);
  // Sends the preface and SETTINGS (`settings`: the payload), and acknowledges the server's.
  bool Greet(std::string_view settings = {});
  bool SendFrame(uint8_t type, uint8_t flags, uint32_t stream, std::string_view payload);
  // Sends the headers of a call and leaves the client's side open.
  bool BeginCall(uint32_t stream, const Http2Headers& headers);

  // Reads and forgets what arrives within `patience`; returns earlier if the server closes the
  // connection.
  void Receive(std::chrono::milliseconds patience);
  // The same, but returns as soon as anything has arrived.
  void ReceiveSome(std::chrono::milliseconds patience);

  // Ends the connection in one of these ways: close, reset, or close for writing and read on.
  void Leave(std::mt19937& random);

  uint64_t sent() const { return sent_; }

 private:
  // Returns false if the connection has ended or nothing arrives within `patience`.
  bool ReceiveOnce(std::chrono::milliseconds patience);

  TcpClient socket_;
  uint64_t sent_ = 0;
  bool ended_ = false;
};

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_E2E_HOSTILE_ATTACK_CONNECTION_H_
