// The commands of the client. Each has a function that adds it.
#ifndef LONGSTREAM_CLIENT_COMMANDS_COMMANDS_H_
#define LONGSTREAM_CLIENT_COMMANDS_COMMANDS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "client/admin_connection.h"
#include "client/connection.h"
#include "client/session.h"

namespace longstream::client {

// The options that all commands have.
struct Global {
  std::string server = "127.0.0.1:50051";
  ChannelSecurity security;
  bool json = false;
  double wait_seconds = 0;    // how long to wait until the server serves
  double retry_seconds = 60;  // as Connection::set_resume_timeout
};

// Thrown at the end of a command that has already printed its errors. The program exits with
// `exit_code`.
struct ToldFailure {
  int exit_code;
};

// Each function adds its subcommand to `app`. CLI11 runs the command while it parses the command
// line. Failed calls throw CallError or ToldFailure; failed output throws OutputError.
void AddGenerate(CLI::App* app, const Global* global);
void AddChat(CLI::App* app, const Global* global);
void AddModels(CLI::App* app, const Global* global);
void AddSessions(CLI::App* app, const Global* global);
// Adds `history` to the command `sessions`.
void AddHistory(CLI::App* sessions, const Global* global);
// Adds `export` and `import` to it.
void AddSessionFiles(CLI::App* sessions, const Global* global);
void AddScore(CLI::App* app, const Global* global);
void AddTokenize(CLI::App* app, const Global* global);
void AddCompare(CLI::App* app, const Global* global);
void AddEval(CLI::App* app, const Global* global);
void AddBench(CLI::App* app, const Global* global);
void AddAdmin(CLI::App* app, const Global* global);
void AddPlan(CLI::App* app, const Global* global);
// These work without a server.
void AddStore(CLI::App* app, const Global* global);
void AddToken(CLI::App* app, const Global* global);

// Adds the options of ChannelSecurity, and their environment variables.
void AddSecurityOptions(CLI::App* app, ChannelSecurity* security);

// The options of ChannelSecurity, with those that the environment gives.
ChannelSecurity SecurityOf(const Global& global);

// Connects to global.server. Throws CLI::ValidationError if the options of the connection are
// wrong. With --wait, first waits until the server serves `model` or, if `model` is empty, any
// model.
Connection Connect(const Global& global, const std::string& model = "");

// As Connect, but waits for all models, or for the model of a session and for `twin` (empty: none).
Connection ConnectToAll(const Global& global, const std::vector<std::string>& models);
Connection ConnectToSession(const Global& global, const std::string& session,
                            const std::string& twin = "");

// With --wait, waits until the server lists its models and none is being loaded, or not `model`
// unless that is empty; none has to serve. *loading: the models that are still being loaded when
// the time is over.
Connection ConnectToLoaded(const Global& global, const std::string& model,
                           std::vector<std::string>* loading);

// Opens a session that the command closes at its end; says so if that fails. The session makes each
// call once, because --wait is for waiting. Throws CallError.
Session OpenSession(Connection connection, const v1::OpenSessionRequest& request);
Session OpenSession(const Connection& connection, const std::string& model);
// Goes on with a session, which stays open.
Session AttachSession(Connection connection, const std::string& id);

// Adds --admin, which the variable LONGSTREAM_ADMIN can replace.
void AddAdminOption(CLI::App* app, std::string* address);
// Throws CLI::ValidationError if `address`, that of --admin, is empty or cannot be used.
AdminConnection ConnectToAdmin(const Global& global, const std::string& address);

// Validates --server and --admin: accepts host:port, and addresses with a scheme that gRPC knows.
CLI::Validator ServerAddress();

// Validates whole numbers: accepts `least` to `most`, in decimal digits. CLI11 alone would read -1
// and numbers beyond 64 bits as 2^64 - 1, and 010 as 8. Its error for a number that does not fit
// into the variable does not name the limit.
CLI::Validator WholeNumber(uint64_t least = 0,
                           uint64_t most = std::numeric_limits<uint64_t>::max());
// Validates numbers: accepts `least` to `most`, which CLI::Range does with NaN, too.
CLI::Validator Number(double least, double most);

// Prints a message as JSON.
void PrintJson(const google::protobuf::Message& message);

// Formats bytes for people, such as "12.3 MiB".
std::string HumanBytes(uint64_t bytes);
double Seconds(const google::protobuf::Duration& duration);
// REQUIRES: seconds >= 0.
void SetSeconds(double seconds, google::protobuf::Duration* duration);

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_COMMANDS_COMMANDS_H_
