// The command `longstream store`, which works on the files of a store.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/commands/commands.h"
#include "client/connection.h"
#include "client/output.h"
#include "service/sealing/sealing_keys.h"
#include "service/sessions/store/postgres/postgres_store.h"
#include "service/sessions/store/session_store.h"
#include "service/sessions/store/sqlite/sqlite_store.h"
#include "service/sessions/store/sqlite/store_files.h"

namespace longstream::client {
namespace {

// More faults than this say nothing new about a file.
constexpr size_t kMaxFaults = 1000;

struct StoreOptions {
  std::string directory;
  std::string destination;
  std::string segments;
  std::string keep_rewound = "24h";
  std::string keys;
  std::string compress = "none";
  bool unsealed = false;
};

[[noreturn]] void Refuse(const absl::Status& status) {
  std::cerr << "longstream: " << status.message() << "\n";
  throw ToldFailure{kCallFailed};
}

void PrintJson(const nlohmann::json& json) { Print(json.dump() + "\n"); }

// Null if no key file is named.
std::shared_ptr<const SealingKeys> KeysOf(const StoreOptions& options) {
  if (options.keys.empty()) return nullptr;
  absl::StatusOr<std::shared_ptr<const SealingKeys>> keys =
      SealingKeys::Read(options.keys, "--keys");
  if (!keys.ok()) Refuse(keys.status());
  return *std::move(keys);
}

bool IsPostgres(const StoreOptions& options) {
  return options.directory.starts_with("postgresql://") ||
         options.directory.starts_with("postgres://");
}

// Refuses a command whose work PostgreSQL's own tools do.
void RefusePostgres(const StoreOptions& options, const char* what) {
  if (IsPostgres(options)) Refuse(absl::FailedPreconditionError(what));
}

store::PostgresStore::Options PostgresOptions(const StoreOptions& options) {
  return {.url = options.directory,
          .password = "",
          .segments = options.segments,
          .sealing = {.keys = KeysOf(options)}};
}

std::unique_ptr<store::PostgresStore> OpenPostgres(const StoreOptions& options) {
  absl::StatusOr<std::unique_ptr<store::PostgresStore>> store =
      store::PostgresStore::OpenExisting(PostgresOptions(options));
  if (!store.ok()) Refuse(store.status());
  return *std::move(store);
}

absl::StatusOr<std::vector<std::string>> FaultsOf(const StoreOptions& options) {
  if (!IsPostgres(options)) {
    return store::CheckStore(options.directory, kMaxFaults, KeysOf(options));
  }
  store::PostgresStore::Options postgres = PostgresOptions(options);
  // A row of a large table may come after minutes, and that is no damage.
  postgres.commit_timeout = absl::Hours(24);
  return store::PostgresStore::CheckExisting(postgres, kMaxFaults);
}

void Check(const Global& global, const StoreOptions& options) {
  const absl::StatusOr<std::vector<std::string>> faults = FaultsOf(options);
  if (!faults.ok()) Refuse(faults.status());
  if (global.json) {
    PrintJson({{"faults", *faults}});
  } else if (faults->empty()) {
    Print("no damage found\n");
  } else {
    for (const std::string& fault : *faults) Print(fault + "\n");
  }
  if (!faults->empty()) throw ToldFailure{kCallFailed};
}

void BackUp(const Global& global, const StoreOptions& options) {
  RefusePostgres(options,
                 "a store in PostgreSQL is backed up by PostgreSQL's own tools, such as "
                 "`pg_dump --schema=longstream`, pg_basebackup or WAL archiving");
  const absl::Status status = store::BackUpStore(options.directory, options.destination);
  if (!status.ok()) Refuse(status);
  if (global.json) {
    PrintJson({{"backup", options.destination}});
  } else {
    Print("the backup is in " + options.destination + "\n");
  }
}

uint64_t BytesOf(const store::SessionStore& store) {
  uint64_t bytes = 0;
  for (const store::StoreBytes& part : store.Bytes()) bytes += part.bytes;
  return bytes;
}

void PrintCollected(const Global& global, size_t turns, uint64_t before, uint64_t after) {
  if (global.json) {
    PrintJson({{"turns", turns}, {"bytes_before", before}, {"bytes_after", after}});
  } else {
    Print("collected " + std::to_string(turns) + " turns; the store has " + HumanBytes(after) +
          ", before " + HumanBytes(before) + "\n");
  }
}

// Servers may be running, so the files of collected segments stay for a while. PostgreSQL gives
// space back by VACUUM.
void CollectInPostgres(const Global& global, const StoreOptions& options, absl::Duration keep) {
  const std::unique_ptr<store::PostgresStore> store = OpenPostgres(options);
  const uint64_t before = BytesOf(*store);
  const absl::StatusOr<size_t> turns = store->Collect(absl::Now() - keep);
  if (!turns.ok()) Refuse(turns.status());
  const auto removed = store->CollectSegments({.now = absl::Now(), .max_bytes = UINT64_MAX});
  if (!removed.ok()) Refuse(removed.status());
  PrintCollected(global, *turns, before, BytesOf(*store));
}

// Removes what was collected from the disk.
void Shrink(store::SqliteStore& store) {
  // No server runs, so no reader needs a collected file. The limit of bytes stays the server's.
  const store::SegmentCollection all = {
      .now = absl::Now(), .max_bytes = UINT64_MAX, .remove_after = absl::ZeroDuration()};
  if (const auto removed = store.CollectSegments(all); !removed.ok()) Refuse(removed.status());
  if (const absl::Status status = store.Compact(); !status.ok()) Refuse(status);
}

void Reseal(const Global& global, const StoreOptions& options) {
  RefusePostgres(options,
                 "segments of a store in PostgreSQL cannot be sealed again; those that no key of "
                 "store.keys opens are not used, and are computed again");
  const Sealing sealing = {
      .keys = KeysOf(options),
      .compression = options.compress == "zstd" ? Compression::kZstd : Compression::kNone};
  const absl::StatusOr<std::unique_ptr<store::SqliteStore>> store =
      store::SqliteStore::OpenExisting(options.directory, {.sealing = sealing});
  if (!store.ok()) Refuse(store.status());
  const absl::StatusOr<store::SqliteStore::Resealed> resealed =
      (*store)->Reseal(options.unsealed ? store::Unsealed::kSeal : store::Unsealed::kRefuse);
  if (!resealed.ok()) Refuse(resealed.status());
  Shrink(**store);
  const std::string& key = sealing.keys->first().id;
  if (global.json) {
    PrintJson({{"key", key}, {"segments", resealed->segments}, {"faults", resealed->faults}});
  } else {
    for (const std::string& fault : resealed->faults) Print(fault + "\n");
    Print("sealed " + std::to_string(resealed->segments) + " segments with the key '" + key +
          "'\n");
  }
  if (!resealed->faults.empty()) throw ToldFailure{kCallFailed};
}

void Collect(const Global& global, const StoreOptions& options) {
  absl::Duration keep;
  absl::ParseDuration(options.keep_rewound, &keep);  // CheckKeep has accepted it
  if (IsPostgres(options)) return CollectInPostgres(global, options, keep);
  const absl::StatusOr<std::unique_ptr<store::SqliteStore>> store =
      store::SqliteStore::OpenExisting(options.directory, {});
  if (!store.ok()) Refuse(store.status());
  const uint64_t before = BytesOf(**store);
  const absl::StatusOr<size_t> turns = (*store)->Collect(absl::Now() - keep);
  if (!turns.ok()) Refuse(turns.status());
  Shrink(**store);
  PrintCollected(global, *turns, before, BytesOf(**store));
}

std::string CheckKeep(const std::string& text) {
  absl::Duration keep;
  const bool ok = absl::ParseDuration(text, &keep) && keep >= absl::ZeroDuration() &&
                  keep <= absl::Hours(3650 * 24);
  return ok ? "" : "expected a time from 0s to 87600h, such as 24h or 30m, found '" + text + "'";
}

}  // namespace

void AddStore(CLI::App* app, const Global* global) {
  CLI::App* store = app->add_subcommand("store", "check, copy or shrink the files of a store");
  store->require_subcommand(1);
  auto options = std::make_shared<StoreOptions>();
  const auto add = [&](const char* name, const char* description, auto run) {
    CLI::App* command = store->add_subcommand(name, description);
    command
        ->add_option("directory", options->directory, "the directory or the URL that --store names")
        ->required();
    command->callback([global, options, run] { run(*global, *options); });
    return command;
  };
  const auto add_keys = [&](CLI::App* command) {
    return command->add_option("--keys", options->keys, "the key file that store.keys names");
  };
  const auto add_segments = [&](CLI::App* command) {
    command->add_option("--segments", options->segments,
                        "with PostgreSQL: the directory that store.segments names");
    return command;
  };
  add_keys(add_segments(add("check", "look for damage; the server may be running", Check)));
  add("backup", "copy the store as it is now; the server may be running", BackUp)
      ->add_option("destination", options->destination, "a directory without a store")
      ->required();
  add_segments(
      add("gc", "remove turns that no session can return to; of a directory, while no server runs",
          Collect))
      ->add_option("--keep-rewound", options->keep_rewound,
                   "keep turns that a session could return to until then")
      ->check(CLI::Validator(CheckKeep, ""))
      ->capture_default_str();
  CLI::App* reseal = add(
      "reseal", "seal again each segment that the first key has not sealed, while no server runs",
      Reseal);
  add_keys(reseal)->required();
  reseal->add_option("--compress", options->compress, "as store.compress")
      ->check(CLI::IsMember({"none", "zstd"}))
      ->capture_default_str();
  reseal->add_flag("--unsealed", options->unsealed,
                   "also seal segments that are not sealed: for a store that had no keys");
}

}  // namespace longstream::client
