// A channel to a server, with TLS and a token if wanted.
#ifndef LONGSTREAM_CLIENT_CHANNEL_H_
#define LONGSTREAM_CLIENT_CHANNEL_H_

#include <memory>
#include <string>

namespace grpc {
class Channel;
class ChannelArguments;
}  // namespace grpc

namespace longstream::client {

// How the client knows the server, and proves who it is. Paths are those of PEM files.
struct ChannelSecurity {
  bool tls = false;         // implied by each of the next three
  std::string ca;           // the authorities of the server's certificate; empty: the system's
  std::string certificate;  // the client's own
  std::string key;          // of that certificate
  std::string token;
  std::string token_origin = "--token";  // names the token in errors
  std::string token_file;  // read again for each call, so that the token in it may be replaced
  // Sends the token without TLS to other hosts too.
  bool plaintext_token = false;
};

bool UsesTls(const ChannelSecurity& security);

// Throws std::invalid_argument if a file cannot be read, if the options do not fit together, or if
// the token would go to another host in plain text.
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& server,
                                           const ChannelSecurity& security,
                                           const grpc::ChannelArguments& arguments);

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_CHANNEL_H_
