// Reads the flags with CLI11.
#include "service/program/command_line.h"

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace longstream {

absl::Status ReadCommandLine(int argc, char** argv, CommandLine* command_line, int* exit_code) {
  ServerConfig* const config = &command_line->config;
  CLI::App app("Longstream: session-based streaming generation over gRPC.");
  app.footer(
      "Examples:\n"
      "  longstream-server --model tiny=models/demo/hypenet\n"
      "  longstream-server --config server.yaml --listen 0.0.0.0:50051\n"
      "  longstream-server --model "
      "a=DIR,backend=hwfa2,options.window=64,options.full_layers=[2,5]");
  app.set_version_flag("--version", "longstream-server " LONGSTREAM_VERSION);
  std::string file;
  std::vector<std::string> models;
  ServerConfig flags;
  app.add_option("--config", file, "YAML file; flags override it");
  app.add_option("--model", models, "NAME=DIR[,key=value...]; may be repeated");
  CLI::Option* listen = app.add_option("--listen", flags.listen, "host:port for gRPC");
  CLI::Option* metrics = app.add_option("--metrics-listen", flags.metrics_listen,
                                        "host:port for Prometheus; empty: no metrics port");
  CLI::Option* http = app.add_option("--http-listen", flags.http.listen,
                                     "host:port for OpenAI's HTTP API; empty: no HTTP port");
  CLI::Option* plugins = app.add_option("--plugins", flags.plugin_directory, "plugin directory");
  // CLI11 would read 010 as 8, and its error for 2^40 names no limit.
  std::string threads_text;
  CLI::Option* threads = app.add_option("--threads", threads_text,
                                        "compute threads; 0: one per processor that may be used");
  CLI::Option* store =
      app.add_option("--store", flags.store_url,
                     "directory, or postgresql://..., for sessions that outlive the server");
  CLI::Option* admin = app.add_option("--admin-listen", flags.admin_listen,
                                      "unix:PATH or host:port for operators; empty: none");
  CLI::Option* replica = app.add_option("--replica-id", flags.fleet.replica_id,
                                        "name of this replica in a fleet; empty: the host's");
  CLI::Option* peers = app.add_option("--peer-listen", flags.fleet.peer_listen,
                                      "host:port for other replicas; empty: no fleet");
  CLI::Option* clients =
      app.add_option("--client-address", flags.fleet.client_address,
                     "host:port by which clients reach this replica of a fleet; empty: --listen");
  CLI::Option* cluster =
      app.add_option("--cluster-listen", flags.cluster_listen,
                     "host:port for health, ORCA and KEDA in plain text; empty: none");
  CLI::Option* level = app.add_option("--log-level", flags.log_level, "lowest level that is logged")
                           ->check(CLI::IsMember({"debug", "info", "warning", "error"}));
  app.add_flag("--check-config", command_line->check_config,
               "check the configuration, the plugins and the files of the models, print the result "
               "and exit with 0 or 1; no weights are loaded");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    *exit_code = app.exit(error) == 0 ? 0 : 2;
    return absl::CancelledError();
  }
  if (!file.empty()) {
    if (absl::Status status = ReadConfigFile(file, config); !status.ok()) return status;
  }
  if (listen->count() > 0) config->listen = flags.listen;
  if (metrics->count() > 0) config->metrics_listen = flags.metrics_listen;
  if (http->count() > 0) config->http.listen = flags.http.listen;
  if (plugins->count() > 0) config->plugin_directory = flags.plugin_directory;
  if (threads->count() > 0) {
    if (absl::Status status = ReadThreadsFlag(threads_text, config); !status.ok()) return status;
  }
  if (store->count() > 0) config->store_url = flags.store_url;
  if (admin->count() > 0) config->admin_listen = flags.admin_listen;
  if (replica->count() > 0) config->fleet.replica_id = flags.fleet.replica_id;
  if (peers->count() > 0) config->fleet.peer_listen = flags.fleet.peer_listen;
  if (clients->count() > 0) config->fleet.client_address = flags.fleet.client_address;
  if (cluster->count() > 0) config->cluster_listen = flags.cluster_listen;
  if (level->count() > 0) config->log_level = flags.log_level;
  if (absl::Status status = AddModelFlags(models, config); !status.ok()) return status;
  return CheckConfig(*config);
}

}  // namespace longstream
