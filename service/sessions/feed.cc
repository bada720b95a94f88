// Keeps the runs of a feed in the order of their positions.
#include "service/sessions/feed.h"

#include <algorithm>

namespace longstream {

FeedRun Feed::RunAt(uint64_t position) const {
  return Run(
      *std::upper_bound(runs_.begin(), runs_.end(), position,
                        [](uint64_t wanted, uint64_t stored) { return wanted < Run(stored).end; }));
}

uint64_t Feed::decode_tokens(uint64_t from) const {
  uint64_t tokens = 0;
  uint64_t begin = 0;
  for (const uint64_t stored : runs_) {
    const FeedRun run = Run(stored);
    begin = std::max(begin, from);
    if (run.is_decode && run.end > begin) tokens += run.end - begin;
    begin = run.end;
  }
  return tokens;
}

std::vector<FeedRun> Feed::runs() const {
  std::vector<FeedRun> runs;
  runs.reserve(runs_.size());
  for (const uint64_t stored : runs_) runs.push_back(Run(stored));
  return runs;
}

void Feed::Add(uint64_t end, bool is_decode, uint32_t grid) {
  const uint64_t begin = this->end();
  if (end <= begin) return;
  const uint64_t stored = 2 * end + (is_decode ? 1 : 0);
  const bool goes_on = !runs_.empty() && Run(runs_.back()).is_decode == is_decode &&
                       (is_decode || begin % grid == 0);
  if (goes_on) {
    runs_.back() = stored;
  } else {
    runs_.push_back(stored);
  }
}

void Feed::Truncate(uint64_t position) {
  if (position >= end()) return;
  bool is_decode = false;
  while (end() > position) {
    is_decode = Run(runs_.back()).is_decode;
    runs_.pop_back();
  }
  if (end() < position) runs_.push_back(2 * position + (is_decode ? 1 : 0));
}

void Feed::GoBack(uint64_t position, uint32_t grid) {
  if (position >= end()) return;
  uint64_t begin = 0;  // of the run that reads the token at `position`
  for (const uint64_t stored : runs_) {
    const FeedRun run = Run(stored);
    if (position >= run.end) {
      begin = run.end;
      continue;
    }
    if (!run.is_decode) position = std::max(begin, position / grid * grid);
    break;
  }
  Truncate(position);
}

uint64_t Feed::CommonEnd(const Feed& other, uint64_t limit, uint32_t grid) const {
  uint64_t common = 0;
  for (size_t i = 0; i < std::min(runs_.size(), other.runs_.size()); ++i) {
    const FeedRun run = Run(runs_[i]);
    const FeedRun other_run = Run(other.runs_[i]);
    if (run.is_decode != other_run.is_decode) break;
    const uint64_t end = std::min({run.end, other_run.end, limit});
    if (end < run.end || end < other_run.end) {
      return std::max(common, run.is_decode ? end : end / grid * grid);
    }
    common = end;
  }
  return common;
}

void Feed::ReadAsPrefill(uint64_t position, uint32_t grid) {
  const uint64_t end = this->end();
  Truncate(position);
  Add(end, /*is_decode=*/false, grid);
}

}  // namespace longstream
