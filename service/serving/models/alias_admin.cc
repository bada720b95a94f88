// Checks changes of aliases, makes them durable, and then puts them into the table.
#include "service/serving/models/alias_admin.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "service/config/names.h"
#include "service/serving/answer_in_time.h"
#include "service/serving/log/alias_codec.h"

namespace longstream {
namespace {

// `field`: of the alias, here and in CheckArm.
absl::Status ArmIsAlias(const char* field, const std::string& model) {
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": ", EscapedName(model), " is an alias; expected a model"));
}

// " is an arm of ", and the aliases. REQUIRES: there is one.
std::string IsArmOf(const std::set<std::string>& aliases) {
  return absl::StrCat(" is an arm of ", aliases.size() == 1 ? "alias " : "the aliases ",
                      absl::StrJoin(aliases, ", "));
}

// The order of arms with weights means nothing.
AliasConfig InOrder(AliasConfig alias) {
  if (alias.route.has_value()) return alias;
  std::sort(alias.arms.begin(), alias.arms.end(),
            [](const AliasArm& a, const AliasArm& b) { return a.model < b.model; });
  return alias;
}

// The alias of a row; without arms, the alias was deleted.
absl::StatusOr<AliasConfig> AliasOf(const store::AliasRow& row,
                                    const std::set<std::string>& models) {
  absl::StatusOr<AliasConfig> alias = DecodeAlias(row.name, row.arms);
  if (!alias.ok() || alias->arms.empty()) return alias;
  if (absl::Status status = CheckAlias(*alias); !status.ok()) return status;
  if (models.contains(row.name)) {
    return absl::AlreadyExistsError("a model has this name");
  }
  return alias;
}

// The names of the aliases that there are if every row can be used.
std::set<std::string> AliasNames(const std::vector<AliasConfig>& configured,
                                 const std::vector<store::AliasRow>& rows,
                                 const std::set<std::string>& models) {
  std::set<std::string> names;
  for (const AliasConfig& alias : configured) names.insert(alias.name);
  for (const store::AliasRow& row : rows) {
    const absl::StatusOr<AliasConfig> alias = AliasOf(row, models);
    if (alias.ok() && alias->arms.empty()) names.erase(row.name);
    if (alias.ok() && !alias->arms.empty()) names.insert(row.name);
  }
  return names;
}

absl::Status CheckArmsAreModels(const AliasConfig& alias, const std::set<std::string>& aliases) {
  for (const AliasArm& arm : alias.arms) {
    if (aliases.contains(arm.model)) return ArmIsAlias("arms", arm.model);
  }
  if (!alias.shadow.has_value() || !aliases.contains(alias.shadow->model)) return absl::OkStatus();
  return ArmIsAlias("shadow.model", alias.shadow->model);
}

}  // namespace

std::vector<AliasConfig> MergeAliases(const std::vector<AliasConfig>& configured,
                                      const std::vector<store::AliasRow>& rows,
                                      const std::set<std::string>& models,
                                      std::vector<std::string>* problems,
                                      std::set<std::string>* refused) {
  std::map<std::string, AliasConfig> merged;
  for (const AliasConfig& alias : configured) merged[alias.name] = alias;
  const std::set<std::string> names = AliasNames(configured, rows, models);
  for (const store::AliasRow& row : rows) {
    absl::StatusOr<AliasConfig> alias = AliasOf(row, models);
    if (alias.ok()) {
      if (absl::Status status = CheckArmsAreModels(*alias, names); !status.ok()) alias = status;
    }
    if (alias.ok() && alias->arms.empty()) {
      merged.erase(row.name);
    } else if (alias.ok() && (merged.contains(row.name) || merged.size() < kMaxAliases)) {
      merged[row.name] = *std::move(alias);
    } else {
      if (refused != nullptr) refused->insert(row.name);
      problems->push_back(
          absl::StrCat("alias ", EscapedName(row.name), " of the store is not used: ",
                       alias.ok() ? absl::StrCat("there are ", kMaxAliases, " already, the limit")
                                  : std::string(alias.status().message())));
    }
  }
  std::vector<AliasConfig> aliases;
  aliases.reserve(merged.size());
  for (auto& [name, alias] : merged) aliases.push_back(std::move(alias));
  return aliases;
}

AliasAdmin::AliasAdmin(const ModelRegistry* models, AliasTable* table, Timers* timers,
                       Options options)
    : models_(models), table_(table), timers_(timers), options_(std::move(options)) {}

