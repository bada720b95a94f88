// Memory of free pages and slots, and how it is given back to the system.
#include "backends/caches/idle_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "backends/caches/sequence_cache.h"
#include "backends/errors/error.h"
#include "kernels/core/device.h"
#include "tests/backends/caches/fake_ops.h"

namespace longstream {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

TEST(IdleMemoryTest, HowMuchIsReturned) {
  const struct {
    uint64_t idle, reserved, peak, limit, returned;  // in MiB
  } cases[] = {
      {0, 0, 0, 1000, 0},             // nothing is idle
      {8, 0, 0, 1000, 0},             // what may always be kept
      {9, 0, 0, 1000, 1 + 2},         // a quarter more than necessary
      {108, 100, 100, 1000, 0},       // as much as is reserved
      {112, 100, 100, 1000, 4 + 27},  // a quarter of 108
      {2000, 1000, 1000, 9000, 992 + 32},
      {508, 0, 500, 1000, 0},       // what was reserved lately
      {512, 0, 500, 1000, 4 + 32},  // more than that
      {308, 200, 500, 1000, 0},
      {309, 200, 500, 1000, 1 + 32},
      {208, 200, 300, 1000, 0},    // more is reserved than was given up
      {50, 60, 60, 100, 10 + 10},  // together within the limit
      {50, 60, 500, 100, 10 + 10},
      {40, 60, 60, 100, 0},
      {40, 100, 100, 100, 40},
      {40, 120, 120, 100, 40},  // the limit has been lowered
      {40, 120, 500, 100, 40},
  };
  for (const auto& test : cases) {
    EXPECT_EQ(IdleBytesToReturn(test.idle * kMiB, test.reserved * kMiB, test.peak * kMiB,
                                test.limit * kMiB) /
                  kMiB,
              test.returned)
        << test.idle << " idle, " << test.reserved << " reserved, at most " << test.peak
        << ", limit " << test.limit;
  }
}

TEST(IdleMemoryTest, ThePeakIsForgottenAfterOneOrTwoPeriods) {
  RecentPeak peak;
  RecentPeak::Time now{};
  // After so many thirtieths of a period.
  const auto after = [&](int parts, uint64_t reserved) {
    now += std::chrono::milliseconds(RecentPeak::kPeriod) * parts / 30;
    return peak.Note(reserved, now);
  };
  EXPECT_EQ(after(1000, 5), 5u);
  EXPECT_EQ(after(10, 100), 100u);
  EXPECT_EQ(after(10, 7), 100u);
  EXPECT_EQ(after(11, 0), 100u) << "a new period has begun";
  EXPECT_EQ(after(29, 0), 100u);
  EXPECT_EQ(after(2, 0), 7u) << "what was reserved at the begin of the last period";
  EXPECT_EQ(after(30, 0), 0u);
  // Bytes that were reserved until now count, even if they were noted long ago.
  EXPECT_EQ(after(0, 50), 50u);
  EXPECT_EQ(after(10000, 0), 50u);
  EXPECT_EQ(after(10000, 0), 0u);
}

TEST(IdPoolTest, TheHighestIdleIdsAreReturnedInRuns) {
  IdPool ids;
  ids.Prepare(10);
  for (int32_t id = 0; id < 10; ++id) EXPECT_EQ(ids.Take().id, id);
  for (const int32_t id : {1, 2, 3, 5, 8, 9}) ids.Give(id);
  EXPECT_EQ(ids.num_idle(), 6u);
  std::vector<std::pair<size_t, size_t>> runs;
  const auto note = [&](size_t first, size_t last) { runs.emplace_back(first, last); };
  EXPECT_EQ(ids.ReturnIdle(4, note), 4u);
  EXPECT_EQ(runs, (std::vector<std::pair<size_t, size_t>>{{8, 10}, {5, 6}, {3, 4}}));
  EXPECT_EQ(ids.num_idle(), 2u);
  const IdPool::Taken lowest = ids.Take();
  EXPECT_EQ(lowest.id, 1) << "the lowest free id, as before";
  EXPECT_TRUE(lowest.was_idle);
  EXPECT_EQ(ids.num_idle(), 1u);
  for (const int32_t id : {2, 3, 5, 8, 9, 10}) {
    const IdPool::Taken taken = ids.Take();
    EXPECT_EQ(taken.id, id);
    EXPECT_EQ(taken.was_idle, id == 2) << "the others were given back, or never taken";
  }
  EXPECT_EQ(ids.num_idle(), 0u);
  EXPECT_EQ(ids.ReturnIdle(4, note), 0u);
  ids.Give(9);
  EXPECT_EQ(ids.ReturnIdle(4, note), 1u);
  EXPECT_EQ(runs.back(), (std::pair<size_t, size_t>{9, 10}));
}

// Pieces of many sizes, most of which share pages of the system with their neighbours. A piece that
// is taken keeps its bytes. A page of the system without a taken piece loses them.
TEST(IdleMemoryTest, TakenPiecesKeepTheirBytes) {
  constexpr size_t kPieces = 200;
  std::mt19937 random(1);
  for (const size_t bytes : {64u, 1000u, 4096u, 5000u, 8192u, 12352u}) {
    DeviceMemory memory(HostMemory(), bytes * (kPieces + 1), "pieces");
    IdPool ids;
    ids.Prepare(kPieces);
    std::vector<bool> is_taken(kPieces, true);
    const auto value = [](size_t id) { return static_cast<int>(id % 255 + 1); };
    const auto fill = [&](size_t id) { std::memset(memory.data() + id * bytes, value(id), bytes); };
    const auto give_back = [&](size_t first, size_t last) {
      ReturnPieces(memory, bytes, ids, first, last);
    };
    for (size_t id = 0; id < kPieces; ++id) fill(static_cast<size_t>(ids.Take().id));
    fill(kPieces);  // the spare piece, which never has an id
    for (int round = 0; round < 300; ++round) {
      const size_t id = random() % kPieces;
      if (is_taken[id]) {
        ids.Give(static_cast<int32_t>(id));
        is_taken[id] = false;
      } else {
        const auto [next, was_idle] = ids.Take();
        const auto taken = static_cast<size_t>(next);
        memory.Unpoison(taken * bytes, bytes);
        if (!was_idle) {
          const std::byte* data = memory.data() + taken * bytes;
          ASSERT_EQ(std::count(data, data + bytes, std::byte{0}), static_cast<ptrdiff_t>(bytes))
              << "memory that was given back is zero";
        }
        is_taken[taken] = true;
        fill(taken);
      }
      if (round % 5 == 0) ids.ReturnIdle(random() % 20, give_back);
      for (size_t other = 0; other < kPieces; other += 7) {
        if (!is_taken[other]) continue;
        const std::byte* data = memory.data() + other * bytes;
        ASSERT_EQ(static_cast<int>(data[0]), value(other)) << bytes << " bytes, piece " << other;
        ASSERT_EQ(static_cast<int>(data[bytes - 1]), value(other)) << bytes << ", piece " << other;
      }
    }
    for (size_t id = 0; id < kPieces; ++id) {
      if (is_taken[id]) ids.Give(static_cast<int32_t>(id));
    }
    ids.ReturnIdle(kPieces, give_back);
    const size_t whole = kPieces * bytes / 4096 * 4096;
    memory.Unpoison(0, whole);
    for (size_t i = 0; i < whole; ++i) {
      ASSERT_EQ(static_cast<int>(memory.data()[i]), 0) << bytes << " bytes, offset " << i;
    }
    EXPECT_EQ(static_cast<int>(memory.data()[kPieces * bytes]), value(kPieces))
        << "the spare piece";
  }
}

std::vector<std::unique_ptr<SequenceCache>> Sequences(CacheStore& store, size_t count,
                                                      size_t tokens) {
  std::vector<std::unique_ptr<SequenceCache>> sequences;
  for (size_t i = 0; i < count; ++i) {
    sequences.push_back(std::make_unique<SequenceCache>(store));
    sequences.back()->Reserve(static_cast<int64_t>(tokens));
    FakeStep(*sequences.back(), FakeTokens(tokens));
    sequences.back()->Reserve(0);
  }
  return sequences;
}

CacheLayout LargeLayout() {
  LayerCacheLayout paged, recurrent;
  paged.paged = PagedLayout{.num_kv_heads = 4, .head_dim = 64};
  recurrent.recurrent = RecurrentLayout{
      .num_heads = 4, .num_kv_heads = 4, .key_dim = 64, .value_dim = 64, .gated = false};
  return PlaceCaches({paged, recurrent}, DType::kF32);
}

// A host that knows how much of the memory it allocated is in use. The memory of the whole process
// says less: AddressSanitizer keeps freed blocks, and other tests leave memory behind.
class WatchedHost : public HostDevice {
 public:
  // No huge page reaches from one block into the next one: an unreadable gap lies between them.
  void* Allocate(size_t size) override {
    mmap(nullptr, 2 * kMiB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void* data = HostDevice::Allocate(size);
    blocks_.emplace_back(data, size);
    return data;
  }

  // Bytes of the allocated blocks that have memory. REQUIRES: no block has been released.
  uint64_t Resident() const {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    uint64_t pages = 0;
    std::vector<unsigned char> in_memory;
    for (const auto& [data, size] : blocks_) {
      in_memory.assign((size + page - 1) / page, 0);
      if (mincore(data, size, in_memory.data()) != 0) ADD_FAILURE() << "mincore failed";
      for (const unsigned char bits : in_memory) pages += bits & 1;
    }
    return pages * page;
  }

 private:
  std::vector<std::pair<void*, size_t>> blocks_;
};

// FakeStep writes no more bytes than the budget counts.
TEST(IdleMemoryTest, AStoreThatIsEmptyForSomeTimeHoldsLittle) {
  WatchedHost host;
  CacheStore store(LargeLayout(), 0, host);
  static RecentPeak::Time now = std::chrono::steady_clock::now();
  store.now = [] { return now; };
  EXPECT_LT(host.Resident(), kMiB);
  auto sequences = Sequences(store, 100, 400);
  const uint64_t held = store.budget.reserved();
  ASSERT_GT(held, 100 * kMiB);
  EXPECT_GT(host.Resident(), held / 2);
  sequences.resize(50);
  EXPECT_GT(host.Resident(), held / 2) << "idle memory is kept for new sequences";
  sequences.clear();
  EXPECT_GT(host.Resident(), held / 2) << "also if all end";
  now += RecentPeak::kPeriod;
  store.SetBudget(store.budget.limit());
  EXPECT_GT(host.Resident(), held / 2);
  now += RecentPeak::kPeriod;
  store.SetBudget(store.budget.limit());
  const uint64_t idle = store.pages.idle_bytes() + store.slots.idle_bytes();
  EXPECT_LE(idle, kIdleBytesKept);
  EXPECT_LT(host.Resident(), idle + kMiB);
}

TEST(IdleMemoryTest, ALoweredBudgetReturnsAllAtOnce) {
  WatchedHost host;
  CacheStore store(LargeLayout(), 0, host);
  const uint64_t budget = store.budget.limit();
  Sequences(store, 100, 400);
  EXPECT_GT(host.Resident(), 100 * kMiB);
  store.SetBudget(kMiB);
  store.SetBudget(budget);
  EXPECT_LT(host.Resident(), 2 * kMiB);
}

// First slots take the whole budget, then pages do, then slots again.
TEST(IdleMemoryTest, MemoryThatMovesBetweenPoolsIsWithinTheBudget) {
  const CacheLayout layout = LargeLayout();
  const uint64_t budget = 64 * kMiB;
  WatchedHost host;
  CacheStore store(layout, budget, host);
  const size_t slots = budget / (layout.state_bytes + layout.rollback_bytes + layout.page_bytes);
  const auto long_tokens = static_cast<size_t>(
      (budget - layout.state_bytes - layout.rollback_bytes) / layout.page_bytes * kPageTokens);
  for (int round = 0; round < 2; ++round) {
    Sequences(store, slots, 1);
    EXPECT_LT(host.Resident(), budget + 4 * kMiB);
    Sequences(store, 1, long_tokens);
    EXPECT_LT(host.Resident(), budget + 4 * kMiB);
    EXPECT_LE(store.pages.idle_bytes() + store.slots.idle_bytes() + store.budget.reserved(),
              budget);
  }
}

TEST(IdleMemoryTest, ALoweredBudgetStopsReservationsAndNothingElse) {
  const CacheLayout layout = LayoutOf("full+window+recurrent");
  const uint64_t budget = 100 * layout.page_bytes + 10 * (layout.ring_bytes + layout.state_bytes);
  CacheStore store(layout, budget);
  const auto tokens = FakeTokens(300);
  const auto cache = Fed(store, tokens, /*reserve_more=*/100);
  const uint64_t reserved = store.budget.reserved();
  store.SetBudget(1);
  EXPECT_EQ(store.budget.limit(), 1u);
  EXPECT_EQ(store.budget.free(), 0u);
  EXPECT_THROW(SequenceCache{store}, BackendError);
  EXPECT_THROW(cache->Reserve(500), BackendError);
  FakeStep(*cache, FakeTokens(10));
  FakeFailedStep(*cache, FakeTokens(70));
  EXPECT_EQ(cache->Truncate(0), 0) << "a rollback needs no new memory";
  EXPECT_EQ(store.budget.reserved(), reserved);
  store.SetBudget(UINT64_MAX);
  EXPECT_EQ(store.budget.limit(), budget) << "the pools have no room for more";
  cache->Reserve(500);
}

}  // namespace
}  // namespace longstream
