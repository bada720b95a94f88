#include "service/engine/policy/queue_room.h"

#include <array>
#include <memory>
#include <vector>

#include "gtest/gtest.h"

namespace longstream {
namespace {

using Slot = std::unique_ptr<QueueRoom::Slot>;
using State = QueueRoom::State;

// The slots that the queue still gives to `tenant`.
std::vector<Slot> Fill(QueueRoom& queue, size_t tenant) {
  std::vector<Slot> slots;
  for (Slot slot = queue.TryEnter(tenant); slot != nullptr; slot = queue.TryEnter(tenant)) {
    slots.push_back(std::move(slot));
  }
  return slots;
}

void Tell(QueueRoom& queue, size_t free, Slot& slot, State state) {
  const std::array<QueueRoom::Change, 1> changes = {{{slot.get(), state}}};
  queue.Publish(free, changes);
}

TEST(QueueRoomTest, TakesTheTurnsThatFitAndThoseThatBeginAtOnce) {
  QueueRoom queue(/*most=*/3, /*free=*/2, /*parts=*/{0});
  EXPECT_EQ(Fill(queue, 0).size(), 5u);
  EXPECT_EQ(Fill(queue, 0).size(), 5u) << "destroyed slots leave the queue";
}

TEST(QueueRoomTest, APlaceCountsUntilItsTurnLeaves) {
  QueueRoom queue(/*most=*/1, /*free=*/1, {0});
  Slot turn = queue.TryEnter(0);
  Tell(queue, 0, turn, State::kPlaced);
  EXPECT_EQ(Fill(queue, 0).size(), 1u);
  turn->Leave();
  EXPECT_EQ(Fill(queue, 0).size(), 2u);
  turn->Leave();
  EXPECT_EQ(Fill(queue, 0).size(), 2u) << "a turn leaves once";
  turn.reset();
  EXPECT_EQ(Fill(queue, 0).size(), 2u);
}

TEST(QueueRoomTest, ParkedTurnsAreInTheQueue) {
  QueueRoom queue(/*most=*/2, /*free=*/0, {0});
  Slot turn = queue.TryEnter(0);
  Tell(queue, 0, turn, State::kParked);
  EXPECT_EQ(Fill(queue, 0).size(), 1u);
  Tell(queue, 0, turn, State::kLeft);  // waits for its client
  EXPECT_EQ(Fill(queue, 0).size(), 2u);
  turn->Leave();
  EXPECT_EQ(Fill(queue, 0).size(), 2u) << "the turn held nothing";
  turn->WaitAgain();
  EXPECT_EQ(Fill(queue, 0).size(), 1u);
}

TEST(QueueRoomTest, TheTurnsOfOthersDoNotTakeATenantsPart) {
  QueueRoom queue(/*most=*/4, /*free=*/0, /*parts=*/{3, 1});
  std::vector<Slot> first = Fill(queue, 0);
  EXPECT_EQ(first.size(), 4u);
  std::vector<Slot> second = Fill(queue, 1);
  EXPECT_EQ(second.size(), 1u);
  Tell(queue, 0, second[0], State::kPlaced);
  EXPECT_EQ(Fill(queue, 1).size(), 1u);
  first.resize(2);
  EXPECT_EQ(Fill(queue, 0).size(), 2u);
}

}  // namespace
}  // namespace longstream
