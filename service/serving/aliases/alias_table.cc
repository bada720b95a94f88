// Finds, changes and lists aliases.
#include "service/serving/aliases/alias_table.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/serving/aliases/arm_choice.h"

namespace longstream {

AliasTable::AliasTable(const std::vector<AliasConfig>& aliases, prometheus::Registry* metrics,
                       std::shared_ptr<ArmBook> book)
    : registry_(metrics), book_(std::move(book)) {
  for (const AliasConfig& alias : aliases) Put(alias);
  TellBook();
}

absl::Status AliasTable::Chosen::Explain(const absl::Status& of_model) const {
  if (of_model.ok()) return of_model;
  const std::string chosen =
      absl::StrCat("model: alias ", alias, " has chosen its arm ", model, " for this call");
  if (absl::IsNotFound(of_model)) {
    return absl::FailedPreconditionError(
        absl::StrCat(chosen, ", a model that the server does not serve now"));
  }
  return absl::Status(of_model.code(), absl::StrCat(chosen, ": ", of_model.message()));
}

std::shared_ptr<const AliasTable::Entry> AliasTable::EntryOf(std::string_view name) const {
  absl::MutexLock lock(&mutex_);
  const auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : found->second;
}

std::optional<AliasTable::Chosen> AliasTable::Choose(std::string_view name, const SessionId& id,
                                                     const RouteAsk& ask,
                                                     const IsServed& is_served) const {
  const std::shared_ptr<const Entry> entry = EntryOf(name);
  if (entry == nullptr) return std::nullopt;
  const AliasConfig& alias = entry->alias;
  Chosen chosen{alias.name, "", nullptr};
  if (alias.route.has_value()) {
    std::vector<RouteArm> arms;
    arms.reserve(alias.arms.size());
    for (const AliasArm& arm : alias.arms) {
      const bool served = is_served == nullptr || is_served(arm.model);
      arms.push_back({arm.model, CostsOf(arm.model), served});
    }
    chosen.routing = std::make_shared<const RouteDecision>(ChooseRoute(arms, *alias.route, ask));
    chosen.model = alias.arms[chosen.routing->arm].model;
  } else {
    chosen.model = alias.arms[ChooseArm(alias, id)].model;
  }
  const auto metrics = entry->metrics.find(chosen.model);
  if (metrics != entry->metrics.end()) chosen.metrics = metrics->second;
  return chosen;
}

std::optional<ArmCosts> AliasTable::CostsOf(std::string_view model) const {
  return book_ == nullptr ? std::nullopt : book_->Find(model);
}

std::optional<AliasConfig> AliasTable::Find(std::string_view name) const {
  const std::shared_ptr<const Entry> entry = EntryOf(name);
  if (entry == nullptr) return std::nullopt;
  return entry->alias;
}

std::vector<AliasConfig> AliasTable::List() const {
  absl::MutexLock lock(&mutex_);
  std::vector<AliasConfig> list;
  list.reserve(entries_.size());
  for (const auto& [name, entry] : entries_) list.push_back(entry->alias);
  return list;
}

std::vector<std::string> AliasTable::NamesOf(std::string_view model) const {
  std::vector<std::string> names;
  for (const AliasConfig& alias : List()) {
    for (const AliasArm& arm : alias.arms) {
      if (arm.model == model) names.push_back(alias.name);
    }
  }
  return names;
}

std::shared_ptr<ArmMetrics> AliasTable::MetricsOf(std::string_view alias,
                                                  std::string_view model) const {
  const std::shared_ptr<const Entry> entry = EntryOf(alias);
  if (entry == nullptr) return nullptr;
  const auto found = entry->metrics.find(model);
  return found == entry->metrics.end() ? nullptr : found->second;
}

std::optional<AliasShadow> AliasTable::ShadowOf(std::string_view alias) const {
  const std::shared_ptr<const Entry> entry = EntryOf(alias);
  return entry == nullptr ? std::nullopt : entry->alias.shadow;
}

// ---------------------------------------------------------------- changes

std::shared_ptr<const AliasTable::Entry> AliasTable::MakeEntry(AliasConfig alias,
                                                               const Entry* earlier) const {
  auto entry = std::make_shared<Entry>();
  entry->alias = std::move(alias);
  if (registry_ == nullptr) return entry;
  for (const AliasArm& arm : entry->alias.arms) {
    std::shared_ptr<ArmMetrics>& metrics = entry->metrics[arm.model];
    if (earlier != nullptr && earlier->metrics.contains(arm.model)) {
      metrics = earlier->metrics.at(arm.model);
    } else {
      metrics = std::make_shared<ArmMetrics>(registry_, entry->alias.name, arm.model);
    }
    metrics->SetWeight(arm.weight);
  }
  if (earlier == nullptr) return entry;
  for (const auto& [model, metrics] : earlier->metrics) {
    if (!entry->metrics.contains(model)) metrics->Retire();
  }
  return entry;
}

void AliasTable::Put(AliasConfig alias) {
  const std::string name = alias.name;
  const std::shared_ptr<const Entry> earlier = EntryOf(name);
  std::shared_ptr<const Entry> entry = MakeEntry(std::move(alias), earlier.get());
  absl::MutexLock lock(&mutex_);
  entries_[name] = std::move(entry);
}

void AliasTable::Set(AliasConfig alias) {
  absl::MutexLock changing(&listener_mutex_);
  Put(std::move(alias));
  TellBook();
  TellListener();
}

bool AliasTable::Remove(std::string_view name) {
  absl::MutexLock changing(&listener_mutex_);
  std::shared_ptr<const Entry> removed;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = entries_.find(name);
    if (found == entries_.end()) return false;
    removed = std::move(found->second);
    entries_.erase(found);
  }
  for (const auto& [model, metrics] : removed->metrics) metrics->Retire();
  TellBook();
  TellListener();
  return true;
}

void AliasTable::SetListener(Listener changed) {
  absl::MutexLock changing(&listener_mutex_);
  listener_ = std::move(changed);
  TellListener();
}

void AliasTable::TellBook() {
  if (book_ == nullptr) return;
  std::set<std::string> models;
  for (const AliasConfig& alias : List()) {
    if (!alias.route.has_value()) continue;
    for (const AliasArm& arm : alias.arms) models.insert(arm.model);
  }
  book_->SetWanted(models);
}

void AliasTable::TellListener() {
  if (listener_) listener_(List());
}

}  // namespace longstream
