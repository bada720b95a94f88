// The keys of an alias, their types and their limits.
#include "service/config/read_aliases.h"

#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace longstream {
namespace {

absl::Status ReadArms(const YamlNode& node, std::vector<AliasArm>* arms) {
  return node.ReadEntries([&](const std::string& model, const YamlNode& value) {
    AliasArm arm{model, 0};
    if (absl::Status status = value.Read(0, kMaxArmWeight, &arm.weight); !status.ok()) {
      return status;
    }
    arms->push_back(std::move(arm));
    return absl::OkStatus();
  });
}

absl::Status ReadShadow(const YamlNode& node, std::optional<AliasShadow>* shadow) {
  std::string share;
  shadow->emplace();
  absl::Status status = node.ReadMap({
      {"model", [&](const YamlNode& value) { return value.Read(&(*shadow)->model); }},
      {"share",
       [&](const YamlNode& value) {
         if (absl::Status read = value.Read(&share); !read.ok()) return read;
         if (absl::SimpleAtod(share, &(*shadow)->share)) return absl::OkStatus();
         return value.Error(absl::StrCat("expected a number from 0 to 1, found ", share));
       }},
  });
  if (!status.ok() || !share.empty()) return status;
  return node.Error("a shadow needs the key share");
}

absl::Status ReadBudget(const YamlNode& node, std::optional<absl::Duration>* time) {
  return node.ReadDuration(absl::Nanoseconds(1), kMaxRouteTime, &time->emplace());
}

absl::Status ReadRoute(const YamlNode& node, AliasConfig* alias) {
  RouteConfig& route = alias->route.emplace();
  const auto read_arm = [&](const YamlNode& arm) {
    return arm.Read(&alias->arms.emplace_back().model);
  };
  return node.ReadMap({
      {"arms", [&](const YamlNode& value) { return value.ReadList(read_arm); }},
      {"max_time_to_first_token",
       [&](const YamlNode& value) {
         return ReadBudget(value, &route.budgets.time_to_first_token);
       }},
      {"max_time_per_token",
       [&](const YamlNode& value) { return ReadBudget(value, &route.budgets.time_per_token); }},
      {"max_session_bytes",
       [&](const YamlNode& value) { return value.ReadBytes(&route.budgets.session_bytes); }},
      {"prompt_tokens",
       [&](const YamlNode& value) { return value.Read(1, kMaxRouteTokens, &route.prompt_tokens); }},
      {"max_tokens",
       [&](const YamlNode& value) { return value.Read(1, kMaxRouteTokens, &route.max_tokens); }},
  });
}

absl::Status ReadAlias(const YamlNode& node, AliasConfig* alias) {
  bool has_arms = false;
  const auto read_arms = [&](const YamlNode& value) {
    has_arms = true;
    return ReadArms(value, &alias->arms);
  };
  absl::Status status = node.ReadMap({
      {"name", [&](const YamlNode& value) { return value.Read(&alias->name); }},
      {"arms", read_arms},
      {"route", [&](const YamlNode& value) { return ReadRoute(value, alias); }},
      {"shadow", [&](const YamlNode& value) { return ReadShadow(value, &alias->shadow); }},
  });
  if (status.ok() && has_arms && alias->route.has_value()) {
    return node.Error("expected arms or route, found both");
  }
  return status;
}

}  // namespace

absl::Status ReadAliases(const YamlNode& node, ServerConfig* config) {
  std::vector<AliasConfig>* const aliases = &config->aliases;
  return node.ReadList([&](const YamlNode& entry) {
    AliasConfig alias;
    if (absl::Status status = ReadAlias(entry, &alias); !status.ok()) return status;
    if (alias.name.empty()) return entry.Error("an alias needs the key name");
    if (absl::Status status = CheckAlias(alias); !status.ok()) {
      return entry.Error({status.message().data(), status.message().size()});
    }
    for (const AliasConfig& other : *aliases) {
      if (other.name == alias.name) {
        return entry.Error(absl::StrCat("two aliases are named ", alias.name));
      }
    }
    if (aliases->size() == kMaxAliases) {
      return entry.Error(absl::StrCat("expected at most ", kMaxAliases, " aliases"));
    }
    config->alias_places[alias.name] = entry.Place();
    aliases->push_back(std::move(alias));
    return absl::OkStatus();
  });
}

absl::Status CheckAliases(const ServerConfig& config) {
  std::set<std::string> models;
  for (const ModelConfig& model : config.models) models.insert(model.name);
  for (const AliasConfig& alias : config.aliases) {
    const auto place = config.alias_places.find(alias.name);
    const auto wrong = [&](const auto&... what) {
      return absl::InvalidArgumentError(absl::StrCat(
          place == config.alias_places.end() ? "aliases" : place->second, ": ", what...));
    };
    if (models.contains(alias.name)) return wrong(alias.name, " is also the name of a model");
    for (const AliasArm& arm : alias.arms) {
      if (models.contains(arm.model)) continue;
      return wrong("an arm of ", alias.name, " is no model of this configuration: '", arm.model,
                   "'");
    }
    if (!alias.shadow.has_value() || models.contains(alias.shadow->model)) continue;
    return wrong("the shadow of ", alias.name, " is no model of this configuration: '",
                 alias.shadow->model, "'");
  }
  return absl::OkStatus();
}

}  // namespace longstream
