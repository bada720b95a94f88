#include "gateway/answers/shared_sink.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace longstream::gateway {
namespace {

// Writes down what it gets, without a lock.
class Text final : public EventSink {
 public:
  void Begin() override { ++begun; }
  bool Send(const std::string& events) override {
    text += events;
    return text.size() < 1000 * 5 * 4;
  }

  int begun = 0;
  std::string text;
};

TEST(SharedSinkTest, ThreadsWriteWholeEvents) {
  Text text;
  SharedSink sink(text);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&sink, i] {
      sink.Begin();
      for (int n = 0; n < 1000; ++n) sink.Send(std::string(4, static_cast<char>('a' + i)) + "\n");
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(text.begun, 4);
  ASSERT_EQ(text.text.size(), 4u * 5 * 1000);
  for (size_t i = 0; i < text.text.size(); i += 5) {
    EXPECT_EQ(text.text.substr(i, 5), std::string(4, text.text[i]) + "\n");
  }
  EXPECT_FALSE(sink.Send("x")) << "what the sink says";
}

}  // namespace
}  // namespace longstream::gateway
