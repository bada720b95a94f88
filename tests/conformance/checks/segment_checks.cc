// Checks of snapshots in segments: snapshot_begin ... import_free.
#include <algorithm>
#include <atomic>
#include <thread>

#include "tests/conformance/checks.h"
#include "tests/conformance/conversation.h"
#include "tests/conformance/other_weights.h"
#include "tests/conformance/script.h"
#include "tests/conformance/segments.h"

namespace longstream::conformance {
namespace {

// The beginning of the last full page before `position`; 0 if there is none.
uint64_t PageBefore(const Model& model, uint64_t position) {
  const uint64_t page = model.info().page_tokens;
  return page == 0 || position < page ? 0 : (position / page - 1) * page;
}

void ExpectNothingHeld(Check& check, const Model& model, const std::string& when) {
  const ls_memory memory = model.Memory();
  check.Expect(memory.reserved == 0 && memory.pages == 0 && memory.rings == 0 && memory.states == 0,
               when + " " + std::to_string(memory.reserved) + " bytes are held");
}

void RoundTrip(const Kit& kit, Check& check) {
  kit.Need(LS_CAP_SEGMENTS, "segments");
  Model model = kit.Open();
  Model reopened = kit.Open();
  for (const size_t past : std::initializer_list<size_t>{0, 1, 2 * kit.grid(), kit.prompt()}) {
    size_t first = 0;
    const Script script = Conversation(kit, past, &first);
    const Trace expected = Tail(RunAlone(model, script), first);
    const std::string where = "at position " + std::to_string(past) + ": ";
    Sequence sequence = Prompted(model, kit, past);
    const Segments segments = Snapshot(sequence, 0).ReadAll();
    check.Expect(Snapshot(sequence, 0).ReadAll(61) == segments,
                 where + "two snapshots of one sequence differ");
    for (Model* into : {&model, &reopened}) {
      Sequence copy = ImportSegments(*into, past, segments.all(), into == &model ? 7 : 65536);
      check.Expect(copy.position() == past, where + "the copy stands elsewhere");
      const ls_sequence_bytes a = sequence.Bytes();
      const ls_sequence_bytes b = copy.Bytes();
      check.Expect(a.kv == b.kv && a.window == b.window && a.state == b.state && b.checkpoint == 0,
                   where + "the copy holds other bytes");
      check.Expect(Snapshot(copy, 0).ReadAll() == segments,
                   where + "a snapshot of the copy differs");
      copy.Reserve(script.num_tokens() - past);
      ExpectSame(check, where + "the copy", expected, Run(copy, script, first));
    }
    sequence.Reserve(script.num_tokens() - past);
    ExpectSame(check, where + "the source", expected, Run(sequence, script, first));
  }
  ExpectNothingHeld(check, model, "after everything was freed");
}

// A snapshot after each of three turns, whose spans and last fixed block give the sequence.
void Incremental(const Kit& kit, Check& check) {
  kit.Need(LS_CAP_SEGMENTS, "segments");
  Model model = kit.Open();
  size_t first = 0;
  const Script script = Conversation(kit, kit.prompt(), &first);
  Sequence sequence = model.Create(script.num_tokens());
  const Trace future = Tail(RunAlone(model, script), first + 5);
  Run(sequence, script, 0, first + 5);
  std::string spans;
  uint64_t from = 0;
  Sequence turns = model.Create(script.num_tokens());
  std::string last;
  for (const auto& [begin, end] : std::initializer_list<std::pair<size_t, size_t>>{
           {0, first}, {first, first + 3}, {first + 3, first + 5}}) {
    Run(turns, script, begin, end);
    Snapshot snapshot(turns, from);
    check.Expect(snapshot.info().span_begin == from && snapshot.info().span_end >= from &&
                     snapshot.info().position == turns.position(),
                 "ls_snapshot_info: wrong tokens");
    const Segments segments = snapshot.ReadAll();
    spans += segments.span;
    last = segments.fixed;
    from = snapshot.info().span_end;
  }
  const uint64_t position = turns.position();
  const Segments whole = Snapshot(sequence, 0).ReadAll();
  check.Expect(last == whole.fixed, "the fixed block depends on the snapshots before it");
  const auto expect_future = [&](const std::string& what, const std::string& bytes) {
    Sequence copy = ImportSegments(model, position, bytes, 1000);
    check.Expect(Snapshot(copy, 0).ReadAll() == whole, what + ": other caches");
    copy.Reserve(script.num_tokens() - position);
    ExpectSame(check, what, future, Run(copy, script, first + 5));
  };
  expect_future("spans of three turns", spans + last);
  // A later span may repeat tokens of earlier ones, and a span may have more tokens than needed.
  const std::string tail = Snapshot(sequence, PageBefore(model, position)).Read(LS_SEGMENT_SPAN);
  expect_future("a span that repeats tokens", whole.span + tail + last);
  Sequence prompt = Prompted(model, kit, kit.prompt());
  const Segments of_prompt = Snapshot(prompt, 0).ReadAll();
  Sequence copy = ImportSegments(model, kit.prompt(), whole.span + of_prompt.fixed);
  check.Expect(Snapshot(copy, 0).ReadAll() == of_prompt, "a span with more tokens than needed");
}

// Whatever happens to the sequence, its snapshot keeps the bytes of the beginning.
void Undisturbed(const Kit& kit, Check& check) {
  kit.Need(LS_CAP_SEGMENTS, "segments");
  Model model = kit.Open();
  size_t first = 0;
  const Script script = Conversation(kit, kit.prompt(), &first);
  const auto fed = [&] {
    Sequence sequence = model.Create(script.num_tokens());
    Run(sequence, script, 0, first);
    sequence.Checkpoint();
    return sequence;
  };
  Sequence control = fed();
  const Segments expected = Snapshot(control, 0).ReadAll();
  const auto expect_same = [&](const char* what, const auto& disturb) {
    Sequence sequence = fed();
    Snapshot snapshot(sequence, 0);
    disturb(sequence);
    check.Expect(snapshot.ReadAll(4099) == expected,
                 std::string("a snapshot changed when its sequence ") + what);
  };
  expect_same("went on", [&](Sequence& sequence) { Run(sequence, script, first); });
  expect_same("was freed", [&](Sequence& sequence) {
    sequence.Free();
    Sequence others = model.Create(script.num_tokens());
    model.Step(Prefill(others, kit.Tokens(53, script.num_tokens())));
  });
  expect_same("was truncated and fed other tokens", [&](Sequence& sequence) {
    Run(sequence, script, first, first + 2);
    const uint64_t restored = sequence.Truncate(kit.prompt());
    model.Step(Prefill(sequence, kit.Tokens(54, script.num_tokens() - restored)));
  });
  expect_same("was emptied and filled again", [&](Sequence& sequence) {
    sequence.Reserve(0);
    sequence.Free();
    sequence = model.Create(script.num_tokens());
    model.Step(Prefill(sequence, kit.Tokens(55, kit.prompt())));
  });
  if (kit.Has(LS_CAP_FORK)) {
    expect_same("was forked", [&](Sequence& sequence) {
      Sequence fork = sequence.Fork();
      sequence.Free();
      fork.Reserve(5);
      model.Step(Prefill(fork, kit.Tokens(56, 5)));
    });
  }
  Snapshot unread(control, 0);
  control.Free();
  const ls_memory memory = model.Memory();
  const uint64_t page = model.info().page_tokens * model.info().kv_bytes_per_token;
  const uint64_t full = page == 0 ? 0 : kit.prompt() / model.info().page_tokens * page;
  check.Expect(memory.pages == full && memory.rings == 0 && memory.states == 0,
               "an unread snapshot holds " + std::to_string(memory.pages) +
                   " bytes of pages, expected " + std::to_string(full));
}

// Going back to a rollback point within pages that a snapshot shares needs pages in their place,
// which must be promised.
void BesideAReservation(const Kit& kit, Check& check) {
  kit.Need(LS_CAP_SEGMENTS, "segments");
  Model model = kit.Open();
  const size_t past = kit.prompt();
  Sequence sequence = model.Create(past + 4);
  const std::vector<int32_t> tokens = ConversationTokens(kit, past);
  sequence.Checkpoint();
  model.Step(Prefill(sequence, tokens));
  Snapshot snapshot(sequence, 0);
  check.Expect(sequence.Truncate(0) == 0, "truncate beside a snapshot");
  model.Step(Prefill(sequence, kit.Tokens(57, past)));
  const ls_memory memory = model.Memory();
  check.Expect(memory.pages + memory.rings + memory.states + memory.checkpoints <= memory.reserved,
               "more is held than reserved");
  Sequence control = Prompted(model, kit, past);
  check.Expect(snapshot.ReadAll() == Snapshot(control, 0).ReadAll(), "the snapshot changed");
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

void Damage(const Kit& kit, Check& check) {
  kit.Need(LS_CAP_SEGMENTS, "segments");
  Model model = kit.Open();
  const uint64_t position = kit.prompt();
  Segments segments;
  {
    Sequence sequence = Prompted(model, kit, position);
    segments = Snapshot(sequence, 0).ReadAll();
  }
  const std::string good = segments.all();
  Sequence sequence;
  const auto expect_refused = [&](const std::string& what, const std::string& bytes) {
    ExpectCode(check, what, LS_DATA_LOSS,
               TryImportSegments(model, position, bytes, &sequence, 5000));
    sequence.Free();
  };
  std::vector<size_t> places = Places(segments.span.size());
  for (const size_t place : Places(segments.fixed.size())) {
    places.push_back(segments.span.size() + place);
  }
  for (const size_t place : places) {
    std::string bad = good;
    bad[place] = static_cast<char>(bad[place] ^ (1 << (place % 8)));
    const std::string where = std::to_string(place) + " of " + std::to_string(good.size());
    expect_refused("a flipped bit in byte " + where, bad);
    expect_refused("cut short after bytes " + where, good.substr(0, place));
  }
  expect_refused("bytes behind the fixed block", good + "x");
  expect_refused("the fixed block twice", good + segments.fixed);
  if (!segments.span.empty()) {
    expect_refused("without the span", segments.fixed);
  }
  expect_refused("without the fixed block", segments.span);
  ExpectNothingHeld(check, model, "after damaged segments");
}

void Arguments(const Kit& kit, Check& check) {
  kit.Need(LS_CAP_SEGMENTS, "segments");
  Model model = kit.Open();
  const uint64_t past = kit.prompt();
  Sequence sequence = Prompted(model, kit, past);
  const uint64_t page = model.info().page_tokens;
  ExpectCode(check, "from past the position", LS_INVALID_ARGUMENT,
             Snapshot::TryBegin(sequence, past + std::max<uint64_t>(page, 1)));
  if (page > 1) {
    ExpectCode(check, "from within a page", LS_INVALID_ARGUMENT, Snapshot::TryBegin(sequence, 1));
  }
  ExpectCode(check, "an import past the context limit", LS_INVALID_ARGUMENT,
             Import::TryBegin(model, kit.context_limit() + 1));
  ExpectCode(check, "an import at a huge position", LS_INVALID_ARGUMENT,
             Import::TryBegin(model, UINT64_MAX));
  Snapshot snapshot(sequence, 0);
  size_t size = 0;
  char byte = 0;
  ExpectCode(check, "a segment of no kind", LS_INVALID_ARGUMENT,
             snapshot.TryRead(0, &byte, 1, &size));
  const Segments segments = snapshot.ReadAll();
  Sequence imported;
  ExpectCode(check, "the fixed block of another position", LS_INVALID_ARGUMENT,
             TryImportSegments(model, past - 1, segments.all(), &imported));
  const uint64_t later = PageBefore(model, past);
  if (later > 0) {
    const std::string tail = Snapshot(sequence, later).Read(LS_SEGMENT_SPAN);
    ExpectCode(check, "a span that leaves a gap", LS_INVALID_ARGUMENT,
               TryImportSegments(model, past, tail + segments.fixed, &imported));
  }
}

// Segments of a model with one other bit of weights.
void OtherModel(const Kit& kit, Check& check) {
  kit.Need(LS_CAP_SEGMENTS, "segments");
  const OtherWeights other(kit.target());
  Model model = kit.Open();
  Model stranger(kit.backend(), other.directory(), kit.Defaults(), kit.host());
  Sequence sequence = Prompted(model, kit, kit.prompt());
  const Segments segments = Snapshot(sequence, 0).ReadAll();
  Sequence imported;
  for (const std::string& bytes : {segments.all(), segments.fixed}) {
    ExpectCode(check, "segments of another model", LS_FAILED_PRECONDITION,
               TryImportSegments(stranger, kit.prompt(), bytes, &imported));
  }
  ExpectNothingHeld(check, stranger, "after segments of another model");
}

// With a full budget a snapshot begins, and an import does not. An import takes as many bytes from
// the budget as the sequence that it becomes.
void FullBudget(const Kit& kit, Check& check) {
  kit.Need(LS_CAP_SEGMENTS, "segments");
  Model model = kit.Open();
  Sequence sequence = Prompted(model, kit, kit.prompt());
  const Segments segments = Snapshot(sequence, 0).ReadAll();
  const ls_memory alone = model.Memory();
  {
    Import import(model, kit.prompt());
    check.Expect(model.Memory().reserved == 2 * alone.reserved,
                 "an import reserves other bytes than its sequence");
  }
  check.Expect(model.Memory().reserved == alone.reserved, "an import left memory behind");
  OpenOptions options = kit.Defaults();
  const uint64_t page = model.info().page_tokens * model.info().kv_bytes_per_token;
  // A device may divide its budget into a pool of pages and one of slots.
  options.cache_bytes_budget =
      (kit.IsOnDevice() ? 2 : 1) *
      std::max(2 * alone.reserved,
               alone.reserved + model.info().checkpoint_bytes_per_sequence + page);
  Model small = kit.Open(options);
  Sequence held = Prompted(small, kit, kit.prompt());
  std::vector<Sequence> others;
  ls_code code = Import::TryBegin(small, kit.prompt());
  while (code == LS_OK && others.size() < 1000) {
    others.push_back(small.Create());
    others.back().TryReserve(kit.prompt());
    code = Import::TryBegin(small, kit.prompt());
  }
  ExpectCode(check, "an import without room", LS_RESOURCE_EXHAUSTED, code);
  check.Expect(Snapshot(held, 0).ReadAll() == segments, "a snapshot in a full budget");
}

// Another thread reads a snapshot and writes an import while the model runs steps.
void BesideSteps(const Kit& kit, Check& check) {
  kit.Need(LS_CAP_SEGMENTS, "segments");
  Model model = kit.Open();
  size_t first = 0;
  const Script script = Conversation(kit, kit.prompt(), &first);
  const Trace expected = Tail(RunAlone(model, script), first);
  Sequence sequence = Prompted(model, kit, kit.prompt());
  const Segments segments = Snapshot(sequence, 0).ReadAll();
  for (int round = 0; round < 4; ++round) {
    Snapshot snapshot(sequence, 0);
    Import import(model, kit.prompt());
    Segments read;
    ls_code written = LS_OK;
    std::string failure;
    std::thread other([&] {
      try {
        read = snapshot.ReadAll(3001);
        written = import.TryWrite(segments.all(), 3001);
      } catch (const CheckFailed& failed) {
        failure = failed.why;
      }
    });
    Trace trace;
    try {
      Sequence running = round % 2 == 0 ? std::move(sequence) : Prompted(model, kit, kit.prompt());
      running.Reserve(script.num_tokens() - kit.prompt());
      trace = Run(running, script, first);
    } catch (...) {
      other.join();
      throw;
    }
    other.join();
    check.Require(failure.empty(), "beside steps: " + failure);
    ExpectCode(check, "a write beside steps", LS_OK, written);
    check.Expect(read == segments, "other bytes were read beside steps");
    ExpectSame(check, "steps beside a snapshot", expected, trace);
    Sequence attached;
    ExpectCode(check, "attach", LS_OK, import.TryAttach(&attached));
    sequence = std::move(attached);
  }
}

}  // namespace

Checks SegmentChecks() {
  return {
      {"segments.round_trip", &RoundTrip},
      {"segments.incremental", &Incremental},
      {"segments.undisturbed", &Undisturbed},
      {"segments.beside_a_reservation", &BesideAReservation},
      {"segments.damage", &Damage},
      {"segments.arguments", &Arguments},
      {"segments.other_model", &OtherModel},
      {"segments.full_budget", &FullBudget},
      {"segments.beside_steps", &BesideSteps},
  };
}

}  // namespace longstream::conformance
