// `longstream bench`: runs many streams at once and measures the latency of their tokens.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <mutex>
#include <random>

#include "client/commands/commands.h"
#include "client/interrupt.h"
#include "client/output.h"
#include "client/parallel.h"
#include "client/statistics.h"
#include "nlohmann/json.hpp"

namespace longstream::client {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

struct BenchOptions {
  std::string model;
  int streams = 4;
  int requests = 16;
  int prompt_tokens = 64;
  int output_tokens = 128;
  float temperature = 1.0f;
  uint64_t seed = 1;
  bool times = false;
};

// When a request was sent and when each of its tokens arrived.
struct Timeline {
  double start = 0;                   // seconds since the Unix epoch
  std::vector<double> token_seconds;  // arrival of each token, since `start`
};

// The measurements of all streams.
struct Measured {
  std::mutex mutex;
  std::vector<double> first_token_seconds;
  std::vector<double> inter_token_seconds;
  std::vector<double> finish_seconds;  // from a request's last token to its end
  std::vector<Timeline> timelines;     // filled if --times is set
  int requests = 0;                    // finished requests
  uint64_t generated_tokens = 0;
};

// Makes a request with a prompt of random token ids. The text does not matter, because bench
// measures the machine.
v1::GenerateRequest Request(const BenchOptions& options, uint32_t vocabulary, int number) {
  std::mt19937_64 random(options.seed * 1'000'003 + static_cast<uint64_t>(number));
  v1::GenerateRequest request;
  for (int i = 0; i < options.prompt_tokens; ++i) {
    request.mutable_input()->mutable_tokens()->add_ids(static_cast<int32_t>(random() % vocabulary));
  }
  request.set_max_tokens(static_cast<uint32_t>(options.output_tokens));
  request.mutable_sampling()->set_temperature(options.temperature);
  request.mutable_sampling()->set_seed(random());
  request.mutable_stop()->set_ignore_eos(true);
  return request;
}

Timeline TimelineOf(const Generation& generation, std::chrono::system_clock::duration start) {
  Timeline timeline;
  timeline.start = std::chrono::duration<double>(start).count();
  for (size_t i = 0; i < generation.token_seconds.size(); ++i) {
    timeline.token_seconds.insert(timeline.token_seconds.end(),
                                  static_cast<size_t>(generation.token_counts[i]),
                                  generation.token_seconds[i]);
  }
  return timeline;
}

void RunOne(Connection& connection, const BenchOptions& options, uint32_t vocabulary, int number,
            Measured* measured) {
  v1::GenerateRequest request = Request(options, vocabulary, number);
  const Session session = OpenSession(connection, options.model);
  request.set_session_id(session.id());
  const auto start = std::chrono::system_clock::now().time_since_epoch();
  const Clock::time_point begin = Clock::now();
  const Generation generation = connection.Collect(request);
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();

  const std::lock_guard<std::mutex> lock(measured->mutex);
  if (options.times) measured->timelines.push_back(TimelineOf(generation, start));
  ++measured->requests;
  measured->generated_tokens += static_cast<uint64_t>(generation.tokens());
  const std::vector<double>& times = generation.token_seconds;
  if (!times.empty()) {
    measured->first_token_seconds.push_back(times.front());
    measured->finish_seconds.push_back(seconds - times.back());
  }
  for (size_t i = 1; i < times.size(); ++i) {
    // A message may carry several tokens. Divide the time since the previous message among them.
    const int tokens = std::max(1, generation.token_counts[i]);
    const double gap = (times[i] - times[i - 1]) / tokens;
    measured->inter_token_seconds.insert(measured->inter_token_seconds.end(),
                                         static_cast<size_t>(tokens), gap);
  }
}

Json ToJson(const std::vector<Timeline>& timelines) {
  Json json = Json::array();
  for (const Timeline& timeline : timelines) {
    json.push_back({{"start", timeline.start}, {"token_seconds", timeline.token_seconds}});
  }
  return json;
}

Json ToJson(const Summary& summary, double scale) {
  return {{"p50", summary.p50 * scale},
          {"p90", summary.p90 * scale},
          {"p99", summary.p99 * scale},
          {"max", summary.max * scale}};
}

void PrintRow(const char* name, const Summary& summary, double scale) {
  if (std::isnan(summary.max)) {
    std::printf("%-22s %9s %9s %9s %9s\n", name, "-", "-", "-", "-");
    return;
  }
  std::printf("%-22s %9.2f %9.2f %9.2f %9.2f\n", name, summary.p50 * scale, summary.p90 * scale,
              summary.p99 * scale, summary.max * scale);
}

// Prints the figures of the finished requests. After an interrupt, some requests are missing.
void PrintReport(const Global& global, const BenchOptions& options, const Measured& measured,
                 double seconds) {
  const Summary first = Summarize(measured.first_token_seconds);
  const Summary inter = Summarize(measured.inter_token_seconds);
  const Summary finish = Summarize(measured.finish_seconds);
  const double rate = static_cast<double>(measured.generated_tokens) / seconds;
  if (global.json) {
    Json json = {{"model", options.model},
                 {"streams", options.streams},
                 {"requests", measured.requests},
                 {"interrupted", Interrupted()},
                 {"prompt_tokens", options.prompt_tokens},
                 {"output_tokens", options.output_tokens},
                 {"seconds", seconds},
                 {"generated_tokens_per_second", rate},
                 {"time_to_first_token_ms", ToJson(first, 1e3)},
                 {"inter_token_latency_ms", ToJson(inter, 1e3)},
                 {"finish_latency_ms", ToJson(finish, 1e3)}};
    if (options.times) json["times"] = ToJson(measured.timelines);
    return Print(json.dump(2) + "\n");
  }
  std::printf("%d requests of %d + %d tokens over %d streams: %.2f s, %.1f tokens/s generated\n\n",
              measured.requests, options.prompt_tokens, options.output_tokens, options.streams,
              seconds, rate);
  std::printf("%-22s %9s %9s %9s %9s\n", "milliseconds", "p50", "p90", "p99", "max");
  PrintRow("time to first token", first, 1e3);
  PrintRow("inter-token latency", inter, 1e3);
  PrintRow("last token to the end", finish, 1e3);
}

void Bench(const Global& global, const BenchOptions& options) {
  Connection connection = Connect(global, options.model);
  // Open a session first. If the model is loading or has failed, its vocabulary is unknown, and
  // OpenSession fails with the reason.
  { const Session probe = OpenSession(connection, options.model); }
  const uint32_t vocabulary =
      static_cast<uint32_t>(connection.Model(options.model).vocabulary_size());
  Measured measured;
  const auto begin = Clock::now();
  ForEach(options.requests, options.streams,
          [&](int number) { RunOne(connection, options, vocabulary, number, &measured); });
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  if (measured.requests > 0) PrintReport(global, options, measured, seconds);
}

}  // namespace

void AddBench(CLI::App* app, const Global* global) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* command = app->add_subcommand("bench", "Measure latency and throughput under load");
  command->add_option("-m,--model", options->model, "model name; empty: the server's only model");
  command->add_option("--streams", options->streams, "requests at the same time")
      ->check(WholeNumber(1, 4096))
      ->capture_default_str();
  command->add_option("--requests", options->requests, "total number of requests")
      ->check(WholeNumber(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--prompt-tokens", options->prompt_tokens, "random ids per prompt")
      ->check(WholeNumber(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--output-tokens", options->output_tokens, "tokens generated per request")
      ->check(WholeNumber(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--seed", options->seed, "seed of prompts and sampling")
      ->check(WholeNumber())
      ->capture_default_str();
  command
      ->add_option("-t,--temperature", options->temperature,
                   "sampling temperature; 0: the most probable token")
      ->check(Number(0.0, 100.0))
      ->capture_default_str();
  command->add_flag(
      "--times", options->times,
      "with --json: print when each request began (Unix time) and when its tokens arrived");
  command->footer(
      "Example:\n  longstream bench -m hypenet --streams 16 --requests 64 --prompt-tokens 512");
  command->callback([=] { Bench(*global, *options); });
}

}  // namespace longstream::client
