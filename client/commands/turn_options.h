// The options of commands that generate: which session to use, how to sample, when to stop.
#ifndef LONGSTREAM_CLIENT_COMMANDS_TURN_OPTIONS_H_
#define LONGSTREAM_CLIENT_COMMANDS_TURN_OPTIONS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/commands/commands.h"
#include "client/connection.h"
#include "client/session.h"

namespace longstream::client {

inline constexpr uint64_t kMaxTopLogProbs = 20;  // the server's limit

class TurnOptions {
 public:
  // Adds the options to `app`. The object must live as long as `app`.
  void AddTo(CLI::App* app);

  // Adds only the options that say how to sample and when to stop.
  void AddSamplingTo(CLI::App* app);

  const std::string& model() const { return model_; }
  // Whether --session names a session.
  bool continues_session() const { return !session_.empty(); }

  // Connects; with --wait, waits for the model of --session or of --model.
  Connection Connect(const Global& global) const;

  // Fills in the request. Sets a sampling value only if its option was given; otherwise the server
  // uses the model's default.
  void Fill(v1::GenerateRequest* request) const;

  // Returns the session to run turns on. With --session it is that session, which stays open.
  // Otherwise it is a new session: with --keep it stays open and its id is printed, otherwise the
  // object closes it. If a route chooses its model, it is for a first turn with `input`, and the
  // reason is printed. Throws CallError. Throws CLI::ValidationError if the session of --session
  // has another model than --model says.
  Session Open(const Connection& connection, const v1::Input& input) const;
  // Whether the session stays open.
  bool keeps_session() const { return keep_ || continues_session(); }

 private:
  bool Given(const char* option) const { return app_->count(option) > 0; }
  void FillSampling(v1::Sampling* sampling) const;
  void FillStop(v1::StopRule* stop) const;
  void AddFormatTo(CLI::App* app);
  // The format of the answer. Absent: any text. Throws CLI::ValidationError.
  std::optional<v1::ResponseFormat> Format() const;
  void AddExpectationTo(CLI::App* app);
  v1::OpenSessionRequest OpenRequest(const v1::Input& input) const;

  CLI::App* app_ = nullptr;
  std::string model_;
  std::string session_;
  std::string twin_;
  bool keep_ = false;
  std::string ttl_;  // a duration; empty: the server's
  uint64_t expected_tokens_ = 0;
  double max_time_to_first_token_ = 0;  // seconds; 0: none
  double max_time_per_token_ = 0;       // seconds; 0: none
  uint64_t max_session_bytes_ = 0;
  double temperature_ = 0;
  int top_k_ = 0;
  double top_p_ = 1;
  double min_p_ = 0;
  double repetition_penalty_ = 1;
  double presence_penalty_ = 0;
  double frequency_penalty_ = 0;
  std::string penalty_scope_ = "turn";
  std::vector<std::string> logit_bias_;  // "ID=BIAS"
  uint64_t seed_ = 0;
  std::vector<std::string> stop_;
  std::vector<int32_t> stop_ids_;
  uint32_t min_tokens_ = 0;
  uint32_t max_tokens_ = 256;
  bool ignore_eos_ = false;
  bool drop_stop_text_ = false;
  bool has_format_options_ = false;
  bool answer_json_ = false;
  std::string answer_schema_;  // a file
  std::string answer_regex_;
  std::string answer_grammar_;  // a file
  std::vector<std::string> answer_choices_;
  std::string priority_ = "normal";
};

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_COMMANDS_TURN_OPTIONS_H_
