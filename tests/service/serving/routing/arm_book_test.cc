// Measuring the costs of models beside turns, and their files.
#include "service/serving/routing/arm_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "service/routing/costs_file.h"
#include "service/serving/model_registry.h"
#include "tests/service/engine/engine_fixture.h"
#include "tests/service/wait_until.h"
#include "tests/temporary_directory.h"

namespace longstream {
namespace {

using testing::HasSubstr;

// ---------------------------------------------------------------- one measurement

std::shared_ptr<ServedModel> LoadModel(const MinimalModel& minimal, uint64_t cache_bytes = 0) {
  return *ServedModel::Load(minimal.Source("{}", cache_bytes), minimal.plugins(), minimal.host());
}

TEST(ArmMeasurementTest, MeasuresAndGivesAllMemoryBack) {
  const MinimalModel minimal;
  const std::shared_ptr<ServedModel> model = LoadModel(minimal);
  std::optional<ArmCosts> costs;
  ArmMeasurement measurement({.most_depth = 3000, .most_time = absl::Seconds(60)},
                             [&](const std::optional<ArmCosts>& measured) { costs = measured; });
  while (measurement.Run(model->backend())) {
  }
  ASSERT_TRUE(costs.has_value());
  EXPECT_GE(costs->measured_depth, 2048u);
  EXPECT_LE(costs->measured_depth, 3000u);
  EXPECT_GT(costs->prefill.base, 0.0);
  EXPECT_GT(costs->decode.base, 0.0);
  EXPECT_GE(costs->prefill.slope, 0.0);
  EXPECT_GE(costs->decode.slope, 0.0);
  const ls_model_info& info = model->backend().info();
  EXPECT_EQ(costs->context_limit, info.context_limit);
  EXPECT_EQ(costs->kv_bytes_per_token, info.kv_bytes_per_token);
  EXPECT_EQ(costs->fixed_bytes, info.window_bytes_per_sequence + info.state_bytes_per_sequence);
  EXPECT_EQ(model->backend().memory().reserved, 0u);
}

TEST(ArmMeasurementTest, TimeIsALimit) {
  const MinimalModel minimal;
  const std::shared_ptr<ServedModel> model = LoadModel(minimal);
  std::optional<ArmCosts> costs;
  ArmMeasurement measurement({.most_time = absl::Nanoseconds(1)},
                             [&](const std::optional<ArmCosts>& measured) { costs = measured; });
  while (measurement.Run(model->backend())) {
  }
  ASSERT_TRUE(costs.has_value()) << "one piece and the draws behind it always count";
  EXPECT_LT(costs->measured_depth, 1024u);
}

TEST(ArmMeasurementTest, PiecesBeginWithOneGridInterval) {
  const MinimalModel minimal;
  // A step takes longer than a piece of a served model may.
  const std::shared_ptr<ServedModel> model = *ServedModel::Load(
      minimal.Source(R"({"step_delay_us": 25000})"), minimal.plugins(), minimal.host());
  const uint64_t grid = model->backend().info().prefill_grid;
  std::optional<ArmCosts> costs;
  ArmMeasurement measurement({.most_depth = 1536, .most_time = absl::Milliseconds(400)},
                             [&](const std::optional<ArmCosts>& measured) { costs = measured; });
  while (measurement.Run(model->backend())) {
  }
  ASSERT_TRUE(costs.has_value());
  // 400 ms are enough for 16 steps at most, and some draws follow.
  EXPECT_LE(costs->measured_depth, 17 * grid + 10);
}

TEST(ArmMeasurementTest, DisturbedStepsDoNotCount) {
  const MinimalModel minimal;
  const std::shared_ptr<ServedModel> model = LoadModel(minimal);
  bool is_done = false;
  std::optional<ArmCosts> costs;
  ArmMeasurement measurement({.most_depth = 300, .most_time = absl::Seconds(60)},
                             [&](const std::optional<ArmCosts>& measured) {
                               is_done = true;
                               costs = measured;
                             });
  while (measurement.Run(model->backend())) measurement.Disturb();
  EXPECT_TRUE(is_done);
  EXPECT_FALSE(costs.has_value()) << "no piece has counted";
}

TEST(ArmMeasurementTest, InterruptionsEndItInTheEnd) {
  const MinimalModel minimal;
  const std::shared_ptr<ServedModel> model = LoadModel(minimal);
  for (const int pieces : {1, 2, 8, 100}) {
    bool is_done = false;
    std::optional<ArmCosts> costs;
    ArmMeasurement measurement({.most_depth = 16384, .most_time = absl::Seconds(60)},
                               [&](const std::optional<ArmCosts>& measured) {
                                 is_done = true;
                                 costs = measured;
                               });
    bool more = true;
    for (int i = 0; more && i < 10'000; ++i) {
      for (int piece = 0; more && piece < pieces; ++piece) more = measurement.Run(model->backend());
      measurement.Yield();
      EXPECT_EQ(model->backend().memory().reserved, 0u);
    }
    EXPECT_FALSE(more) << pieces;
    EXPECT_TRUE(is_done) << pieces;
    if (pieces <= 2) {
      EXPECT_FALSE(costs.has_value()) << pieces << " do not warm it up";
    }
    // Some of 100 pieces are behind the first depth with draws, also if they are short.
    if (pieces == 100) {
      EXPECT_TRUE(costs.has_value());
    }
  }
}

TEST(ArmMeasurementTest, WithoutMemoryThereIsNoResult) {
  const MinimalModel minimal;
  const std::shared_ptr<ServedModel> model = LoadModel(minimal, /*cache_bytes=*/4096);
  // Half of what is free must be enough.
  std::vector<Sequence> sequences;
  for (absl::StatusOr<Sequence> next = model->backend().CreateSequence(); next.ok();
       next = model->backend().CreateSequence()) {
    ASSERT_TRUE(next->Reserve(1).ok());
    sequences.push_back(*std::move(next));
  }
  bool is_done = false;
  ArmMeasurement measurement({}, [&](const std::optional<ArmCosts>& measured) {
    is_done = true;
    EXPECT_FALSE(measured.has_value());
  });
  EXPECT_FALSE(measurement.Run(model->backend()));
  EXPECT_TRUE(is_done);
}

// ---------------------------------------------------------------- the book

class ArmBookTest : public testing::Test {
 protected:
  ArmBookTest() { MakeBook(); }

