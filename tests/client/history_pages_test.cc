// The pages of a history, as a server may answer them.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/connection.h"
#include "longstream/v1/longstream.grpc.pb.h"

namespace longstream {
namespace {

using testing::ElementsAre;

constexpr char kSession[] = "00000000000000010000000000000002";

struct Part {
  std::string text;
  bool continued = false;
};

struct Page {
  std::vector<Part> parts;
  std::string next;
  uint64_t version = 1;
};

// Answers with one page after the other.
class PagesServer final : public v1::Longstream::Service {
 public:
  explicit PagesServer(std::vector<Page> pages) : pages_(std::move(pages)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }

  // The texts that a client reads.
  std::vector<std::string> Read() const {
    client::Connection connection("127.0.0.1:" + std::to_string(port_));
    std::vector<std::string> texts;
    for (const v1::HistoryEntry& entry : connection.History(kSession)) {
      EXPECT_FALSE(entry.continued());
      texts.push_back(entry.text());
    }
    return texts;
  }

  std::vector<std::string> asked;  // page tokens of the calls

 private:
  grpc::Status ReadHistory(grpc::ServerContext*, const v1::ReadHistoryRequest* request,
                           v1::ReadHistoryResponse* response) override {
    const Page& page = pages_.at(asked.size());
    asked.push_back(request->page_token());
    for (const Part& part : page.parts) {
      v1::HistoryEntry* const entry = response->add_entries();
      entry->set_text(part.text);
      entry->set_continued(part.continued);
    }
    response->set_next_page_token(page.next);
    response->set_version(page.version);
    return grpc::Status::OK;
  }

  const std::vector<Page> pages_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

TEST(HistoryPagesTest, ATextOfSeveralPagesIsOneText) {
  PagesServer server(
      {{{{"one"}, {"tw", true}}, "1.2"}, {{{"o", true}}, "1.3"}, {{{""}, {"three"}}, ""}});
  EXPECT_THAT(server.Read(), ElementsAre("one", "two", "three"));
  EXPECT_THAT(server.asked, ElementsAre("", "1.2", "1.3"));
}

TEST(HistoryPagesTest, ASessionThatHasChangedIsReadAgain) {
  PagesServer server({{{{"old", true}}, "0.3"}, {{{"x"}}, "", 2}, {{{"new"}}, "", 3}});
  EXPECT_THAT(server.Read(), ElementsAre("new"));
  EXPECT_THAT(server.asked, ElementsAre("", "0.3", ""));
}

}  // namespace
}  // namespace longstream
