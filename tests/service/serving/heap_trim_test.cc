// When the heap gives free memory back.
#include "service/serving/heap_trim.h"

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

}  // namespace
}  // namespace longstream
