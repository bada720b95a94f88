// Rows of several arms: when they are compared, which of them, how far an arm may run ahead, and
// what an arm that ends or is lost leaves to the others.
#include "service/compare/row_join.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "service/compare/distribution.h"

namespace longstream {
namespace {

using Room = LogitSink::Room;

constexpr size_t kVocabulary = 50;
constexpr uint64_t kLogitBytes = kVocabulary * sizeof(float);
// The bytes of a row in a buffer; its text has one byte.
constexpr uint64_t kRow = kLogitBytes + 256 + 1;

// The logits of one arm at one place.
std::vector<float> Logits(size_t arm, uint64_t place) {
  std::vector<float> logits(kVocabulary);
  for (size_t i = 0; i < kVocabulary; ++i) {
    logits[i] = std::sin(static_cast<float>(1 + i * (place + 1))) +
                0.1f * static_cast<float>(arm) * std::cos(static_cast<float>(i));
  }
  return logits;
}

class Join {
 public:
  explicit Join(size_t arms, uint64_t buffer_bytes = 1 << 20, std::vector<bool> comparable = {},
                bool baseline_runs_free = false) {
    RowJoin::Options options;
    options.comparable = comparable.empty() ? std::vector<bool>(arms, true) : std::move(comparable);
    options.buffer_bytes = buffer_bytes;
    options.baseline_runs_free = baseline_runs_free;
    options.wake = [this] { ++wakes; };
    options.drained = [this](size_t arm) { drained.insert(arm); };
    join = std::make_shared<RowJoin>(std::move(options));
    for (size_t arm = 0; arm < arms; ++arm) sinks.push_back(join->SinkOf(arm));
    places.resize(arms);
  }

  // The arm writes its next rows, with these tokens.
  void Push(size_t arm, const std::vector<int32_t>& tokens) {
    for (const int32_t token : tokens) {
      const std::vector<float> logits = Logits(arm, places[arm]++);
      LogitRow row;
      row.token = token;
      row.log_prob = static_cast<float>(logits[static_cast<size_t>(token)] - LogSumExp(logits));
      row.text = "x";
      row.logits = logits;
      sinks[arm]->Push(row);
    }
  }
  std::vector<ComparedRow> TakeAll() const {
    std::vector<ComparedRow> rows;
    for (std::optional<ComparedRow> row = join->Next(); row.has_value(); row = join->Next()) {
      rows.push_back(*std::move(row));
    }
    return rows;
  }
  Room GetRoom(size_t arm) { return sinks[arm]->GetRoom(); }

  std::shared_ptr<RowJoin> join;
  std::vector<std::shared_ptr<LogitSink>> sinks;
  std::vector<uint64_t> places;
  std::atomic<int> wakes{0};
  std::set<size_t> drained;
};

std::vector<size_t> ArmsOf(const ComparedRow& row) {
  std::vector<size_t> arms;
  for (const ComparedToken& token : row.tokens) arms.push_back(token.arm);
  return arms;
}

TEST(RowJoin, ARowComesWhenAllArmsHaveIt) {
  Join join(3);
  join.Push(0, {4, 5});
  join.Push(1, {4});
  EXPECT_TRUE(join.TakeAll().empty());
  EXPECT_EQ(join.wakes, 0);
  join.Push(2, {4});
  EXPECT_EQ(join.wakes, 1);
  const std::vector<ComparedRow> rows = join.TakeAll();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].index, 0u);
  EXPECT_EQ(ArmsOf(rows[0]), (std::vector<size_t>{0, 1, 2}));
  EXPECT_EQ(join.join->buffered_bytes(1), 0u);
  EXPECT_EQ(join.join->buffered_bytes(0), kRow);
}

