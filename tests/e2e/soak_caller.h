// One call of the soak test, and the ways in which its client may behave during the call.
#ifndef LONGSTREAM_TESTS_E2E_SOAK_CALLER_H_
#define LONGSTREAM_TESTS_E2E_SOAK_CALLER_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "longstream/v1/longstream.grpc.pb.h"

namespace longstream {

// kCancel cancels after a random number of messages, kDeadline sets a deadline of at most 200 ms,
// kSlow sleeps between messages.
enum class Behaviour { kPlain, kCancel, kDeadline, kSlow };

// Thread-safe. `random` decides when a client gives up and how it cuts its messages.
class SoakCaller {
 public:
  explicit SoakCaller(const std::string& address);

  // Adds `text` at `position` in messages of random lengths.
  grpc::Status Append(const std::string& session, uint64_t position, const std::string& text,
                      Behaviour behaviour, std::mt19937& random);

  // Appends the generated tokens to `tokens`.
  grpc::Status Generate(const v1::GenerateRequest& request, Behaviour behaviour,
                        std::mt19937& random, std::vector<int32_t>* tokens);

  // Puts the fork's id, which the server draws, into `session`. REQUIRES: behaviour is kPlain or
  // kDeadline.
  grpc::Status Fork(const std::string& parent, Behaviour behaviour, std::mt19937& random,
                    std::string* session);

  // Puts the text's log-probability into `sum`.
  grpc::Status Score(const std::string& model, const std::string& text, Behaviour behaviour,
                     std::mt19937& random, double* sum);

 private:
  std::unique_ptr<v1::Longstream::Stub> stub_;
};

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_E2E_SOAK_CALLER_H_
