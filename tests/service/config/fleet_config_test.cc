// The keys of the fleet, and what they need.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <string>
#include <utility>

#include "service/config/read_fleet.h"
#include "service/config/server_config.h"
#include "tests/service/config/config_error.h"

namespace longstream {
namespace {

TEST(FleetConfigTest, ReadsEveryKey) {
  ServerConfig config;
  const absl::Status status = ReadConfigText(R"(
drain_timeout: 45s
fleet:
  replica_id: replica-1.a_b
  peer_listen: 0.0.0.0:50052
  peer_address: replica-1:50052
  client_address: replica-1:50051
  token_file: /token
  lease_ttl: 20s
  foreign: redirect
  min_residency: 1m
)",
                                             "server.yaml", &config);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(config.drain_timeout, absl::Seconds(45));
  EXPECT_EQ(config.fleet.replica_id, "replica-1.a_b");
  EXPECT_EQ(config.fleet.peer_listen, "0.0.0.0:50052");
  EXPECT_EQ(config.fleet.peer_address, "replica-1:50052");
  EXPECT_EQ(config.fleet.client_address, "replica-1:50051");
  EXPECT_EQ(config.fleet.token_file, "/token");
  EXPECT_EQ(config.fleet.lease_ttl, absl::Seconds(20));
  EXPECT_EQ(config.fleet.foreign, "redirect");
  EXPECT_EQ(config.fleet.min_residency, absl::Minutes(1));
  EXPECT_TRUE(config.fleet.enabled());
}

TEST(FleetConfigTest, ByDefaultThereIsNoFleet) {
  const ServerConfig config;
  EXPECT_FALSE(config.fleet.enabled());
  EXPECT_EQ(config.drain_timeout, absl::Seconds(30));
  EXPECT_EQ(config.fleet.lease_ttl, absl::Seconds(10));
  EXPECT_EQ(config.fleet.foreign, "fetch");
  EXPECT_EQ(config.fleet.min_residency, absl::Seconds(5));
}

TEST(FleetConfigTest, EndsOfRanges) {
  for (const char* yaml :
       {"fleet: {lease_ttl: 2s}", "fleet: {lease_ttl: 5m}", "fleet: {min_residency: 0s}",
        "fleet: {min_residency: 1h}", "drain_timeout: 0s", "drain_timeout: 87600h",
        "fleet: {foreign: fetch}", "fleet: {peer_listen: ''}", "fleet:"}) {
    EXPECT_EQ(ErrorOf(yaml), "") << yaml;
  }
  const std::pair<const char*, const char*> refused[] = {
      {"fleet: {lease_ttl: 1s}",
       "server.yaml:1: fleet.lease_ttl: expected a time from 2s to 5m, such as 500ms, 30s or "
       "1h30m, found '1s'"},
      {"fleet: {lease_ttl: 301s}",
       "server.yaml:1: fleet.lease_ttl: expected a time from 2s to 5m, such as 500ms, 30s or "
       "1h30m, found '301s'"},
      {"fleet: {min_residency: 61m}",
       "server.yaml:1: fleet.min_residency: expected a time from 0 to 1h, such as 500ms, 30s or "
       "1h30m, found '61m'"},
      {"fleet: {foreign: ask}",
       "server.yaml:1: fleet.foreign: expected one of fetch, redirect, found 'ask'"},
      {"fleet: {replica_id: a/1}",
       "server.yaml:1: fleet.replica_id: expected 1 to 64 letters, digits, '.', '_' or '-', found "
       "'a/1'"},
      {"fleet: {peer_listen: nohost}",
       "server.yaml:1: fleet.peer_listen: expected host:port such as 0.0.0.0:50051 or "
       "[::1]:50051, the port at most 65535, found 'nohost'"},
      {"fleet: {peers: 2}",
       "server.yaml:1: fleet: unknown key 'peers'; expected one of: replica_id, peer_listen, "
       "peer_address, client_address, token_file, lease_ttl, foreign, min_residency"},
  };
  for (const auto& [yaml, error] : refused) EXPECT_EQ(ErrorOf(yaml), error);
}

// A replica on one machine, without credentials.
ServerConfig LocalReplica() {
  ServerConfig config;
  EXPECT_TRUE(AddModelFlag("a=d", &config).ok());
  config.store_url = "postgresql://user@host/database";
  config.fleet.replica_id = "a";
  config.fleet.peer_listen = "127.0.0.1:0";
  return config;
}

std::string Refusal(const ServerConfig& config) {
  return std::string(CheckConfig(config).message());
}

TEST(CheckFleetTest, NeedsAStoreThatReplicasShare) {
  ServerConfig config = LocalReplica();
  EXPECT_EQ(Refusal(config), "");
  for (const char* url : {"", "/directory"}) {
    config.store_url = url;
    EXPECT_EQ(Refusal(config),
              "fleet.peer_listen: a fleet needs store.url = postgresql://..., which its replicas "
              "share");
  }
}

TEST(CheckFleetTest, FlagsHaveTheLimitsOfTheFile) {
  ServerConfig config = LocalReplica();
  config.fleet.replica_id = std::string(65, 'a');
  EXPECT_TRUE(Refusal(config).starts_with("fleet.replica_id: expected 1 to 64 letters"));
  config = LocalReplica();
  config.fleet.peer_listen = "127.0.0.1:99999";
  EXPECT_TRUE(Refusal(config).starts_with("fleet.peer_listen: expected host:port"));
}

TEST(CheckFleetTest, KeysThatNeedAFleet) {
  ServerConfig config;
  ASSERT_TRUE(AddModelFlag("a=d", &config).ok());
  config.fleet.token_file = "/token";
  EXPECT_EQ(Refusal(config),
            "fleet.token_file: is for a replica of a fleet; fleet.peer_listen names no address");
}

TEST(CheckFleetTest, AWildcardIsNoAddressForOthers) {
  ServerConfig config = LocalReplica();
  config.security.credentials = "f";
  config.tls = {.certificate = "c", .key = "k", .client_ca = "a"};
  for (const char* address : {"0.0.0.0:7000", "[::]:7000"}) {
    config.fleet.peer_listen = address;
    config.fleet.peer_address = "";
    EXPECT_EQ(Refusal(config), "fleet.peer_address: is needed, because fleet.peer_listen, " +
                                   std::string(address) +
                                   ", does not say where others find this server");
    config.fleet.peer_address = "replica:7000";
    EXPECT_EQ(Refusal(config), "");
  }
  config.fleet.peer_address = "0.0.0.0:7000";
  EXPECT_EQ(Refusal(config),
            "fleet.peer_address: '0.0.0.0:7000' is no address that others can connect to");
  config.fleet.peer_address = "replica:7000";
  config.listen = "0.0.0.0:50051";
  EXPECT_EQ(Refusal(config),
            "fleet.client_address: is needed, because listen, 0.0.0.0:50051, does not say where "
            "others find this server");
  config.fleet.client_address = "replica:50051";
  EXPECT_EQ(Refusal(config), "");
}

TEST(CheckFleetTest, OnlyReplicasMayCall) {
  ServerConfig config = LocalReplica();
  config.fleet.peer_listen = "10.0.0.1:7000";
  EXPECT_EQ(Refusal(config),
            "fleet.peer_listen: 10.0.0.1:7000 can be reached from other hosts, so it needs "
            "security.credentials: only a replica may call");
  config.security.credentials = "f";
  EXPECT_TRUE(Refusal(config).starts_with("fleet.token_file: is needed")) << Refusal(config);
  config.fleet.token_file = "/token";
  EXPECT_EQ(Refusal(config),
            "fleet.peer_listen: 10.0.0.1:7000 would take tokens in plain text from other hosts; "
            "set tls.certificate, tls.key and tls.client_ca, or security.plaintext_tokens");
  config.security.plaintext_tokens = true;
  EXPECT_EQ(Refusal(config), "");
  config.security.plaintext_tokens = false;
  config.tls = {.certificate = "c", .key = "k", .client_ca = ""};
  EXPECT_EQ(Refusal(config),
            "fleet.peer_listen: needs tls.client_ca, whose authorities sign the certificates of "
            "the other replicas");
  config.tls.client_ca = "a";
  EXPECT_EQ(Refusal(config), "");
  config.fleet.token_file = "";
  EXPECT_EQ(Refusal(config), "");
  config.tls = {};
  config.fleet.peer_listen = "127.0.0.1:7000";
  EXPECT_TRUE(Refusal(config).starts_with("fleet.token_file: is needed")) << Refusal(config);
}

TEST(ReplicaTest, IsNamedAfterItsHost) {
  std::array<char, 256> host{};
  ASSERT_EQ(gethostname(host.data(), host.size() - 1), 0);
  EXPECT_EQ(ReplicaIdOf({}), host.data());
  FleetConfig named;
  named.replica_id = "a";
  EXPECT_EQ(ReplicaIdOf(named), "a");
}

TEST(ReplicaTest, TellsThePortThatWasTaken) {
  EXPECT_EQ(AdvertisedAddress("", "127.0.0.1:0", 4711), "127.0.0.1:4711");
  EXPECT_EQ(AdvertisedAddress("", "[::1]:1", 1), "[::1]:1");
  EXPECT_EQ(AdvertisedAddress("replica:50052", "0.0.0.0:0", 4711), "replica:50052");
}

}  // namespace
}  // namespace longstream
