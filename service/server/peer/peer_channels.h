// The connections of this replica to its peers.
#ifndef LONGSTREAM_SERVICE_SERVER_PEER_PEER_CHANNELS_H_
#define LONGSTREAM_SERVICE_SERVER_PEER_PEER_CHANNELS_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "service/fleet/fleet_store.h"
#include "service/security/certificates.h"

namespace longstream {

// Thread-safe. No function blocks.
class PeerChannels {
 public:
  struct Options {
    // For TLS: the certificate of this replica is its client's certificate, and client_ca signs
    // those of the peers. Null: plain text.
    std::shared_ptr<const CurrentCertificates> certificates = nullptr;
    // The bearer token of each call. Empty: none.
    std::function<std::string()> token = nullptr;
    // Whether a token may go to other hosts without TLS.
    bool plaintext_tokens = false;
  };

  explicit PeerChannels(Options options) : options_(std::move(options)) {}

  // Keeps one channel for each of the replicas. A replica whose address, or whose certificate here,
  // has changed gets a new one; calls on the old one go on. Returns the names of replicas that were
  // here before and have gone.
  std::vector<fleet::ReplicaName> Set(const std::vector<fleet::Replica>& replicas)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Null: the replica is not known, or a token would go to it in plain text.
  std::shared_ptr<grpc::Channel> Find(const fleet::ReplicaName& name) const
      ABSL_LOCKS_EXCLUDED(mutex_);
  std::string Token() const { return options_.token ? options_.token() : std::string(); }

 private:
  struct Line {
    std::string address;
    std::shared_ptr<const Certificates> certificates;  // with which the channel was made
    std::shared_ptr<grpc::Channel> channel;
  };

  std::shared_ptr<grpc::Channel> NewChannel(const std::string& address,
                                            const Certificates* certificates) const;

  const Options options_;
  mutable absl::Mutex mutex_;
  std::map<fleet::ReplicaName, Line> lines_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_PEER_PEER_CHANNELS_H_
