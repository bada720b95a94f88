// Clients that do nothing wrong: each has a connection of its own and runs one conversation after
// the other. Every turn must give the tokens that it gives when nothing else runs.
#ifndef LONGSTREAM_TESTS_E2E_HOSTILE_HONEST_STREAMS_H_
#define LONGSTREAM_TESTS_E2E_HOSTILE_HONEST_STREAMS_H_

#include <grpcpp/support/status.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "client/channel.h"
#include "longstream/v1/longstream.pb.h"

namespace longstream {

class HonestStreams {
 public:
  // Runs the turns of every stream alone, to know what they must give. Throws std::runtime_error if
  // one fails.
  // `security`: how the clients prove who they are.
  HonestStreams(std::string address, client::ChannelSecurity security,
                const std::vector<std::string>& models, int streams);
  ~HonestStreams() { Stop(); }
  HonestStreams(const HonestStreams&) = delete;
  HonestStreams& operator=(const HonestStreams&) = delete;

  // Connects all streams and lets them generate until Stop.
  void Start();
  // Lets each stream finish its conversation, and closes the connections.
  void Stop();

  // All tokens that have arrived since the streams exist; any thread may ask.
  uint64_t tokens() const { return tokens_; }
  int conversations() const { return conversations_; }
  // Calls that failed, and turns with wrong tokens. Each is printed.
  int faults() const { return faults_; }

  // Whether a session with this id belongs to these streams.
  static bool Owns(const std::string& session);

 private:
  struct Stream {
    std::string model;
    // The turns of a conversation, without a session id, and the tokens of each.
    std::vector<v1::GenerateRequest> turns;
    std::vector<std::vector<int32_t>> tokens;
  };
  class Client;

  void Run(const Stream& stream, Client& client);
  // Opens a session, runs its turns and closes it.
  grpc::Status Converse(const Stream& stream, const std::string& id, Client& client);
  void Report(const std::string& sentence);

  const std::string address_;
  const client::ChannelSecurity security_;
  std::vector<Stream> streams_;
  std::vector<std::thread> threads_;
  std::atomic<bool> stop_ = false;
  std::atomic<uint64_t> tokens_ = 0;
  std::atomic<uint64_t> sessions_ = 0;
  std::atomic<int> conversations_ = 0;
  std::atomic<int> faults_ = 0;
  std::mutex print_;
};

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_E2E_HOSTILE_HONEST_STREAMS_H_
