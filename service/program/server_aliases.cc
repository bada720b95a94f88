// Reads the store's aliases, and logs what is served.
#include "service/program/server_aliases.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "service/serving/models/alias_admin.h"

namespace longstream {

std::string ArmsOf(const AliasConfig& alias) {
  if (alias.route.has_value()) {
    return absl::StrCat("route ",
                        absl::StrJoin(alias.arms, " ", [](std::string* text, const AliasArm& arm) {
                          absl::StrAppend(text, arm.model);
                        }));
  }
  return absl::StrJoin(alias.arms, " ", [](std::string* text, const AliasArm& arm) {
    absl::StrAppend(text, arm.model, "=", arm.weight);
  });
}

namespace {

// Empty: there is none.
std::string ShadowOf(const AliasConfig& alias) {
  if (!alias.shadow.has_value()) return "";
  return absl::StrCat(alias.shadow->model, "=", alias.shadow->share);
}

// `from`: "configuration" or "store", which has an operator's change.
void LogAlias(const AliasConfig& alias, const std::string& from, const JsonLog& log) {
  log.Write(LogLevel::kInfo, "alias",
            {{"alias", alias.name},
             {"arms", ArmsOf(alias)},
             {"shadow", ShadowOf(alias)},
             {"from", from}});
}

void LogDeletedAlias(const std::string& name, const JsonLog& log) {
  log.Write(LogLevel::kInfo, "alias_deleted", {{"alias", name}, {"from", "store"}});
}

void LogProblems(const std::vector<std::string>& problems, const JsonLog& log) {
  for (const std::string& problem : problems) {
    log.Write(LogLevel::kWarning, "alias_refused", {{"error", problem}});
  }
}

// Tells which aliases are not those of the configuration.
void LogAliases(const std::vector<AliasConfig>& configured, const std::vector<AliasConfig>& served,
                const JsonLog& log) {
  const auto has = [](const std::vector<AliasConfig>& list, const std::string& name) {
    return std::any_of(list.begin(), list.end(),
                       [&](const AliasConfig& alias) { return alias.name == name; });
  };
  for (const AliasConfig& alias : served) {
    const bool is_configured =
        std::find(configured.begin(), configured.end(), alias) != configured.end();
    LogAlias(alias, is_configured ? "configuration" : "store", log);
  }
  for (const AliasConfig& alias : configured) {
    if (has(served, alias.name)) continue;
    LogDeletedAlias(alias.name, log);
  }
}

}  // namespace

AliasFollower::Told LogsFollowed(const JsonLog* log) {
  return [log, told = std::vector<std::string>()](const AliasAdmin::Followed& followed) mutable {
    for (const AliasConfig& alias : followed.set) LogAlias(alias, "store", *log);
    for (const std::string& name : followed.removed) LogDeletedAlias(name, *log);
    if (followed.problems == told) return;
    told = followed.problems;
    LogProblems(told, *log);
  };
}

absl::StatusOr<std::shared_ptr<AliasTable>> OpenAliases(const ServerConfig& config,
                                                        store::SessionStore* store,
                                                        prometheus::Registry* registry,
                                                        const JsonLog& log,
                                                        std::shared_ptr<ArmBook> book) {
  std::vector<AliasConfig> served = config.aliases;
  if (store != nullptr) {
    const absl::StatusOr<std::vector<store::AliasRow>> rows = store->Aliases();
    if (!rows.ok()) return rows.status();
    std::set<std::string> models;
    for (const ModelConfig& model : config.models) models.insert(model.name);
    std::vector<std::string> problems;
    served = MergeAliases(config.aliases, *rows, models, &problems);
    LogProblems(problems, log);
  }
  LogAliases(config.aliases, served, log);
  return std::make_shared<AliasTable>(served, registry, std::move(book));
}

}  // namespace longstream
