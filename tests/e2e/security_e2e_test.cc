// The server as a process with TLS and credentials: hostile connections, files that change while
// clients generate, the command's options, and the log of operators' calls.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "client/connection.h"
#include "longstream/v1/longstream.grpc.pb.h"
#include "tests/e2e/minimal_server.h"
#include "tests/e2e/scrape.h"
#include "tests/processes/client_process.h"
#include "tests/processes/server_process.h"
#include "tests/service/security/test_authority.h"
#include "tests/service/security/token_row.h"
#include "tests/tcp_client.h"

namespace longstream {
namespace {

using client::ChannelSecurity;
using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::Not;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kPatience{30000};

class SecurityE2eTest : public testing::Test {
 protected:
  SecurityE2eTest() {
    ca_ = files_.Write("server_ca.pem", authority_.certificate());
    files_.Write("ca.pem", authority_.certificate());
    WriteServerCertificate(IssueForServer(&authority_));
    WriteTokens({"client", "other"});
  }

  void WriteServerCertificate(const TestCertificate& own) {
    Replace("cert.pem", own.certificate);
    Replace("key.pem", own.key);
  }
  // Renames a new file, which nobody else may read, over the old one.
  void Replace(const std::string& name, const std::string& text) const {
    std::filesystem::rename(files_.WriteSecret(name + ".new", text), files_.path() / name);
  }
  // Writes the file of credentials: these tokens of clients, the token "operator", and certificates
  // for clients called alice.
  void WriteTokens(const std::vector<std::string>& tokens) const {
    std::string text = "certificate name=alice role=client common_name=alice\n" +
                       TokenRow("operator", "role=operator");
    for (const std::string& token : tokens) text += TokenRow(token, "role=client");
    Replace("credentials", text);
  }

  // `more`: further lines of the configuration.
  void Start(const std::string& more = "", const std::string& model_options = "") {
    const std::string directory = files_.string();
    files_.Write("server.yaml", "tls: {certificate: " + directory + "/cert.pem, key: " + directory +
                                    "/key.pem, client_ca: " + directory +
                                    "/ca.pem}\nsecurity: {credentials: " + directory +
                                    "/credentials}\n" + more + "\n");
    server_ = std::make_unique<ServerProcess>(
        kServerBinary,
        std::vector<std::string>{"--config", (files_.path() / "server.yaml").string(), "--model",
                                 files_.Flag(model_options)});
    client::Connection(server_->address(), With("client")).WaitUntilServing("m", kPatience);
  }
  ChannelSecurity With(const std::string& token) const {
    ChannelSecurity security;
    security.ca = ca_;
    security.token = token;
    return security;
  }
  // A new certificate of alice, in files whose names begin with `name`.
  ChannelSecurity AsAlice(TestAuthority* authority, const std::string& name) const {
    const TestCertificate alice = authority->Issue("alice", "");
    ChannelSecurity security;
    security.ca = ca_;
    security.certificate = files_.Write(name + ".pem", alice.certificate);
    security.key = files_.Write(name + ".key", alice.key);
    return security;
  }
  double Metric(const std::string& name, const std::map<std::string, std::string>& labels) const {
    return SampleValue(Scrape(server_->metrics_port()), name, labels).value_or(0);
  }
  double Reloads(const std::string& kind, const std::string& outcome) const {
    return Metric("longstream_security_reloads_total", {{"kind", kind}, {"outcome", outcome}});
  }
  void WaitForReloads(const std::string& kind, const std::string& outcome, double count) const {
    const auto until = Clock::now() + kPatience;
    while (Reloads(kind, outcome) < count && Clock::now() < until) {
      std::this_thread::sleep_for(milliseconds(20));
    }
    EXPECT_EQ(Reloads(kind, outcome), count) << kind << " " << outcome;
  }
  static grpc::StatusCode CodeOf(const std::string& address, const ChannelSecurity& security) {
    try {
      client::Connection(address, security).Models();
      return grpc::StatusCode::OK;
    } catch (const client::CallError& error) {
      return error.status().error_code();
    }
  }
  grpc::StatusCode CodeOf(const ChannelSecurity& security) const {
    return CodeOf(server_->address(), security);
  }

