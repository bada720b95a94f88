// The configuration file: every key, and every kind of wrong file with its whole message.
#include "service/config/server_config.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace longstream {
namespace {

// Returns the error message for `text` as the content of server.yaml, or "" if there is no error.
std::string ErrorOf(std::string_view text) {
  ServerConfig config;
  const absl::Status status = ReadConfigText(text, "server.yaml", &config);
  EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

// Returns the first ```yaml block of a document, without its fences.
std::string YamlBlock(const std::string& document) {
  std::ifstream file(std::string(LONGSTREAM_SOURCE_DIR) + "/" + document);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::string fence = "```yaml\n";
  const size_t begin = text.find(fence);
  if (begin == std::string::npos) return "";
  const size_t end = text.find("```", begin + fence.size());
  return text.substr(begin + fence.size(), end - begin - fence.size());
}

// A file with every key.
constexpr char kEveryKey[] = R"(
listen: 0.0.0.0:1
metrics_listen: ""
max_message_bytes: 1MiB
max_transit_bytes: 3MiB
plugin_directory: /plugins
threads: 7
memory_bytes: 5GiB
grace: 1m30s
log_level: debug
scheduler:
  max_batch_tokens: 1024
  max_batch_sequences: 8
  max_open_turns: 99
  max_waiting_turns: 9
  stream_buffer_bytes: 1KiB
  client_timeout: 90s
  time_slice: 20ms
  max_decode_stretch: 9
connections:
  max: 500
  max_per_address: 20
  handshake_timeout: 3s
  first_request_timeout: 4s
  channelz: true
  idle_timeout: 1h
sessions:
  max: 10
  idle_timeout: 500ms
  max_idle_timeout: 2h
  host_bytes: 6MiB
models:
  - name: a
    directory: /a
    backend: dense
    device: cuda:1
    version: v2
    cache_bytes: 2GiB
    options: {weights: int8, context_limit: 4096, fast: true, scale: 0.5, list: [1, x], none: null,
              packed_cache: off}
  - {name: b, directory: /b}
)";

TEST(ServerConfigTest, ReadsEveryKey) {
  ServerConfig config;
  const absl::Status status = ReadConfigText(kEveryKey, "server.yaml", &config);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(config.listen, "0.0.0.0:1");
  EXPECT_EQ(config.metrics_listen, "");
  EXPECT_EQ(config.max_message_bytes, 1u << 20);
  EXPECT_EQ(config.max_transit_bytes, 3u << 20);
  EXPECT_EQ(config.plugin_directory, "/plugins");
  EXPECT_EQ(config.threads, 7u);
  EXPECT_EQ(config.memory_bytes, uint64_t{5} << 30);
  EXPECT_EQ(config.grace, absl::Seconds(90));
  EXPECT_EQ(config.log_level, "debug");
  EXPECT_EQ(config.max_batch_tokens, 1024u);
  EXPECT_EQ(config.max_batch_sequences, 8u);
  EXPECT_EQ(config.max_open_turns, 99u);
  EXPECT_EQ(config.max_waiting_turns, 9u);
  EXPECT_EQ(config.stream_buffer_bytes, 1024u);
  EXPECT_EQ(config.client_timeout, absl::Seconds(90));
  EXPECT_EQ(config.time_slice, absl::Milliseconds(20));
  EXPECT_EQ(config.max_decode_stretch, 9u);
  EXPECT_EQ(config.max_connections, 500u);
  EXPECT_EQ(config.max_connections_per_address, 20u);
  EXPECT_EQ(config.handshake_timeout, absl::Seconds(3));
  EXPECT_EQ(config.first_request_timeout, absl::Seconds(4));
  EXPECT_TRUE(config.channelz);
  EXPECT_EQ(config.connection_idle_timeout, absl::Hours(1));
  EXPECT_EQ(config.max_sessions, 10u);
  EXPECT_EQ(config.idle_timeout, absl::Milliseconds(500));
  EXPECT_EQ(config.max_idle_timeout, absl::Hours(2));
  EXPECT_EQ(config.session_host_bytes, uint64_t{6} << 20);

  ASSERT_EQ(config.models.size(), 2u);
  EXPECT_EQ(config.models[0].name, "a");
  EXPECT_EQ(config.models[0].directory, "/a");
  EXPECT_EQ(config.models[0].backend, "dense");
  EXPECT_EQ(config.models[0].device, "cuda:1");
  EXPECT_EQ(config.models[0].version, "v2");
  EXPECT_EQ(config.models[0].cache_bytes, uint64_t{2} << 30);
  EXPECT_EQ(config.models[0].options_json,
            R"({"context_limit":4096,"fast":true,"list":[1,"x"],"none":null,)"
            R"("packed_cache":"off","scale":0.5,"weights":"int8"})");
  EXPECT_EQ(config.models[1].name, "b");
  EXPECT_EQ(config.models[1].directory, "/b");
  EXPECT_EQ(config.models[1].backend, "");
  EXPECT_EQ(config.models[1].device, "auto");
  EXPECT_EQ(config.models[1].version, "1");
  EXPECT_EQ(config.models[1].cache_bytes, 0u);
  EXPECT_EQ(config.models[1].options_json, "{}");
}

TEST(ServerConfigTest, QuotedOptionsStayText) {
  ServerConfig config;
  ASSERT_TRUE(ReadConfigText("models: [{name: a, directory: d, options: {x: \"4\", y: 'true'}}]",
                             "server.yaml", &config)
                  .ok());
  EXPECT_EQ(config.models.at(0).options_json, R"({"x":"4","y":"true"})");
}

TEST(ServerConfigTest, OptionsThatReferToThemselves) {
  const std::string model = "models:\n- {name: a, directory: d, options: ";
  EXPECT_EQ(ErrorOf(model + "&o {x: [1, *o]}}"),
            "server.yaml:2: models[0].options: more than 4096 values, aliases counted in full");
  std::string doubled = "{a0: &a0 [1, 2]";
  for (int i = 1; i < 40; ++i) {
    absl::StrAppend(&doubled, ", a", i, ": &a", i, " [*a", i - 1, ", *a", i - 1, "]");
  }
  EXPECT_EQ(ErrorOf(model + doubled + "}}"),
            "server.yaml:2: models[0].options: more than 4096 values, aliases counted in full");
  EXPECT_EQ(ErrorOf(model + "{x: &x [1, 2], y: *x}}"), "");
}

TEST(ServerConfigTest, KeepsWhatTheFileDoesNotName) {
  ServerConfig config;
  config.threads = 5;
  ASSERT_TRUE(ReadConfigText("", "server.yaml", &config).ok());
  ASSERT_TRUE(ReadConfigText("scheduler:\nsessions: {max: 3}\n", "server.yaml", &config).ok());
  EXPECT_EQ(config.threads, 5u);
  EXPECT_EQ(config.max_batch_tokens, ServerConfig().max_batch_tokens);
  EXPECT_EQ(config.max_sessions, 3u);
}

TEST(ServerConfigTest, TheExampleOfTheDocumentationIsTheDefaults) {
  const std::string example = YamlBlock("docs/configuration.md");
  ASSERT_NE(example, "");
  ServerConfig config;
  const absl::Status status = ReadConfigText(example, "docs/configuration.md", &config);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_TRUE(CheckConfig(config).ok());
  ASSERT_EQ(config.models.size(), 1u);
  EXPECT_EQ(config.models[0].name, "hypenet");
  EXPECT_EQ(config.models[0].options_json, R"({"cache":"int8","weights":"int8"})");

  const ServerConfig defaults;
  EXPECT_EQ(config.listen, defaults.listen);
  EXPECT_EQ(config.metrics_listen, defaults.metrics_listen);
  EXPECT_EQ(config.plugin_directory, defaults.plugin_directory);
  EXPECT_EQ(config.threads, defaults.threads);
  EXPECT_EQ(config.grace, defaults.grace);
  EXPECT_EQ(config.log_level, defaults.log_level);
  EXPECT_EQ(config.max_batch_tokens, defaults.max_batch_tokens);
  EXPECT_EQ(config.max_batch_sequences, defaults.max_batch_sequences);
  EXPECT_EQ(config.max_open_turns, defaults.max_open_turns);
  EXPECT_EQ(config.max_waiting_turns, defaults.max_waiting_turns);
  EXPECT_EQ(config.stream_buffer_bytes, defaults.stream_buffer_bytes);
  EXPECT_EQ(config.max_decode_stretch, defaults.max_decode_stretch);
  EXPECT_EQ(config.max_connections, defaults.max_connections);
  EXPECT_EQ(config.max_connections_per_address, defaults.max_connections_per_address);
  EXPECT_EQ(config.handshake_timeout, defaults.handshake_timeout);
  EXPECT_EQ(config.first_request_timeout, defaults.first_request_timeout);
  EXPECT_EQ(config.channelz, defaults.channelz);
  EXPECT_EQ(config.connection_idle_timeout, defaults.connection_idle_timeout);
  EXPECT_EQ(config.max_sessions, defaults.max_sessions);
  EXPECT_EQ(config.idle_timeout, defaults.idle_timeout);
  EXPECT_EQ(config.max_idle_timeout, defaults.max_idle_timeout);
  EXPECT_EQ(config.session_host_bytes, defaults.session_host_bytes);
  const ModelConfig model;
  EXPECT_EQ(config.models[0].backend, model.backend);
  EXPECT_EQ(config.models[0].device, model.device);
  EXPECT_EQ(config.models[0].version, model.version);
}

// A file that is refused, and the error after "server.yaml:", which begins with the line.
const std::pair<const char*, const char*> kRefusals[] = {
    {"listen: [a]", "1: listen: expected a text, found a list"},
    {"listen:\n  a: b", "2: listen: expected a text, found a map"},
    {"\nthreads:\n\ngrace: 1s",
     "2: threads: expected a whole number from 0 to 1024, found nothing"},
    {"\n\nthreads: 1025", "3: threads: expected a whole number from 0 to 1024, found '1025'"},
    {"threads: -1", "1: threads: expected a whole number from 0 to 1024, found '-1'"},
    {"threads: 1.5", "1: threads: expected a whole number from 0 to 1024, found '1.5'"},
    {"threads: {}", "1: threads: expected a whole number from 0 to 1024, found a map"},
    {"threads: 99999999999999999999",
     "1: threads: expected a whole number from 0 to 1024, found '99999999999999999999'"},
    {"scheduler:\n  max_batch_sequences: 8\n  max_batch_tokens: many",
     "3: scheduler.max_batch_tokens: expected a whole number from 1 to 65536, found 'many'"},
    {"scheduler: {max_batch_sequences: 0}",
     "1: scheduler.max_batch_sequences: expected a whole number from 1 to 4096, found '0'"},
    {"scheduler: {max_open_turns: 0}",
     "1: scheduler.max_open_turns: expected a whole number from 1 to 1048576, found '0'"},
    {"scheduler: {max_waiting_turns: 1048577}",
     "1: scheduler.max_waiting_turns: expected a whole number from 0 to 1048576, found '1048577'"},
    {"sessions: {max: 16777217}",
     "1: sessions.max: expected a whole number from 0 to 16777216, found '16777217'"},
    {"grace: 30", "1: grace: expected a time such as 500ms, 30s or 1h30m, found '30'"},
    {"grace: inf", "1: grace: expected a time such as 500ms, 30s or 1h30m, found 'inf'"},
    {"grace: -1s", "1: grace: expected a time such as 500ms, 30s or 1h30m, found '-1s'"},
    {"sessions: {idle_timeout: [1s]}",
     "1: sessions.idle_timeout: expected a time such as 500ms, 30s or 1h30m, found a list"},
    {"max_message_bytes: 2GiB",
     "1: max_message_bytes: expected 64KiB to 1GiB, found 2147483648 bytes"},
    {"max_message_bytes: 1", "1: max_message_bytes: expected 64KiB to 1GiB, found 1 bytes"},
    {"threads: 1\nmax_transit_bytes: 63MiB",
     "2: max_transit_bytes: max_transit_bytes must be at least max_message_bytes = 67108864, found "
     "66060288"},
    {"max_transit_bytes: 64MiB\nmax_message_bytes: 65MiB",
     "2: max_message_bytes: max_transit_bytes must be at least max_message_bytes = 68157440, found "
     "67108864"},
    {"log_level: loud", "1: log_level: expected one of debug, info, warning, error, found 'loud'"},
    {"scheduler: {stream_buffer_bytes: 1TB}",
     "1: scheduler.stream_buffer_bytes: expected bytes such as 4096, 64MiB or 2GB, found '1TB'"},
    {"scheduler: {stream_buffer_bytes: []}",
     "1: scheduler.stream_buffer_bytes: expected bytes such as 4096, 64MiB or 2GB, found a list"},
    {"\nlisten: 127.0.0.1:99999",
     "2: listen: expected host:port such as 0.0.0.0:50051 or [::1]:50051, the port at most 65535, "
     "found '127.0.0.1:99999'"},
    {"sessions: {idle_timeout: 0s}", "1: sessions.idle_timeout: expected more than 0s, found 0s"},
    {"scheduler: {time_slice: 0s}", "1: scheduler.time_slice: expected more than 0s, found 0s"},
    {"scheduler: {client_timeout: 0s}",
     "1: scheduler.client_timeout: expected more than 0s, found 0s"},
    {"connections: {max: 1048577}",
     "1: connections.max: expected a whole number from 0 to 1048576, found '1048577'"},
    {"connections: {max_per_address: -1}",
     "1: connections.max_per_address: expected a whole number from 0 to 1048576, found '-1'"},
    {"connections: {handshake_timeout: 99ms}",
     "1: connections.handshake_timeout: expected 100ms to 1h, found 99ms"},
    {"connections: {handshake_timeout: 61m}",
     "1: connections.handshake_timeout: expected 100ms to 1h, found 1h1m"},
    {"connections: {first_request_timeout: 99ms}",
     "1: connections.first_request_timeout: expected 100ms to 24h, found 99ms"},
    {"connections: {first_request_timeout: 25h}",
     "1: connections.first_request_timeout: expected 100ms to 24h, found 25h"},
    {"connections: {channelz: yes}",
     "1: connections.channelz: expected one of true, false, found 'yes'"},
    {"connections: {idle_timeout: 0s}",
     "1: connections.idle_timeout: expected 100ms to 24h, found 0"},
    {"connections: {idle_timeout: 1000000h}",
     "1: connections.idle_timeout: expected 100ms to 24h, found 1000000h"},
    {"connections:\n  limit: 2",
     "2: connections: unknown key 'limit'; expected one of: max, max_per_address, "
     "handshake_timeout, first_request_timeout, idle_timeout, channelz"},
    {"models: [{name: a, directory: d, device: tpu}]",
     "1: models[0].device: expected auto, cpu, cuda or cuda:N, found 'tpu'"},
    {"sessions: {max_idle_timeout: 0s}",
     "1: sessions.max_idle_timeout: expected more than 0s, found 0s"},
    // Values of the wrong shape: a scalar instead of a map, and the like.
    {"just a text", "1: expected a map, found 'just a text'"},
    {"- a", "1: expected a map, found a list"},
    {"scheduler: 5", "1: scheduler: expected a map, found '5'"},
    {"models: {a: b}", "1: models: expected a list, found a map"},
    {"models: [a]", "1: models[0]: expected a map, found 'a'"},
    {"models: [{name: a, directory: d, options: 5}]",
     "1: models[0].options: expected a map, found '5'"},
    // Keys that are unknown or repeated.
    {"threads: 1\nthread: 2",
     "2: unknown key 'thread'; expected one of: listen, metrics_listen, max_message_bytes, "
     "max_transit_bytes, plugin_directory, threads, memory_bytes, grace, log_level, scheduler, "
     "connections, sessions, models"},
    {"scheduler:\n  batch: 2",
     "2: scheduler: unknown key 'batch'; expected one of: max_batch_tokens, max_batch_sequences, "
     "max_open_turns, max_waiting_turns, stream_buffer_bytes, client_timeout, time_slice, "
     "max_decode_stretch"},
    {"sessions: {limit: 2}",
     "1: sessions: unknown key 'limit'; expected one of: max, idle_timeout, max_idle_timeout, "
     "host_bytes"},
    {"sessions: {host_bytes: 1}",
     "1: sessions.host_bytes: expected 0, or 1MiB or more, found 1 bytes"},
    {"sessions: {host_bytes: 1048575}",
     "1: sessions.host_bytes: expected 0, or 1MiB or more, found 1048575 bytes"},
    {"sessions: {host_bytes: 18446744073709551616}",
     "1: sessions.host_bytes: expected bytes such as 4096, 64MiB or 2GB, found "
     "'18446744073709551616'"},
    {"models:\n- name: a\n  directory: d\n- name: b\n  dir: d",
     "5: models[1]: unknown key 'dir'; expected one of: name, directory, backend, device, version, "
     "cache_bytes, options"},
    {"[a]: 1",
     "1: unknown key ''; expected one of: listen, metrics_listen, max_message_bytes, "
     "max_transit_bytes, plugin_directory, threads, memory_bytes, grace, log_level, scheduler, "
     "connections, sessions, models"},
    {"threads: 1\nlisten: a:1\nthreads: 2", "3: key 'threads' is repeated"},
    {"sessions:\n  max: 1\n  max: 1", "3: sessions: key 'max' is repeated"},
    // A model needs a name of its own and a directory.
    {"models:\n- directory: d", "2: models[0]: a model needs the key name"},
    {"models:\n- name: a\n  directory: d\n- name: b",
     "4: models[1]: a model needs the key directory"},
    {"models:\n- {name: a, directory: d}\n- {name: a, directory: e}",
     "3: models[1]: two models are named a"},
    // If two keys disagree, the error names the line of the later key. A key that the file lacks
    // has its default.
    {"scheduler:\n  max_batch_tokens: 100\n  max_batch_sequences: 37",
     "3: scheduler.max_batch_sequences: max_batch_tokens must be at least max_batch_sequences + 64 "
     "= 101, found 100"},
    {"scheduler:\n  max_waiting_turns: 1\n  max_batch_tokens: 127",
     "3: scheduler.max_batch_tokens: max_batch_tokens must be at least max_batch_sequences + 64 = "
     "128, found 127"},
    {"sessions:\n  idle_timeout: 25h",
     "2: sessions.idle_timeout: idle_timeout, 25h, is more than max_idle_timeout, 24h"},
    {"sessions:\n  idle_timeout: 50m\n  max_idle_timeout: 49m",
     "3: sessions.max_idle_timeout: idle_timeout, 50m, is more than max_idle_timeout, 49m"},
};

TEST(ServerConfigErrorTest, NamesLineKeyExpectedAndFound) {
  for (const auto& [yaml, error] : kRefusals) {
    EXPECT_EQ(ErrorOf(yaml), std::string("server.yaml:") + error) << yaml;
  }
}

// The ends of each range. kRefusals has the values beyond.
TEST(ServerConfigTest, BothEndsOfEveryRange) {
  const char* accepted[] = {
      "threads: 0",
      "threads: 1024",
      "grace: 0s",
      "grace: 2562047788015215h",
      "max_message_bytes: 64KiB",
      "max_message_bytes: 1GiB",
      "max_transit_bytes: 64MiB",
      "max_transit_bytes: 18446744073709551615",
      "scheduler: {max_batch_tokens: 65, max_batch_sequences: 1}",
      "scheduler: {max_batch_tokens: 65536, max_batch_sequences: 4096}",
      "scheduler: {max_open_turns: 1, max_waiting_turns: 0}",
      "scheduler: {max_open_turns: 1048576, max_waiting_turns: 1048576}",
      "scheduler: {stream_buffer_bytes: 0}",
      "scheduler: {stream_buffer_bytes: 18446744073709551615}",
      "scheduler: {client_timeout: 1ns}",
      "scheduler: {client_timeout: 2562047788015215h}",
      "scheduler: {max_decode_stretch: 2}",
      "scheduler: {max_decode_stretch: 1000}",
      "sessions: {max: 16777216, idle_timeout: 1ns, max_idle_timeout: 1ns}",
      "sessions: {max_idle_timeout: 2562047788015215h}",
      "sessions: {host_bytes: 0}",
      "sessions: {host_bytes: 1MiB}",
      "sessions: {host_bytes: 18446744073709551615}",
      "models: [{name: a, directory: d, cache_bytes: 18446744073709551615}]",
      "models: [{name: a, directory: d, device: 'cuda:4294967295'}]",
  };
  for (const char* yaml : accepted) EXPECT_EQ(ErrorOf(yaml), "") << yaml;
  // Numbers that do not fit into their types.
  const char* refused[] = {
      "grace: 2562047788015216h",
      "grace: 99999999999999999999s",
      "scheduler: {client_timeout: 0.1ns}",
      "max_transit_bytes: 18446744073709551616",
      "max_transit_bytes: 17179869184GiB",
      "scheduler: {max_decode_stretch: 1}",
      "scheduler: {max_decode_stretch: 1001}",
      "scheduler: {max_batch_tokens: 65537}",
      "scheduler: {max_batch_sequences: 4097}",
      "scheduler: {max_open_turns: 18446744073709551617}",
      "models: [{name: a, directory: d, device: 'cuda:4294967296'}]",
  };
  for (const char* yaml : refused) {
    EXPECT_TRUE(ErrorOf(yaml).starts_with("server.yaml:1: ")) << yaml << ": " << ErrorOf(yaml);
  }
}

TEST(ServerConfigTest, LimitsOfRelations) {
  EXPECT_EQ(ErrorOf("scheduler:\n  max_batch_tokens: 100\n  max_batch_sequences: 36"), "");
  EXPECT_EQ(ErrorOf("sessions:\n  max_idle_timeout: 1h\n  idle_timeout: 1h"), "");
}

TEST(ServerConfigErrorTest, Addresses) {
  for (const char* good : {"127.0.0.1:0", "0.0.0.0:65535", "localhost:1", "'[::1]:50051'"}) {
    EXPECT_EQ(ErrorOf(std::string("listen: ") + good), "") << good;
    EXPECT_EQ(ErrorOf(std::string("metrics_listen: ") + good), "") << good;
  }
  for (const char* bad : {"50051", "a:", "':50051'", "a:b", "'::1:50051'", "a:-1", "a:+1", "a:1s",
                          "'a:1,b:2'", "a b:1", "http://a:1", "'[]:1'", "a:000001"}) {
    EXPECT_NE(ErrorOf(std::string("listen: ") + bad), "") << bad;
    EXPECT_NE(ErrorOf(std::string("metrics_listen: ") + bad), "") << bad;
  }
  EXPECT_NE(ErrorOf("listen: ''"), "");
}

// The checks of the configuration file do not cover values from flags, so CheckConfig checks them.
TEST(CheckConfigTest, ValuesOfFlags) {
  ServerConfig good;
  ASSERT_TRUE(AddModelFlag("a=d", &good).ok());
  good.metrics_listen = "";
  ASSERT_TRUE(CheckConfig(good).ok()) << CheckConfig(good);

  ServerConfig config = good;
  config.threads = 5000000;
  EXPECT_EQ(CheckConfig(config).message(),
            "threads: expected a whole number from 0 to 1024, found 5000000");
  config = good;
  config.listen = "127.0.0.1:99999";
  EXPECT_EQ(CheckConfig(config).message(),
            "listen: expected host:port such as 0.0.0.0:50051 or [::1]:50051, the port at most "
            "65535, found '127.0.0.1:99999'");
  config = good;
  config.metrics_listen = "9464";
  EXPECT_EQ(CheckConfig(config).message(),
            "metrics_listen: expected host:port such as 0.0.0.0:50051 or [::1]:50051, the port at "
            "most 65535, found '9464'");
}

TEST(ServerConfigErrorTest, NotYaml) {
  const std::string error = ErrorOf("listen: a\nthreads: [1");
  EXPECT_TRUE(error.starts_with("server.yaml:")) << error;
  EXPECT_NE(error.find(": not YAML: "), std::string::npos) << error;
}

TEST(ServerConfigErrorTest, Files) {
  const std::filesystem::path root = testing::TempDir();
  ServerConfig config;
  const std::string absent = (root / "longstream_no_such_file.yaml").string();
  absl::Status status = ReadConfigFile(absent, &config);
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_EQ(status.message(), absent + ": cannot be read");

  status = ReadConfigFile(root.string(), &config);
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_EQ(status.message(), root.string() + ": cannot be read");

  const std::string wrong = (root / "longstream_wrong.yaml").string();
  std::ofstream(wrong) << "\nthreads: x\n";
  status = ReadConfigFile(wrong, &config);
  EXPECT_EQ(status.message(),
            wrong + ":2: threads: expected a whole number from 0 to 1024, found 'x'");
  std::filesystem::remove(wrong);
}

TEST(CheckConfigTest, ThereIsAModel) {
  EXPECT_EQ(CheckConfig(ServerConfig()).message(),
            "models: no model is configured; name one in the file or with --model NAME=DIR");
}

}  // namespace
}  // namespace longstream
