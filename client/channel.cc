// An interceptor adds the token, because gRPC's own credentials for calls need TLS.
#include "client/channel.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/client_interceptor.h>

#include <mutex>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "client/read_file.h"
#include "service/security/loopback.h"

namespace longstream::client {
namespace {

using grpc::experimental::ClientInterceptorFactoryInterface;
using grpc::experimental::ClientRpcInfo;
using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::Interceptor;
using grpc::experimental::InterceptorBatchMethods;

// The contents of the file with a certificate or a key that `option` names. No path: no contents.
std::string ReadPem(const std::string& option, const std::string& path) {
  if (path.empty()) return "";
  try {
    std::string text = ReadFile(path);
    if (!text.empty()) return text;
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(option + ": " + error.what());
  }
  throw std::invalid_argument(option + ": " + path + " is empty");
}

// A header may not have other characters. The message begins with `origin`, and does not repeat the
// token.
std::string CheckToken(const std::string& origin, std::string token) {
  constexpr const char* kSpaces = " \t\r\n";
  token.erase(0, token.find_first_not_of(kSpaces));
  token.erase(token.find_last_not_of(kSpaces) + 1);
  for (const char c : token) {
    if (c <= ' ' || c > '~') {
      throw std::invalid_argument(origin + ": the token has a character that is not allowed");
    }
  }
  if (token.empty()) throw std::invalid_argument(origin + ": the token is empty");
  return token;
}

// The token of each call. Thread-safe.
class TokenSource {
 public:
  explicit TokenSource(const ChannelSecurity& security)
      : file_(security.token_file),
        token_(file_.empty() ? CheckToken(security.token_origin, security.token)
                             : CheckToken(file_, ReadFile(file_))) {}

  // While the file is missing or wrong, the last token stays.
  std::string Token() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (file_.empty()) return token_;
    try {
      token_ = CheckToken(file_, ReadFile(file_));
    } catch (const std::invalid_argument&) {
    }
    return token_;
  }

 private:
  const std::string file_;
  std::mutex mutex_;  // guards token_
  std::string token_;
};

class TokenInterceptor final : public Interceptor {
 public:
  explicit TokenInterceptor(TokenSource* source) : source_(source) {}

  void Intercept(InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
      methods->GetSendInitialMetadata()->emplace("authorization", "Bearer " + source_->Token());
    }
    methods->Proceed();
  }

 private:
  TokenSource* const source_;
};

// The channel owns the factory, and its calls do not outlive the channel.
class TokenInterceptors final : public ClientInterceptorFactoryInterface {
 public:
  explicit TokenInterceptors(const ChannelSecurity& security) : source_(security) {}
  Interceptor* CreateClientInterceptor(ClientRpcInfo* /*info*/) override {
    return new TokenInterceptor(&source_);
  }

 private:
  TokenSource source_;
};

// Whether the address, as gRPC writes it, stays on this machine.
bool IsLocal(std::string_view server) {
  for (const std::string_view scheme : {"ipv4:", "ipv6:", "dns:///", "dns:"}) {
    if (server.starts_with(scheme)) return IsLoopback(server.substr(scheme.size()));
  }
  return server.starts_with("unix:") || IsLoopback(server);
}

bool HasToken(const ChannelSecurity& security) {
  return !security.token.empty() || !security.token_file.empty();
}

void Check(const std::string& server, const ChannelSecurity& security) {
  if (security.certificate.empty() != security.key.empty()) {
    throw std::invalid_argument("--cert and --key: give both or none of them");
  }
  if (!security.token.empty() && !security.token_file.empty()) {
    throw std::invalid_argument("--token and --token-file: give one of them");
  }
  if (HasToken(security) && !UsesTls(security) && !security.plaintext_token && !IsLocal(server)) {
    throw std::invalid_argument("the token would go to " + server +
                                " in plain text; use --tls, or --plaintext-token if you must");
  }
}

}  // namespace

bool UsesTls(const ChannelSecurity& security) {
  return security.tls || !security.ca.empty() || !security.certificate.empty() ||
         !security.key.empty();
}

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& server,
                                           const ChannelSecurity& security,
                                           const grpc::ChannelArguments& arguments) {
  Check(server, security);
  const std::shared_ptr<grpc::ChannelCredentials> credentials =
      UsesTls(security)
          ? grpc::SslCredentials({ReadPem("--ca", security.ca), ReadPem("--key", security.key),
                                  ReadPem("--cert", security.certificate)})
          : grpc::InsecureChannelCredentials();
  std::vector<std::unique_ptr<ClientInterceptorFactoryInterface>> interceptors;
  grpc::ChannelArguments chosen = arguments;
  if (HasToken(security)) {
    // A proxy that http_proxy names would read the token, even on its way to this machine.
    if (!UsesTls(security) && !security.plaintext_token) {
      chosen.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    }
    interceptors.push_back(std::make_unique<TokenInterceptors>(security));
  }
  return grpc::experimental::CreateCustomChannelWithInterceptors(server, credentials, chosen,
                                                                 std::move(interceptors));
}

}  // namespace longstream::client
