// Options and output that the commands share.
#include "client/commands/commands.h"

#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "client/interrupt.h"
#include "client/json/message_json.h"
#include "client/output.h"

namespace longstream::client {
namespace {

// gRPC itself would read "localhost" as localhost:443, and a URL or a path as the name of a host.
std::string CheckServerAddress(const std::string& text) {
  constexpr const char* kExpected = "; expected host:port, such as 127.0.0.1:50051, or unix:PATH";
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) {
    return std::string("an empty address") + kExpected;
  }
  for (const char* scheme : {"unix:", "unix-abstract:", "dns:", "ipv4:", "ipv6:", "vsock:"}) {
    if (text.starts_with(scheme)) return "";
  }
  const size_t colon = text.rfind(':');
  const std::string port = colon == std::string::npos ? "" : text.substr(colon + 1);
  const bool is_host = colon > 0 && text.find('/') == std::string::npos;
  if (is_host && WholeNumber(1, 65535)(port).empty()) return "";
  return "'" + text + "' is no address" + kExpected;
}

// Without one of the options, the variables count, the first before the second.
ChannelSecurity WithTokenOfEnvironment(ChannelSecurity security) {
  if (!security.token.empty() || !security.token_file.empty()) return security;
  constexpr const char* kToken = "LONGSTREAM_TOKEN";
  const auto value = [](const char* name) {
    const char* const text = std::getenv(name);
    return std::string(text == nullptr ? "" : text);
  };
  security.token = value(kToken);
  security.token_origin = kToken;
  if (security.token.empty()) security.token_file = value("LONGSTREAM_TOKEN_FILE");
  return security;
}

std::chrono::milliseconds Milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

Connection MakeConnection(const Global& global) {
  try {
    Connection connection(global.server, SecurityOf(global));
    connection.set_resume_timeout(Milliseconds(global.retry_seconds));
    return connection;
  } catch (const std::invalid_argument& error) {
    throw CLI::ValidationError(error.what());
  }
}

// The models that are being loaded; only `model` counts unless it is empty.
std::vector<std::string> LoadingModels(const v1::ListModelsResponse& list,
                                       const std::string& model) {
  std::vector<std::string> loading;
  for (const v1::Model& one : list.models()) {
    if (!model.empty() && one.name() != model) continue;
    if (one.state() == v1::MODEL_STATE_LOADING) loading.push_back(one.name());
  }
  return loading;
}

// The time of --wait.
class WaitingTime {
 public:
  explicit WaitingTime(const Global& global)
      : waits_(global.wait_seconds > 0), end_(Clock::now() + Milliseconds(global.wait_seconds)) {}

  bool waits() const { return waits_; }
  std::chrono::milliseconds left() const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(end_ - Clock::now());
  }

 private:
  using Clock = std::chrono::steady_clock;

  const bool waits_;
  const Clock::time_point end_;
};

}  // namespace

CLI::Validator ServerAddress() { return {CheckServerAddress, ""}; }

CLI::Validator WholeNumber(uint64_t least, uint64_t most) {
  return {[least, most](const std::string& text) {
            uint64_t number = 0;
            const char* end = text.data() + text.size();
            const auto [stop, error] = std::from_chars(text.data(), end, number);
            const bool is_decimal =
                error == std::errc() && stop == end && (text.size() == 1 || text.front() != '0');
            if (is_decimal && number >= least && number <= most) return std::string();
            return "expected a whole number from " + std::to_string(least) + " to " +
                   std::to_string(most) + ", found '" + text + "'";
          },
          ""};
}

CLI::Validator Number(double least, double most) {
  return {[least, most](const std::string& text) {
            double number = 0;
            // This is false for NaN, too.
            const bool is_in_range =
                CLI::detail::lexical_cast(text, number) && number >= least && number <= most;
            if (is_in_range) return std::string();
            std::ostringstream error;
            error << "expected a number from " << least << " to " << most << ", found '" << text
                  << "'";
            return error.str();
          },
          ""};
}

