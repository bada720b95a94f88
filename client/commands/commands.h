// The commands of the client, one function each.
#ifndef LONGSTREAM_CLIENT_COMMANDS_COMMANDS_H_
#define LONGSTREAM_CLIENT_COMMANDS_COMMANDS_H_

#include <CLI/CLI.hpp>
#include <string>

#include "client/connection.h"

namespace longstream::client {

// The options that all commands share.
struct Global {
  std::string server = "127.0.0.1:50051";
  bool json = false;
  double wait_seconds = 0;  // how long to wait for the server to come up
};

// Thrown by a command that has already printed what failed and then went on to its end.
struct ToldFailure {
  int exit_code;
};

// Each function adds its subcommand to `app`. CLI11 runs the command while it parses the command
// line. Failed calls throw CallError or ToldFailure; failed output throws OutputError.
void AddGenerate(CLI::App* app, const Global* global);
void AddChat(CLI::App* app, const Global* global);
void AddModels(CLI::App* app, const Global* global);
void AddSessions(CLI::App* app, const Global* global);
void AddScore(CLI::App* app, const Global* global);
void AddEval(CLI::App* app, const Global* global);
void AddBench(CLI::App* app, const Global* global);

// Connects to global.server. With --wait, first waits until the server serves `model` (empty: until
// it serves).
Connection Connect(const Global& global, const std::string& model = "");

// For --server: accepts any address that is not blank. gRPC decides what else an address may be.
CLI::Validator ServerAddress();

// For options of 64 bits: accepts 0 ... 2^64 - 1. Without it CLI11 turns -1 and larger numbers into
// 2^64 - 1.
CLI::Validator WholeNumber();

// "12.3 MiB"
std::string HumanBytes(uint64_t bytes);
double Seconds(const google::protobuf::Duration& duration);

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_COMMANDS_COMMANDS_H_
