// Milliseconds and bytes of snapshots and imports in segments, of forks and rewinds, and what the
// beginning of a snapshot costs a step.
// Usage: snapshot_bench PLUGIN.so MODEL_DIR [CONTEXT_LIMIT [ROUNDS]]
//
// A row is a context length. "whole" is a snapshot of everything; "turn" is the snapshot after a
// turn of 512 more tokens, which writes the turn's span and one fixed block. "import" restores the
// whole snapshot, "recompute" reads the same tokens again. "fork" copies the sequence. "rewind"
// goes back to the end of the turn before: by truncation if the backend can, which holds for layers
// with pages alone, otherwise by an import of the snapshot of that turn's end ("by import"). Each
// time is the median of several rounds, but for recompute.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "tests/bench/timing.h"
#include "tests/conformance/plugin_file.h"
#include "tests/conformance/segments.h"
#include "tests/conformance/test_host.h"

namespace longstream::conformance {
namespace {

constexpr uint32_t kPiece = 512;  // tokens of a prefill step, and of a turn
constexpr uint32_t kSequences = 8;
constexpr size_t kPieceBytes = size_t{1} << 20;

struct Settings {
  std::string plugin;
  std::string model;
  std::string context_limit = "131072";
  int rounds = 9;
};

double MedianMs(int rounds, const std::function<double()>& measure) {
  std::vector<double> seconds;
  for (int i = 0; i < rounds; ++i) seconds.push_back(measure());
  return 1e3 * Median(seconds);
}

void Feed(Model& model, Sequence& sequence, uint64_t tokens) {
  Entry entry = Prefill(sequence, std::vector<int32_t>(kPiece, 7));
  entry.logit_rows = LS_ROWS_NONE;
  for (uint64_t fed = 0; fed < tokens; fed += kPiece) model.Step(entry);
}

// Reads both segments as a program that passes every piece on.
void Drain(Snapshot& snapshot, std::string* buffer) {
  for (const int32_t segment : {LS_SEGMENT_SPAN, LS_SEGMENT_FIXED}) {
    size_t size = buffer->size();
    while (size == buffer->size()) {
      if (snapshot.TryRead(segment, buffer->data(), buffer->size(), &size) != LS_OK) {
        throw CheckFailed{"snapshot_read failed"};
      }
    }
  }
}

// Times of one snapshot, and of its import.
struct Times {
  double begin_ms = 0;
  double read_ms = 0;
  size_t bytes = 0;
};

Times MeasureSnapshot(Sequence& sequence, uint64_t from, int rounds, std::string* bytes) {
  Times times;
  std::string buffer(kPieceBytes, '\0');
  times.begin_ms = MedianMs(rounds, [&] { return SecondsOf([&] { Snapshot(sequence, from); }); });
  times.read_ms = MedianMs(rounds, [&] {
    Snapshot snapshot(sequence, from);
    return SecondsOf([&] { Drain(snapshot, &buffer); });
  });
  *bytes = Snapshot(sequence, from).ReadAll().all();
  times.bytes = bytes->size();
  return times;
}

// The time of a rewind by one turn, and how it was made.
struct Rewind {
  double ms = 0;
  const char* how = "";
};

// `bytes`: the snapshot at the end of the turn before, at position `to`.
Rewind MeasureRewind(Model& model, Sequence& sequence, uint64_t to, const std::string& bytes,
                     int rounds) {
  bool reaches = true;
  const double by_truncation = MedianMs(rounds, [&] {
    Sequence fork = sequence.Fork();
    return SecondsOf([&] {
      uint64_t restored = 0;
      reaches = fork.TryTruncate(to, &restored) == LS_OK && restored == to;
    });
  });
  if (reaches) return {by_truncation, "truncation"};
  const double by_import = MedianMs(
      rounds, [&] { return SecondsOf([&] { ImportSegments(model, to, bytes, kPieceBytes); }); });
  return {by_import, "import"};
}

void MeasureContext(Model& model, uint64_t context, int rounds) {
  Sequence sequence = model.Create(context + kPiece);
  const double prefill = SecondsOf([&] { Feed(model, sequence, context); });
  std::string whole_bytes;
  const Times whole = MeasureSnapshot(sequence, 0, rounds, &whole_bytes);
  const double import_ms = MedianMs(rounds, [&] {
    return SecondsOf([&] { ImportSegments(model, context, whole_bytes, kPieceBytes); });
  });
  Feed(model, sequence, kPiece);
  std::string bytes;
  const Times turn =
      MeasureSnapshot(sequence, model.info().page_tokens == 0 ? 0 : context, rounds, &bytes);
  const double fork_ms =
      MedianMs(rounds, [&] { return SecondsOf([&] { const Sequence fork = sequence.Fork(); }); });
  const Rewind rewind = MeasureRewind(model, sequence, context, whole_bytes, rounds);
  std::printf("%8llu  %12zu %8.3f %8.2f  %12zu %8.3f %8.2f  %8.2f %10.0f  %8.3f %8.3f by %s\n",
              static_cast<unsigned long long>(context), whole.bytes, whole.begin_ms, whole.read_ms,
              turn.bytes, turn.begin_ms, turn.read_ms, import_ms, 1e3 * prefill, fork_ms, rewind.ms,
              rewind.how);
  std::fflush(stdout);
}

// Steps of eight sequences; before every other one, a snapshot of a ninth sequence begins.
void MeasureSteps(Model& model, int rounds) {
  std::vector<Sequence> sequences;
  std::vector<Entry> entries;
  const int steps = 20 * rounds;
  for (uint32_t i = 0; i <= kSequences; ++i) {
    sequences.push_back(model.Create(2 * kPiece + static_cast<uint64_t>(2 * steps)));
    Feed(model, sequences.back(), kPiece);
  }
  Feed(model, sequences.back(), 100);
  for (uint32_t i = 0; i < kSequences; ++i) entries.push_back(Decode(sequences[i], 7));
  const auto step = [&] { model.Step(entries); };
  std::vector<double> alone;
  std::vector<double> with_begin;
  for (int i = 0; i < steps; ++i) {
    alone.push_back(SecondsOf(step));
    with_begin.push_back(SecondsOf([&] {
      const Snapshot snapshot(sequences.back(), 0);
      step();
    }));
  }
  std::printf("step of %u sequences: %.3f ms; with a snapshot_begin before it: %.3f ms\n",
              kSequences, 1e3 * Median(alone), 1e3 * Median(with_begin));
}

int Run(const Settings& settings) {
  const PluginFile plugin(settings.plugin);
  const TestHost host(2);
  OpenOptions options;
  options.options = "{\"context_limit\": " + settings.context_limit + "}";
  options.max_batch_tokens = kPiece;
  Model model(*plugin.backend(), settings.model, options, host);
  std::printf("%s on %s, ops %s; milliseconds\n", settings.model.c_str(), plugin.backend()->name,
              model.info().kernels);
  std::printf("%8s  %12s %8s %8s  %12s %8s %8s  %8s %10s  %8s %8s\n", "tokens", "whole bytes",
              "begin", "read", "turn bytes", "begin", "read", "import", "recompute", "fork",
              "rewind");
  for (const uint64_t context : {uint64_t{1} << 10, uint64_t{1} << 14, uint64_t{1} << 16}) {
    if (context + kPiece <= model.info().context_limit) {
      MeasureContext(model, context, settings.rounds);
    }
  }
  MeasureSteps(model, settings.rounds);
  return 0;
}

}  // namespace
}  // namespace longstream::conformance

int main(int argc, char** argv) {
  if (argc < 3 || argc > 5) {
    std::fprintf(stderr, "usage: snapshot_bench PLUGIN.so MODEL_DIR [CONTEXT_LIMIT [ROUNDS]]\n");
    return 2;
  }
  longstream::conformance::Settings settings;
  settings.plugin = argv[1];
  settings.model = argv[2];
  if (argc > 3) settings.context_limit = argv[3];
  if (argc > 4) settings.rounds = std::max(std::atoi(argv[4]), 1);
  try {
    return longstream::conformance::Run(settings);
  } catch (const longstream::conformance::CheckFailed& failed) {
    std::fprintf(stderr, "snapshot_bench: %s\n", failed.why.c_str());
    return 1;
  }
}
