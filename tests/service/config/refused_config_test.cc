// Every kind of wrong configuration file, with its whole message.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/config/server_config.h"
#include "tests/service/config/config_error.h"

namespace longstream {
namespace {

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
    {"admin: {listen: 'unix:'}", "1: admin.listen: expected unix:PATH or host:port, found 'unix:'"},
    {"admin: {listen: nohost}",
     "1: admin.listen: expected host:port such as 0.0.0.0:50051 or [::1]:50051, the port at most "
     "65535, found 'nohost'"},
    {"admin: {model_directories: models}",
     "1: admin.model_directories: expected a list, found 'models'"},
    {"admin: {model_directories: ['']}", "1: admin.model_directories[0]: expected a directory"},
    {"aliases: {name: a}", "1: aliases: expected a list, found a map"},
    {"aliases: [{arms: {m: 1}}]", "1: aliases[0]: an alias needs the key name"},
    {"aliases: [{name: a, weight: 1}]",
     "1: aliases[0]: unknown key 'weight'; expected one of: name, arms, route, shadow"},
    {"aliases: [{name: a b, arms: {m: 1}}]",
     "1: aliases[0]: name: expected 1 to 128 letters, digits, '.', '_' and '-', the first one a "
     "letter or a digit, found 'a b'"},
    {"aliases: [{name: a}]", "1: aliases[0]: arms: expected 1 to 8 models, found 0"},
    {"aliases: [{name: a, arms: [m]}]", "1: aliases[0].arms: expected a map, found a list"},
    {"aliases: [{name: a, arms: {m: 1, m: 2}}]", "1: aliases[0].arms: key 'm' is repeated"},
    {"aliases:\n- name: a\n  arms:\n    m: 1000001",
     "4: aliases[0].arms.m: expected a whole number from 0 to 1000000, found '1000001'"},
    {"aliases: [{name: a, arms: {m: 0.5}}]",
     "1: aliases[0].arms.m: expected a whole number from 0 to 1000000, found '0.5'"},
    {"aliases: [{name: a, arms: {m: 0, n: 0}}]",
     "1: aliases[0]: arms: expected a weight of 1 or more, found only 0"},
    {"aliases: [{name: a, arms: {a1: 1, a2: 1, a3: 1, a4: 1, a5: 1, a6: 1, a7: 1, a8: 1, a9: 1}}]",
     "1: aliases[0]: arms: expected 1 to 8 models, found 9"},
    {"aliases: [{name: a, arms: {m: 1}, shadow: {model: m}}]",
     "1: aliases[0].shadow: a shadow needs the key share"},
    {"aliases: [{name: a, arms: {m: 1}, shadow: {share: 0.5}}]",
     "1: aliases[0]: shadow.model: expected a model, found ''"},
    {"aliases: [{name: a, arms: {m: 1}, shadow: {model: m, share: many}}]",
     "1: aliases[0].shadow.share: expected a number from 0 to 1, found many"},
    {"aliases: [{name: a, arms: {m: 1}, shadow: {model: m, share: 1.5}}]",
     "1: aliases[0]: shadow.share: expected a number from 0 to 1, found 1.5"},
    {"aliases: [{name: a, arms: {m: 1}, shadow: {model: m, share: nan}}]",
     "1: aliases[0]: shadow.share: expected a number from 0 to 1, found nan"},
    {"aliases: [{name: a, arms: {m: 1}, shadow: m}]",
     "1: aliases[0].shadow: expected a map, found 'm'"},
    {"aliases: [{name: a, arms: {m: 1}, route: {arms: [m]}}]",
     "1: aliases[0]: expected arms or route, found both"},
    {"aliases: [{name: a, route: {}}]", "1: aliases[0]: arms: expected 1 to 8 models, found 0"},
    {"aliases: [{name: a, route: {arms: {m: 1}}}]",
     "1: aliases[0].route.arms: expected a list, found a map"},
    {"aliases: [{name: a, route: {arms: [m, m]}}]", "1: aliases[0]: arms: two have the model 'm'"},
    {"aliases: [{name: a, route: {arms: [m], max_tokens: 0}}]",
     "1: aliases[0].route.max_tokens: expected a whole number from 1 to 2147483648, found '0'"},
    {"aliases: [{name: a, route: {arms: [m], budget: 1}}]",
     "1: aliases[0].route: unknown key 'budget'; expected one of: arms, max_time_to_first_token, "
     "max_time_per_token, max_session_bytes, prompt_tokens, max_tokens"},
    {"aliases:\n- {name: a, arms: {m: 1}}\n- {name: a, arms: {n: 1}}",
     "3: aliases[1]: two aliases are named a"},
    {"tenants: {name: a}", "1: tenants: expected a list, found a map"},
    {"tenants: [{weight: 2}]", "1: tenants[0]: a tenant needs the key name"},
    {"tenants:\n  - name: a\n  - name: b\n  - name: a", "4: tenants[2]: two tenants are named a"},
    {"tenants: [{name: a b}]",
     "1: tenants[0].name: expected 1 to 64 letters, digits, dots, hyphens and underscores, found "
     "'a "
     "b'"},
    {"tenants: [{name: ''}]",
     "1: tenants[0].name: expected 1 to 64 letters, digits, dots, hyphens and underscores, found "
     "''"},
    {"tenants: [{name: a, weight: 0}]",
     "1: tenants[0].weight: expected a whole number from 1 to 1000, found '0'"},
    {"tenants: [{name: a, turns: -1}]",
     "1: tenants[0].turns: expected a whole number from 0 to 1048576, found '-1'"},
    {"tenants: [{name: a, tokens: 1}]",
     "1: tenants[0]: unknown key 'tokens'; expected one of: name, weight, sessions, "
     "session_bytes, tokens_per_minute, turns, transfers"},
    {"grace: 30",
     "1: grace: expected a time from 0 to 87600h, such as 500ms, 30s or 1h30m, found '30'"},
    {"grace: inf",
     "1: grace: expected a time from 0 to 87600h, such as 500ms, 30s or 1h30m, found 'inf'"},
    {"grace: -1s",
     "1: grace: expected a time from 0 to 87600h, such as 500ms, 30s or 1h30m, found '-1s'"},
    {"sessions: {idle_timeout: [1s]}",
     "1: sessions.idle_timeout: expected a time from 1ns to 87600h, such as 500ms, 30s or 1h30m, "
     "found a list"},
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
    {"sessions: {idle_timeout: 0s}",
     "1: sessions.idle_timeout: expected a time from 1ns to 87600h, such as 500ms, 30s or 1h30m, "
     "found '0s'"},
    {"scheduler: {time_slice: 0s}",
     "1: scheduler.time_slice: expected a time from 1ns to 87600h, such as 500ms, 30s or 1h30m, "
     "found '0s'"},
    {"scheduler: {client_timeout: 0s}",
     "1: scheduler.client_timeout: expected a time from 1ns to 87600h, such as 500ms, 30s or "
     "1h30m, found '0s'"},
    {"connections: {max: 1048577}",
     "1: connections.max: expected a whole number from 0 to 1048576, found '1048577'"},
    {"connections: {max_per_address: -1}",
     "1: connections.max_per_address: expected a whole number from 0 to 1048576, found '-1'"},
    {"connections: {handshake_timeout: 99ms}",
     "1: connections.handshake_timeout: expected a time from 100ms to 1h, such as 500ms, 30s or "
     "1h30m, found '99ms'"},
    {"connections: {handshake_timeout: 61m}",
     "1: connections.handshake_timeout: expected a time from 100ms to 1h, such as 500ms, 30s or "
     "1h30m, found '61m'"},
    {"connections: {first_request_timeout: 99ms}",
     "1: connections.first_request_timeout: expected a time from 100ms to 24h, such as 500ms, 30s "
     "or 1h30m, found '99ms'"},
    {"connections: {first_request_timeout: 25h}",
     "1: connections.first_request_timeout: expected a time from 100ms to 24h, such as 500ms, 30s "
     "or 1h30m, found '25h'"},
    {"connections: {channelz: yes}",
     "1: connections.channelz: expected one of true, false, found 'yes'"},
    {"connections: {idle_timeout: 0s}",
     "1: connections.idle_timeout: expected a time from 100ms to 24h, such as 500ms, 30s or 1h30m, "
     "found '0s'"},
    {"connections: {idle_timeout: 1000000h}",
     "1: connections.idle_timeout: expected a time from 100ms to 24h, such as 500ms, 30s or 1h30m, "
     "found '1000000h'"},
    {"tls: {certificate: a}", "1: tls: certificate and key: expected both or none of them"},
    {"metrics_tls: {client_ca: a}", "1: metrics_tls: client_ca: needs certificate and key"},
    {"tls: {certificate: a, key: b, client_certificates: required}",
     "1: tls: client_certificates: required needs client_ca"},
    {"tls: {certificate: a, key: b, client_ca: c, client_certificates: none}",
     "1: tls.client_certificates: expected one of optional, required, found 'none'"},
    {"tls: {cert: a}",
     "1: tls: unknown key 'cert'; expected one of: certificate, key, client_ca, "
     "client_certificates"},
    {"security: {open_health: 1}",
     "1: security.open_health: expected one of true, false, found '1'"},
    {"security: {tokens: a}",
     "1: security: unknown key 'tokens'; expected one of: credentials, open_health, "
     "plaintext_tokens, metrics_credentials"},
    {"connections:\n  limit: 2",
     "2: connections: unknown key 'limit'; expected one of: max, max_per_address, "
     "handshake_timeout, first_request_timeout, idle_timeout, channelz"},
    {"models: [{name: a, directory: d, device: tpu}]",
     "1: models[0].device: expected auto, cpu, cuda or cuda:N with N from 0 to 4294967295, found "
     "'tpu'"},
    {"sessions: {max_idle_timeout: 0s}",
     "1: sessions.max_idle_timeout: expected a time from 1ns to 87600h, such as 500ms, 30s or "
     "1h30m, found '0s'"},
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
     "max_transit_bytes, plugin_directory, threads, memory_bytes, grace, drain_timeout, "
     "log_level, scheduler, connections, sessions, store, tls, metrics_tls, security, admin, "
     "fleet, cluster, http, tenants, models, aliases"},
    {"scheduler:\n  batch: 2",
     "2: scheduler: unknown key 'batch'; expected one of: max_batch_tokens, max_batch_sequences, "
     "max_open_turns, max_waiting_turns, stream_buffer_bytes, client_timeout, time_slice, "
     "max_decode_stretch"},
    {"sessions: {limit: 2}",
     "1: sessions: unknown key 'limit'; expected one of: max, idle_timeout, max_idle_timeout, "
     "host_bytes, conversation_bytes, ttl, max_ttl, keep_rewound, resume_window, rollback_bytes, "
     "on_model_change, imports, max_transfers"},
    {"cluster: {port: 9465}", "1: cluster: unknown key 'port'; expected one of: listen"},
    {"cluster: {listen: 9465}",
     "1: cluster.listen: expected host:port such as 0.0.0.0:50051 or [::1]:50051, the port at most "
     "65535, found '9465'"},
    {"sessions: {max_transfers: 0}",
     "1: sessions.max_transfers: expected a whole number from 1 to 1048576, found '0'"},
    {"sessions: {imports: none}", "1: sessions.imports: expected one of any, sealed, found 'none'"},
    {"sessions: {conversation_bytes: 1048575}",
     "1: sessions.conversation_bytes: expected 0, or 1MiB or more, found 1048575 bytes"},
    {"sessions: {ttl: 999ms}",
     "1: sessions.ttl: expected a time from 1s to 87600h, such as 500ms, 30s or 1h30m, found "
     "'999ms'"},
    {"sessions: {ttl: 87601h}",
     "1: sessions.ttl: expected a time from 1s to 87600h, such as 500ms, 30s or 1h30m, found "
     "'87601h'"},
    {"sessions: {max_ttl: 87601h}",
     "1: sessions.max_ttl: expected a time from 1s to 87600h, such as 500ms, 30s or 1h30m, found "
     "'87601h'"},
    {"sessions: {keep_rewound: 0s}",
     "1: sessions.keep_rewound: expected a time from 1s to 87600h, such as 500ms, 30s or 1h30m, "
     "found '0s'"},
    {"sessions: {on_model_change: ask}",
     "1: sessions.on_model_change: expected one of refuse, recompute, found 'ask'"},
    {"sessions: {resume_window: 25h}",
     "1: sessions.resume_window: expected a time from 0 to 24h, such as 500ms, 30s or 1h30m, found "
     "'25h'"},
    {"store: {commit_timeout: 99ms}",
     "1: store.commit_timeout: expected a time from 100ms to 1h, such as 500ms, 30s or 1h30m, "
     "found '99ms'"},
    {"store: {commit_timeout: 2h}",
     "1: store.commit_timeout: expected a time from 100ms to 1h, such as 500ms, 30s or 1h30m, "
     "found '2h'"},
    {"store: {url: 'mysql://me:secret@host/db'}",
     "1: store.url: expected a directory or postgresql://..., found a URL of the kind 'mysql'"},
    {"store: {require_standby: on}",
     "1: store.require_standby: expected one of true, false, found 'on'"},
    {"store: {directory: a}",
     "1: store: unknown key 'directory'; expected one of: url, commit_timeout, segments, "
     "password_file, require_standby, snapshot_bytes, keys, compress"},
    {"store: {compress: gzip}", "1: store.compress: expected one of none, zstd, found 'gzip'"},
    {"sessions: {host_bytes: 1}",
     "1: sessions.host_bytes: expected 0, or 1MiB or more, found 1 bytes"},
    {"sessions: {host_bytes: 1048575}",
     "1: sessions.host_bytes: expected 0, or 1MiB or more, found 1048575 bytes"},
    {"sessions: {host_bytes: 18446744073709551616}",
     "1: sessions.host_bytes: expected at most 18446744073709551615 bytes, found "
     "'18446744073709551616'"},
    {"models:\n- name: a\n  directory: d\n- name: b\n  dir: d",
     "5: models[1]: unknown key 'dir'; expected one of: name, directory, backend, device, version, "
     "cache_bytes, options"},
    {"[a]: 1",
     "1: unknown key ''; expected one of: listen, metrics_listen, max_message_bytes, "
     "max_transit_bytes, plugin_directory, threads, memory_bytes, grace, drain_timeout, "
     "log_level, scheduler, connections, sessions, store, tls, metrics_tls, security, admin, "
     "fleet, cluster, http, tenants, models, aliases"},
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
    {"sessions:\n  ttl: 2161h", "2: sessions.ttl: ttl, 2161h, is more than max_ttl, 2160h"},
    {"sessions:\n  ttl: 2h\n  max_ttl: 1h",
     "3: sessions.max_ttl: ttl, 2h, is more than max_ttl, 1h"},
};

