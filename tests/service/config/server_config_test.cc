// The configuration file: every key, and both ends of every range.
#include "service/config/server_config.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/service/config/config_error.h"

namespace longstream {
namespace {

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
  conversation_bytes: 2MiB
  ttl: 240h
  max_ttl: 480h
  keep_rewound: 12h
  resume_window: 45s
  rollback_bytes: 1MiB
  on_model_change: recompute
  imports: sealed
  max_transfers: 9
store:
  url: /store
  commit_timeout: 3s
  snapshot_bytes: 7GiB
  keys: /keys
  compress: zstd
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
  EXPECT_EQ(config.conversation_bytes, uint64_t{2} << 20);
  EXPECT_EQ(config.ttl, absl::Hours(240));
  EXPECT_EQ(config.max_ttl, absl::Hours(480));
  EXPECT_EQ(config.keep_rewound, absl::Hours(12));
  EXPECT_EQ(config.resume_window, absl::Seconds(45));
  EXPECT_EQ(config.rollback_bytes, 1u << 20);
  EXPECT_EQ(config.on_model_change, "recompute");
  EXPECT_EQ(config.imports, "sealed");
  EXPECT_EQ(config.max_transfers, 9u);
  EXPECT_EQ(config.store_url, "/store");
  EXPECT_EQ(config.store_commit_timeout, absl::Seconds(3));
  EXPECT_EQ(config.store_snapshot_bytes, uint64_t{7} << 30);
  EXPECT_EQ(config.store_keys, "/keys");
  EXPECT_EQ(config.store_compress, "zstd");

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

TEST(ServerConfigTest, Tenants) {
  ServerConfig config;
  const absl::Status status = ReadConfigText(R"(tenants:
  - name: acme-2.eu
    weight: 7
    sessions: 1
    session_bytes: 2MiB
    tokens_per_minute: 3
    turns: 4
    transfers: 5
  - {name: b}
)",
                                             "server.yaml", &config);
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(config.tenants.size(), 2u);
  EXPECT_EQ(config.tenants[0].name, "acme-2.eu");
  EXPECT_EQ(config.tenants[0].weight, 7u);
  EXPECT_EQ(config.tenants[0].quotas.sessions, 1u);
  EXPECT_EQ(config.tenants[0].quotas.session_bytes, 2u << 20);
  EXPECT_EQ(config.tenants[0].quotas.tokens_per_minute, 3u);
  EXPECT_EQ(config.tenants[0].quotas.turns, 4u);
  EXPECT_EQ(config.tenants[0].quotas.transfers, 5u);
  EXPECT_EQ(config.tenants[1].weight, 1u);
  EXPECT_EQ(config.tenants[1].quotas.sessions + config.tenants[1].quotas.turns, 0u);
  EXPECT_EQ(config.tenants[1].quotas.transfers, 16u);
  EXPECT_TRUE(ServerConfig().tenants.empty());
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
  EXPECT_TRUE(config.tenants.empty());
  EXPECT_EQ(config.listen, defaults.listen);
  EXPECT_EQ(config.metrics_listen, defaults.metrics_listen);
  EXPECT_EQ(config.plugin_directory, defaults.plugin_directory);
  EXPECT_EQ(config.threads, defaults.threads);
  EXPECT_EQ(config.grace, defaults.grace);
  EXPECT_EQ(config.drain_timeout, defaults.drain_timeout);
  EXPECT_EQ(config.fleet.peer_listen + config.fleet.replica_id + config.fleet.token_file, "");
  EXPECT_EQ(config.fleet.lease_ttl, defaults.fleet.lease_ttl);
  EXPECT_EQ(config.fleet.foreign, defaults.fleet.foreign);
  EXPECT_EQ(config.fleet.min_residency, defaults.fleet.min_residency);
  EXPECT_EQ(config.cluster_listen, "");
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
  EXPECT_EQ(config.conversation_bytes, defaults.conversation_bytes);
  EXPECT_EQ(config.ttl, defaults.ttl);
  EXPECT_EQ(config.max_ttl, defaults.max_ttl);
  EXPECT_EQ(config.keep_rewound, defaults.keep_rewound);
  EXPECT_EQ(config.resume_window, defaults.resume_window);
  EXPECT_EQ(config.rollback_bytes, defaults.rollback_bytes);
  EXPECT_EQ(config.on_model_change, "refuse");
  EXPECT_EQ(config.imports, "any");
  EXPECT_EQ(config.max_transfers, 64u);
  EXPECT_EQ(config.store_url, defaults.store_url);
  EXPECT_EQ(config.store_commit_timeout, defaults.store_commit_timeout);
  EXPECT_EQ(config.store_snapshot_bytes, defaults.store_snapshot_bytes);
  EXPECT_EQ(config.store_keys, "");
  EXPECT_EQ(config.store_compress, "none");
  EXPECT_EQ(config.http.listen, "");
  EXPECT_EQ(config.http.max_connections, defaults.http.max_connections);
  EXPECT_EQ(config.http.max_requests, defaults.http.max_requests);
  EXPECT_EQ(config.http.max_body_bytes, defaults.http.max_body_bytes);
  EXPECT_EQ(config.http.max_sessions, defaults.http.max_sessions);
  EXPECT_EQ(config.http.idle_timeout, defaults.http.idle_timeout);
  EXPECT_EQ(config.http.durable, defaults.http.durable);
  EXPECT_EQ(config.http.ttl, defaults.http.ttl);
  EXPECT_EQ(config.http.default_max_tokens, defaults.http.default_max_tokens);
  EXPECT_TRUE(config.http.page && config.http.allowed_origins.empty());
  for (const TlsConfig* const tls : {&config.tls, &config.metrics_tls, &config.http.tls}) {
    EXPECT_EQ(tls->certificate, "");
    EXPECT_EQ(tls->key, "");
    EXPECT_EQ(tls->client_ca, "");
    EXPECT_EQ(tls->client_certificates, defaults.tls.client_certificates);
  }
  EXPECT_EQ(config.security.credentials, "");
  EXPECT_EQ(config.security.open_health, defaults.security.open_health);
  EXPECT_EQ(config.security.plaintext_tokens, defaults.security.plaintext_tokens);
  EXPECT_EQ(config.security.metrics_credentials, defaults.security.metrics_credentials);
  const ModelConfig model;
  EXPECT_EQ(config.models[0].backend, model.backend);
  EXPECT_EQ(config.models[0].device, model.device);
  EXPECT_EQ(config.models[0].version, model.version);
}

// The ends of each range. kRefusals has the values beyond.
TEST(ServerConfigTest, BothEndsOfEveryRange) {
  const char* accepted[] = {
      "threads: 0",
      "threads: 1024",
      "grace: 0s",
      "grace: 87600h",
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
      "scheduler: {client_timeout: 87600h}",
      "scheduler: {max_decode_stretch: 2}",
      "scheduler: {max_decode_stretch: 1000}",
      "sessions: {max: 16777216, idle_timeout: 1ns, max_idle_timeout: 1ns}",
      "sessions: {max_idle_timeout: 87600h}",
      "sessions: {host_bytes: 0}",
      "sessions: {host_bytes: 1MiB}",
      "sessions: {conversation_bytes: 0}",
      "sessions: {conversation_bytes: 1MiB}",
      "sessions: {conversation_bytes: 18446744073709551615}",
      "sessions: {host_bytes: 18446744073709551615}",
      "sessions: {ttl: 1s, max_ttl: 1s, keep_rewound: 1s, resume_window: 0s}",
      "sessions: {ttl: 87600h, max_ttl: 87600h, keep_rewound: 87600h, resume_window: 24h}",
      "store: {url: '', commit_timeout: 100ms}",
      "models: [{name: a, directory: d, cache_bytes: 18446744073709551615}]",
      "models: [{name: a, directory: d, device: 'cuda:4294967295'}]",
  };
  for (const char* yaml : accepted) EXPECT_EQ(ErrorOf(yaml), "") << yaml;
  // Numbers that do not fit into their types.
  const char* refused[] = {
      "grace: 87600h1ns",
      "grace: 2562047788015216h",
      "grace: 99999999999999999999s",
      "scheduler: {client_timeout: 0.1ns}",
      "scheduler: {client_timeout: 87601h}",
      "scheduler: {time_slice: 87601h}",
      "sessions: {max_idle_timeout: 87601h}",
      "max_transit_bytes: 18446744073709551616",
      "max_transit_bytes: 17179869184GiB",
      "sessions: {max_ttl: 0s}",
      "sessions: {keep_rewound: 87601h}",
      "store: {url: [a]}",
      "sessions: {resume_window: -1s}",
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

TEST(ThreadsFlagTest, HasTheLimitsOfTheFile) {
  for (const auto& [text, threads] :
       {std::pair("0", 0u), {"7", 7u}, {"010", 10u}, {"1024", 1024u}}) {
    ServerConfig config;
    const absl::Status status = ReadThreadsFlag(text, &config);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(config.threads, threads);
  }
  for (const char* text : {"", "1025", "1099511627776", "99999999999999999999", "-1",
                           "-18446744073709551615", "0x10", "1.5", "many"}) {
    ServerConfig config;
    EXPECT_EQ(
        ReadThreadsFlag(text, &config).message(),
        "--threads: expected a whole number from 0 to 1024, found '" + std::string(text) + "'");
  }
}

// The checks of the configuration file do not cover values from flags, so CheckConfig checks them.
TEST(CheckConfigTest, ValuesOfFlags) {
  ServerConfig good;
  ASSERT_TRUE(AddModelFlag("a=d", &good).ok());
  good.metrics_listen = "";
  ASSERT_TRUE(CheckConfig(good).ok()) << CheckConfig(good);

  ServerConfig config = good;
  config.listen = "127.0.0.1:99999";
  EXPECT_EQ(CheckConfig(config).message(),
            "listen: expected host:port such as 0.0.0.0:50051 or [::1]:50051, the port at most "
            "65535, found '127.0.0.1:99999'");
  config = good;
  config.metrics_listen = "9464";
  EXPECT_EQ(CheckConfig(config).message(),
            "metrics_listen: expected host:port such as 0.0.0.0:50051 or [::1]:50051, the port at "
            "most 65535, found '9464'");
  config = good;
  config.cluster_listen = "9465";
  EXPECT_EQ(CheckConfig(config).message(),
            "cluster.listen: expected host:port such as 0.0.0.0:50051 or [::1]:50051, the port at "
            "most 65535, found '9465'");
}

// A token must not go over a network in plain text, and a flag may change the address.
TEST(CheckConfigTest, TokensNeedTlsOrLoopback) {
  ServerConfig good;
  ASSERT_TRUE(AddModelFlag("a=d", &good).ok());
  good.security.credentials = "f";
  ASSERT_TRUE(CheckConfig(good).ok()) << CheckConfig(good);

  ServerConfig config = good;
  config.listen = "0.0.0.0:50051";
  EXPECT_EQ(CheckConfig(config).message(),
            "security.credentials: tokens would reach listen, 0.0.0.0:50051, in plain text; set up "
            "TLS, listen on 127.0.0.1, or set security.plaintext_tokens: true");
  config.security.plaintext_tokens = true;
  EXPECT_TRUE(CheckConfig(config).ok());
  config.security.plaintext_tokens = false;
  config.tls = {.certificate = "c", .key = "k", .client_ca = ""};
  EXPECT_TRUE(CheckConfig(config).ok());
  config.metrics_listen = "0.0.0.0:9464";
  EXPECT_TRUE(CheckConfig(config).ok());
  config.security.metrics_credentials = true;
  EXPECT_EQ(CheckConfig(config).message(),
            "security.credentials: tokens would reach metrics_listen, 0.0.0.0:9464, in plain text; "
            "set up TLS, listen on 127.0.0.1, or set security.plaintext_tokens: true");
  config.metrics_tls = config.tls;
  EXPECT_TRUE(CheckConfig(config).ok());
  config.channelz = true;
  EXPECT_EQ(CheckConfig(config).message(),
            "connections.channelz: cannot be used with security.credentials, because channelz is "
            "gRPC's own and asks for none");
  config.channelz = false;
  config.security.credentials = "";
  EXPECT_EQ(CheckConfig(config).message(),
            "security.metrics_credentials: needs security.credentials");
}

TEST(CheckConfigTest, SealingNeedsAStoreAndKeys) {
  ServerConfig good;
  ASSERT_TRUE(AddModelFlag("a=d", &good).ok());
  good.store_url = "/store";
  good.store_keys = "/keys";
  good.store_compress = "zstd";
  good.imports = "sealed";
  EXPECT_TRUE(CheckConfig(good).ok()) << CheckConfig(good);
  ServerConfig config = good;
  config.store_url = "";
  EXPECT_EQ(CheckConfig(config).message(),
            "store.keys: there is no store; name one with store.url");
  config = good;
  config.store_keys = "";
  EXPECT_EQ(CheckConfig(config).message(),
            "store.compress: 'zstd' needs a key file; name one with store.keys");
  config.store_compress = "none";
  EXPECT_EQ(CheckConfig(config).message(),
            "sessions.imports: 'sealed' needs a key file; name one with store.keys");
}

TEST(CheckConfigTest, ThereIsAModel) {
  EXPECT_EQ(CheckConfig(ServerConfig()).message(),
            "models: no model is configured; name one in the file or with --model NAME=DIR");
}

TEST(CheckConfigTest, OnlyOperatorsReachTheirListener) {
  ServerConfig config;
  ASSERT_TRUE(ReadConfigText("admin:\n  listen: unix:/run/admin.sock\n"
                             "  model_directories: [/models, /more]",
                             "f", &config)
                  .ok());
  EXPECT_EQ(config.admin_model_directories, (std::vector<std::string>{"/models", "/more"}));
  EXPECT_TRUE(CheckConfig(config).ok()) << "models may come later";
  config.admin_listen = "127.0.0.1:0";
  EXPECT_EQ(CheckConfig(config).message(),
            "admin.listen: 127.0.0.1:0 is no Unix socket, so it needs security.credentials: only "
            "an operator may load models");
  config.security.credentials = "f";
  EXPECT_TRUE(CheckConfig(config).ok());
  config.admin_listen = "0.0.0.0:7000";
  EXPECT_EQ(CheckConfig(config).message(),
            "admin.listen: 0.0.0.0:7000 would take tokens in plain text from other hosts; set "
            "tls.certificate and tls.key, or security.plaintext_tokens");
  config.security.plaintext_tokens = true;
  EXPECT_TRUE(CheckConfig(config).ok());
  config.admin_listen = "nohost";
  EXPECT_FALSE(CheckConfig(config).ok());
}

}  // namespace
}  // namespace longstream
