// MeasureLoading reports times and leaves the directory as it was.
#include "tests/bench/model/load_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>

#include "backends/errors/error.h"
#include "tests/backends/model/random_model.h"
#include "tests/bench/plans/random_checkpoint.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(LoadTimesTest, EveryStartIsTimed) {
  const TemporaryDirectory directory;
  const ModelSpec spec = RandomSpec("full+full");
  WriteRandomCheckpoint(spec, "{}", directory.string());
  const LoadTimes times = MeasureLoading(spec, directory.string(), DType::kI8, 2, Executor());
  EXPECT_GT(times.weight_bytes, 0u);
  for (const double seconds : {times.packed, times.first, times.second, times.second_cold}) {
    EXPECT_GT(seconds, 0);
  }
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory.path())) {
    files.insert(entry.path().filename());
  }
  EXPECT_THAT(files, ElementsAre("config.json", "model.safetensors"));
}

TEST(LoadTimesTest, ADirectoryWithoutACheckpoint) {
  const TemporaryDirectory directory;
  EXPECT_THROW(MeasureLoading(RandomSpec("full"), directory.string(), DType::kBF16, 1, Executor()),
               BackendError);
}

TEST(LoadTimesTest, Lines) {
  EXPECT_THAT(LoadLine(DType::kI4, {2'000'000, 1, 2.5, 0.25, 3}),
              ::testing::AllOf(HasSubstr("int4"), HasSubstr("2.0 MB"), HasSubstr(" 1.00 s"),
                               HasSubstr(" 2.50 s"), HasSubstr(" 0.25 s"), HasSubstr(" 3.00 s")));
}

}  // namespace
}  // namespace longstream
