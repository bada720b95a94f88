// Feeds the wire form of messages to OpenSSL, piece by piece.
#include "service/server/request_digest.h"

#include <openssl/evp.h>

#include <array>
#include <cstdint>
#include <utility>

#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

namespace longstream {
namespace {

// A stream of bytes into a digest. A request may have many megabytes, so it is not copied whole.
class DigestStream final : public google::protobuf::io::CopyingOutputStream {
 public:
  explicit DigestStream(EVP_MD_CTX* context) : context_(context) {}
  bool Write(const void* bytes, int size) override {
    return EVP_DigestUpdate(context_, bytes, static_cast<size_t>(size)) == 1;
  }

 private:
  EVP_MD_CTX* const context_;
};

}  // namespace

void MessageDigest::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

MessageDigest::MessageDigest() : context_(EVP_MD_CTX_new()) {
  EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr);
}

MessageDigest::~MessageDigest() = default;

void MessageDigest::Add(const google::protobuf::Message& message) {
  // The length keeps apart what two messages have from what one has.
  const uint64_t length = message.ByteSizeLong();
  EVP_DigestUpdate(context_.get(), &length, sizeof(length));
  DigestStream digest(context_.get());
  google::protobuf::io::CopyingOutputStreamAdaptor adaptor(&digest);
  google::protobuf::io::CodedOutputStream coded(&adaptor);
  coded.SetSerializationDeterministic(true);
  message.SerializeWithCachedSizes(&coded);
}

std::string MessageDigest::Finish() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  EVP_DigestFinal_ex(context_.get(), digest.data(), &size);
  return std::string(reinterpret_cast<const char*>(digest.data()), size);
}

std::string DigestOf(v1::GenerateRequest* request) {
  v1::GenerateRequest ignored;
  ignored.mutable_session_id()->swap(*request->mutable_session_id());
  ignored.mutable_turn_id()->swap(*request->mutable_turn_id());
  if (request->has_resume()) ignored.set_allocated_resume(request->release_resume());
  ignored.mutable_twin_model()->swap(*request->mutable_twin_model());
  ignored.set_priority(request->priority());
  request->clear_priority();
  MessageDigest digest;
  digest.Add(*request);
  request->mutable_session_id()->swap(*ignored.mutable_session_id());
  request->mutable_turn_id()->swap(*ignored.mutable_turn_id());
  request->mutable_twin_model()->swap(*ignored.mutable_twin_model());
  if (ignored.has_resume()) request->set_allocated_resume(ignored.release_resume());
  request->set_priority(ignored.priority());
  return digest.Finish();
}

}  // namespace longstream
