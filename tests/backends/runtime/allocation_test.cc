// Tests that some calls allocate nothing, and the state after a failed allocation: the allocator
// fails where a test says. This is a separate program, because it replaces the global allocator.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <utility>
#include <vector>

#include "backends/runtime/model.h"
#include "kernels/ops/op_table.h"
#include "tests/backends/model/random_model.h"
#include "tests/backends/runtime/model_driver.h"

namespace {

// The number of allocations that succeed before one fails. Negative: none fails.
int g_allocations_left = -1;

}  // namespace

// Without noinline, GCC reports the pair of new and free as a mistake.
[[gnu::noinline]] void* operator new(size_t size) {
  if (g_allocations_left == 0) throw std::bad_alloc();
  if (g_allocations_left > 0) --g_allocations_left;
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace longstream {
namespace {

constexpr int64_t kVocabulary = 71;

// Calls body() with an allocator that fails after `allocations`. Returns whether body() succeeded.
template <typename Body>
bool RunsWith(int allocations, Body&& body) {
  g_allocations_left = allocations;
  try {
    body();
    g_allocations_left = -1;
    return true;
  } catch (const std::bad_alloc&) {
    g_allocations_left = -1;
    return false;
  }
}

class AllocationTest : public ::testing::Test {
 protected:
  AllocationTest()
      : spec_(RandomSpec("rerope+window+gated")),
        model_(spec_, RandomWeights(spec_, DType::kF32, DeviceOps()), DType::kF32, DeviceOps(),
               Executor(), {0, 512, 8}) {}

  const ModelSpec spec_;
  Model model_;
};

TEST_F(AllocationTest, ARollbackNeedsNone) {
  const std::vector<int32_t> prompt = RandomTokens(200, kVocabulary);
  const std::vector<int32_t> next = {6};
  const auto control = CreateReserved(model_, 300);
  Prefill(model_, *control, prompt);
  const std::vector<float> expected = Decode(model_, *control, next);

  const auto sequence = CreateReserved(model_, 500);
  Prefill(model_, *sequence, prompt);
  model_.MarkRollbackPoint(*sequence);
  Prefill(model_, *sequence, RandomTokens(150, kVocabulary, 2));
  uint64_t restored = 0;
  EXPECT_TRUE(RunsWith(0, [&] { restored = model_.Truncate(*sequence, 200); }));
  EXPECT_EQ(restored, 200u);
  EXPECT_FALSE(sequence->cache->near_rings_stale());
  EXPECT_TRUE(Decode(model_, *sequence, next) == expected);
}

TEST_F(AllocationTest, AReservationIsMadeOrTheOneBeforeStands) {
  const auto sequence = model_.Create();
  uint64_t reserved = model_.memory().reserved;
  for (const uint64_t tokens : {10u, 100u, 1900u}) {
    const int64_t before = sequence->cache->reserved_tokens();
    int allocations = 0;
    while (!RunsWith(allocations, [&] { model_.Reserve(*sequence, tokens); })) {
      EXPECT_EQ(model_.memory().reserved, reserved) << "allocation " << allocations;
      EXPECT_EQ(sequence->cache->reserved_tokens(), before) << "allocation " << allocations;
      ++allocations;
    }
    EXPECT_GT(allocations, 0);
    EXPECT_EQ(sequence->cache->reserved_tokens(), static_cast<int64_t>(tokens));
    reserved = model_.memory().reserved;
  }
}

}  // namespace
}  // namespace longstream
