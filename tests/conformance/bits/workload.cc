// The phases of the workload, one function each, in the order in which they run.
#include "tests/conformance/bits/workload.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "tests/conformance/bits/trace.h"
#include "tests/conformance/kit.h"
#include "tests/conformance/report.h"

namespace longstream::conformance {
namespace {

constexpr uint32_t kTop = 4;  // number of most probable tokens to ask for in each row

// A sequence that decodes on its own.
struct Stream {
  std::string name;
  Sequence sequence;
  ls_sampling sampling = Greedy();
  int32_t next = 0;  // the token to feed
};

ls_sampling Warm(uint64_t seed) {
  ls_sampling sampling = Greedy();
  sampling.seed = seed;
  sampling.temperature = 0.8f;
  return sampling;
}

// TopK, TopP and MinP use one rule of truncation each, narrow enough to change results. Narrow uses
// all three.
ls_sampling TopK(uint64_t seed) {
  ls_sampling sampling = Warm(seed);
  sampling.temperature = 1.3f;
  sampling.top_k = 5;
  return sampling;
}

ls_sampling TopP(uint64_t seed) {
  ls_sampling sampling = Warm(seed);
  sampling.top_p = 0.6f;
  return sampling;
}

ls_sampling MinP(uint64_t seed) {
  ls_sampling sampling = Warm(seed);
  sampling.min_p = 0.2f;
  return sampling;
}

ls_sampling Narrow(uint64_t seed) {
  ls_sampling sampling = TopK(seed);
  sampling.top_k = 14;
  sampling.top_p = 0.9f;
  sampling.min_p = 0.05f;
  return sampling;
}

// Counts for half of the tokens of a small vocabulary. Some of these tokens occur only in the
// prompt, others were generated too.
std::vector<ls_token_count> History() {
  std::vector<ls_token_count> history;
  for (int32_t token = 0; token < 36; token += 2) {
    history.push_back({token, 1 + token % 5, token % 3 == 0 ? 0 : 1 + token % 2 + token % 5 / 2});
  }
  return history;
}

// Uses every penalty and a bias.
ls_sampling Penalised(uint64_t seed) {
  static const std::vector<ls_token_count> history = History();
  static const ls_logit_bias kBias[] = {{2, -INFINITY}, {7, 1.5f}, {11, -0.75f}, {20, 0.5f}};
  ls_sampling sampling = Warm(seed);
  sampling.repetition_penalty = 1.3f;
  sampling.presence_penalty = 0.5f;
  sampling.frequency_penalty = 0.25f;
  sampling.history = history.data();
  sampling.num_history = static_cast<uint32_t>(history.size());
  sampling.bias = kBias;
  sampling.num_bias = static_cast<uint32_t>(std::size(kBias));
  return sampling;
}

class Workload {
 public:
  Workload(Model& model, const WorkloadSize& size) : model_(model), size_(size) {}

  std::string Run();

 private:
  bool Has(uint64_t capability) const {
    return (model_.backend().capabilities & capability) == capability;
  }
  std::vector<int32_t> Tokens(uint64_t seed, size_t count) const {
    return PseudoRandomTokens(seed, count, model_.info().vocabulary_size);
  }
  Stream Create(const std::string& name, const ls_sampling& sampling);
  void Reserve(Sequence& sequence) const {
    sequence.Reserve(size_.positions() - sequence.position());
  }

  // Runs one step and adds a line for each entry. Throws CheckFailed if the step or an entry fails.
  std::vector<Output> Step(const std::string& label, const std::vector<Entry>& entries);
  uint64_t Submit(const std::string& label, const std::vector<Entry>& entries);
  std::vector<Output> Wait(const std::string& label, uint64_t ticket,
                           const std::vector<Entry>& entries);
  // Each stream feeds the token that it sampled last.
  void DecodeTogether(const std::string& label, const std::vector<Stream*>& streams);
  // Decodes like DecodeTogether. If the backend has LS_CAP_IN_FLIGHT_TOKENS, submits each step
  // before it waits for the previous one.
  void DecodeInFlight(const std::string& label, const std::vector<Stream*>& streams);

  Stream ReadPrompt();
  Stream Fork(Stream& source);
  // One step reads prompts of several lengths beside a decode row of `main`. Then all of them
  // decode together.
  std::vector<Stream> Join(Stream& main);
  void RollBack(Stream& stream);
  void Score();
  void Copy(Stream& stream);