// Its rows beyond the buffer lose their logits, and with these only the KL.
TEST(RowJoin, ABaselineThatRunsFreeNeverPauses) {
  Join join(2, 2 * kRow, {}, /*baseline_runs_free=*/true);
  join.Push(0, {4, 5, 6, 7, 8});
  EXPECT_EQ(join.GetRoom(0), Room::kFree);
  EXPECT_EQ(join.join->buffered_bytes(0), 5 * kRow - 3 * kLogitBytes);
  join.Push(1, {4, 5, 6, 7, 8});
  const std::vector<ComparedRow> rows = join.TakeAll();
  ASSERT_EQ(rows.size(), 5u);
  double sum_kl = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::vector<float> p = Logits(0, i);
    const std::vector<float> q = Logits(1, i);
    const auto token = static_cast<int32_t>(4 + i);
    const ComparedPair& pair = rows[i].pairs.at(0);
    EXPECT_EQ(pair.kl.has_value(), i < 2);
    if (i < 2) sum_kl += KlDivergence(p, LogSumExp(p), q, LogSumExp(q));
    EXPECT_EQ(rows[i].tokens[0].rank, RankOf(p, token));
    EXPECT_EQ(rows[i].tokens[0].best, BestToken(p));
    EXPECT_EQ(rows[i].tokens[1].rank, RankOf(q, token));
    EXPECT_EQ(pair.same_best, BestToken(p) == BestToken(q));
    EXPECT_NEAR(pair.delta_p, std::exp(q[4 + i] - LogSumExp(q)) - std::exp(p[4 + i] - LogSumExp(p)),
                1e-6);
  }
  const PairSummary summary = join.join->SummaryOf(1);
  EXPECT_EQ(summary.rows, 5u);
  EXPECT_EQ(summary.kl_rows, 2u);
  EXPECT_EQ(summary.sum_kl, sum_kl);
  // There is room again.
  join.Push(0, {4});
  join.Push(1, {4});
  EXPECT_TRUE(join.TakeAll().at(0).pairs.at(0).kl.has_value());
  // When the other arm has ended, the rows that are left have no pairs.
  join.Push(0, {4, 5, 6, 7, 8});
  join.join->End(1, /*lost=*/true);
  for (const ComparedRow& row : join.TakeAll()) EXPECT_TRUE(row.pairs.empty());
}

TEST(RowJoin, FiguresAreThoseOfTheLogits) {
  Join join(2);
  join.Push(0, {7});
  join.Push(1, {7});
  const ComparedRow row = join.TakeAll().at(0);
  const std::vector<float> p = Logits(0, 0);
  const std::vector<float> q = Logits(1, 0);
  ASSERT_EQ(row.pairs.size(), 1u);
  EXPECT_EQ(row.pairs[0].arm, 1u);
  EXPECT_EQ(row.pairs[0].kl, KlDivergence(p, LogSumExp(p), q, LogSumExp(q)));
  EXPECT_GT(row.pairs[0].kl, 0.0);
  EXPECT_EQ(row.pairs[0].same_best, BestToken(p) == BestToken(q));
  EXPECT_NEAR(row.pairs[0].delta_p, std::exp(q[7] - LogSumExp(q)) - std::exp(p[7] - LogSumExp(p)),
              1e-15);
  EXPECT_EQ(row.tokens[1].rank, RankOf(q, 7));
  EXPECT_EQ(row.tokens[1].best, BestToken(q));
  EXPECT_EQ(row.tokens[1].text, "x");
  EXPECT_FALSE(row.tokens[1].interval.has_value());
  const PairSummary summary = join.join->SummaryOf(1);
  EXPECT_EQ(summary.rows, 1u);
  EXPECT_EQ(summary.sum_kl, row.pairs[0].kl);
  EXPECT_EQ(summary.max_kl, row.pairs[0].kl);
}

// The place where the tokens differ is compared, the places behind it are not.
TEST(RowJoin, PairsEndWithTheFirstDifference) {
  Join join(3);
  join.Push(0, {1, 2, 3, 4});
  join.Push(1, {1, 9, 3, 4});
  join.Push(2, {1, 2, 3, 9});
  for (size_t arm = 0; arm < 3; ++arm) join.join->End(arm, /*lost=*/false);
  const std::vector<ComparedRow> rows = join.TakeAll();
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0].pairs.size(), 2u);
  EXPECT_EQ(rows[1].pairs.size(), 2u);
  ASSERT_EQ(rows[2].pairs.size(), 1u);
  EXPECT_EQ(rows[2].pairs[0].arm, 2u);
  EXPECT_EQ(rows[3].pairs.size(), 1u);
  EXPECT_EQ(join.join->SummaryOf(1).first_difference, 1u);
  EXPECT_EQ(join.join->SummaryOf(1).rows, 2u);
  EXPECT_EQ(join.join->SummaryOf(2).first_difference, 3u);
  EXPECT_EQ(join.join->SummaryOf(2).rows, 4u);
  for (size_t arm = 0; arm < 3; ++arm) EXPECT_TRUE(join.join->IsDone(arm));
}

