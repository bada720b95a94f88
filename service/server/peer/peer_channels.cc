// Makes channels that connect again quickly: the pod of a replica may be replaced at any time.
#include "service/server/peer/peer_channels.h"

#include <utility>

#include "service/security/loopback.h"
#include "service/server/peer/peer_limits.h"

namespace longstream {
namespace {

// gRPC counts these times in milliseconds.
constexpr int kFirstBackoff = 100;
constexpr int kMostBackoff = 500;
constexpr int kConnectTimeout = 5'000;  // with the handshake
constexpr int kLookUpEvery = 500;       // the address of the name of a replaced pod changes
// The limit of a message of a relayed turn. The messages about sessions are smaller.
constexpr int kMaxRelayedMessageBytes = 64 << 20;

grpc::ChannelArguments ArgumentsOfChannel() {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstBackoff);
  // gRPC takes this for the time of one attempt.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectTimeout);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMostBackoff);
  arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, kLookUpEvery);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kPeerPingEvery);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kPeerPingTimeout);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kPeerAheadBytes);
  arguments.SetMaxReceiveMessageSize(kMaxRelayedMessageBytes);
  // A proxy that the environment names would read the token.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  return arguments;
}

}  // namespace

std::shared_ptr<grpc::Channel> PeerChannels::NewChannel(const std::string& address,
                                                        const Certificates* certificates) const {
  std::shared_ptr<grpc::ChannelCredentials> credentials;
  if (certificates != nullptr) {
    credentials = grpc::SslCredentials(
        {certificates->client_ca, certificates->key, certificates->certificate});
  } else if (options_.token == nullptr || options_.plaintext_tokens || IsLoopback(address)) {
    credentials = grpc::InsecureChannelCredentials();
  } else {
    return nullptr;
  }
  return grpc::CreateCustomChannel("dns:///" + address, credentials, ArgumentsOfChannel());
}

std::vector<fleet::ReplicaName> PeerChannels::Set(const std::vector<fleet::Replica>& replicas) {
  const std::shared_ptr<const Certificates> current =
      options_.certificates == nullptr ? nullptr : options_.certificates->Get();
  std::map<fleet::ReplicaName, Line> before;  // destroyed without the lock
  absl::MutexLock lock(&mutex_);
  before.swap(lines_);
  for (const fleet::Replica& replica : replicas) {
    Line line{replica.peer_address, current, nullptr};
    const auto found = before.find(replica.name);
    if (found != before.end() && found->second.address == line.address &&
        found->second.certificates == current) {
      line.channel = found->second.channel;
    } else {
      line.channel = NewChannel(line.address, current.get());
    }
    lines_.insert_or_assign(replica.name, std::move(line));
  }
  std::vector<fleet::ReplicaName> gone;
  for (const auto& [name, line] : before) {
    if (!lines_.contains(name)) gone.push_back(name);
  }
  return gone;
}

std::shared_ptr<grpc::Channel> PeerChannels::Find(const fleet::ReplicaName& name) const {
  absl::MutexLock lock(&mutex_);
  const auto found = lines_.find(name);
  return found == lines_.end() ? nullptr : found->second.channel;
}

}  // namespace longstream
