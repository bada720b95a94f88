// What the commands share.
#include "client/commands.h"

#include <cstdio>

namespace longstream::client {

std::atomic<bool> interrupted = false;

Connection Connect(const Global& global, const std::string& model) {
  Connection connection(global.server);
  if (global.wait_seconds > 0) {
    connection.WaitUntilServing(
        model, std::chrono::milliseconds(static_cast<int64_t>(global.wait_seconds * 1000)));
  }
  return connection;
}

void SamplingOptions::AddTo(CLI::App* app) {
  app_ = app;
  app->add_option("-t,--temperature", temperature, "0: the most probable token");
  app->add_option("--top-k", top_k, "0: off");
  app->add_option("--top-p", top_p, "in (0, 1]");
  app->add_option("--min-p", min_p, "in [0, 1]");
  app->add_option("--repetition-penalty", repetition_penalty, "1: off");
  app->add_option("--seed", seed, "drawn by the server if absent");
  app->add_option("--stop", stop, "stop string; may be repeated");
  app->add_option("-n,--max-tokens", max_tokens, "0: until the end")->capture_default_str();
  app->add_flag("--ignore-eos", ignore_eos, "do not stop at the model's end ids");
}

void SamplingOptions::Fill(v1::GenerateRequest* request) const {
  v1::Sampling* sampling = request->mutable_sampling();
  const auto given = [this](const char* name) { return app_->count(name) > 0; };
  if (given("--temperature")) sampling->set_temperature(static_cast<float>(temperature));
  if (given("--top-k")) sampling->set_top_k(top_k);
  if (given("--top-p")) sampling->set_top_p(static_cast<float>(top_p));
  if (given("--min-p")) sampling->set_min_p(static_cast<float>(min_p));
  if (given("--repetition-penalty")) {
    sampling->set_repetition_penalty(static_cast<float>(repetition_penalty));
  }
  if (given("--seed")) sampling->set_seed(seed);
  for (const std::string& text : stop) request->mutable_stop()->add_strings(text);
  request->mutable_stop()->set_ignore_eos(ignore_eos);
  request->set_max_tokens(max_tokens);
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

double Seconds(const google::protobuf::Duration& duration) {
  return static_cast<double>(duration.seconds()) + 1e-9 * duration.nanos();
}

}  // namespace longstream::client