AliasAdmin::~AliasAdmin() {
  absl::MutexLock lock(&mutex_);
  const auto none = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return pending_ == 0; };
  mutex_.Await(absl::Condition(&none));
}

// ---------------------------------------------------------------- checks

const AliasConfig* AliasAdmin::ConfiguredOf(const std::string& name) const {
  const auto found = std::find_if(options_.configured.begin(), options_.configured.end(),
                                  [&](const AliasConfig& alias) { return alias.name == name; });
  return found == options_.configured.end() ? nullptr : &*found;
}

bool AliasAdmin::IsChanged(const AliasConfig& alias) const {
  const AliasConfig* const configured = ConfiguredOf(alias.name);
  return configured == nullptr || InOrder(*configured) != InOrder(alias);
}

bool AliasAdmin::HasAlias(std::string_view name) const {
  return table_->Has(name) || changing_.contains(name);
}

std::set<std::string> AliasAdmin::NamesOf(std::string_view model) const {
  std::set<std::string> names;
  for (std::string& name : table_->NamesOf(model)) names.insert(std::move(name));
  for (const auto& [name, alias] : changing_) {
    for (const AliasArm& arm : alias.arms) {
      if (arm.model == model) names.insert(name);
    }
  }
  return names;
}

absl::Status AliasAdmin::CheckArm(const char* field, const std::string& model) const {
  if (HasAlias(model)) return ArmIsAlias(field, model);
  const absl::StatusOr<ModelStatus> status = models_->Status(model);
  if (!status.ok()) {
    return absl::NotFoundError(absl::StrCat(field, ": no model ", EscapedName(model)));
  }
  if (status->state != ModelState::kDraining && status->state != ModelState::kGone) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat(field, ": model ", model, " is being unloaded"));
}

absl::Status AliasAdmin::Check(const AliasConfig& alias) const {
  if (absl::Status status = CheckAlias(alias); !status.ok()) return status;
  if (models_->Status(alias.name).ok()) {
    return absl::AlreadyExistsError(absl::StrCat("name: ", alias.name, " is the name of a model"));
  }
  if (const std::set<std::string> names = NamesOf(alias.name); !names.empty()) {
    return absl::FailedPreconditionError(absl::StrCat("name: ", alias.name, IsArmOf(names)));
  }
  for (const AliasArm& arm : alias.arms) {
    if (absl::Status status = CheckArm("arms", arm.model); !status.ok()) return status;
  }
  if (alias.shadow.has_value()) {
    absl::Status status = CheckArm("shadow.model", alias.shadow->model);
    if (!status.ok()) return status;
  }
  if (table_->Has(alias.name)) return absl::OkStatus();
  size_t aliases = table_->List().size();
  for (const auto& [name, other] : changing_) aliases += table_->Has(name) ? 0 : 1;
  if (aliases < kMaxAliases) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("name: the server has ", kMaxAliases, " aliases, the limit"));
}

// ---------------------------------------------------------------- changes

void AliasAdmin::Set(const AliasConfig& alias, Done done) {
  absl::Status status;
  {
    absl::MutexLock lock(&mutex_);
    if (changing_.contains(alias.name)) {
      status = absl::AbortedError(absl::StrCat("name: alias ", alias.name, " is being changed"));
    } else {
      status = Check(alias);
    }
    if (status.ok()) changing_[alias.name] = alias;
  }
  status.ok() ? Make(alias, std::move(done)) : done(std::move(status));
}

void AliasAdmin::Delete(const std::string& name, Done done) {
  absl::Status status;
  {
    absl::MutexLock lock(&mutex_);
    if (changing_.contains(name)) {
      status = absl::AbortedError(absl::StrCat("name: alias ", name, " is being changed"));
    } else if (!table_->Has(name)) {
      status = absl::NotFoundError(absl::StrCat("name: no alias ", EscapedName(name)));
    } else {
      changing_[name] = {name, {}};
    }
  }
  status.ok() ? Make({name, {}}, std::move(done)) : done(std::move(status));
}