  void MakeBook(uint64_t most_depth = 1100) {
    ArmBook::Options options;
    options.most_depth = most_depth;
    options.retry_delay = retry_delay_;
    options.most_time = absl::Seconds(60);
    options.place = [this](const ServedModel&) { return place_; };
    options.log = [this](const std::string& sentence) {
      absl::MutexLock lock(&mutex_);
      log_ += sentence + "\n";
    };
    book_ = std::make_shared<ArmBook>(options);
  }
  // Loads the models "a" and "b".
  void LoadModels() {
    ModelRegistry::Options options;
    options.plugins = minimal_.plugins();
    options.host = minimal_.host();
    options.metrics = minimal_.registry();
    options.prepare = [book = book_](const std::shared_ptr<Engine>& engine) {
      book->MeasureAndWait(engine);
    };
    std::vector<ModelSource> sources(2, minimal_.Source());
    sources[0].name = "a";
    sources[1].name = "b";
    models_ = std::make_unique<ModelRegistry>(options, sources, nullptr);
    ASSERT_TRUE(models_->WaitUntilLoaded().ok());
  }
  std::string Log() {
    absl::MutexLock lock(&mutex_);
    return log_;
  }
  bool Told(const std::string& text) {
    return WaitUntil([&] { return Log().find(text) != std::string::npos; });
  }
  // A turn whose reader reads nothing, so that it runs until it is cancelled.
  std::shared_ptr<Turn> BeginTurn(Engine& engine) {
    SessionTurnRequest request = Generate(nullptr, "hello", 60'000);
    request.own_session = true;
    auto turn = std::make_shared<Turn>(request);
    turn->stream.SetReader([] {});
    TurnLease lease = TurnLease::OfNewSession({}, "a", 65536, absl::InfiniteDuration(),
                                              models_->host_memory(), nullptr);
    EXPECT_TRUE(engine.Start(turn, std::move(lease)).ok());
    return turn;
  }

  MinimalModel minimal_;
  CostsPlace place_;
  absl::Duration retry_delay_ = absl::Seconds(30);
  absl::Mutex mutex_;
  std::string log_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<ArmBook> book_;
  std::unique_ptr<ModelRegistry> models_;
};

TEST_F(ArmBookTest, ModelsThatAreWantedAreMeasuredBeforeTheyAreReady) {
  book_->SetWanted({"a"});
  LoadModels();
  ASSERT_TRUE(book_->Find("a").has_value());
  EXPECT_GT(book_->Find("a")->decode.base, 0.0);
  EXPECT_EQ(book_->Find("a")->bytes_per_token, 1.0) << "each byte is a token";
  EXPECT_FALSE(book_->Find("b").has_value());
  EXPECT_EQ((*models_->Find("a"))->model().backend().memory().reserved, 0u);
  book_->Measure(*models_->Find("b"));
  EXPECT_TRUE(WaitUntil([&] { return book_->Find("b").has_value(); }));
  book_->Forget("a");
  EXPECT_FALSE(book_->Find("a").has_value());
}

TEST_F(ArmBookTest, TurnsGoFirst) {
  LoadModels();
  const std::shared_ptr<Engine> engine = *models_->Find("a");
  const std::shared_ptr<Turn> turn = BeginTurn(*engine);
  ASSERT_TRUE(WaitUntil([&] { return engine->num_turns() == 1; }));
  book_->Measure(engine);
  for (int i = 0; i < 20; ++i) {
    engine->Flush();
    EXPECT_FALSE(book_->Find("a").has_value());
  }
  turn->Cancel(absl::CancelledError("it has waited long enough"));
  engine->Wake();
  EXPECT_TRUE(WaitUntil([&] { return book_->Find("a").has_value(); }));
}

TEST_F(ArmBookTest, MeasuresOneModelAfterTheOther) {
  LoadModels();
  const std::shared_ptr<Engine> a = *models_->Find("a");
  const std::shared_ptr<Engine> b = *models_->Find("b");
  const std::shared_ptr<Turn> turn = BeginTurn(*a);
  book_->Measure(a);
  book_->Measure(b);
  for (int i = 0; i < 20; ++i) b->Flush();
  turn->Cancel(absl::CancelledError("it has waited long enough"));
  a->Wake();
  EXPECT_TRUE(Told("costs of model b were measured"));
  EXPECT_TRUE(Told("costs of model a were measured"));
  const std::string log = Log();
  EXPECT_LT(log.find("model a"), log.find("model b")) << log;
}

TEST_F(ArmBookTest, MeasuresAgainUntilThereIsMemory) {
  retry_delay_ = absl::Milliseconds(1);
  MakeBook();
  LoadModels();
  const std::shared_ptr<Engine> engine = *models_->Find("a");
  // The measurement gets half of it.
  const auto set_budget = [&](uint64_t bytes) {
    absl::Notification done;
    engine->SetBudget(bytes, [&](const absl::Status& status) {
      EXPECT_TRUE(status.ok()) << status;
      done.Notify();
    });
    done.WaitForNotification();
  };
  const uint64_t before = engine->model().backend().memory().budget;
  // Sessions fill a small one.
  constexpr uint64_t kBytes = 4096;
  set_budget(kBytes);
  const uint64_t of_session = engine->model().backend().info().state_bytes_per_sequence;
  ASSERT_GT(of_session, 0u);
  for (uint64_t i = 1; i <= kBytes / of_session; ++i) {
    TurnLease lease = TurnLease::OfNewSession({0, i}, "a", 65536, absl::InfiniteDuration(),
                                              models_->host_memory(), nullptr);
    engine->Open(std::move(lease), [](const absl::Status&) {});
  }
  engine->Flush();
  book_->SetWanted({"a"});
  book_->Measure(engine);
  EXPECT_TRUE(Told("costs of model a could not be measured"));
  EXPECT_TRUE(Told("model a is measured again in 2ms"));
  set_budget(before);
  EXPECT_TRUE(WaitUntil([&] { return book_->Find("a").has_value(); }));
}

TEST_F(ArmBookTest, ShallowMeasurementsAreNotKept) {
  const TemporaryDirectory directory;
  place_ = {directory.string() + "/costs.txt", "key of this machine"};
  MakeBook(/*most_depth=*/200);
  book_->SetWanted({"a"});
  LoadModels();
  ASSERT_TRUE(book_->Find("a").has_value()) << "it counts, but";
  EXPECT_TRUE(Told("model a is measured again in 30s"));
  book_->Stop();
  models_.reset();
  book_.reset();  // its thread has ended
  EXPECT_FALSE(ReadCostsFile(place_.path, place_.key).ok());
}

TEST_F(ArmBookTest, AnEngineThatStopsEndsTheMeasurement) {
  LoadModels();
  const std::shared_ptr<Engine> engine = *models_->Find("a");
  const std::shared_ptr<Turn> turn = BeginTurn(*engine);
  book_->SetWanted({"a"});
  std::thread waits([&] { book_->MeasureAndWait(engine); });
  engine->Stop(absl::UnavailableError("unloaded"));
  waits.join();
  EXPECT_TRUE(Told("costs of model a could not be measured"));
  book_->Measure(engine);  // the engine has ended
}

TEST_F(ArmBookTest, TheBookMayGoFirst) {
  LoadModels();
  const std::shared_ptr<Engine> engine = *models_->Find("a");
  const std::shared_ptr<Turn> turn = BeginTurn(*engine);
  book_->Measure(engine);
  models_.reset();  // it holds the book
  book_.reset();
}

TEST_F(ArmBookTest, StopEndsEveryWait) {
  LoadModels();
  const std::shared_ptr<Engine> engine = *models_->Find("a");
  const std::shared_ptr<Turn> turn = BeginTurn(*engine);
  book_->SetWanted({"a"});
  std::thread waits([&] { book_->MeasureAndWait(engine); });
  book_->Stop();
  waits.join();
  book_->MeasureAndWait(engine);
  EXPECT_FALSE(book_->Find("a").has_value());
  book_->Put("a", ArmCosts());
  EXPECT_TRUE(book_->Find("a").has_value());
}

TEST_F(ArmBookTest, FilesAreUsedWrittenAndReplaced) {
  const TemporaryDirectory directory;
  place_ = {directory.string() + "/costs.txt", "key of this machine"};
  ArmCosts known;
  known.measured_depth = 77;
  known.decode = {0.5, 0.25};
  ASSERT_TRUE(WriteCostsFile(place_.path, place_.key, known).ok());
  book_->SetWanted({"a"});
  LoadModels();
  EXPECT_EQ(book_->Find("a")->decode, known.decode);
  EXPECT_TRUE(Told("costs of model a were read from their file"));

  // A damaged file, and one of another machine, are measured anew.
  for (const bool is_damaged : {true, false}) {
    if (is_damaged) {
      std::ofstream(place_.path, std::ios::app) << "x";
    } else {
      ASSERT_TRUE(WriteCostsFile(place_.path, "key of another machine", known).ok());
    }
    models_.reset();
    MakeBook();
    book_->SetWanted({"a"});
    LoadModels();
    EXPECT_NE(book_->Find("a")->decode, known.decode);
    EXPECT_TRUE(Told(is_damaged ? "the checksum differs" : "of another model or"));
    // The file is written after the costs are known.
    EXPECT_TRUE(WaitUntil([&] { return ReadCostsFile(place_.path, place_.key).ok(); }));
  }
}

TEST_F(ArmBookTest, ADirectoryThatCannotBeWrittenIsNoError) {
  place_ = {"/nonexistent/costs.txt", "key"};
  book_->SetWanted({"a"});
  LoadModels();
  EXPECT_TRUE(book_->Find("a").has_value());
  EXPECT_TRUE(Told("costs of model a are not kept: /nonexistent/costs.txt"));
}

TEST_F(ArmBookTest, SmallModelsHaveNoFileAndKeysNameWhatCostsDependOn) {
  LoadModels();
  const ServedModel& model = (*models_->Find("a"))->model();
  const CostsPlace place = PlaceOfCosts(model, 3);
  EXPECT_EQ(place.path, "");
  EXPECT_THAT(place.key, HasSubstr(" threads=3 "));
  EXPECT_THAT(place.key, HasSubstr(std::string(" kernels=") + model.backend().info().kernels));
  EXPECT_THAT(place.key, HasSubstr(" processor="));
  EXPECT_NE(PlaceOfCosts(model, 2).key, place.key);
}

}  // namespace
}  // namespace longstream
