// The state of the machine as bytes.
#include <string>
#include <type_traits>

#include "service/sessions/fleet/ownership.h"

namespace longstream::fleet {

namespace {

class Writer {
 public:
  explicit Writer(std::string* bytes) : bytes_(bytes) {}

  // Numbers are short: seven bits a byte.
  template <typename T>
  requires std::is_integral_v<T> || std::is_enum_v<T> Writer& Add(T value) {
    auto rest = static_cast<uint64_t>(value);
    for (; rest >= 0x80; rest >>= 7) bytes_->push_back(static_cast<char>(rest | 0x80));
    bytes_->push_back(static_cast<char>(rest));
    return *this;
  }
  Writer& Add(const std::string& text) {
    Add(text.size());
    bytes_->append(text);
    return *this;
  }
  Writer& Add(const SessionId& id) { return Add(id.high).Add(id.low); }
  Writer& Add(const SessionKey& key) { return Add(key.tenant).Add(key.id); }
  Writer& Add(const std::optional<CallId>& call) {
    return Add(call.has_value()).Add(call.value_or(0));
  }
  Writer& Add(const Transaction& transaction) {
    return Add(transaction.kind)
        .Add(transaction.fence.epoch)
        .Add(transaction.fence.version)
        .Add(transaction.turn)
        .Add(transaction.owner);
  }

 private:
  std::string* const bytes_;
};

void Append(Writer& writer, const SessionState& state) {
  const SessionWork& now = state.now();
  writer.Add(state.key).Add(state.owned).Add(state.checked).Add(state.copy).Add(state.may_leave);
  writer.Add(state.epoch).Add(state.version).Add(state.last_use).Add(state.offers);
  writer.Add(state.work).Add(state.phase).Add(now.turn).Add(now.turn_started);
  writer.Add(now.call).Add(state.close).Add(now.relays.size());
  for (const Relay& relay : now.relays) writer.Add(relay.peer).Add(relay.number);
  writer.Add(now.peer).Add(now.request).Add(now.row_epoch).Add(now.row_version);
  writer.Add(now.reads).Add(now.turn_refused).Add(now.transaction);
  writer.Add(now.unknown).Add(now.settling).Add(now.waiting).Add(state.undecided);
  writer.Add(now.operation).Add(now.timer).Add(now.commit_timer).Add(state.residency_timer);
}

}  // namespace

void Ownership::AppendBytes(std::string* bytes) const {
  Writer writer(bytes);
  writer.Add(self_).Add(sessions_.size());
  for (const auto& [key, state] : sessions_) Append(writer, state);
  writer.Add(relayed_.size());
  for (const auto& [number, relayed] : relayed_) {
    writer.Add(number).Add(relayed.call).Add(relayed.session).Add(relayed.peer);
  }
  writer.Add(peers_.size());
  for (const ReplicaName& peer : peers_) writer.Add(peer);
  writer.Add(to_offer_.size());
  for (const SessionKey& key : to_offer_) writer.Add(key);
  writer.Add(next_peer_).Add(lease_valid_).Add(draining_).Add(grace_over_).Add(exited_);
  writer.Add(generation_).Add(last_number_).Add(uses_);
}

}  // namespace longstream::fleet