  Model& model_;
  const WorkloadSize size_;
  Trace trace_;
};

Entry DecodeEntry(Stream& stream, int32_t token) {
  Entry entry = Decode(stream.sequence, token);
  entry.sampling = &stream.sampling;
  entry.log_prob_rows = LS_ROWS_LAST;
  entry.num_top = kTop;
  return entry;
}

Entry PrefillEntry(Stream& stream, std::vector<int32_t> tokens) {
  Entry entry = DecodeEntry(stream, 0);
  entry.tokens = std::move(tokens);
  entry.is_decode = false;
  return entry;
}

Stream Workload::Create(const std::string& name, const ls_sampling& sampling) {
  Stream stream{name, model_.Create(), sampling};
  Reserve(stream.sequence);
  return stream;
}

uint64_t Workload::Submit(const std::string& label, const std::vector<Entry>& entries) {
  uint64_t ticket = 0;
  std::string error;
  if (model_.TrySubmit(entries, &ticket, &error) != LS_OK) throw CheckFailed{label + ": " + error};
  return ticket;
}

std::vector<Output> Workload::Wait(const std::string& label, uint64_t ticket,
                                   const std::vector<Entry>& entries) {
  std::vector<Output> outputs = model_.Wait(ticket, entries);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string line = label + " entry " + std::to_string(i);
    if (outputs[i].code != LS_OK) throw CheckFailed{line + ": " + outputs[i].message};
    trace_.AddOutput(line, outputs[i]);
  }
  return outputs;
}

std::vector<Output> Workload::Step(const std::string& label, const std::vector<Entry>& entries) {
  return Wait(label, Submit(label, entries), entries);
}

void Workload::DecodeTogether(const std::string& label, const std::vector<Stream*>& streams) {
  for (uint32_t step = 0; step < size_.decode; ++step) {
    std::vector<Entry> entries;
    for (Stream* stream : streams) entries.push_back(DecodeEntry(*stream, stream->next));
    const std::vector<Output> outputs = Step(label + " step " + std::to_string(step), entries);
    for (size_t i = 0; i < streams.size(); ++i) streams[i]->next = outputs[i].sampled;
  }
}

void Workload::DecodeInFlight(const std::string& label, const std::vector<Stream*>& streams) {
  if (!Has(LS_CAP_IN_FLIGHT_TOKENS)) return DecodeTogether(label, streams);
  std::vector<Entry> before;
  uint64_t ticket_before = 0;
  const auto wait = [&](uint32_t step) {
    const std::vector<Output> outputs =
        Wait(label + " step " + std::to_string(step), ticket_before, before);
    for (size_t i = 0; i < streams.size(); ++i) streams[i]->next = outputs[i].sampled;
  };
  for (uint32_t step = 0; step < size_.decode; ++step) {
    std::vector<Entry> entries;
    for (Stream* stream : streams) {
      entries.push_back(DecodeEntry(*stream, step == 0 ? stream->next : LS_TOKEN_FROM_PREVIOUS));
    }
    const uint64_t ticket = Submit(label, entries);
    if (step > 0) wait(step - 1);
    before = std::move(entries);
    ticket_before = ticket;
  }
  wait(size_.decode - 1);
}

// Cuts the prompt at position 33, which is not on a grid line, at position 34, and on a grid line.
Stream Workload::ReadPrompt() {
  Stream main = Create("main", Greedy());
  const std::vector<int32_t> tokens = Tokens(1, size_.prompt);
  const size_t grid = model_.info().prefill_grid;
  const size_t line = std::min<size_t>((34 + grid) / grid * grid, size_.prompt - 1);
  size_t begin = 0;
  for (const size_t end : {size_t{33}, size_t{34}, line, size_t{size_.prompt}}) {
    if (end <= begin) continue;
    const std::vector<Entry> entries = {PrefillEntry(main, Part(tokens, begin, end))};
    main.next = Step("prompt to " + std::to_string(end), entries).front().sampled;
    begin = end;
  }
  trace_.AddBytes("prompt", main.sequence);
  return main;
}

Stream Workload::Fork(Stream& source) {
  Stream fork{"fork", source.sequence.Fork(), Warm(17), source.next};
  Reserve(fork.sequence);
  trace_.AddBytes("fork", fork.sequence);
  return fork;
}

std::vector<Stream> Workload::Join(Stream& main) {
  std::vector<Stream> others;
  std::vector<size_t> lengths = {size_.prompt / 2, 1, 19};
  for (uint32_t i = 0; i + 1 < size_.streams; ++i) {
    const uint64_t seed = 23 + i;
    const ls_sampling kinds[] = {Penalised(seed), TopK(seed), TopP(seed), MinP(seed), Warm(seed)};
    others.push_back(Create("other " + std::to_string(i), kinds[i % std::size(kinds)]));
    if (i >= lengths.size()) lengths.push_back(2 + i);
  }
  std::vector<Entry> entries = {DecodeEntry(main, main.next)};
  for (size_t i = 0; i < others.size(); ++i) {
    entries.push_back(PrefillEntry(others[i], Tokens(100 + i, lengths[i])));
  }
  const std::vector<Output> outputs = Step("join", entries);
  main.next = outputs[0].sampled;
  for (size_t i = 0; i < others.size(); ++i) others[i].next = outputs[i + 1].sampled;

  std::vector<Stream*> all = {&main};
  for (Stream& other : others) all.push_back(&other);
  DecodeInFlight("joined", all);
  for (Stream* stream : all) trace_.AddBytes("joined " + stream->name, stream->sequence);
  return others;
}

// After a checkpoint, feeds decode rows and a prefill piece, and rolls back to a position within
// the piece. Then feeds again the tokens that the backend did not restore, and decodes other tokens
// than before.
void Workload::RollBack(Stream& stream) {
  constexpr size_t kDecoded = 3;
  const std::vector<int32_t> tokens = Tokens(5, kDecoded + 9);
  const uint64_t marked = stream.sequence.position();
  const auto feed = [&](const std::string& label, size_t begin, size_t end) {
    for (; begin < std::min(end, kDecoded); ++begin) {
      Step(label, {DecodeEntry(stream, tokens[begin])});
    }
    if (begin == end) return;
    Step(label, {PrefillEntry(stream, Part(tokens, begin, end))});
  };
  const std::string name = stream.name + " ";
  stream.sequence.Checkpoint();
  feed(name + "before rollback", 0, tokens.size());
  trace_.AddBytes(name + "before rollback", stream.sequence);
  const size_t kept = kDecoded + 4;
  const uint64_t restored = stream.sequence.Truncate(marked + kept);
  trace_.AddNumber(name + "restored", restored);
  feed(name + "fed again", restored - marked, kept);
  stream.next = tokens[0];
  DecodeTogether(name + "after rollback", {&stream});
  trace_.AddBytes(name + "after rollback", stream.sequence);
}

// Asks for the log-probability of the next token in every row except one in seven.
void Workload::Score() {
  Stream scored = Create("scored", Greedy());
  const std::vector<int32_t> tokens = Tokens(6, size_.scored + 1);
  for (size_t begin = 0; begin < size_.scored;) {
    const size_t end = std::min<size_t>(begin == 0 ? 27 : size_.scored, size_.scored);
    Entry entry = PrefillEntry(scored, Part(tokens, begin, end));
    entry.sampling = nullptr;
    entry.log_prob_rows = entry.logit_rows = LS_ROWS_ALL;
    entry.num_top = 2;
    for (size_t i = begin; i < end; ++i) entry.targets.push_back(i % 7 == 5 ? -1 : tokens[i + 1]);
    Step("score to " + std::to_string(end), {entry});
    begin = end;
  }
}

// Imports a snapshot of the stream. The copy and the original then decode side by side.
void Workload::Copy(Stream& stream) {
  const std::string snapshot = stream.sequence.Export();
  trace_.AddSnapshot("snapshot", snapshot);
  Stream copy{"copy", model_.Import(snapshot), Narrow(37), stream.next};
  stream.sampling = copy.sampling;
  Reserve(copy.sequence);
  DecodeInFlight("copied", {&stream, &copy});
  trace_.AddBytes("copied", copy.sequence);
}

std::string Workload::Run() {
  trace_.AddInfo(model_.info());
  Stream main = ReadPrompt();
  DecodeTogether("greedy", {&main});
  if (Has(LS_CAP_FORK)) {
    Stream fork = Fork(main);
    DecodeInFlight("forked", {&main, &fork});
  }
  std::vector<Stream> others = Join(main);
  RollBack(main);
  RollBack(others.front());
  if (Has(LS_CAP_SCORE)) Score();
  if (Has(LS_CAP_SNAPSHOT)) Copy(main);
  return trace_.text();
}

}  // namespace

std::string RunWorkload(Model& model, const WorkloadSize& size) {
  return Workload(model, size).Run();
}

}  // namespace longstream::conformance
