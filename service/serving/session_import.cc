// Takes the records of a file in their order: the session, its turns, the caches, the end.
#include "service/serving/session_import.h"

#include <algorithm>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace longstream {
namespace {

absl::Status DoesNotOpen(const absl::Status& status) {
  return absl::InvalidArgumentError(
      absl::StrCat("data: the sealed file does not open: ", status.message()));
}

}  // namespace

SessionImport::SessionImport(Service service, Wanted wanted)
    : service_(std::move(service)),
      wanted_(std::move(wanted)),
      sealed_charge_(service_.restoring.host_memory),
      reader_(service_.restoring.host_memory),
      log_(service_.restoring.host_memory) {}

SessionImport::~SessionImport() {
  if (import_.valid()) engine_->Free(std::move(import_));
}

void SessionImport::Write(std::string_view bytes, Done done) {
  absl::Status status;
  if (has_begun_) {
    status = TakeBytes(bytes);
  } else {
    begin_ += bytes;
    if (begin_.size() >= kSealedMagic.size()) status = TakeBegin();
  }
  if (!status.ok()) return done(std::move(status));
  TakeRecords(std::move(done));
}

absl::Status SessionImport::TakeBegin() {
  has_begun_ = true;
  const bool is_sealed = IsSealed(begin_);
  if (!is_sealed && service_.files.only_sealed) {
    return absl::InvalidArgumentError(
        "data: the file is not sealed, and this server takes only sealed ones");
  }
  if (is_sealed && service_.files.sealing.keys == nullptr) {
    return absl::InvalidArgumentError("data: the file is sealed, and this server has no keys");
  }
  if (is_sealed) unsealer_.emplace(service_.files.sealing.keys, kSealedFileContext);
  return TakeBytes(std::exchange(begin_, {}));
}

absl::Status SessionImport::TakeBytes(std::string_view bytes) {
  if (!unsealer_.has_value()) return reader_.Add(bytes);
  const uint64_t room = BlockBytes(unsealer_->held() + bytes.size());
  if (room > sealed_charge_.bytes()) {
    absl::Status status = sealed_charge_.Add(room - sealed_charge_.bytes());
    if (!status.ok()) return status;
  }
  unsealer_->Add(bytes);
  return absl::OkStatus();
}

absl::StatusOr<bool> SessionImport::OpenBlock() {
  if (!unsealer_.has_value()) return false;
  const absl::StatusOr<std::optional<std::string_view>> block = unsealer_->Next();
  if (!block.ok()) return DoesNotOpen(block.status());
  if (!block->has_value()) return false;
  if (absl::Status status = reader_.Add(**block); !status.ok()) return status;
  return true;
}

void SessionImport::TakeRecords(Done done) {
  while (true) {
    // The rest of the bytes waits for the next call, which comes on another thread than the
    // engine's and those that read the store.
    if (std::exchange(awaits_check_, false)) return CheckId(std::move(done));
    absl::StatusOr<std::optional<RecordReader::Record>> record = reader_.Next();
    if (!record.ok()) return done(record.status());
    if (!record->has_value()) {
      const absl::StatusOr<bool> opened = OpenBlock();
      if (!opened.ok()) return done(opened.status());
      if (!*opened) return done(absl::OkStatus());
      continue;
    }
    if (absl::Status status = TakeRecord(**record); !status.ok()) return done(std::move(status));
  }
}

void SessionImport::CheckId(Done done) {
  service_.check_id(wanted_.id.value_or(log_.session().row.key.id),
                    [self = shared_from_this(), done = std::move(done)](absl::Status status) {
                      status.ok() ? self->BeginCaches(done) : done(std::move(status));
                    });
}

void SessionImport::BeginCaches(Done done) {
  const FileSession& session = log_.session();
  const bool are_wanted = session.caches_bytes > 0 && session.caches_position > 0 &&
                          session.caches_position <= num_read_ &&
                          engine_->model().backend().CanSnapshot();
  if (!are_wanted) return done(absl::OkStatus());
  engine_->BeginImport(
      session.caches_position, service_.tenant, &service_.place->caches(),
      [self = shared_from_this(), done = std::move(done)](absl::StatusOr<SnapshotImport> begun) {
        absl::Status status = begun.status();
        if (status.ok()) self->import_ = *std::move(begun);
        // Without memory for the caches, the session is made as an evicted one.
        if (absl::IsResourceExhausted(status)) status = absl::OkStatus();
        done(std::move(status));
      });
}

