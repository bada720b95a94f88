// The calls of sockets.
#include "service/connections/streams/byte_stream.h"

#include <sys/socket.h>

#include <cerrno>

namespace longstream {
namespace {

ByteStream::Moved MovedBy(ssize_t count) {
  using Outcome = ByteStream::Outcome;
  if (count > 0) return {Outcome::kDone, static_cast<size_t>(count)};
  const bool must_wait = count < 0 && (errno == EAGAIN || errno == EINTR);
  return {must_wait ? Outcome::kWait : Outcome::kEnded};
}

}  // namespace

ByteStream::Moved PlainStream::Read(char* bytes, size_t size) {
  return MovedBy(recv(descriptor(), bytes, size, MSG_DONTWAIT));
}

ByteStream::Moved PlainStream::Write(std::string_view bytes) {
  return MovedBy(send(descriptor(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
}

void PlainStream::CloseForWriting() { shutdown(descriptor(), SHUT_WR); }

}  // namespace longstream
