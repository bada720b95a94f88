// Header blocks: invalid ones, and long ones up to kMaxBlock. gRPC 1.51 keeps a header block
// without an end until the connection closes (docs/security.md), so the test must bound the blocks
// itself.
#include <chrono>
#include <string>
#include <utility>

#include "tests/e2e/hostile/attack.h"

namespace longstream {
namespace {

constexpr std::chrono::milliseconds kShort{5};
constexpr size_t kMaxBlock = 128 << 10;  // bytes of the header blocks of one connection
using F = Http2Frame;

// A HEADERS frame and a chain of CONTINUATION frames. The last one ends the block, or none does.
void ContinuationChain(Attacker& attacker) {
  AttackConnection connection(attacker.target.port);
  connection.Greet();
  const std::string block = HpackBlock(attacker.Headers(attacker.Method().path));
  connection.SendFrame(F::kHeaders, attacker.OneIn(2) ? F::kEndStream : F::kNone, 1, block);
  const size_t most = attacker.Below(kMaxBlock);
  for (size_t size = 0, frame = 0; size < most && frame < 1000; ++frame) {
    const std::string name = "x-" + std::to_string(frame);
    // Some frames have nothing in them, and some end in the middle of a header.
    std::string part;
    if (!attacker.OneIn(4)) part = HpackHeader(name, std::string(attacker.Below(2000), 'v'));
    if (attacker.OneIn(8)) part.resize(part.size() / 2);
    if (!connection.SendFrame(F::kContinuation, 0, 1, part)) break;
    size += part.size();
  }
  if (attacker.OneIn(2)) connection.SendFrame(F::kContinuation, F::kEndHeaders, 1, "");
  connection.ReceiveSome(kShort);
  attacker.LeaveOrHold(std::move(connection));
}

// Valid blocks with more headers than the server accepts, in one frame or many.
void ManyHeaders(Attacker& attacker) {
  AttackConnection connection(attacker.target.port);
  connection.Greet();
  for (uint32_t stream = 1; stream < 9; stream += 2) {
    Http2Headers headers = attacker.Headers(attacker.Method().path);
    for (uint32_t left = attacker.Below(300); left > 0; --left) {
      headers.emplace_back("x-" + std::to_string(left), attacker.OneIn(2) ? "" : "value");
    }
    const std::string block = HpackBlock(headers).substr(0, kHttp2MaxPayload);
    if (!connection.SendFrame(F::kHeaders, F::kEndHeaders, stream, block)) break;
  }
  connection.ReceiveSome(kShort);
  attacker.LeaveOrHold(std::move(connection));
}

// Blocks that break the rules of HPACK.
std::vector<std::string> BrokenBlocks() {
  std::string references;  // to one long header that was put into the table first
  for (int i = 0; i < 4000; ++i) references += '\xbe';
  return {"\x80",                                          // index 0
          "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f",  // an index over 2^64
          "\xff\x80\x80\x80\x80\x80\x80\x80\x80",          // an index without an end
          "\xfe",                                          // an index that the table does not have
          "\x3f\xff\xff\xff\xff\x0f",                      // a table of 4 GiB
          "\x20\x20\x20\x20",                              // the size of the table, four times
          std::string("\0\x7f\xff\xff\xff\xff\x7f", 7),    // a name of 4 GiB
          std::string("\0\x05", 2) + "ab",                 // a name that is longer than the block
          std::string("\0\x84\xff\xff\xff\xff", 6),        // Huffman code that is only padding
          std::string("\0\x81\x00\x01", 4) + "a",  // Huffman code of nothing that is allowed
          std::string("\0\0\0", 3),                // an empty name
          HpackHeader("X-Upper", "a"),
          HpackHeader("with space", "a"),
          HpackHeader("x", std::string("\0\r\n", 3)),
          HpackHeader("x-bin", "not base64!"),
          "\x40" + HpackText("x") + HpackText(std::string(4000, 'v')) + references};
}

void BrokenHpack(Attacker& attacker) {
  static const std::vector<std::string> blocks = BrokenBlocks();
  AttackConnection connection(attacker.target.port);
  connection.Greet();
  const std::string valid = HpackBlock(attacker.Headers(attacker.Method().path));
  const std::string& broken = blocks[attacker.Below(blocks.size())];
  const std::string block = attacker.OneIn(2) ? valid + broken : broken + valid;
  connection.SendFrame(F::kHeaders, F::kEndHeaders, 1, block);
  connection.SendFrame(F::kData, F::kEndStream, 1, GrpcMessage(""));
  connection.ReceiveSome(kShort);
  attacker.LeaveOrHold(std::move(connection));
}

// Headers that HPACK allows and HTTP or gRPC does not.
Http2Headers WrongHeaders(Attacker& attacker) {
  Http2Headers headers = attacker.Headers(attacker.Method().path);
  const size_t at = attacker.Below(headers.size());
  switch (attacker.Below(6)) {
    case 0:
      headers.erase(headers.begin() + static_cast<std::ptrdiff_t>(at));
      break;
    case 1:
      headers.push_back(headers[at]);
      break;
    case 2:
      headers[at].second = attacker.RandomBytes(attacker.Below(200));
      break;
    case 3:
      headers[at].second.clear();
      break;
    case 4: {
      static const Http2Headers more = {{"connection", "close"},
                                        {"transfer-encoding", "chunked"},
                                        {"host", "other"},
                                        {":status", "200"},
                                        {":protocol", "websocket"},
                                        {"content-length", "1"},
                                        {"grpc-timeout", "-1S"},
                                        {"grpc-timeout", "99999999999999999999n"},
                                        {"grpc-timeout", "1"},
                                        {"grpc-encoding", "br"},
                                        {"grpc-accept-encoding", ","},
                                        {"grpc-status", "0"},
                                        {"x-request-id", ""},
                                        {"x-request-id", std::string(5000, 'r')},
                                        {"grpc-tags-bin", "////"},
                                        {"grpc-trace-bin", "AAAA"},
                                        {"lb-cost-bin", "AAAAAAAAAAA"},
                                        {"grpc-previous-rpc-attempts", "99999999999"}};
      headers.push_back(more[attacker.Below(more.size())]);
      break;
    }
    default:
      headers[2].second = attacker.OneIn(2) ? "/" : "/" + std::string(attacker.Below(9000), 'p');
      break;
  }
  return headers;
}

void WrongHeadersOfACall(Attacker& attacker) {
  AttackConnection connection(attacker.target.port);
  connection.Greet();
  for (uint32_t stream = 1; stream < 9; stream += 2) {
    if (!connection.BeginCall(stream, WrongHeaders(attacker))) break;
    const std::string request = RandomRequest(*attacker.Method().request, attacker.random);
    connection.SendFrame(F::kData, F::kEndStream, stream, GrpcMessage(request));
  }
  connection.ReceiveSome(kShort);
  attacker.LeaveOrHold(std::move(connection));
}

}  // namespace

std::vector<Attack> HeaderAttacks() {
  return {{"chain of CONTINUATION", 4, ContinuationChain},
          {"many headers", 4, ManyHeaders},
          {"broken HPACK", 5, BrokenHpack},
          {"wrong headers", 6, WrongHeadersOfACall}};
}

}  // namespace longstream
