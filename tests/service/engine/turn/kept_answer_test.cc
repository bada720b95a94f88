// A stream that keeps its answer: readers that leave, attach and come late.
#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include "service/engine/turn/turn_stream.h"

namespace longstream {
namespace {

// Token i has the text of the letter i; the first one is at position 11.
DeltaEvent Letter(int32_t token) {
  DeltaEvent delta;
  delta.text = std::string(1, static_cast<char>('a' + token));
  delta.tokens = {token};
  delta.position = 11 + static_cast<uint64_t>(token);
  return delta;
}

TurnStream::Place Has(int32_t count) {
  TurnStream::Place place;
  if (count > 0) place.position = 10 + static_cast<uint64_t>(count);
  for (int32_t i = 0; i < count; ++i) place.tokens.push_back(i);
  return place;
}

// All that a reader gets until it has to wait or gets the end.
struct Read {
  std::string text;
  int started = 0;
  std::optional<TurnEnd> end;
};

Read ReadAll(TurnStream& stream, TurnStream::Reader reader) {
  Read read;
  while (true) {
    const TurnStream::Item item = stream.Next(reader);
    if (std::holds_alternative<std::monostate>(item)) return read;
    if (const auto* end = std::get_if<TurnEnd>(&item)) {
      read.end = *end;
      return read;
    }
    const auto& event = std::get<TurnEvent>(item);
    read.started += std::holds_alternative<StartedEvent>(event) ? 1 : 0;
    if (const auto* delta = std::get_if<DeltaEvent>(&event)) read.text += delta->text;
  }
}

class KeptAnswerTest : public testing::Test {
 protected:
  KeptAnswerTest() {
    stream_.KeepAnswer();
    stream_.SetReader([this] { ++first_wakes_; });
    stream_.Push(StartedEvent{4, 6, 1});
  }

  void PushLetters(int32_t begin, int32_t end) {
    for (int32_t i = begin; i < end; ++i) stream_.Push(Letter(i));
  }