TEST(RowJoin, AnAnswerThatEndsFirstDiffersThere) {
  Join join(2);
  join.Push(0, {1, 2});
  join.Push(1, {1, 2, 3});
  join.join->End(0, false);
  join.join->End(1, false);
  const std::vector<ComparedRow> rows = join.TakeAll();
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(ArmsOf(rows[2]), (std::vector<size_t>{1}));
  EXPECT_TRUE(rows[2].pairs.empty());
  EXPECT_EQ(rows[2].tokens[0].rank, RankOf(Logits(1, 2), 3));
  EXPECT_EQ(join.join->SummaryOf(1).first_difference, 2u);
}

TEST(RowJoin, EqualAnswersDoNotDiffer) {
  Join join(2);
  join.Push(0, {1, 2});
  join.Push(1, {1, 2});
  join.join->End(0, false);
  join.join->End(1, false);
  EXPECT_EQ(join.TakeAll().size(), 2u);
  EXPECT_FALSE(join.join->SummaryOf(1).first_difference.has_value());
}

TEST(RowJoin, OthersGoOnWithoutALostArm) {
  Join join(3);
  join.Push(0, {1, 2, 3});
  join.Push(1, {1});
  join.Push(2, {1, 2, 3});
  EXPECT_EQ(join.TakeAll().size(), 1u);
  EXPECT_EQ(join.wakes, 0);
  join.join->End(1, /*lost=*/true);
  EXPECT_EQ(join.wakes, 1);
  EXPECT_TRUE(join.join->IsDone(1));
  const std::vector<ComparedRow> rows = join.TakeAll();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(ArmsOf(rows[0]), (std::vector<size_t>{0, 2}));
  EXPECT_EQ(rows[0].pairs.size(), 1u);
  EXPECT_FALSE(join.join->SummaryOf(1).first_difference.has_value()) << "a loss is no difference";
}

TEST(RowJoin, WithoutTheBaselineNothingIsCompared) {
  Join join(2);
  join.Push(1, {1, 2});
  join.join->End(0, /*lost=*/true);
  const std::vector<ComparedRow> rows = join.TakeAll();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_TRUE(rows[0].pairs.empty());
  EXPECT_EQ(rows[1].tokens[0].best, BestToken(Logits(1, 1)));
  EXPECT_FALSE(join.join->SummaryOf(1).first_difference.has_value());
}

TEST(RowJoin, AnArmAheadPausesUntilTheOthersHaveComeAsFar) {
  Join join(2, /*buffer_bytes=*/2 * kRow);
  EXPECT_EQ(join.GetRoom(0), Room::kFree);
  join.Push(0, {1, 2, 3, 4});
  EXPECT_EQ(join.GetRoom(0), Room::kOthersAreBehind);
  EXPECT_EQ(join.GetRoom(1), Room::kFree) << "the arm behind does not pause";
  EXPECT_TRUE(join.join->IsWaitedFor(1));
  EXPECT_FALSE(join.join->IsWaitedFor(0));
  join.Push(1, {1});
  EXPECT_EQ(join.GetRoom(0), Room::kReaderIsBehind) << "a row can be compared, and nobody reads";
  EXPECT_FALSE(join.join->IsWaitedFor(1));
  EXPECT_EQ(join.TakeAll().size(), 1u);
  EXPECT_EQ(join.GetRoom(0), Room::kOthersAreBehind);
  EXPECT_TRUE(join.drained.empty());
  join.Push(1, {2, 3});
  EXPECT_EQ(join.TakeAll().size(), 2u);
  EXPECT_EQ(join.drained, std::set<size_t>{0});
  EXPECT_EQ(join.GetRoom(0), Room::kFree);
}

