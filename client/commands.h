// The commands of the client, one function each.
#ifndef LONGSTREAM_CLIENT_COMMANDS_H_
#define LONGSTREAM_CLIENT_COMMANDS_H_

#include <CLI/CLI.hpp>
#include <atomic>
#include <string>

#include "client/connection.h"

namespace longstream::client {

// What all commands share.
struct Global {
  std::string server = "127.0.0.1:50051";
  bool json = false;
  double wait_seconds = 0;  // for the server to come up
};

// Set by Ctrl-C: a running generation is cancelled, the program goes on to its end.
extern std::atomic<bool> interrupted;

// Each adds its subcommand to `app`; what it does runs when the command line is parsed. Failures of
// calls are thrown (CallError).
void AddGenerate(CLI::App* app, const Global* global);
void AddChat(CLI::App* app, const Global* global);
void AddModels(CLI::App* app, const Global* global);
void AddSessions(CLI::App* app, const Global* global);
void AddScore(CLI::App* app, const Global* global);
void AddBench(CLI::App* app, const Global* global);

// A connection to global.server, up and serving `model` if --wait asks for it.
Connection Connect(const Global& global, const std::string& model = "");

// The options of sampling and stopping, which generate, chat and bench share.
struct SamplingOptions {
  double temperature = 0;
  int top_k = 0;
  double top_p = 1;
  double min_p = 0;
  double repetition_penalty = 1;
  uint64_t seed = 0;
  std::vector<std::string> stop;
  uint32_t max_tokens = 256;
  bool ignore_eos = false;

  void AddTo(CLI::App* app);
  // Only what was given is set; the rest is the model's default.
  void Fill(v1::GenerateRequest* request) const;

 private:
  CLI::App* app_ = nullptr;
};

// "12.3 MiB"
std::string HumanBytes(uint64_t bytes);
double Seconds(const google::protobuf::Duration& duration);

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_COMMANDS_H_
