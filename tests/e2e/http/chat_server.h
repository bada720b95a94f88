// A server with an HTTP listener and a model that chats, and what tests ask it.
#ifndef LONGSTREAM_TESTS_E2E_HTTP_CHAT_SERVER_H_
#define LONGSTREAM_TESTS_E2E_HTTP_CHAT_SERVER_H_

#include <chrono>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "client/connection.h"
#include "tests/e2e/http/http_client.h"
#include "tests/processes/server_process.h"
#include "tests/temporary_directory.h"

namespace longstream {

inline constexpr char kServerBinary[] = LONGSTREAM_BINARY_DIR "/bin/longstream-server";
inline constexpr char kGatewayBinary[] = LONGSTREAM_BINARY_DIR "/bin/longstream-gateway";
inline constexpr char kChatPath[] = "/v1/chat/completions";
inline constexpr char kCompletionsPath[] = "/v1/completions";

// Roles and contents.
using Conversation = std::vector<std::pair<std::string, std::string>>;

// A model with a chat template. The template writes plain text.
class ChatModelDirectory : public TemporaryDirectory {
 public:
  // The architecture "minimal", or that of one of the demo models.
  explicit ChatModelDirectory(const std::string& architecture = "minimal");

  // The value of --model that serves the model as "m". `options`: further keys, such as
  // ",options.step_delay_us=20000".
  std::string Flag(const std::string& options = "") const { return "m=" + string() + options; }
  // The arguments of a server with the model, and an HTTP listener on any port. `yaml`: further
  // lines of the configuration.
  std::vector<std::string> Arguments(const std::string& options = "",
                                     const std::string& yaml = "") const;
};

// The body of a chat request, at temperature 0.
Json ChatBody(const Conversation& conversation, int max_tokens = 12);
// The same for a stream.
Json StreamBody(const Conversation& conversation, int max_tokens = 12);

std::string TextOf(const HttpReply& reply);
// How the session of the answer was found: "new", "continued" or "forked".
std::string SessionOf(const HttpReply& reply);
// The joined pieces of the events of a chat's stream. Events that are no JSON throw.
std::string JoinedText(const std::vector<std::string>& events);

// A turn for a session that has read nothing, with the whole conversation.
v1::GenerateRequest WholeTurn(const std::string& session, const Conversation& conversation,
                              int max_tokens = 12);
// The answer of a session of its own, which ends then.
std::string FreshAnswer(client::Connection& connection, const Conversation& conversation,
                        int max_tokens = 12);

class ChatServer {
 public:
  // `security`: of the connection for gRPC.
  explicit ChatServer(const std::vector<std::string>& arguments,
                      const client::ChannelSecurity& security = {});

  ServerProcess& process() { return process_; }
  client::Connection& connection() { return connection_; }
  int http() const { return process_.http_port(); }
  // An error shows the server's log.
  HttpReply Chat(const Json& body, const Headers& headers = {}) const;
  // A sample of the metrics, 0 if it is absent. `labels`: such as {{"code", "200"}}.
  double Metric(const std::string& name,
                const std::map<std::string, std::string>& labels = {{"model", "m"}}) const;
  // The same for a metric without labels.
  double PlainMetric(const std::string& name) const;

 private:
  ServerProcess process_;
  client::Connection connection_;
};

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_E2E_HTTP_CHAT_SERVER_H_