TEST(RowJoin, ArmsThatHaveEndedDoNotWait) {
  Join join(3, /*buffer_bytes=*/2 * kRow);
  join.Push(0, {1, 2});
  EXPECT_EQ(join.GetRoom(0), Room::kOthersAreBehind);
  EXPECT_TRUE(join.join->IsWaitedFor(1));
  EXPECT_TRUE(join.join->IsWaitedFor(2));
  join.join->End(0, /*lost=*/false);
  EXPECT_FALSE(join.join->IsWaitedFor(1)) << "its buffer is full, but it has nothing to write";
  join.join->End(2, /*lost=*/true);
  join.Push(1, {1, 2});
  EXPECT_EQ(join.GetRoom(1), Room::kReaderIsBehind);
  EXPECT_FALSE(join.join->IsWaitedFor(2)) << "it has ended itself";
}

TEST(RowJoin, SinksTellHowManyRowsTheReaderHasTaken) {
  Join join(2);
  join.Push(0, {1, 2, 3});
  EXPECT_TRUE(join.TakeAll().empty());
  EXPECT_EQ(join.sinks[0]->rows_taken(), 0u);
  join.Push(1, {1, 2});
  EXPECT_EQ(join.TakeAll().size(), 2u);
  EXPECT_EQ(join.sinks[0]->rows_taken(), 2u);
  EXPECT_EQ(join.sinks[1]->rows_taken(), 2u);
}

// Behind the difference, and without a common tokenizer, logits are dropped early, so an arm runs
// far ahead.
TEST(RowJoin, AnArmAloneRunsAhead) {
  constexpr uint64_t kBuffer = 4 * kRow;
  const std::vector<int32_t> many(5, 3);
  Join alone(2, kBuffer, {true, false});
  alone.Push(1, many);
  EXPECT_EQ(alone.GetRoom(1), Room::kReaderIsBehind);
  const uint64_t before = alone.join->buffered_bytes(1);
  EXPECT_TRUE(alone.TakeAll().empty());
  EXPECT_EQ(alone.join->buffered_bytes(1), before - many.size() * kLogitBytes);
  alone.Push(0, {3});
  const std::vector<ComparedRow> rows = alone.TakeAll();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_TRUE(rows[0].pairs.empty());
  EXPECT_EQ(rows[0].tokens[1].rank, RankOf(Logits(1, 0), 3));
  EXPECT_EQ(rows[0].tokens[1].best, BestToken(Logits(1, 0)));

  Join differs(2, kBuffer);
  differs.Push(0, {1});
  differs.Push(1, {2, 2, 2});
  EXPECT_EQ(differs.TakeAll().size(), 1u);
  EXPECT_EQ(differs.join->buffered_bytes(1), 2 * (kRow - kLogitBytes));
}

TEST(RowJoin, AClearedJoinHoldsNothing) {
  Join join(2, 2 * kRow, {}, /*baseline_runs_free=*/true);
  join.Push(0, {4, 5, 6});
  EXPECT_TRUE(join.TakeAll().empty());
  join.Push(1, {4, 5});
  EXPECT_NE(join.GetRoom(1), Room::kFree);
  join.join->Clear();
  join.Push(0, {4});
  join.Push(1, {4});
  for (const size_t arm : {0u, 1u}) {
    EXPECT_EQ(join.join->buffered_bytes(arm), 0u);
    EXPECT_TRUE(join.join->IsDone(arm));
    EXPECT_EQ(join.GetRoom(arm), Room::kFree);
  }
  EXPECT_TRUE(join.TakeAll().empty());
}

// The reader may look at a row meanwhile.
TEST(RowJoin, ARowJoinIsClearedWhileItIsRead) {
  for (int i = 0; i < 50; ++i) {
    Join join(2);
    join.Push(0, std::vector<int32_t>(40, 4));
    join.Push(1, {5});  // so all others are reduced, not compared
    std::thread reader([&] { join.TakeAll(); });
    join.join->Clear();
    reader.join();
    EXPECT_EQ(join.join->buffered_bytes(0), 0u);
    EXPECT_TRUE(join.TakeAll().empty());
  }
}

