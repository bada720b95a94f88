// Requests to every method of every service, each mangled in every way. The threads go
// through all pairs of a method and a way.
#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "tests/e2e/hostile/attack.h"
#include "tests/service/wire/wire_encoding.h"

namespace longstream {
namespace {

using std::chrono::milliseconds;
using F = Http2Frame;

constexpr milliseconds kShort{10};
constexpr uint32_t kStream = 1;

// One call on its own connection.
struct Mangler {
  Attacker& attacker;
  AttackConnection& connection;
  const RemoteMethod& method;

  void Begin(const Http2Headers& more = {}) const {
    Http2Headers headers = attacker.Headers(method.path);
    headers.insert(headers.end(), more.begin(), more.end());
    connection.BeginCall(kStream, headers);
  }
  // Sends DATA frames that are not too large.
  void Data(const std::string& bytes, bool end) const {
    size_t at = 0;
    do {
      const std::string part = bytes.substr(at, kHttp2MaxPayload);
      at += part.size();
      const bool last = end && at == bytes.size();
      if (!connection.SendFrame(F::kData, last ? F::kEndStream : F::kNone, kStream, part)) return;
      // The server's window grows while the client reads.
      if (at < bytes.size()) connection.ReceiveSome(milliseconds(1));
    } while (at < bytes.size());
  }
  std::string Request() const { return RandomRequest(*method.request, attacker.random); }
  // Some bytes that no message begins with.
  std::string Damaged() const {
    std::string request = Request() + attacker.RandomBytes(1 + attacker.Below(40));
    request[attacker.Below(request.size())] ^= static_cast<char>(1 << attacker.Below(8));
    return request;
  }
};

void Whole(const Mangler& call) {
  call.Begin();
  call.Data(GrpcMessage(call.Request()), true);
}

void OnlyHeaders(const Mangler& call) {
  call.connection.SendFrame(F::kHeaders, F::kEndHeaders | F::kEndStream, kStream,
                            HpackBlock(call.attacker.Headers(call.method.path)));
}

void NoMessage(const Mangler& call) {
  call.Begin();
  call.Data("", true);
}

void PartOfThePrefix(const Mangler& call) {
  call.Begin();
  call.Data(GrpcPrefix(0, 100).substr(0, 1 + call.attacker.Below(4)), call.attacker.OneIn(2));
}

// The client's side ends within the message, or never.
void PartOfTheMessage(const Mangler& call) {
  call.Begin();
  const std::string data = GrpcMessage(call.Damaged());
  call.Data(data.substr(0, 5 + call.attacker.Below(data.size() - 5)), call.attacker.OneIn(2));
}

void WrongLength(const Mangler& call) {
  call.Begin();
  const std::string request = call.Damaged();
  const uint64_t length = call.attacker.OneIn(2) ? request.size() / 2 : request.size() + 7;
  call.Data(GrpcPrefix(0, length) + request, true);
}

void TooLongByItsPrefix(const Mangler& call) {
  call.Begin();
  const uint64_t most = call.attacker.target.max_message_bytes;
  const uint64_t length = call.attacker.OneIn(2) ? 0xffffffff : most + 1;
  call.Data(GrpcPrefix(0, length) + call.Request(), call.attacker.OneIn(2));
}

void TooLong(const Mangler& call) {
  call.Begin();
  const size_t size = call.attacker.target.max_message_bytes + 1;
  call.Data(GrpcMessage(wire::Bytes(1, std::string(size, 'a'))), true);
}

// The longest message that is accepted, half of it.
void LongAndUnfinished(const Mangler& call) {
  call.Begin();
  const size_t size = call.attacker.target.max_message_bytes;
  call.Data(GrpcPrefix(0, size) + std::string(size / 2, '\0'), false);
}

void Compressed(const Mangler& call) {
  static constexpr const char* kEncodings[] = {"gzip", "deflate", "identity", "br", ""};
  call.Begin({{"grpc-encoding", kEncodings[call.attacker.Below(5)]}});
  call.Data(GrpcMessage("\x1f\x8b\x08" + call.Damaged(), call.attacker.OneIn(4) ? 0 : 1), true);
}

void UnknownFlag(const Mangler& call) {
  call.Begin();
  call.Data(GrpcMessage(call.Request(), static_cast<uint8_t>(2 + call.attacker.Below(254))), true);
}

void RandomMessage(const Mangler& call) {
  call.Begin();
  call.Data(GrpcMessage(call.attacker.RandomBytes(call.attacker.Below(2000))), true);
}

void DamagedMessage(const Mangler& call) {
  call.Begin();
  call.Data(GrpcMessage(call.Damaged()), true);
}

void TruncatedMessage(const Mangler& call) {
  call.Begin();
  const std::string request = call.Request();
  call.Data(GrpcMessage(request.substr(0, request.size() / 2)), true);
}

// Groups in groups, or very many empty values of one field.
void DeepOrWideMessage(const Mangler& call) {
  const auto field = static_cast<int>(1 + call.attacker.Below(12));
  const std::string part =
      call.attacker.OneIn(2) ? wire::Tag(field, 3) : wire::Bytes(field, wire::Bytes(1, ""));
  call.Begin();
  call.Data(GrpcMessage(wire::Repeat(part, 1 + call.attacker.Below(10000))), true);
}

void ManyMessages(const Mangler& call) {
  call.Begin();
  std::string data;
  for (uint32_t left = 2 + call.attacker.Below(20); left > 0; --left) {
    data += GrpcMessage(call.attacker.OneIn(8) ? call.Damaged() : call.Request());
  }
  call.Data(data, call.attacker.OneIn(2));
}

void ByteByByte(const Mangler& call) {
  call.Begin();
  for (const char byte : GrpcMessage(call.Request())) {
    call.connection.SendFrame(F::kData, 0, kStream, {&byte, 1});
  }
  call.Data("", true);
}

// Takes no byte of the answer.
void ClosedWindow(const Mangler& call) {
  call.connection.SendFrame(F::kSettings, 0, 0, BigEndian(4, 2) + BigEndian(0, 4));
  Whole(call);
}

void ResetWhileItRuns(const Mangler& call) {
  Whole(call);
  call.connection.ReceiveSome(kShort);
  call.connection.SendFrame(F::kReset, 0, kStream, BigEndian(call.attacker.Below(14), 4));
}

void GoodbyeWhileItRuns(const Mangler& call) {
  Whole(call);
  call.connection.SendFrame(F::kGoAway, 0, 0, BigEndian(0, 4) + BigEndian(0, 4));
}

void ShortTimeout(const Mangler& call) {
  static constexpr const char* kTimeouts[] = {"0n", "1n", "1m", "3m", "99999999H"};
  call.Begin({{"grpc-timeout", kTimeouts[call.attacker.Below(5)]}});
  call.Data(GrpcMessage(call.Request()), true);
}

// The headers again where trailers would be.
void HeadersTwice(const Mangler& call) {
  Whole(call);
  call.Begin();
}

constexpr void (*kWays[])(const Mangler&) = {
    Whole,        OnlyHeaders,        NoMessage,      PartOfThePrefix,   PartOfTheMessage,
    WrongLength,  TooLongByItsPrefix, TooLong,        LongAndUnfinished, Compressed,
    UnknownFlag,  RandomMessage,      DamagedMessage, TruncatedMessage,  DeepOrWideMessage,
    ManyMessages, ByteByByte,         ClosedWindow,   ResetWhileItRuns,  GoodbyeWhileItRuns,
    ShortTimeout, HeadersTwice};

void MangledRequest(Attacker& attacker) {
  const std::vector<RemoteMethod>& methods = attacker.target.methods;
  const size_t request = attacker.request;
  attacker.request += attacker.request_step;
  AttackConnection connection(attacker.target.port);
  connection.Greet();
  kWays[request / methods.size() % std::size(kWays)](
      {attacker, connection, methods[request % methods.size()]});
  if (!attacker.OneIn(3)) connection.ReceiveSome(kShort);
  attacker.LeaveOrHold(std::move(connection));
}

}  // namespace

size_t NumWaysToMangle() { return std::size(kWays); }

std::vector<Attack> RequestAttacks() { return {{"mangled request", 60, MangledRequest}}; }

}  // namespace longstream
