// Frames that are random, or that break one rule of HTTP/2.
#include <chrono>
#include <string>
#include <utility>

#include "tests/e2e/hostile/attack.h"

namespace longstream {
namespace {

constexpr std::chrono::milliseconds kShort{5};
using F = Http2Frame;

void RandomFrames(Attacker& attacker) {
  AttackConnection connection(attacker.target.port);
  connection.Greet();
  for (uint32_t left = 1 + attacker.Below(40); left > 0; --left) {
    const std::string payload = attacker.RandomBytes(attacker.Below(300));
    // One of eight frame headers says a wrong length, so the rest is read at a wrong place.
    const size_t length = attacker.OneIn(8) ? attacker.Below(1 << 14) : payload.size();
    const uint32_t stream = attacker.OneIn(8) ? attacker.random() : attacker.Below(8);
    const auto type = static_cast<uint8_t>(
        attacker.OneIn(8) ? attacker.Below(256) : attacker.Below(F::kContinuation + 1));
    if (!connection.Send(FrameOfLength(length, type, static_cast<uint8_t>(attacker.Below(256)),
                                       stream, payload))) {
      break;
    }
  }
  connection.ReceiveSome(kShort);
  attacker.LeaveOrHold(std::move(connection));
}

// A call, and within it frames with one changed byte.
void DamagedFrames(Attacker& attacker) {
  AttackConnection connection(attacker.target.port);
  connection.Greet();
  const RemoteMethod& method = attacker.Method();
  std::string bytes =
      Frame(F::kHeaders, F::kEndHeaders, 1, HpackBlock(attacker.Headers(method.path))) +
      Frame(F::kData, F::kEndStream, 1,
            GrpcMessage(RandomRequest(*method.request, attacker.random)));
  for (uint32_t left = 1 + attacker.Below(4); left > 0; --left) {
    bytes[attacker.Below(bytes.size())] ^= static_cast<char>(1 << attacker.Below(8));
  }
  connection.Send(bytes);
  connection.ReceiveSome(kShort);
  attacker.LeaveOrHold(std::move(connection));
}

struct BrokenRule {
  uint8_t type;
  uint8_t flags;
  uint32_t stream;
  std::string payload;
};

// Frames whose size, stream or value is wrong. A call is open on stream 1.
std::vector<BrokenRule> BrokenRules() {
  const std::string headers = HpackBlock(GrpcHeaders("/a/b"));
  return {{F::kSettings, 0, 0, "12345"},
          {F::kSettings, 0, 1, "123456"},
          {F::kSettings, F::kAck, 0, "123456"},
          {F::kSettings, 0, 0, BigEndian(2, 2) + BigEndian(7, 4)},           // ENABLE_PUSH: 7
          {F::kSettings, 0, 0, BigEndian(4, 2) + BigEndian(0x80000000, 4)},  // a window over 2^31-1
          {F::kSettings, 0, 0, BigEndian(5, 2) + BigEndian(0, 4)},           // frames of 0 bytes
          {F::kSettings, 0, 0, BigEndian(5, 2) + BigEndian(0xffffff + 1, 4)},
          {F::kSettings, 0, 0, BigEndian(1, 2) + BigEndian(0xffffffff, 4)},  // a table of 4 GiB
          {F::kSettings, 0, 0, BigEndian(6, 2) + BigEndian(0, 4)},           // no headers at all
          {F::kPing, 0, 0, "1234567"},
          {F::kPing, 0, 0, "123456789"},
          {F::kPing, 0, 1, "12345678"},
          {F::kPing, F::kAck, 0, "12345678"},  // an answer without a question
          {F::kWindowUpdate, 0, 0, "123"},
          {F::kWindowUpdate, 0, 0, BigEndian(0, 4)},
          {F::kWindowUpdate, 0, 1, BigEndian(0, 4)},
          {F::kWindowUpdate, 0, 0, BigEndian(0x7fffffff, 4)},
          {F::kWindowUpdate, 0, 1, BigEndian(0x7fffffff, 4)},
          {F::kReset, 0, 1, "123"},
          {F::kReset, 0, 0, BigEndian(8, 4)},
          {F::kReset, 0, 9, BigEndian(8, 4)},  // of a stream that nobody opened
          {F::kPriority, 0, 1, "1234"},
          {F::kPriority, 0, 1, BigEndian(1, 4) + "a"},  // a stream that depends on itself
          {F::kGoAway, 0, 0, "1234567"},
          {F::kGoAway, 0, 1, "12345678"},
          {F::kGoAway, 0, 0, BigEndian(0, 4) + BigEndian(0, 4) + std::string(9000, 'x')},
          {F::kPushPromise, F::kEndHeaders, 1, BigEndian(2, 4) + headers},
          {F::kContinuation, F::kEndHeaders, 1, headers},
          {F::kHeaders, F::kEndHeaders, 0, headers},
          {F::kHeaders, F::kEndHeaders, 2, headers},
          {F::kHeaders, F::kEndHeaders, 1, headers},  // a second time, without the end
          {F::kHeaders, F::kEndHeaders | F::kPadded, 3, "\xff" + headers},
          {F::kHeaders, F::kPadded, 3, ""},
          {F::kData, 0, 0, "abc"},
          {F::kData, 0, 9, "abc"},
          {F::kData, F::kPadded, 1, "\xff"},
          {F::kData, F::kPadded, 1, ""},
          {F::kData, 0, 1, std::string(kHttp2MaxPayload + 1, '\0')},
          {0xfa, 0xff, 1, std::string(100, 'x')}};
}

void BrokenRuleOfHttp2(Attacker& attacker) {
  static const std::vector<BrokenRule> rules = BrokenRules();
  AttackConnection connection(attacker.target.port);
  connection.Greet();
  connection.BeginCall(1, attacker.Headers(attacker.Method().path));
  const BrokenRule& rule = rules[attacker.Below(rules.size())];
  connection.SendFrame(rule.type, rule.flags, rule.stream, rule.payload);
  // Half of the clients go on as if nothing had happened.
  if (attacker.OneIn(2)) connection.SendFrame(F::kData, F::kEndStream, 1, GrpcMessage(""));
  connection.ReceiveSome(kShort);
  attacker.LeaveOrHold(std::move(connection));
}

// The connection ends in the middle of a frame.
void HalfAFrame(Attacker& attacker) {
  AttackConnection connection(attacker.target.port);
  connection.Greet();
  const RemoteMethod& method = attacker.Method();
  const std::string bytes =
      Frame(F::kHeaders, F::kEndHeaders, 1, HpackBlock(attacker.Headers(method.path))) +
      Frame(F::kData, 0, 1, GrpcMessage(RandomRequest(*method.request, attacker.random)));
  connection.Send(bytes.substr(0, attacker.Below(bytes.size())));
  attacker.LeaveOrHold(std::move(connection));
}

}  // namespace

std::vector<Attack> FrameAttacks() {
  return {{"random frames", 8, RandomFrames},
          {"damaged frames", 6, DamagedFrames},
          {"broken rule of HTTP/2", 8, BrokenRuleOfHttp2},
          {"half a frame", 4, HalfAFrame}};
}

}  // namespace longstream