TEST(RowJoin, IntervalsLeaveOutPauses) {
  RowJoin::Options options;
  options.comparable = {true, true};
  options.buffer_bytes = 2 * (kRow - 1);  // these rows have no text
  options.measures_intervals = true;
  const auto join = std::make_shared<RowJoin>(std::move(options));
  const std::vector<float> logits = Logits(0, 0);
  LogitRow row;
  row.logits = logits;
  for (int i = 0; i < 2; ++i) join->SinkOf(0)->Push(row);
  EXPECT_EQ(join->SinkOf(0)->GetRoom(), Room::kOthersAreBehind);
  join->SinkOf(0)->Push(row);
  for (int i = 0; i < 3; ++i) join->SinkOf(1)->Push(row);
  EXPECT_FALSE(join->Next()->tokens[0].interval.has_value());
  const ComparedRow second = *join->Next();
  ASSERT_TRUE(second.tokens[0].interval.has_value());
  EXPECT_GE(*second.tokens[0].interval, absl::ZeroDuration());
  const ComparedRow third = *join->Next();
  EXPECT_FALSE(third.tokens[0].interval.has_value());
  EXPECT_TRUE(third.tokens[1].interval.has_value());
}

TEST(RowJoin, BuffersStayBelowTheirBound) {
  EXPECT_EQ(RowJoin::MostBytes(1000, 100, 1, 0), 400u + 256u);
  EXPECT_EQ(RowJoin::MostBytes(1000, 100, 2, 1000), 1000u + 5 * 656u);
  constexpr uint64_t kBuffer = 4 * kRow;
  Join join(2, kBuffer);
  while (join.GetRoom(0) == Room::kFree) join.Push(0, {1, 1});  // steps of two rows
  join.Push(0, {1, 1, 1, 1});                                   // two steps that were in flight
  EXPECT_LE(join.join->buffered_bytes(0), RowJoin::MostBytes(kBuffer, kVocabulary, 2, 1000));
}

// Each arm has a thread that pauses like a turn; the reader is a thread too. Whatever their speeds,
// all rows come, in order.
TEST(RowJoin, ThreadsOfAllArmsComeToTheEnd) {
  constexpr int kRows = 400;
  constexpr size_t kArms = 4;
  absl::Mutex mutex;
  bool woken = false;
  RowJoin::Options options;
  options.comparable = {true, true, true, false};
  options.buffer_bytes = 3 * kRow;
  options.wake = [&] {
    absl::MutexLock lock(&mutex);
    woken = true;
  };
  const auto join = std::make_shared<RowJoin>(std::move(options));
  std::vector<std::thread> threads;
  for (size_t arm = 0; arm < kArms; ++arm) {
    threads.emplace_back([&join, arm] {
      const std::shared_ptr<LogitSink> sink = join->SinkOf(arm);
      for (int i = 0; i < kRows; ++i) {
        while (sink->GetRoom() != Room::kFree) std::this_thread::yield();
        const std::vector<float> logits = Logits(arm, static_cast<uint64_t>(i));
        LogitRow row;
        row.token = arm == 2 && i >= kRows / 2 ? 2 : 1;  // differs from the middle on
        row.logits = logits;
        sink->Push(row);
      }
      join->End(arm, false);
    });
  }
  uint64_t next = 0;
  while (next < kRows) {
    for (std::optional<ComparedRow> row = join->Next(); row.has_value(); row = join->Next()) {
      ASSERT_EQ(row->index, next++);
      ASSERT_EQ(row->tokens.size(), kArms);
      ASSERT_EQ(row->pairs.size(), row->index <= kRows / 2 ? 2u : 1u);
    }
    absl::MutexLock lock(&mutex);
    if (next < kRows) mutex.Await(absl::Condition(&woken));
    woken = false;
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t arm = 0; arm < kArms; ++arm) EXPECT_TRUE(join->IsDone(arm));
}

}  // namespace
}  // namespace longstream
