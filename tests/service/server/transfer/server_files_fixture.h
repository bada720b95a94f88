// A server with a store, and calls that export and import sessions.
#ifndef LONGSTREAM_TESTS_SERVICE_SERVER_TRANSFER_SERVER_FILES_FIXTURE_H_
#define LONGSTREAM_TESTS_SERVICE_SERVER_TRANSFER_SERVER_FILES_FIXTURE_H_

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "service/metrics/session_metrics.h"
#include "service/server/turn_input.h"
#include "service/sessions/store/sqlite/sqlite_store.h"
#include "tests/service/metric_value.h"
#include "tests/service/server/server_fixture.h"
#include "tests/temporary_directory.h"

namespace longstream {

inline constexpr uint64_t kStateBytes = 32;  // of the minimal model

inline constexpr char kFilesTemplate[] =
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";

// A store that is there before the server and after it.
class OwnedStore {
 protected:
  OwnedStore(const Sealing& sealing, bool only_sealed)
      : files_{.sealing = sealing, .only_sealed = only_sealed} {
    auto store = store::SqliteStore::Open(directory_.string() + "/store", {.sealing = sealing});
    EXPECT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    commits_ = std::make_unique<store::CommitQueue>(store_.get(), store::CommitQueue::Options{});
  }

  SessionManager::Options Options(absl::Duration client_timeout) {
    SessionManager::Options options;
    options.metrics = &metrics_;
    options.client_timeout = client_timeout;
    options.store = store_.get();
    options.commits = commits_.get();
    options.render_messages = RenderLoggedMessages;
    options.files = files_;
    return options;
  }

  // The number of exports or imports that have ended with the status.
  double TransfersEnded(const char* op, const char* code) const {
    return MetricValue(registry_, "longstream_session_transfers_total",
                       {{"op", op}, {"code", code}});
  }

 private:
  const TemporaryDirectory directory_;
  const SessionFiles files_;
  prometheus::Registry registry_;
  SessionMetrics metrics_{&registry_, 0};
  std::unique_ptr<store::SqliteStore> store_;
  std::unique_ptr<store::CommitQueue> commits_;
};

class ServerFilesTest : private OwnedStore, public ServerTest {
 protected:
  explicit ServerFilesTest(uint64_t cache_bytes = 0,
                           const std::string& chat_template = kFilesTemplate,
                           const Sealing& sealing = {}, bool only_sealed = false,
                           absl::Duration client_timeout = absl::Minutes(5))
      : OwnedStore(sealing, only_sealed),
        ServerTest("{}", cache_bytes, MinimalModel::PluginFile(), "",
                   ModelSource().max_batch_tokens, chat_template, 0, Options(client_timeout)) {}

  using OwnedStore::TransfersEnded;

  grpc::Status Export(const std::string& id, std::string* file, bool sealed = false) {
    grpc::ClientContext context;
    v1::ExportSessionRequest request;
    request.set_session_id(id);
    request.set_sealed(sealed);
    const auto reader = stub().ExportSession(&context, request);
    file->clear();
    v1::ExportSessionResponse response;
    while (reader->Read(&response)) *file += response.data();
    return reader->Finish();
  }
  std::string Exported(const std::string& id, bool sealed = false) {
    std::string file;
    const grpc::Status status = Export(id, &file, sealed);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return file;
  }

  // `piece`: the bytes of a message.
  grpc::Status Import(const std::string& file, v1::Session* session, const std::string& id = "",
                      size_t piece = 1000) {
    grpc::ClientContext context;
    const auto writer = stub().ImportSession(&context, session);
    v1::ImportSessionRequest request;
    request.set_session_id(id);
    for (size_t begin = 0; begin < file.size(); begin += piece) {
      request.set_data(file.substr(begin, piece));
      if (!writer->Write(request)) break;
    }
    writer->WritesDone();
    return writer->Finish();
  }

  // A turn that runs, and holds its memory, until the object is destroyed.
  class OpenTurn {
   public:
    OpenTurn(ServerFilesTest* test, const std::string& session)
        : session_(session), writer_(test->stub().Append(&context_, &response_)) {
      v1::AppendRequest request;
      request.set_session_id(session);
      request.mutable_input()->set_text("x");
      writer_->Write(request);
      // The turn is admitted when it holds a state, and a copy of the state to roll back to.
      while (test->StateBytesHeld() < 2 * kStateBytes) absl::SleepFor(absl::Milliseconds(1));
    }
    ~OpenTurn() {
      writer_->WritesDone();
      const grpc::Status status = writer_->Finish();
      EXPECT_TRUE(status.ok()) << status.error_message();
    }
    OpenTurn(const OpenTurn&) = delete;
    OpenTurn& operator=(const OpenTurn&) = delete;

    const std::string& session() const { return session_; }

   private:
    const std::string session_;
    grpc::ClientContext context_;
    v1::AppendResponse response_;
    std::unique_ptr<grpc::ClientWriter<v1::AppendRequest>> writer_;
  };

  uint64_t StateBytesHeld() {
    grpc::ClientContext context;
    v1::GetModelRequest request;
    v1::Model model;
    request.set_name("m");
    EXPECT_TRUE(stub().GetModel(&context, request, &model).ok());
    return model.memory().states() + model.memory().checkpoints();
  }

  v1::GenerateRequest Turn(const std::string& session, int number) const {
    v1::GenerateRequest request = Request(session);
    request.mutable_input()->set_text(absl::StrCat("turn ", number));
    request.set_turn_id(absl::StrCat("0000000000000000000000000000000", number));
    request.set_log_probs(true);
    request.set_top_log_probs(2);
    return request;
  }
};

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_SERVICE_SERVER_TRANSFER_SERVER_FILES_FIXTURE_H_