void AliasAdmin::Make(const AliasConfig& alias, Done done) {
  if (options_.commits == nullptr) {
    Finish(alias, absl::OkStatus());
    return done(absl::OkStatus());
  }
  // The store has rows only for what differs from the configuration.
  const bool is_deleted = alias.arms.empty();
  const bool differs = is_deleted ? ConfiguredOf(alias.name) != nullptr : IsChanged(alias);
  store::PutAlias change{alias.name, std::nullopt};
  if (differs) change.arms = EncodeAlias(alias);
  done = AnswerInTime(timers_, options_.commit_timeout, std::move(done));
  {
    absl::MutexLock lock(&mutex_);
    ++pending_;
  }
  options_.commits->Submit(std::move(change),
                           [this, alias, done](const absl::StatusOr<store::Applied>& applied) {
                             Finish(alias, applied.status());
                             done(applied.status());
                             absl::MutexLock lock(&mutex_);
                             --pending_;
                           });
}

void AliasAdmin::Finish(const AliasConfig& alias, const absl::Status& durable) {
  absl::MutexLock lock(&mutex_);
  if (durable.ok() && alias.arms.empty()) table_->Remove(alias.name);
  if (durable.ok() && !alias.arms.empty()) {
    table_->Set(alias);
    MeasureArms(alias);
  }
  changing_.erase(alias.name);
  ++num_changes_;
}

// ---------------------------------------------------------------- changes of other replicas

absl::StatusOr<std::optional<AliasAdmin::Followed>> AliasAdmin::Follow(store::SessionStore* store) {
  uint64_t num_changes = 0;
  {
    absl::MutexLock lock(&mutex_);
    num_changes = num_changes_;
  }
  const absl::StatusOr<std::vector<store::AliasRow>> rows = store->Aliases();
  if (!rows.ok()) return rows.status();
  absl::MutexLock lock(&mutex_);
  // The rows may be older than a change of this server. The next call has newer ones.
  if (!changing_.empty() || num_changes_ != num_changes) return std::nullopt;
  return TakeOver(*rows);
}

AliasAdmin::Followed AliasAdmin::TakeOver(const std::vector<store::AliasRow>& rows) {
  std::set<std::string> models, staying;
  for (const ModelStatus& model : models_->List()) {
    models.insert(model.name);
    if (model.state == ModelState::kDraining || model.state == ModelState::kGone) continue;
    staying.insert(model.name);
  }
  Followed followed;
  std::set<std::string> kept;  // the names of all aliases from now on
  for (const AliasConfig& alias :
       MergeAliases(options_.configured, rows, models, &followed.problems, &kept)) {
    if (models.contains(alias.name) || !kept.insert(alias.name).second) continue;
    const std::optional<AliasConfig> present = table_->Find(alias.name);
    const bool differs = !present.has_value() || InOrder(*present) != InOrder(alias);
    const auto missing =
        std::find_if(alias.arms.begin(), alias.arms.end(),
                     [&](const AliasArm& arm) { return !staying.contains(arm.model); });
    if (missing != alias.arms.end()) {
      followed.problems.push_back(
          absl::StrCat("alias ", EscapedName(alias.name),
                       differs ? " of the store is not used" : " lacks an arm",
                       ": this server has no model ", EscapedName(missing->model)));
    } else if (differs) {
      table_->Set(alias);
      MeasureArms(alias);
      followed.set.push_back(alias);
    }
  }
  for (const AliasConfig& alias : table_->List()) {
    if (kept.contains(alias.name)) continue;
    table_->Remove(alias.name);
    followed.removed.push_back(alias.name);
  }
  return followed;
}

void AliasAdmin::MeasureArms(const AliasConfig& alias) const {
  if (!alias.route.has_value() || table_->book() == nullptr) return;
  for (const AliasArm& arm : alias.arms) {
    // A model that is loading is measured when it is loaded.
    const absl::StatusOr<std::shared_ptr<Engine>> engine = models_->Find(arm.model);
    if (engine.ok()) table_->book()->Measure(*engine);
  }
}

absl::Status AliasAdmin::AddModel(std::string_view name, const std::function<void()>& add) {
  absl::MutexLock lock(&mutex_);
  if (HasAlias(name)) {
    return absl::AlreadyExistsError(
        absl::StrCat("name: ", std::string(name), " is the name of an alias"));
  }
  add();
  return absl::OkStatus();
}

absl::Status AliasAdmin::RemoveModel(std::string_view name, const std::function<void()>& remove) {
  absl::MutexLock lock(&mutex_);
  if (const std::set<std::string> names = NamesOf(name); !names.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("name: model ", std::string(name), IsArmOf(names), "; set or delete ",
                     names.size() == 1 ? "the alias" : "the aliases", " first"));
  }
  remove();
  return absl::OkStatus();
}

}  // namespace longstream
