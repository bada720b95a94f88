// Checks of sequence_export and sequence_import.
#include <algorithm>

#include "tests/conformance/checks.h"
#include "tests/conformance/conversation.h"
#include "tests/conformance/other_weights.h"
#include "tests/conformance/script.h"

namespace longstream::conformance {
namespace {

void RoundTrip(const Kit& kit, Check& check) {
  kit.Need(LS_CAP_SNAPSHOT, "snapshot");
  Model model = kit.Open();
  Model reopened = kit.Open();
  for (const size_t past : std::initializer_list<size_t>{0, 1, 2 * kit.grid(), kit.prompt()}) {
    size_t first = 0;
    const Script script = Conversation(kit, past, &first);
    const Trace expected = Tail(RunAlone(model, script), first);
    Sequence sequence = Prompted(model, kit, past);
    sequence.Reserve(script.num_tokens() - past);
    const std::string snapshot = sequence.Export();
    const std::string where = "at position " + std::to_string(past) + ": ";
    const auto expect_future = [&](Sequence& continued, const char* whose) {
      ExpectSame(check, where + whose, expected, Run(continued, script, first));
    };
    check.Expect(sequence.Export() == snapshot, where + "two exports differ");
    for (Model* into : {&model, &reopened}) {
      Sequence copy = into->Import(snapshot);
      check.Expect(copy.position() == past, where + "the copy stands elsewhere");
      const ls_sequence_bytes a = sequence.Bytes();
      const ls_sequence_bytes b = copy.Bytes();
      check.Expect(a.kv == b.kv && a.window == b.window && a.state == b.state && b.checkpoint == 0,
                   where + "the copy holds other bytes");
      copy.Reserve(script.num_tokens() - past);
      expect_future(copy, "the copy");
    }
    expect_future(sequence, "the source");
  }
}

// Takes a snapshot within a turn, after decode steps and a rollback.
void WithinATurn(const Kit& kit, Check& check) {
  kit.Need(LS_CAP_SNAPSHOT, "snapshot");
  Model model = kit.Open();
  size_t first = 0;
  const Script script = Conversation(kit, kit.prompt(), &first);
  const Trace expected = Tail(RunAlone(model, script), first + 3);
  Sequence sequence = Prompted(model, kit, kit.prompt());
  sequence.Reserve(script.num_tokens() - kit.prompt());
  sequence.Checkpoint();
  Run(sequence, script, first, first + 4);
  const uint64_t restored = sequence.Truncate(kit.prompt() + 2);
  Run(sequence, script, first + (restored - kit.prompt()), first + 3);
  Sequence copy = model.Import(sequence.Export());
  copy.Reserve(script.num_tokens() - copy.position());
  ExpectSame(check, "the copy", expected, Run(copy, script, first + 3));
}

// Positions of bytes: the first 128, the last 128, and 128 spread over the whole.
std::vector<size_t> Places(size_t size) {
  std::vector<size_t> places;
  for (size_t i = 0; i < std::min<size_t>(size, 128); ++i) {
    places.push_back(i);
    places.push_back(size - 1 - i);
    places.push_back(size * i / 128);
  }
  return places;
}

void ExpectNothingLeft(Check& check, const ls_memory& before, const ls_memory& after,
                       const std::string& what) {
  check.Expect(before.pages == after.pages && before.rings == after.rings &&
                   before.states == after.states && before.reserved == after.reserved,
               what + " left memory behind");
}

void Damage(const Kit& kit, Check& check) {
  kit.Need(LS_CAP_SNAPSHOT, "snapshot");
  Model model = kit.Open();
  const std::string good = Prompted(model, kit, kit.prompt()).Export();
  const ls_memory before = model.Memory();
  Sequence sequence;
  const auto expect_refused = [&](const std::string& what, const std::string& snapshot) {
    ExpectCode(check, what, LS_DATA_LOSS, model.TryImport(snapshot, &sequence));
    sequence.Free();
  };
  for (const size_t place : Places(good.size())) {
    std::string bad = good;
    bad[place] = static_cast<char>(bad[place] ^ (1 << (place % 8)));
    const std::string where = std::to_string(place) + " of " + std::to_string(good.size());
    expect_refused("a flipped bit in byte " + where, bad);
    expect_refused("cut short after bytes " + where, good.substr(0, place));
  }
  ExpectNothingLeft(check, before, model.Memory(), "damaged snapshots");
  size_t consumed = 0;
  const ls_code code = model.TryImport(good + "what follows", &sequence, nullptr, &consumed);
  check.Expect(code == LS_OK && consumed == good.size(), "read " + std::to_string(consumed) +
                                                             " bytes of a snapshot of " +
                                                             std::to_string(good.size()));
}

void OtherModel(const Kit& kit, Check& check) {
  kit.Need(LS_CAP_SNAPSHOT, "snapshot");
  const OtherWeights other(kit.target());
  Model model = kit.Open();
  Model stranger(kit.backend(), other.directory(), kit.Defaults(), kit.host());
  check.Expect(model.info().fingerprint != stranger.info().fingerprint,
               "other weights have the same fingerprint");
  const std::string snapshot = Prompted(model, kit, kit.prompt()).Export();
  const ls_memory before = stranger.Memory();
  Sequence sequence;
  ExpectCode(check, "a snapshot of another model", LS_FAILED_PRECONDITION,
             stranger.TryImport(snapshot, &sequence));
  sequence.Free();
  ExpectNothingLeft(check, before, stranger.Memory(), "a snapshot of another model");
}

void WriterGivesUp(const Kit& kit, Check& check) {
  kit.Need(LS_CAP_SNAPSHOT, "snapshot");
  Model model = kit.Open();
  Sequence sequence = Prompted(model, kit, kit.prompt());
  const std::string good = sequence.Export();
  std::string part;
  ExpectCode(check, "a writer that gives up", LS_UNAVAILABLE,
             sequence.TryExport(&part, nullptr, good.size() / 2));
  check.Expect(sequence.Export() == good, "the sequence changed");
}

}  // namespace

Checks SnapshotChecks() {
  return {
      {"snapshot.round_trip", &RoundTrip},
      {"snapshot.within_a_turn", &WithinATurn},
      {"snapshot.damage", &Damage},
      {"snapshot.other_model", &OtherModel},
      {"snapshot.writer_gives_up", &WriterGivesUp},
  };
}

}  // namespace longstream::conformance