  TurnStream stream_;
  int first_wakes_ = 0;
};

TEST_F(KeptAnswerTest, AReaderBeginsBehindWhatItHas) {
  PushLetters(0, 5);
  for (int32_t has = 0; has <= 5; ++has) {
    const auto reader = stream_.Attach(Has(has), nullptr);
    ASSERT_TRUE(reader.ok()) << reader.status();
    const Read read = ReadAll(stream_, *reader);
    EXPECT_EQ(read.started, 1);
    EXPECT_EQ(read.text, std::string("abcde").substr(static_cast<size_t>(has)));
    EXPECT_FALSE(read.end.has_value());
  }
}

TEST_F(KeptAnswerTest, TheReaderBeforeEndsAndIsWokenOnce) {
  ASSERT_EQ(first_wakes_, 1);
  EXPECT_FALSE(ReadAll(stream_, TurnStream::kFirstReader).end.has_value());
  const auto second = stream_.Attach(Has(0), nullptr);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(first_wakes_, 2) << "a reader that waits should learn that it has lost the turn";
  PushLetters(0, 2);
  EXPECT_EQ(first_wakes_, 2);
  const Read first = ReadAll(stream_, TurnStream::kFirstReader);
  ASSERT_TRUE(first.end.has_value());
  EXPECT_EQ(first.end->status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(first.text, "");
  EXPECT_FALSE(stream_.Leave(TurnStream::kFirstReader)) << "it is not the reader any more";
  EXPECT_EQ(ReadAll(stream_, *second).text, "ab");
}

TEST_F(KeptAnswerTest, WithoutAReaderNothingIsQueued) {
  int drained = 0;
  stream_.SetWriter(1, [&drained] { ++drained; });
  PushLetters(0, 2);
  EXPECT_TRUE(stream_.Full());
  EXPECT_TRUE(stream_.Leave(TurnStream::kFirstReader));
  EXPECT_EQ(drained, 1) << "the writer should go on";
  PushLetters(2, 100);
  EXPECT_FALSE(stream_.Full());
  EXPECT_EQ(stream_.queued_bytes(), 0u);
  stream_.Finish(TurnEnd{});
  const auto reader = stream_.Attach(Has(98), nullptr);
  ASSERT_TRUE(reader.ok());
  const Read read = ReadAll(stream_, *reader);
  EXPECT_EQ(read.text.size(), 2u);
  EXPECT_TRUE(read.end.has_value() && read.end->status.ok());
}

TEST_F(KeptAnswerTest, AReaderMayHaveMoreThanTheAnswer) {
  PushLetters(0, 2);
  const auto reader = stream_.Attach(Has(4), nullptr);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(ReadAll(stream_, *reader).text, "");
  PushLetters(2, 6);
  EXPECT_EQ(ReadAll(stream_, *reader).text, "ef");
}

TEST_F(KeptAnswerTest, TokensThatDifferLaterEndTheReader) {
  PushLetters(0, 1);
  TurnStream::Place place = Has(3);
  place.tokens[2] = 7;
  const auto reader = stream_.Attach(place, nullptr);
  ASSERT_TRUE(reader.ok()) << reader.status();
  PushLetters(1, 5);
  const Read read = ReadAll(stream_, *reader);
  ASSERT_TRUE(read.end.has_value());
  EXPECT_EQ(read.end->status.message(), "resume.token_ids[2]: the turn has 2 there, found 7");
  EXPECT_FALSE(stream_.Full());
  EXPECT_EQ(stream_.queued_bytes(), 0u) << "the stream has no reader";
}

TEST_F(KeptAnswerTest, AnAnswerThatEndsEarlierEndsTheReader) {
  const auto reader = stream_.Attach(Has(3), nullptr);
  ASSERT_TRUE(reader.ok()) << reader.status();
  PushLetters(0, 2);
  stream_.Finish(TurnEnd{});
  const Read read = ReadAll(stream_, *reader);
  ASSERT_TRUE(read.end.has_value());
  EXPECT_EQ(read.end->status.message(), "resume.token_ids[2]: the turn has 2 tokens, found 3");
}

TEST_F(KeptAnswerTest, PlacesThatDoNotFitAreRefused) {
  PushLetters(0, 3);
  const auto refusal = [&](uint64_t position, const std::vector<int32_t>& tokens) {
    TurnStream::Place place;
    place.position = position;
    place.tokens = tokens;
    return std::string(stream_.Attach(place, nullptr).status().message());
  };
  EXPECT_EQ(refusal(11, {1}), "resume.token_ids[0]: the turn has 0 there, found 1");
  EXPECT_EQ(refusal(12, {0}), "resume.position: expected 11 after 1 token ids, found 12");
  EXPECT_EQ(refusal(5, {}), "resume.position: expected 4 after 0 token ids, found 5");
  EXPECT_EQ(refusal(4, {}), "");
  TurnStream other;
  EXPECT_EQ(other.Attach({}, nullptr).status().code(), absl::StatusCode::kFailedPrecondition)
      << "it keeps no answer";
}

TEST_F(KeptAnswerTest, TheLeadingDeltaComesOnce) {
  DeltaEvent lead;
  lead.text = "?";
  lead.position = 4;
  stream_.Push(lead);
  PushLetters(0, 1);
  EXPECT_EQ(ReadAll(stream_, *stream_.Attach(Has(0), nullptr)).text, "?a");
  TurnStream::Place has_lead;
  has_lead.position = 4;
  EXPECT_EQ(ReadAll(stream_, *stream_.Attach(has_lead, nullptr)).text, "a");
}

TEST(Answer, TruncateDropsTheLastTokens) {
  Answer answer;
  for (int32_t i = 0; i < 5; ++i) {
    DeltaEvent delta = Letter(i);
    delta.log_probs = {{i, -1.0f, std::vector<ls_top_token>(2)}};
    answer.Add(delta);
  }
  const uint64_t bytes = answer.bytes();
  answer.Truncate(13);
  EXPECT_EQ(answer.tokens(), (std::vector<int32_t>{0, 1, 2}));
  EXPECT_LT(answer.bytes(), bytes);
  const DeltaEvent last = answer.DeltaOf(2);
  EXPECT_EQ(last.text, "c");
  EXPECT_EQ(last.position, 13u);
  EXPECT_EQ(last.log_probs.size(), 1u);
  answer.Truncate(0);
  EXPECT_TRUE(answer.tokens().empty());
}

}  // namespace
}  // namespace longstream
