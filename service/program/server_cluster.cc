// Starts the meter and the cluster's listener.
#include "service/program/server_cluster.h"

namespace longstream {

absl::StatusOr<std::unique_ptr<ServerCluster>> ServerCluster::Start(
    const ServerConfig& config, const std::shared_ptr<prometheus::Registry>& registry,
    uint64_t memory_bytes, GrpcServer::Options* clients) {
  LoadMeter::Options options;
  options.places = config.max_batch_sequences;
  options.memory_limit = memory_bytes;
  std::unique_ptr<ServerCluster> cluster(new ServerCluster(registry, options));
  if (config.cluster_listen.empty()) return cluster;
  ClusterServer::Options listener;
  listener.listen = config.cluster_listen;
  listener.on_call_end = clients->on_call_end;
  listener.connection_metrics = &cluster->connections_;
  absl::StatusOr<std::unique_ptr<ClusterServer>> server =
      ClusterServer::Start(listener, &cluster->meter_);
  if (!server.ok()) return server.status();
  cluster->server_ = *std::move(server);
  clients->on_serving = [raw = cluster->server_.get()](bool serving) { raw->SetReady(serving); };
  return cluster;
}

}  // namespace longstream
