// The commands of the client, one function each.
#ifndef LONGSTREAM_CLIENT_COMMANDS_COMMANDS_H_
#define LONGSTREAM_CLIENT_COMMANDS_COMMANDS_H_

#include <CLI/CLI.hpp>
#include <string>

#include "client/connection.h"

namespace longstream::client {

// What all commands share.
struct Global {
  std::string server = "127.0.0.1:50051";
  bool json = false;
  double wait_seconds = 0;  // for the server to come up
};

// Thrown by a command that has told what failed itself, and went on to its end.
struct ToldFailure {
  int exit_code;
};

// Each adds its subcommand to `app`; what it does runs when the command line is parsed. Failures of
// calls (CallError, ToldFailure) and of output (OutputError) are thrown.
void AddGenerate(CLI::App* app, const Global* global);
void AddChat(CLI::App* app, const Global* global);
void AddModels(CLI::App* app, const Global* global);
void AddSessions(CLI::App* app, const Global* global);
void AddScore(CLI::App* app, const Global* global);
void AddEval(CLI::App* app, const Global* global);
void AddBench(CLI::App* app, const Global* global);

// A connection to global.server, up and serving `model` if --wait asks for it.
Connection Connect(const Global& global, const std::string& model = "");

// For --server: something that is there. What else an address may be, gRPC decides.
CLI::Validator ServerAddress();

// For options of 64 bits: CLI11 takes -1 for the largest of them, and so what is larger still.
CLI::Validator WholeNumber();

// "12.3 MiB"
std::string HumanBytes(uint64_t bytes);
double Seconds(const google::protobuf::Duration& duration);

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_COMMANDS_COMMANDS_H_
