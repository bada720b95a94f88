// The keys of the HTTP listener.
#include "service/config/http_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "service/config/server_config.h"
#include "tests/service/config/config_error.h"

namespace longstream {
namespace {

TEST(HttpConfigTest, ReadsEveryKey) {
  ServerConfig config;
  const absl::Status status = ReadConfigText(R"(
http:
  listen: 0.0.0.0:2
  max_connections: 7
  max_requests: 8
  max_body_bytes: 1MiB
  max_sessions: 9
  idle_timeout: 90s
  durable: true
  ttl: 48h
  default_max_tokens: 77
  page: false
  allowed_origins: ["https://chat.example.com", "http://[::1]:3000", "*"]
  tls: {certificate: /cert, key: /key, client_ca: /ca, client_certificates: required}
)",
                                             "server.yaml", &config);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(config.http.listen, "0.0.0.0:2");
  EXPECT_EQ(config.http.max_connections, 7u);
  EXPECT_EQ(config.http.max_requests, 8u);
  EXPECT_EQ(config.http.max_body_bytes, 1u << 20);
  EXPECT_EQ(config.http.max_sessions, 9u);
  EXPECT_EQ(config.http.idle_timeout, absl::Seconds(90));
  EXPECT_TRUE(config.http.durable);
  EXPECT_EQ(config.http.ttl, absl::Hours(48));
  EXPECT_EQ(config.http.default_max_tokens, 77u);
  EXPECT_FALSE(config.http.page);
  EXPECT_THAT(config.http.allowed_origins,
              testing::ElementsAre("https://chat.example.com", "http://[::1]:3000", "*"));
  EXPECT_EQ(config.http.tls.certificate, "/cert");
  EXPECT_EQ(config.http.tls.key, "/key");
  EXPECT_EQ(config.http.tls.client_ca, "/ca");
  EXPECT_EQ(config.http.tls.client_certificates, "required");
}

TEST(HttpConfigTest, BothEndsOfEveryRange) {
  for (const char* const yaml : {
           "http: {}",
           "http: {listen: ''}",
           "http: {listen: '[::1]:0'}",
           "http: {max_connections: 1, max_requests: 1, max_body_bytes: 1KiB, max_sessions: 1}",
           "http: {max_connections: 65536, max_requests: 65536, max_body_bytes: 1GiB}",
           "http: {max_sessions: 16777216, idle_timeout: 24h, default_max_tokens: 4294967295}",
           "http: {ttl: 1m}",
           "http: {ttl: 8760h}",
           "http: {idle_timeout: 1s, default_max_tokens: 0, durable: false, allowed_origins: []}",
       }) {
    EXPECT_EQ(ErrorOf(yaml), "") << yaml;
  }
}

TEST(HttpConfigTest, ErrorsNameTheKey) {
  const std::pair<const char*, const char*> refusals[] = {
      {"http: 8080", "1: http: expected a map, found '8080'"},
      {"http: {port: 8080}",
       "1: http: unknown key 'port'; expected one of: listen, max_connections, max_requests, "
       "max_body_bytes, max_sessions, idle_timeout, durable, ttl, default_max_tokens, "
       "page, allowed_origins, tls"},
      {"http: {listen: 8080}",
       "1: http.listen: expected host:port such as 0.0.0.0:50051 or [::1]:50051, the port at most "
       "65535, found '8080'"},
      {"http: {max_connections: 0}",
       "1: http.max_connections: expected a whole number from 1 to 65536, found '0'"},
      {"http: {max_connections: 65537}",
       "1: http.max_connections: expected a whole number from 1 to 65536, found '65537'"},
      {"http:\n  max_requests: 0",
       "2: http.max_requests: expected a whole number from 1 to 65536, found '0'"},
      {"http: {max_requests: 65537}",
       "1: http.max_requests: expected a whole number from 1 to 65536, found '65537'"},
      {"http: {max_body_bytes: 1023}",
       "1: http.max_body_bytes: expected 1KiB to 1GiB, found 1023 bytes"},
      {"http: {max_body_bytes: 2GiB}",
       "1: http.max_body_bytes: expected 1KiB to 1GiB, found 2147483648 bytes"},
      {"http: {max_body_bytes: much}",
       "1: http.max_body_bytes: expected bytes such as 4096, 64MiB or 2GB, found 'much'"},
      {"http: {max_sessions: 0}",
       "1: http.max_sessions: expected a whole number from 1 to 16777216, found '0'"},
      {"http: {max_sessions: 16777217}",
       "1: http.max_sessions: expected a whole number from 1 to 16777216, found '16777217'"},
      {"http: {idle_timeout: 999ms}",
       "1: http.idle_timeout: expected a time from 1s to 24h, such as 500ms, 30s or 1h30m, found "
       "'999ms'"},
      {"http: {idle_timeout: 25h}",
       "1: http.idle_timeout: expected a time from 1s to 24h, such as 500ms, 30s or 1h30m, found "
       "'25h'"},
      {"http: {durable: yes}", "1: http.durable: expected one of true, false, found 'yes'"},
      {"http: {ttl: 59s}",
       "1: http.ttl: expected a time from 1m to 8760h, such as 500ms, 30s or 1h30m, found '59s'"},
      {"http: {ttl: 8761h}",
       "1: http.ttl: expected a time from 1m to 8760h, such as 500ms, 30s or 1h30m, found "
       "'8761h'"},
      {"http: {default_max_tokens: 4294967296}",
       "1: http.default_max_tokens: expected a whole number from 0 to 4294967295, found "
       "'4294967296'"},
      {"http: {allowed_origins: '*'}", "1: http.allowed_origins: expected a list, found '*'"},
      {"http: {allowed_origins: [chat.example.com]}",
       "1: http.allowed_origins[0]: expected an origin in lower case such as "
       "https://chat.example.com or http://localhost:3000, without a path, or *; found "
       "'chat.example.com'"},
      {"http: {tls: {certificate: a}}",
       "1: http.tls: certificate and key: expected both or none of them"},
      {"http: {tls: {certificate: a, key: b, client_certificates: required}}",
       "1: http.tls: client_certificates: required needs client_ca"},
  };
  for (const auto& [yaml, error] : refusals) {
    EXPECT_EQ(ErrorOf(yaml), std::string("server.yaml:") + error) << yaml;
  }
}

// The error of a configuration whose keys disagree.
std::string Disagreement(const std::string& yaml) {
  ServerConfig config;
  absl::Status status = ReadConfigText(yaml, "server.yaml", &config);
  EXPECT_TRUE(status.ok()) << status;
  status = CheckConfig(config);
  return std::string(status.message());
}

TEST(HttpConfigTest, OtherKeysMustAllowTheListener) {
  const std::string models = "models: [{name: a, directory: d}]\n";
  const std::string here = models + "http: {listen: 'localhost:1'";
  EXPECT_EQ(Disagreement(here + "}"), "");
  EXPECT_EQ(Disagreement(here + ", durable: true}"),
            "http.durable: needs a store (store.url, or --store)");
  EXPECT_EQ(Disagreement(here + ", durable: true}\nstore: {url: a}"), "");
  const std::string short_ttl = "\nstore: {url: a}\nsessions: {ttl: 1h, max_ttl: 2h}";
  EXPECT_EQ(Disagreement(here + ", durable: true}" + short_ttl),
            "http.ttl, 24h, is more than sessions.max_ttl, 2h");
  EXPECT_EQ(Disagreement(here + ", durable: true, ttl: 2h}" + short_ttl), "");
  EXPECT_EQ(Disagreement(here + "}" + short_ttl), "") << "its sessions are in memory";
  const std::string short_sessions = "\nsessions: {idle_timeout: 1m, max_idle_timeout: 5m}";
  EXPECT_EQ(Disagreement(here + "}" + short_sessions),
            "http.idle_timeout, 10m, is more than sessions.max_idle_timeout, 5m");
  EXPECT_EQ(Disagreement(here + ", idle_timeout: 5m}" + short_sessions), "");
  EXPECT_EQ(Disagreement(models + "http: {durable: true}" + short_sessions), "") << "no listener";

  // A token must not go over a network in plain text.
  const std::string open = models + "security: {credentials: c}\nhttp: {listen: '0.0.0.0:1'";
  EXPECT_EQ(
      Disagreement(open + "}"),
      "security.credentials: tokens would reach http.listen, 0.0.0.0:1, in plain text; set up "
      "TLS, listen on 127.0.0.1, or set security.plaintext_tokens: true");
  EXPECT_EQ(Disagreement(open + ", tls: {certificate: a, key: b}}"), "");
  EXPECT_EQ(Disagreement(models + "security: {credentials: c, plaintext_tokens: true}\n"
                                  "http: {listen: '0.0.0.0:1'}"),
            "");
  EXPECT_EQ(Disagreement(models + "security: {credentials: c}\nhttp: {listen: '127.0.0.1:1'}"), "");
}

}  // namespace
}  // namespace longstream
