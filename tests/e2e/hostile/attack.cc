#include "tests/e2e/hostile/attack.h"

#include <utility>

namespace longstream {
namespace {

constexpr size_t kMaxHeld = 40;  // connections that one thread keeps open

}  // namespace

std::string Attacker::RandomBytes(size_t size) {
  std::string bytes;
  bytes.reserve(size);
  while (bytes.size() < size) bytes += static_cast<char>(random() & 0xff);
  return bytes;
}

Http2Headers Attacker::Headers(const std::string& path) {
  Http2Headers headers = GrpcHeaders(path);
  if (target.authorizations.empty()) return headers;
  const std::string& value = target.authorizations[Below(target.authorizations.size())];
  if (!value.empty()) headers.emplace_back("authorization", value);
  return headers;
}

void Attacker::LeaveOrHold(AttackConnection connection) {
  if (OneIn(3)) {
    Hold(std::move(connection));
  } else {
    Leave(std::move(connection));
  }
}

void Attacker::Leave(AttackConnection connection) {
  sent += connection.sent();
  connection.Leave(random);
}

void Attacker::Hold(AttackConnection connection) {
  held.push_back(std::move(connection));
  while (held.size() > kMaxHeld) {
    Leave(std::move(held.front()));
    held.pop_front();
  }
}

void Attacker::DropHeld() {
  for (AttackConnection& connection : held) Leave(std::move(connection));
  held.clear();
}

std::vector<Attack> AllAttacks() {
  std::vector<Attack> all;
  for (const std::vector<Attack>& some : {ConnectionAttacks(), FrameAttacks(), FloodAttacks(),
                                          HeaderAttacks(), RequestAttacks(), ScrapeAttacks()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

}  // namespace longstream
