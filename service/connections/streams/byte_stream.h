// The bytes of a connection that does not block, in plain text or over TLS.
#ifndef LONGSTREAM_SERVICE_CONNECTIONS_STREAMS_BYTE_STREAM_H_
#define LONGSTREAM_SERVICE_CONNECTIONS_STREAMS_BYTE_STREAM_H_

#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include "service/connections/descriptor.h"
#include "service/security/credentials.h"

namespace longstream {

// Not thread-safe.
class ByteStream {
 public:
  enum class Outcome {
    kDone,   // at least one byte was read or written
    kWait,   // call again when the socket becomes readable or writable
    kEnded,  // the client has closed its side, or the connection has failed
    kWrong,  // the client does not speak the protocol of the stream
  };
  struct Moved {
    Outcome outcome;
    size_t bytes = 0;
  };

  virtual ~ByteStream() = default;

  virtual Moved Read(char* bytes, size_t size) = 0;
  virtual Moved Write(std::string_view bytes) = 0;
  // Tells the client that no byte follows.
  virtual void CloseForWriting() = 0;
  // The names in the client's certificate, which was verified; none: there is none.
  virtual std::vector<CertificateName> PeerNames() const { return {}; }

  int descriptor() const { return socket_.number(); }

 protected:
  explicit ByteStream(Descriptor socket) : socket_(std::move(socket)) {}

 private:
  Descriptor socket_;
};

// Without TLS.
class PlainStream final : public ByteStream {
 public:
  explicit PlainStream(Descriptor socket) : ByteStream(std::move(socket)) {}

  Moved Read(char* bytes, size_t size) override;
  Moved Write(std::string_view bytes) override;
  void CloseForWriting() override;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_CONNECTIONS_STREAMS_BYTE_STREAM_H_
