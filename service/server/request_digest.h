// The digests of requests, by which the server tells a repeated turn from another one with its id.
#ifndef LONGSTREAM_SERVICE_SERVER_REQUEST_DIGEST_H_
#define LONGSTREAM_SERVICE_SERVER_REQUEST_DIGEST_H_

#include <memory>
#include <string>

#include "google/protobuf/message.h"
#include "longstream/v1/longstream.pb.h"

// Of OpenSSL.
struct evp_md_ctx_st;

namespace longstream {

// The SHA-256 of messages, in their order. The order of the entries of a map does not matter.
// Fields that the server does not know do not count.
class MessageDigest {
 public:
  MessageDigest();
  ~MessageDigest();
  MessageDigest(MessageDigest&&) noexcept = default;
  MessageDigest& operator=(MessageDigest&&) noexcept = default;

  void Add(const google::protobuf::Message& message);
  // The 32 bytes of the digest. Call it once.
  std::string Finish();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

// The digest of a request without the fields that may differ in a repeat: session_id, turn_id,
// resume, priority, twin_model. The session and the turn are those that the digest is compared for.
// The request is the same again when the function returns.
std::string DigestOf(v1::GenerateRequest* request);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVER_REQUEST_DIGEST_H_
