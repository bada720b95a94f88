// When the heap gives free memory back.
#include "service/serving/memory/heap_trim.h"

#include <gtest/gtest.h>

namespace longstream {
namespace {

MonotonicTime At(int seconds) { return MonotonicTime() + absl::Seconds(seconds); }

TEST(HeapTrimTest, TwiceAfterWork) {
  HeapTrim trim;
  EXPECT_FALSE(trim.IsDue(At(100), false, false));
  trim.NoteWork();
  EXPECT_TRUE(trim.IsDue(At(101), false, false));
  EXPECT_TRUE(trim.IsDue(At(102), false, false));
  EXPECT_FALSE(trim.IsDue(At(1000), false, false));
  trim.NoteWork();
  EXPECT_TRUE(trim.IsDue(At(1001), false, false));
}

TEST(HeapTrimTest, SoonIfIdleAndSeldomIfBusy) {
  HeapTrim trim;
  trim.NoteWork();
  EXPECT_TRUE(trim.IsDue(At(100), true, true)) << "the first time";
  trim.NoteWork();
  EXPECT_FALSE(trim.IsDue(At(104), false, true));
  EXPECT_FALSE(trim.IsDue(At(159), true, true));
  EXPECT_TRUE(trim.IsDue(At(160), true, true));
  EXPECT_FALSE(trim.IsDue(At(161), true, false));
  EXPECT_FALSE(trim.IsDue(At(164), false, true));
  EXPECT_TRUE(trim.IsDue(At(165), false, true)) << "the turns have ended since";
  EXPECT_FALSE(trim.IsDue(At(169), false, true));
  EXPECT_TRUE(trim.IsDue(At(170), false, true)) << "the second time";
  EXPECT_FALSE(trim.IsDue(At(300), false, true));
  trim.NoteWork();
  EXPECT_TRUE(trim.IsDue(At(301), false, false)) << "no session is left";
}

// gRPC frees messages that no call has noted.
TEST(HeapTrimTest, AfterMuchMemoryWasHeldOrFreed) {
  constexpr uint64_t kMiB = 1 << 20;
  HeapTrim trim;
  const auto trims = [&trim](int second) {
    int count = 0;
    while (trim.IsDue(At(second), false, false)) ++count;
    return count;
  };
  trim.Measure({40 * kMiB, 2 * kMiB});
  EXPECT_EQ(trims(100), 2);
  trim.SetTrimmed({40 * kMiB, 2 * kMiB});
  trim.Measure({47 * kMiB, 9 * kMiB});
  EXPECT_EQ(trims(101), 0) << "little has changed";
  trim.Measure({100 * kMiB, 2 * kMiB});
  EXPECT_EQ(trims(102), 2) << "the process has grown";
  trim.SetTrimmed({100 * kMiB, 2 * kMiB});
  trim.Measure({100 * kMiB, 62 * kMiB});
  EXPECT_EQ(trims(103), 2) << "the memory has become free after the trim";
  trim.SetTrimmed({40 * kMiB, 62 * kMiB});
  trim.Measure({40 * kMiB, 62 * kMiB});
  EXPECT_EQ(trims(104), 0);
  trim.Measure({45 * kMiB, 40 * kMiB});
  EXPECT_EQ(trims(105), 0) << "a part is in use again";
  trim.Measure({45 * kMiB, 62 * kMiB});
  EXPECT_EQ(trims(106), 2) << "and free again";
}

TEST(HeapTrimTest, ModelsAreAskedForTheirIdleMemoryNowAndThen) {
  HeapTrim trim;
  EXPECT_TRUE(trim.IsCacheDue(At(101)));
  EXPECT_FALSE(trim.IsCacheDue(At(105)));
  EXPECT_TRUE(trim.IsCacheDue(At(106)));
}

}  // namespace
}  // namespace longstream
