#include "tests/fleet/search.h"

#include <algorithm>
#include <functional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tests/fleet/search_state.h"

namespace longstream::fleet {

namespace {

// Goes down each path until it meets a state that it has seen. States are known by a hash of 64
// bits.
class Searcher {
 public:
  explicit Searcher(const SearchBounds& bounds) : bounds_(bounds) {}

  SearchResult Run();

 private:
  struct Frame {
    SearchState state;
    std::vector<Choice> choices;
    size_t next = 0;
  };

  bool IsNew(const SearchState& state);
  void CheckEnd(SearchState state);

  const SearchBounds bounds_;
  SearchResult result_;
  std::unordered_set<uint64_t> seen_;
};

bool Searcher::IsNew(const SearchState& state) {
  std::string bytes;
  bytes.reserve(2048);
  state.AppendBytes(&bytes);
  return seen_.insert(std::hash<std::string>{}(bytes)).second;
}

// From here on nothing goes wrong any more. Each client must get its answer.
void Searcher::CheckEnd(SearchState state) {
  state.Heal();
  for (int round = 0; round < 400 && state.error().empty() && !state.AllDone(); ++round) {
    // Messages and answers under way come first, the oldest first; then replicas, time limits,
    // calls.
    const auto rank = [&](const Choice& choice) {
      if (choice.kind == Choice::Kind::kHappen) return state.IsTimer(choice) ? 2 : 0;
      return choice.kind == Choice::Kind::kCall ? 3 : 1;
    };
    const std::vector<Choice> choices = state.Choices();
    if (choices.empty()) break;
    Choice choice =
        *std::min_element(choices.begin(), choices.end(),
                          [&](const Choice& a, const Choice& b) { return rank(a) < rank(b); });
    // Calls go to the replicas in turn.
    if (choice.kind == Choice::Kind::kCall && round % 2 == 1 && state.IsUp(1 - choice.replica)) {
      choice.replica = 1 - choice.replica;
    }
    state.Take(choice);
  }
  result_.error = state.error();
  if (result_.error.empty() && !state.AllDone()) result_.error = "a turn cannot be served any more";
}

SearchResult Searcher::Run() {
  std::vector<Frame> path;
  SearchState first(bounds_);
  IsNew(first);
  std::vector<Choice> choices = first.Choices();
  path.push_back({std::move(first), std::move(choices)});
  while (!path.empty() && result_.error.empty()) {
    Frame& frame = path.back();
    if (frame.next == frame.choices.size()) {
      path.pop_back();
      continue;
    }
    SearchState state = frame.state;
    state.Take(frame.choices[frame.next++]);
    ++result_.steps;
    result_.error = state.error();
    if (result_.error.empty()) {
      if (!IsNew(state)) continue;
      if (seen_.size() > bounds_.most_states) {
        result_.complete = false;
        break;
      }
      choices = state.Choices();
      if (choices.empty()) {
        ++result_.ends;
        CheckEnd(state);
      }
    }
    result_.depth = std::max<uint64_t>(result_.depth, path.size());
    if (result_.error.empty()) path.push_back({std::move(state), choices});
  }
  result_.states = seen_.size();
  for (const Frame& frame : path) {
    if (frame.next > 0) result_.trace.push_back(frame.state.Words(frame.choices[frame.next - 1]));
  }
  return result_;
}

}  // namespace

SearchResult Search(const SearchBounds& bounds) { return Searcher(bounds).Run(); }

}  // namespace longstream::fleet
