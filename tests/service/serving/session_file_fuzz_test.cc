// Mutations of session files: each is taken with values in their ranges, or refused by name. The
// sanitizers detect anything worse.
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>
#include <vector>

#include "service/serving/file/file_records.h"
#include "service/serving/file/imported_log.h"
#include "session_file.pb.h"
#include "tests/fuzz_trials.h"
#include "turn_log.pb.h"

namespace longstream {
namespace {

constexpr TokenBounds kBounds{.vocabulary_size = 256, .context_limit = 1000};

using Random = std::mt19937_64;

// The parts of a file as messages, so that a mutation can reach behind the checksums.
struct Sample {
  file::Session session;
  struct Turn {
    file::Turn turn;
    log::TurnStart start;
    log::TurnResult result;
  };
  std::vector<Turn> turns;
  std::string caches;
};

Sample MakeSample(Random& random) {
  Sample sample;
  log::SessionProperties properties;
  properties.set_idle_timeout_us(1'000'000);
  properties.set_origin("open m");
  sample.session.set_id(std::string(16, 'i'));
  sample.session.set_model("m");
  sample.session.set_create_time_us(5);
  sample.session.set_properties(properties.SerializeAsString());
  sample.session.set_turns(1 + random() % 3);
  sample.caches = std::string(random() % 200, 'c');
  sample.session.set_caches_bytes(sample.caches.size());
  uint64_t position = 0;
  for (uint64_t i = 0; i < sample.session.turns(); ++i) {
    Sample::Turn turn;
    const bool generates = random() % 2 == 0;
    turn.start.set_kind(generates ? 0 : 1);
    turn.start.set_start_position(position);
    turn.start.add_prompt(7);
    turn.start.mutable_sampling()->set_seed(random());
    turn.result.set_prompt_tokens(2);
    for (int token = 0; token < (generates ? 6 : 2); ++token) turn.result.add_tokens(100 + token);
    position += static_cast<uint64_t>(turn.result.tokens_size());
    if (generates) {
      turn.result.set_text("caf\xC3\xA9");
      for (const uint32_t length : {1, 2, 0, 2}) turn.result.add_text_lengths(length);
      turn.result.set_lead("\xEF\xBF\xBD");
      for (int k = 0; k < 4; ++k) {
        log::TokenLogProb* log_prob = turn.result.add_log_probs();
        log_prob->set_log_prob(-1);
        log_prob->add_top_tokens(101 + k);
        log_prob->add_top_log_probs(-2);
      }
    }
    turn.result.set_feed_begin(position - static_cast<uint64_t>(turn.result.tokens_size()));
    turn.result.add_feed(2 * (position - 1));
    turn.result.set_reason(3);
    turn.result.set_tail("\xE2\x82");
    turn.turn.set_id(std::string(16, static_cast<char>('0' + i)));
    turn.turn.set_kept_position(turn.start.start_position());
    turn.turn.set_position(position);
    turn.turn.set_end_time_us(9);
    turn.turn.set_request_digest(std::string(32, 'd'));
    sample.turns.push_back(turn);
  }
  sample.session.set_caches_position(random() % position);
  return sample;
}

void FlipBytes(Random& random, std::string* bytes) {
  if (bytes->empty()) bytes->push_back('\0');
  for (uint64_t i = 0; i < 1 + random() % 3; ++i) {
    const size_t at = random() % bytes->size();
    switch (random() % 4) {
      case 0:
        (*bytes)[at] = static_cast<char>((*bytes)[at] ^ (1 << random() % 8));
        break;
      case 1:
        bytes->erase(at, 1 + random() % 20);
        break;
      case 2:
        bytes->insert(at, bytes->substr(random() % bytes->size(), 1 + random() % 20));
        break;
      default:
        bytes->resize(at);
    }
    if (bytes->empty()) bytes->push_back('\0');
  }
}

// Changes a field to a number at some limit.
void ChangeNumber(Random& random, Sample* sample) {
  static constexpr std::array<uint64_t, 12> kNumbers = {0,
                                                        1,
                                                        2,
                                                        255,
                                                        256,
                                                        999,
                                                        1001,
                                                        uint64_t{1} << 31,
                                                        uint64_t{1} << 32,
                                                        ~uint64_t{0} >> 1,
                                                        (~uint64_t{0} >> 1) + 1,
                                                        ~uint64_t{0}};
  const uint64_t number = kNumbers[random() % kNumbers.size()];
  const auto small = static_cast<uint32_t>(number);
  Sample::Turn& turn = sample->turns[random() % sample->turns.size()];
  switch (random() % 16) {
    case 0:
      sample->session.set_turns(number);
      break;
    case 1:
      sample->session.set_caches_position(number);
      break;
    case 2:
      sample->session.set_caches_bytes(number);
      break;
    case 3:
      sample->session.set_create_time_us(static_cast<int64_t>(number));
      break;
    case 4:
      turn.turn.set_position(number);
      break;
    case 5:
      turn.start.set_start_position(number);
      break;
    case 6:
      turn.start.set_kind(small);
      break;
    case 7:
      turn.result.set_prompt_tokens(number);
      break;
    case 8:
      turn.result.set_feed_begin(number);
      break;
    case 9:
      turn.result.set_feed(0, number);
      break;
    case 10:
      turn.result.set_tokens(0, static_cast<int32_t>(small));
      break;
    case 11:
      turn.result.add_text_lengths(small);
      break;
    case 12:
      turn.result.set_reason(small);
      break;
    case 13:
      turn.result.add_feed(number);
      break;
    case 14:
      turn.result.set_queue_us(static_cast<int64_t>(number));
      break;
    default:
      if (turn.result.log_probs_size() == 0) break;
      turn.result.mutable_log_probs(0)->set_top_tokens(0, static_cast<int32_t>(small));
  }
}

std::string FileOf(Random& random, Sample sample) {
  if (random() % 2 == 0) ChangeNumber(random, &sample);
  RecordWriter writer;
  std::string file = writer.Begin();
  const auto record = [&](RecordKind kind, std::string bytes) {
    if (random() % 12 == 0) FlipBytes(random, &bytes);
    file += writer.Record(kind, bytes);
  };
  record(RecordKind::kSession, sample.session.SerializeAsString());
  for (Sample::Turn& turn : sample.turns) {
    std::string start = turn.start.SerializeAsString();
    std::string result = turn.result.SerializeAsString();
    if (random() % 12 == 0) FlipBytes(random, &start);
    if (random() % 12 == 0) FlipBytes(random, &result);
    turn.turn.set_request(start);
    turn.turn.set_result(result);
    record(RecordKind::kTurn, turn.turn.SerializeAsString());
  }
  file += writer.CachesHeader(sample.caches.size()) + sample.caches;
  file += writer.Record(RecordKind::kEnd, "");
  if (random() % 4 == 0) FlipBytes(random, &file);
  return file;
}

// Takes the records of the file in their order, without a model.
absl::Status Read(Random& random, const std::string& file, ImportedLog* log) {
  RecordReader reader(nullptr);
  for (size_t begin = 0; begin < file.size();) {
    const size_t size = std::min(file.size() - begin, 1 + random() % 300);
    // An exact copy on the heap, so that reading one byte too far is caught.
    const std::vector<char> piece(file.begin() + static_cast<ptrdiff_t>(begin),
                                  file.begin() + static_cast<ptrdiff_t>(begin + size));
    begin += size;
    if (absl::Status status = reader.Add({piece.data(), piece.size()}); !status.ok()) return status;
    while (true) {
      const auto record = reader.Next();
      if (!record.ok()) return record.status();
      if (!record->has_value()) break;
      absl::Status status;
      if ((*record)->kind == RecordKind::kSession) status = log->SetSession((*record)->data);
      if ((*record)->kind == RecordKind::kTurn) status = log->AddTurn((*record)->data);
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

// Checks the ranges that other code relies on.
void ExpectInRange(const LoggedTurn& turn) {
  EXPECT_LE(turn.row.position, kBounds.context_limit);
  EXPECT_EQ(turn.start.start_position + turn.result.tokens.size(), turn.row.position);
  for (const int32_t token : turn.result.tokens) {
    EXPECT_TRUE(token >= 0 && token < 256) << token;
  }
  EXPECT_LE(turn.result.tail.bytes.size(), 3u);
  if (turn.result.answer == nullptr) return;
  for (size_t i = 0; i < turn.result.answer->tokens().size(); ++i) {
    turn.result.answer->DeltaOf(i);
  }
}

TEST(SessionFileFuzzTest, AFileIsTakenInItsRangesOrRefused) {
  Random random(17);
  FuzzTrials trials(3000);
  int taken = 0;
  while (trials.Next()) {
    SCOPED_TRACE(trials.name());
    const std::string file = FileOf(random, MakeSample(random));
    ImportedLog log(nullptr);
    const absl::Status status = Read(random, file, &log);
    if (!status.ok()) {
      EXPECT_NE(status.message(), "");
      continue;
    }
    for (const store::TurnRow& row : log.turns()) {
      const auto turn = DecodeTurn(row);
      if (!turn.ok() || !CheckImportedTurn(*turn, kBounds).ok()) continue;
      ++taken;
      ExpectInRange(*turn);
    }
  }
  EXPECT_GT(taken, trials.count() / 10) << "most mutations should leave turns that are right";
}

}  // namespace
}  // namespace longstream