absl::Status SessionImport::TakeRecord(const RecordReader::Record& record) {
  const bool wants_caches =
      engine_ != nullptr && !caches_complete_ && log_.session().caches_bytes > 0;
  absl::Status status;
  if (is_complete_) return absl::DataLossError("file: a record follows the end");
  switch (record.kind) {
    case RecordKind::kSession:
      status = log_.SetSession(record.data);
      return status.ok() && log_.is_complete() ? CheckLog() : status;
    case RecordKind::kTurn:
      status = log_.AddTurn(record.data);
      return status.ok() && log_.is_complete() ? CheckLog() : status;
    case RecordKind::kCaches:
      if (!wants_caches) return absl::DataLossError("file: caches where none are expected");
      caches_read_ += record.data.size();
      caches_complete_ = record.is_last_piece;
      if (caches_complete_ && caches_read_ != log_.session().caches_bytes) {
        return absl::DataLossError(absl::StrCat("file: caches of ", caches_read_,
                                                " bytes; session.caches_bytes is ",
                                                log_.session().caches_bytes));
      }
      return WriteCaches(record.data);
    case RecordKind::kEnd:
      if (engine_ == nullptr || wants_caches) {
        return absl::DataLossError("file: it ends before all its records");
      }
      is_complete_ = true;
      return absl::OkStatus();
  }
  return absl::DataLossError("file: there is no such kind of record");
}

absl::Status SessionImport::CheckLog() {
  const FileSession& session = log_.session();
  const std::string& name = wanted_.model.empty() ? session.row.model : wanted_.model;
  // The file names a model, whatever is an alias here.
  std::optional<AliasTable::Chosen> chosen;
  if (!wanted_.model.empty()) {
    const auto is_served = [this](const std::string& model) {
      std::shared_ptr<void> hold;
      return service_.find_model(model, &hold).ok();
    };
    chosen = service_.aliases->Choose(name, wanted_.id.value_or(session.row.key.id),
                                      {.prompt_tokens = session.row.position}, is_served);
  }
  absl::StatusOr<std::shared_ptr<Engine>> engine =
      service_.find_model(chosen.has_value() ? chosen->model : name, &hold_);
  if (!engine.ok()) return chosen.has_value() ? chosen->Explain(engine.status()) : engine.status();
  if (chosen.has_value()) alias_ = chosen->alias;
  const absl::StatusOr<uint64_t> read = log_.Check((*engine)->model(), service_.restoring);
  if (!read.ok()) return read.status();
  engine_ = *std::move(engine);
  num_read_ = *read;
  awaits_check_ = true;
  return absl::OkStatus();
}

absl::Status SessionImport::WriteCaches(std::string_view piece) {
  if (!import_.valid()) return absl::OkStatus();
  absl::Status status = import_.Write(std::as_bytes(std::span(piece)));
  if (!absl::IsFailedPrecondition(status)) return status;
  // Caches of another layout: they are computed again.
  engine_->Free(std::exchange(import_, SnapshotImport()));
  service_.place->caches().Set(0);
  return absl::OkStatus();
}

void SessionImport::Finish(Finished finished) {
  if (!has_begun_) {
    if (absl::Status status = TakeBegin(); !status.ok()) return finished(std::move(status));
  }
  TakeRecords([self = shared_from_this(), finished = std::move(finished)](absl::Status status) {
    if (status.ok() && self->unsealer_.has_value()) {
      const absl::Status sealed = self->unsealer_->Finish();
      if (!sealed.ok()) status = DoesNotOpen(sealed);
    }
    if (!status.ok()) return finished(std::move(status));
    self->Commit(finished);
  });
}

void SessionImport::Commit(Finished finished) {
  if (!is_complete_ || reader_.has_rest()) {
    return finished(absl::DataLossError(
        absl::StrCat("file: ", is_complete_ ? "bytes follow its end" : "it is not complete",
                     ", at byte ", reader_.offset())));
  }
  store::ImportSession change{log_.session().row, log_.TakeTurns(), nullptr};
  store::SessionRow& row = change.row;
  row.key.id = wanted_.id.value_or(row.key.id);
  row.model = engine_->model().name();
  row.last_use_time = absl::Now();
  LoggedProperties properties = log_.properties();
  properties.alias = alias_;  // that of the file means nothing here
  if (wanted_.idle_timeout.has_value()) properties.idle_timeout = *wanted_.idle_timeout;
  properties.idle_timeout = std::min(properties.idle_timeout, service_.max_idle_timeout);
  if (properties.ttl.has_value()) properties.ttl = std::min(*properties.ttl, service_.max_ttl);
  row.delete_time = row.last_use_time + properties.ttl.value_or(service_.ttl);
  properties.model_head = store::kNoTurn;  // the number is another server's
  change.properties_of = [properties](const std::vector<store::TurnNumber>& numbers) {
    LoggedProperties renumbered = properties;
    std::erase_if(renumbered.cuts, [&](LoggedProperties::Cut& cut) {
      const auto index = static_cast<uint64_t>(cut.turn) - 1;
      if (index < numbers.size()) cut.turn = numbers[index];
      return index >= numbers.size();
    });
    return EncodeProperties(renumbered);
  };
  service_.commit(std::move(change), [self = shared_from_this(), finished = std::move(finished)](
                                         const absl::StatusOr<store::Fence>& made) {
    if (!made.ok()) return finished(made.status());
    self->service_.place->caches().Set(0);  // the session counts its caches
    self->service_.restore(*made, self->engine_, std::move(self->import_), finished);
  });
}

}  // namespace longstream