void AddSecurityOptions(CLI::App* app, ChannelSecurity* security) {
  app->add_flag("--tls", security->tls, "use TLS")->envname("LONGSTREAM_TLS");
  app->add_option("--ca", security->ca,
                  "PEM file: authorities of the server's certificate; none: those of the system")
      ->envname("LONGSTREAM_CA");
  app->add_option("--cert", security->certificate, "PEM file: the client's certificate")
      ->envname("LONGSTREAM_CERT");
  app->add_option("--key", security->key, "PEM file: the key of --cert")->envname("LONGSTREAM_KEY");
  app->add_option("--token", security->token,
                  "bearer token; others on this machine can see it, so better use the variable "
                  "LONGSTREAM_TOKEN")
      ->check([](const std::string& token) { return token.empty() ? "the token is empty" : ""; });
  app->add_option("--token-file", security->token_file,
                  "file with the bearer token (variable: LONGSTREAM_TOKEN_FILE)");
  app->add_flag("--plaintext-token", security->plaintext_token,
                "send the token to another host without TLS");
}

ChannelSecurity SecurityOf(const Global& global) { return WithTokenOfEnvironment(global.security); }

Connection Connect(const Global& global, const std::string& model) {
  return ConnectToAll(global, {model});
}

Connection ConnectToAll(const Global& global, const std::vector<std::string>& models) {
  Connection connection = MakeConnection(global);
  const WaitingTime time(global);
  if (!time.waits()) return connection;
  for (const std::string& model : models) connection.WaitUntilServing(model, time.left());
  return connection;
}

Connection ConnectToSession(const Global& global, const std::string& session,
                            const std::string& twin) {
  Connection connection = MakeConnection(global);
  const WaitingTime time(global);
  if (!time.waits()) return connection;
  connection.WaitUntilSessionServes(session, time.left());
  if (!twin.empty()) connection.WaitUntilServing(twin, time.left());
  return connection;
}

Connection ConnectToLoaded(const Global& global, const std::string& model,
                           std::vector<std::string>* loading) {
  constexpr std::chrono::milliseconds kPause{50};
  const WaitingTime time(global);
  Connection connection = MakeConnection(global);
  loading->clear();
  if (!time.waits()) return connection;
  while (true) {
    *loading = LoadingModels(connection.WaitForModels(time.left()), model);
    if (loading->empty() || time.left().count() <= 0) return connection;
    std::this_thread::sleep_for(kPause);
    if (Interrupted()) throw Interruption();
  }
}

Session OpenSession(Connection connection, const v1::OpenSessionRequest& request) {
  connection.set_resume_timeout(std::chrono::milliseconds(0));
  Session session(connection, request);
  session.set_on_close_failed([](const std::string& id, const CallError& error) {
    std::cerr << "session " << id << " was not closed: " << error.what() << "\n";
  });
  return session;
}

Session OpenSession(const Connection& connection, const std::string& model) {
  v1::OpenSessionRequest request;
  request.set_model(model);
  return OpenSession(connection, request);
}

Session AttachSession(Connection connection, const std::string& id) {
  connection.set_resume_timeout(std::chrono::milliseconds(0));
  return Session::Attach(connection, id);
}

void AddAdminOption(CLI::App* app, std::string* address) {
  app->add_option("--admin", *address, "the server's admin.listen, needed: unix:PATH or host:port")
      ->envname("LONGSTREAM_ADMIN")
      ->check(ServerAddress());
}

AdminConnection ConnectToAdmin(const Global& global, const std::string& address) {
  // CLI11's own error would not name the variable.
  if (address.empty()) {
    throw CLI::ValidationError("--admin or the variable LONGSTREAM_ADMIN is required");
  }
  try {
    return {address, SecurityOf(global)};
  } catch (const std::invalid_argument& error) {
    throw CLI::ValidationError(error.what());
  }
}

void SetSeconds(double seconds, google::protobuf::Duration* duration) {
  duration->set_seconds(static_cast<int64_t>(seconds));
  duration->set_nanos(
      static_cast<int32_t>((seconds - static_cast<double>(duration->seconds())) * 1e9));
}

std::string HumanBytes(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 4) {
    value /= 1024;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof(text), unit == 0 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
  return text;
}

void PrintJson(const google::protobuf::Message& message) {
  Print(MessageJson(message, /*lines=*/true));
}

double Seconds(const google::protobuf::Duration& duration) {
  return static_cast<double>(duration.seconds()) + 1e-9 * duration.nanos();
}

}  // namespace longstream::client