TEST(ServerConfigErrorTest, NamesLineKeyExpectedAndFound) {
  for (const auto& [yaml, error] : kRefusals) {
    EXPECT_EQ(ErrorOf(yaml), std::string("server.yaml:") + error) << yaml;
  }
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

TEST(CheckConfigTest, KeysForPostgresqlNeedSuchAStore) {
  ServerConfig good;
  ASSERT_TRUE(AddModelFlag("a=d", &good).ok());
  good.store_url = "postgresql://me@host/db";
  good.store_segments = "/segments";
  good.store_password_file = "/password";
  good.store_require_standby = true;
  EXPECT_TRUE(CheckConfig(good).ok()) << CheckConfig(good);
  good.store_url = "postgres://me@host/db";
  EXPECT_TRUE(CheckConfig(good).ok()) << CheckConfig(good);
  ServerConfig config = good;
  config.store_url = "/store";
  EXPECT_EQ(CheckConfig(config).message(),
            "store.require_standby: is for a store in PostgreSQL; store.url names none");
  config.store_require_standby = false;
  EXPECT_EQ(CheckConfig(config).message(),
            "store.password_file: is for a store in PostgreSQL; store.url names none");
  config.store_password_file = "";
  EXPECT_EQ(CheckConfig(config).message(),
            "store.segments: is for a store in PostgreSQL; store.url names none");
  config.store_segments = "";
  EXPECT_TRUE(CheckConfig(config).ok()) << CheckConfig(config);
}

}  // namespace
}  // namespace longstream
