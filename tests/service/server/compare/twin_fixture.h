// Calls of Generate with a twin, on the server of CompareTest.
#ifndef LONGSTREAM_TESTS_SERVICE_SERVER_COMPARE_TWIN_FIXTURE_H_
#define LONGSTREAM_TESTS_SERVICE_SERVER_COMPARE_TWIN_FIXTURE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/service/server/compare/compare_fixture.h"

namespace longstream {

// The messages of a Generate call.
struct TwinnedTurn {
  grpc::Status status;
  v1::TurnStarted started;
  std::string text;
  std::vector<int32_t> tokens;
  std::vector<v1::TokenLogProb> log_probs;
  std::vector<v1::TwinRow> rows;
  v1::Finish finish;

  const v1::TwinSummary& summary() const { return finish.twin(); }
};

class TwinTest : public CompareTest {
 protected:
  using CompareTest::CompareTest;
  using OnMessage = std::function<void(const v1::GenerateResponse&, grpc::ClientContext*)>;

  // A request on a new session of `model`: 60 tokens behind "hello", with seed 1. `twin`: empty for
  // none.
  v1::GenerateRequest TurnOf(const std::string& model, const std::string& twin);
  // Reads the call to its end. Fails the test if a row comes before the delta with its token, or
  // not in order.
  TwinnedTurn Run(const v1::GenerateRequest& request, const OnMessage& on_message = {});
  // The same turn in a new session of `model`, without a twin.
  TwinnedTurn RunAlone(const std::string& model, v1::GenerateRequest request);
  // Closes all sessions, then expects that nothing is held.
  void CloseAll();
  void ExpectNothingIsLeft();

 private:
  std::vector<std::string> sessions_;
};

// Rows that come to an end of the answer, all of which have a KL.
void ExpectWhole(const TwinnedTurn& turn, size_t tokens);

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_SERVICE_SERVER_COMPARE_TWIN_FIXTURE_H_