  const MinimalModelDirectory files_;
  TestAuthority authority_;
  std::string ca_;
  std::unique_ptr<ServerProcess> server_;
};

TEST_F(SecurityE2eTest, HostileConnectionsEnd) {
  Start("connections: {handshake_timeout: 1s, first_request_timeout: 20s, idle_timeout: 500ms}");
  std::vector<TcpClient> clients;
  const std::string hello("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11);
  for (int i = 0; i < 200; ++i) {
    clients.emplace_back(server_->port());
    switch (i % 4) {
      case 0:
        break;
      case 1:
        clients.back().Send(hello.substr(0, 3));
        break;
      case 2:
        clients.back().Send(hello);  // gRPC waits for the rest
        break;
      case 3:
        clients.back().Send(std::string(kHttp2Preface) + std::string(kEmptySettings));
        break;
    }
  }
  for (const TcpClient& client : clients) client.ReceiveAll(milliseconds(20000));
  const auto refused = [this](const char* reason) {
    return Metric("longstream_connections_refused_total", {{"port", "grpc"}, {"reason", reason}});
  };
  EXPECT_EQ(refused("address") + refused("total"), 0);
  // On a busy machine, the bytes of a client may come after its time limit.
  const double timeouts = refused("timeout"), ended = timeouts + refused("protocol");
  EXPECT_GE(timeouts, 100);
  EXPECT_GE(ended, 150);
  EXPECT_LE(ended, 200);
  // A client that goes on with its handshake byte by byte has no more time.
  const TcpClient slow(server_->port());
  slow.Send(hello);
  std::jthread sends([&](const std::stop_token& stop) {
    while (!stop.stop_requested() && slow.Send("x")) std::this_thread::sleep_for(milliseconds(20));
  });
  slow.ReceiveAll(milliseconds(20000));
  sends.request_stop();
  sends.join();
  EXPECT_EQ(CodeOf(With("client")), grpc::StatusCode::OK);
  EXPECT_EQ(server_->Stop(), 0);
}

// One client of the test under load.
struct Load {
  ChannelSecurity security;  // guarded by mutex
  std::mutex mutex;
  std::atomic<int> turns = 0;
  std::atomic<int> errors = 0;
  std::string first_error;
};

void RunTurn(client::Connection* connection, Load* load) {
  try {
    v1::GenerateRequest request;
    const v1::Session session = connection->Open("m");
    request.set_session_id(session.session_id());
    request.mutable_input()->set_text("hello");
    request.set_max_tokens(20);
    const client::Generation generation = connection->Generate(request);
    if (generation.tokens() != 20) throw std::runtime_error("the turn has another length");
    connection->Close(session.session_id());
    ++load->turns;
  } catch (const std::exception& error) {
    if (load->errors++ == 0) load->first_error = error.what();
  }
}

std::unique_ptr<client::Connection> ConnectionFor(const std::string& address, Load* load) {
  const std::lock_guard<std::mutex> lock(load->mutex);
  auto connection = std::make_unique<client::Connection>(address, load->security);
  connection->set_resume_timeout(milliseconds(0));
  return connection;
}

void RunTurns(const std::stop_token& stop, const std::string& address, bool reconnects,
              Load* load) {
  auto connection = ConnectionFor(address, load);
  while (!stop.stop_requested()) {
    RunTurn(connection.get(), load);
    if (reconnects) connection = ConnectionFor(address, load);
  }
}

// Waits until each client has begun and ended a turn. Returns false after a long time.
bool EachRunsATurn(std::vector<Load>& loads) {
  return std::all_of(loads.begin(), loads.end(), [](const Load& load) {
    const int before = load.turns;
    const auto until = Clock::now() + kPatience;
    while (load.turns < before + 2 && load.errors == 0 && Clock::now() < until) {
      std::this_thread::sleep_for(milliseconds(5));
    }
    return load.turns >= before + 2;
  });
}

// Clients generate and connect again while certificates, keys, tokens and authorities are replaced.
// Two have a token, and two a certificate. Both tokens of a client, and both authorities, are valid
// while a client changes from one to the other. No call may fail.
TEST_F(SecurityE2eTest, CertificatesAndTokensAreReplacedUnderLoad) {
  Start("", ",options.step_delay_us=500");
  ChannelSecurity with_token;
  with_token.ca = ca_;
  with_token.token_file = files_.Write("token", "client");
  const ChannelSecurity before = AsAlice(&authority_, "before");
  std::vector<Load> loads(4);
  std::vector<std::jthread> threads;
  for (size_t i = 0; i < loads.size(); ++i) {
    loads[i].security = i < 2 ? with_token : before;
    threads.emplace_back(RunTurns, server_->address(), i % 2 == 0, &loads[i]);
  }
  constexpr int kRounds = 8;
  for (int round = 1; round <= kRounds; ++round) {
    const std::string old = round == 1 ? "client" : "client" + std::to_string(round - 1);
    const std::string next = "client" + std::to_string(round);
    WriteTokens({old, next});
    const TestCertificate own = IssueForServer(&authority_);
    // One after the other: the server does not use them before both are there.
    Replace("cert.pem", own.certificate);
    WaitForReloads("tls", "refused", round);
    Replace("key.pem", own.key);
    WaitForReloads("tls", "taken", round);
    WaitForReloads("credentials", "taken", 2 * round - 1);
    Replace("token", next);
    // Then every call that began with the old token has its answer.
    ASSERT_TRUE(EachRunsATurn(loads)) << "round " << round;
    WriteTokens({next});
    WaitForReloads("credentials", "taken", 2 * round);
  }
  TestAuthority authority;
  Replace("ca.pem", authority_.certificate() + authority.certificate());
  WaitForReloads("tls", "taken", kRounds + 1);
  const ChannelSecurity after = AsAlice(&authority, "after");
  for (Load& load : std::span(loads).subspan(2)) {
    const std::lock_guard<std::mutex> lock(load.mutex);
    load.security = after;
  }
  ASSERT_TRUE(EachRunsATurn(loads));
  Replace("ca.pem", authority.certificate());
  WaitForReloads("tls", "taken", kRounds + 2);
  EXPECT_TRUE(EachRunsATurn(loads));
  EXPECT_EQ(CodeOf(before), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(CodeOf(after), grpc::StatusCode::OK);
  threads.clear();  // stops them
  for (const Load& load : loads) EXPECT_EQ(load.errors, 0) << load.first_error;
  EXPECT_EQ(CodeOf(With("client")), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(server_->Stop(), 0);
}

TEST_F(SecurityE2eTest, ABrokenFileKeepsWhatTheServerHas) {
  Start();
  Replace("credentials", "token name=client");
  WaitForReloads("credentials", "refused", 1);
  Replace("cert.pem", "no certificate");
  WaitForReloads("tls", "refused", 1);
  std::filesystem::remove(files_.path() / "credentials");
  WaitForReloads("credentials", "refused", 2);
  // Files as another program leaves them while it writes: empty, without their end, without rows.
  int refused = 2;
  for (const std::string& text : {std::string(), TokenRow("stranger", "role=client").substr(0, 100),
                                  std::string("# rows\n")}) {
    Replace("credentials", text);
    WaitForReloads("credentials", "refused", ++refused);
  }
  std::string unfinished = TokenRow("stranger", "role=client");
  unfinished.pop_back();
  Replace("credentials", unfinished);
  WaitForReloads("credentials", "refused", ++refused);
  EXPECT_EQ(CodeOf(With("client")), grpc::StatusCode::OK);
  EXPECT_EQ(CodeOf(With("stranger")), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(Metric("longstream_calls_refused_total", {{"code", "UNAUTHENTICATED"}}), 1);
  EXPECT_GT(Metric("longstream_certificate_expiry_seconds", {{"port", "grpc"}}), 1.7e9);
  WriteTokens({"stranger"});
  WaitForReloads("credentials", "taken", 1);
  EXPECT_EQ(CodeOf(With("client")), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(server_->Stop(), 0);
  EXPECT_THAT(server_->Log(), HasSubstr("credentials:1: role: expected client, operator or peer"));
  EXPECT_THAT(server_->Log(),
              HasSubstr("/credentials: has no row, so every call would be refused"));
  EXPECT_THAT(server_->Log(), HasSubstr("cert.pem: expected a certificate in PEM"));
}

TEST_F(SecurityE2eTest, TheCommandProvesWhoItIs) {
  Start();
  const std::string address = server_->address();
  const auto run = [&address](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"--server", address});
    arguments.emplace_back("models");
    return RunClient(arguments);
  };
  EXPECT_EQ(run({"--ca", ca_, "--token", "client"}).exit_code, 0);
  const std::string token_file = files_.Write("token", "client\n");
  // An option counts before a variable.
  setenv("LONGSTREAM_TOKEN", "wrong", 1);
  EXPECT_EQ(run({"--ca", ca_, "--token-file", token_file}).exit_code, 0);
  EXPECT_EQ(run({"--ca", ca_}).exit_code, 1);
  setenv("LONGSTREAM_TOKEN", "a b", 1);
  EXPECT_THAT(run({"--ca", ca_}).err, HasSubstr("LONGSTREAM_TOKEN: the token has a character"));
  unsetenv("LONGSTREAM_TOKEN");
  setenv("LONGSTREAM_TOKEN_FILE", token_file.c_str(), 1);
  EXPECT_EQ(run({"--ca", ca_, "--token", "client"}).exit_code, 0);
  EXPECT_EQ(run({"--ca", ca_}).exit_code, 0);
  unsetenv("LONGSTREAM_TOKEN_FILE");
  EXPECT_THAT(run({"--ca", ca_, "--token", ""}).err, HasSubstr("--token: the token is empty"));
  const std::string blank = files_.Write("blank", "\n");
  EXPECT_THAT(run({"--ca", ca_, "--token-file", blank}).err,
              HasSubstr(blank + ": the token is empty"));
  EXPECT_EQ(run({"--tls", "--ca", ca_, "--token-file", token_file}).exit_code, 0);
  const TestCertificate alice = authority_.Issue("alice", "");
  const std::string certificate = files_.Write("alice.pem", alice.certificate);
  const std::string key = files_.Write("alice.key", alice.key);
  EXPECT_EQ(run({"--ca", ca_, "--cert", certificate, "--key", key}).exit_code, 0);

  const ClientRun wrong = run({"--ca", ca_, "--token", "wrong"});
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_THAT(wrong.err, HasSubstr("UNAUTHENTICATED: the call needs a valid credential"));
  EXPECT_EQ(run({"--ca", ca_}).exit_code, 1);
  EXPECT_EQ(run({"--tls", "--token", "client"}).exit_code, 3) << "the authority is unknown";
  EXPECT_THAT(run({"--tls", "--token", "client"}).err, Not(HasSubstr("ssl_transport_security")));
  EXPECT_THAT(run({"--token", "client"}).err, HasSubstr("does the server use TLS? see --ca"));
  EXPECT_EQ(run({"--ca", ca_, "--cert", certificate}).exit_code, 2);
  EXPECT_EQ(run({"--ca", ca_, "--token", "a", "--token-file", token_file}).exit_code, 2);
  EXPECT_EQ(run({"--ca", "/nowhere", "--token", "a"}).exit_code, 2);
  EXPECT_EQ(server_->Stop(), 0);
}

TEST_F(SecurityE2eTest, TheCommandSendsNoTokenInPlainTextToOtherHosts) {
  const ClientRun run = RunClient({"--server", "192.0.2.1:1", "--token", "secret", "models"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("in plain text"));
  EXPECT_THAT(run.err, Not(HasSubstr("secret")));
}

// A proxy that the environment names would read the token.
TEST_F(SecurityE2eTest, TheCommandSendsNoTokenInPlainTextToAProxy) {
  files_.Write("server.yaml", "security: {credentials: " + files_.string() + "/credentials}\n");
  ServerProcess server(kServerBinary, {"--config", (files_.path() / "server.yaml").string(),
                                       "--model", files_.Flag()});
  const std::vector<std::string> models = {"--server", server.address(), "--wait", "30", "models"};
  setenv("http_proxy", "http://127.0.0.1:1", 1);  // nothing listens there
  std::vector<std::string> with_token = models;
  with_token.insert(with_token.begin(), {"--token", "client"});
  EXPECT_EQ(RunClient(with_token).exit_code, 0);
  // The proxy counts if the user lets the token go anywhere.
  with_token.insert(with_token.begin(), "--plaintext-token");
  with_token[6] = "0.2";
  EXPECT_EQ(RunClient(with_token).exit_code, 3);
  unsetenv("http_proxy");
  EXPECT_EQ(server.Stop(), 0);
}

TEST_F(SecurityE2eTest, TheCommandMakesTokens) {
  Start();
  const ClientRun made =
      RunClient({"token", "new", "--name", "new", "--role", "client", "--expires", "1h"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  const size_t token = made.out.find("lst_");
  const size_t row = made.out.find("token name=new");
  ASSERT_NE(token, std::string::npos);
  ASSERT_NE(row, std::string::npos) << made.out;
  Replace("credentials", made.out.substr(row));
  WaitForReloads("credentials", "taken", 1);
  EXPECT_EQ(CodeOf(With(made.out.substr(token, 68))), grpc::StatusCode::OK);
  EXPECT_EQ(CodeOf(With("client")), grpc::StatusCode::UNAUTHENTICATED);
  const ClientRun peer = RunClient({"token", "new", "--name", "a", "--role", "peer"});
  EXPECT_THAT(peer.out, HasSubstr("token name=a role=peer sha256="));
  EXPECT_EQ(RunClient({"token", "new", "--name", "a", "--role", "root"}).exit_code, 2);
}

TEST_F(SecurityE2eTest, EachCallOfAnOperatorIsALineOfTheLog) {
  Start();
  client::Connection(server_->address(), With("operator")).WaitUntilServing("m", kPatience);
  EXPECT_EQ(CodeOf(With("operator")), grpc::StatusCode::OK);
  EXPECT_EQ(CodeOf(With("client")), grpc::StatusCode::OK);
  try {
    client::Connection(server_->address(), With("operator")).Open("m");
    ADD_FAILURE() << "an operator has opened a session";
  } catch (const client::CallError& error) {
    EXPECT_EQ(error.status().error_code(), grpc::StatusCode::PERMISSION_DENIED);
  }
  EXPECT_EQ(server_->Stop(), 0);
  const std::string log = server_->Log();
  const std::string begin = R"("event":"operator_call","name":"operator","method":)"
                            R"("/longstream.v1.Longstream/)";
  EXPECT_THAT(
      log, testing::ContainsRegex(begin + R"(ListModels","request_id":"[0-9a-f]+","access":"OK")"));
  EXPECT_THAT(log, HasSubstr(R"("name":"operator","method":"/grpc.health.v1.Health/Check")"))
      << "also if health is open";
  EXPECT_THAT(log,
              testing::ContainsRegex(
                  begin + R"(OpenSession","request_id":"[0-9a-f]+","access":"PERMISSION_DENIED")"));
  EXPECT_THAT(log, Not(HasSubstr(R"("name":"client")")));
}

TEST_F(SecurityE2eTest, AServerWithWrongFilesDoesNotStart) {
  const auto refusal = [this](const std::string& yaml) {
    const std::string file = files_.Write("wrong.yaml", yaml);
    const ServerRun run = RunServer(
        kServerBinary, {"--config", file, "--model", files_.Flag(), "--listen", "127.0.0.1:0"});
    EXPECT_NE(run.exit_code, 0);
    return run.log;
  };
  const std::string directory = files_.string();
  EXPECT_THAT(refusal("security: {credentials: /nowhere}"),
              HasSubstr("security.credentials: /nowhere: No such file or directory"));
  EXPECT_THAT(
      refusal("tls: {certificate: " + directory + "/cert.pem, key: " + directory + "/ca.pem}"),
      HasSubstr("tls: " + directory + "/ca.pem: expected a private key"));
  WriteServerCertificate(authority_.IssueWithShortKey("server"));
  EXPECT_THAT(
      refusal("tls: {certificate: " + directory + "/cert.pem, key: " + directory + "/key.pem}"),
      HasSubstr("cert.pem: OpenSSL does not accept it: ee key too small"));
}

// The server prints the result of the check to standard output; RunServer reads standard error.
ServerRun CheckConfig(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(),
                   {"-c", "exec \"$@\" >&2", "bash", kServerBinary, "--check-config"});
  return RunServer("/bin/bash", arguments);
}

TEST_F(SecurityE2eTest, AServerWithoutACredentialDoesNotStart) {
  const std::string path = files_.string() + "/credentials";
  const std::string yaml = "{listen: 'localhost:0', security: {credentials: " + path + "}}";
  const std::vector<std::string> arguments = {"--model", files_.Flag(), "--config",
                                              files_.Write("rows.yaml", yaml)};
  const std::string error = ": " + path + ": has no row, so every call would be refused";
  for (const char* text : {"", "\n", "# rows\n"}) {
    Replace("credentials", text);
    const ServerRun refused = RunServer(kServerBinary, arguments);
    EXPECT_EQ(refused.exit_code, 1) << text;
    EXPECT_THAT(refused.log, HasSubstr("security.credentials" + error));
    const ServerRun checked = CheckConfig(arguments);
    EXPECT_EQ(checked.exit_code, 1) << text;
    EXPECT_THAT(checked.log, HasSubstr("error" + error));
  }
}

TEST_F(SecurityE2eTest, CredentialsNameConfiguredTenants) {
  const std::string credentials = files_.string() + "/credentials";
  const std::string file = files_.Write(
      "tenants.yaml", "security: {credentials: " + credentials + "}\ntenants: [{name: a}]\n");
  const std::vector<std::string> arguments = {"--config",    file,       "--model",
                                              files_.Flag(), "--listen", "127.0.0.1:0"};
  const std::string error = "credentials:1: tenant: the configuration has no tenant 'b'";
  Replace("credentials", TokenRow("client", "role=client tenant=b"));
  const ServerRun refused = RunServer(kServerBinary, arguments);
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_THAT(refused.log, HasSubstr(error));
  const ServerRun checked = CheckConfig(arguments);
  EXPECT_EQ(checked.exit_code, 1);
  EXPECT_THAT(checked.log, HasSubstr(error));

  Replace("credentials", TokenRow("client", "role=client tenant=a"));
  ServerProcess server(kServerBinary, {"--config", file, "--model", files_.Flag()});
  Replace("credentials", TokenRow("other", "role=client"));
  const auto count = [&server] {
    return SampleValue(Scrape(server.metrics_port()), "longstream_security_reloads_total",
                       {{"kind", "credentials"}, {"outcome", "refused"}})
        .value_or(0);
  };
  const auto until = Clock::now() + kPatience;
  while (count() == 0 && Clock::now() < until) std::this_thread::sleep_for(milliseconds(20));
  ChannelSecurity security;
  security.token = "client";
  EXPECT_EQ(CodeOf(server.address(), security), grpc::StatusCode::OK);
  EXPECT_EQ(server.Stop(), 0);
  EXPECT_THAT(server.Log(),
              HasSubstr("credentials:1: tenant: a client needs one of the configured tenants"));
}

}  // namespace
}  // namespace longstream
