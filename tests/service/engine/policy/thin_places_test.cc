// Tests which places at the ends of turns are kept.
#include "service/engine/policy/thin_places.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace longstream {
namespace {

TEST(ThinPlaces, KeepsTheLastFourAndEverFewerBefore) {
  struct Case {
    std::string name;
    std::vector<uint64_t> positions;
    std::vector<size_t> dropped;
  };
  const Case cases[] = {
      {"none", {}, {}},
      {"the last four", {1, 2, 3, 4}, {}},
      {"the first one stays", {1, 100, 101, 102, 103, 104}, {}},
      {"one that is close to its neighbours", {80, 90, 101, 102, 103, 104}, {}},
      {"one between two that are close", {98, 99, 100, 101, 102, 103, 104}, {2}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    EXPECT_EQ(ThinPlaces(c.positions), c.dropped);
  }
}

TEST(ThinPlaces, OfALongSessionAreFewAndNeverFar) {
  std::vector<uint64_t> positions;
  for (uint64_t turn = 1; turn <= 1000; ++turn) {
    positions.push_back(turn * 100);
    for (const size_t i : ThinPlaces(positions)) {
      positions.erase(positions.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  EXPECT_LE(positions.size(), 24u);
  EXPECT_EQ(positions.front(), 100u);
  const uint64_t end = positions.back();
  for (size_t i = 1; i + 4 < positions.size(); ++i) {
    EXPECT_GE(end - positions[i - 1], 2 * (end - positions[i + 1]));
  }
}

}  // namespace
}  // namespace longstream
