// Reads bytes, and follows calls and ends of rules.
#include "service/grammar/matcher.h"

#include <algorithm>
#include <utility>

namespace longstream {
namespace {

// So many items are searched one by one.
constexpr size_t kFewItems = 16;
// Frames with more returns keep their tail calls.
constexpr size_t kFewReturns = 32;
// Commit drops unused frames when their number has grown by this and has doubled.
constexpr size_t kFramesToCollect = 1000;

uint64_t Key(Grammar::Node node, Matcher::FrameId frame) { return uint64_t{node} << 32 | frame; }

}  // namespace

Matcher::Matcher(const Grammar& grammar, Grammar::Node node)
    : grammar_(&grammar), first_returns_{kNone}, called_(grammar.num_rules()) {
  BeginPlace();
  AddItem(node, kStart, /*is_kernel=*/true);
  Close();
}

bool Matcher::Push(uint8_t byte) {
  const size_t begin = places_.back().items_begin, end = items_.size();
  work_ += end - begin;
  BeginPlace();
  if (end - begin == 1) {
    const Grammar::Node to = grammar_->Next(items_[begin].node, byte);
    if (to != Grammar::kNoNode && !grammar_->IsEnd(to) && grammar_->Calls(to).empty()) {
      items_.push_back({to, items_[begin].frame, true});
      return true;
    }
  }
  for (size_t i = begin; i < end; ++i) {
    const Grammar::Node to = grammar_->Next(items_[i].node, byte);
    if (to != Grammar::kNoNode) AddItem(to, items_[i].frame, /*is_kernel=*/true);
  }
  return Close();
}

bool Matcher::Leave(Item item) {
  BeginPlace();
  GoOnBehind(item.frame);
  return Close();
}

void Matcher::BeginPlace() {
  ++place_number_;
  seen_.clear();
  places_.push_back({items_.size(), first_returns_.size(), returns_.size(), false});
}

bool Matcher::Close() {
  const size_t begin = places_.back().items_begin;
  const size_t frames_before = places_.back().frames_end,
               returns_before = places_.back().returns_end;
  for (size_t i = begin; i < items_.size(); ++i) {
    const Item item = items_[i];
    TakeCalls(item);
    // A rule that was called here would end without a byte. Its caller has gone on without the call
    // already (RuleNodes).
    const bool called_here = item.frame >= frames_before;
    if (grammar_->IsEnd(item.node) && !called_here) {
      if (item.frame == kStart) places_.back().can_end = true;
      GoOnBehind(item.frame);
    }
    if (items_.size() - begin > kMaxItems || returns_.size() - returns_before > kMaxReturns) {
      overflowed_ = true;
      DropPlace();
      return false;
    }
  }
  if (items_.size() == begin) {
    DropPlace();
    return false;
  }
  work_ += items_.size() - begin;
  for (size_t frame = frames_before; frame < first_returns_.size(); ++frame) {
    SkipTails(static_cast<FrameId>(frame));
  }
  places_.back().frames_end = first_returns_.size();
  places_.back().returns_end = returns_.size();
  return true;
}

void Matcher::DropPlace() {
  items_.resize(places_.back().items_begin);
  places_.pop_back();
  first_returns_.resize(places_.back().frames_end);
  returns_.resize(places_.back().returns_end);
}

void Matcher::Undo(size_t count) {
  if (count == 0) return;
  places_.resize(places_.size() - count + 1);
  DropPlace();
}

void Matcher::AddItem(Grammar::Node node, FrameId frame, bool is_kernel) {
  if (IsNew(node, frame)) items_.push_back({node, frame, is_kernel});
}

bool Matcher::IsNew(Grammar::Node node, FrameId frame) {
  const size_t begin = places_.back().items_begin;
  if (items_.size() - begin <= kFewItems) {
    return std::none_of(items_.begin() + static_cast<std::ptrdiff_t>(begin), items_.end(),
                        [&](const Item& item) { return item.node == node && item.frame == frame; });
  }
  if (seen_.empty()) {
    for (size_t i = begin; i < items_.size(); ++i) {
      seen_.insert(Key(items_[i].node, items_[i].frame));
    }
  }
  return seen_.insert(Key(node, frame)).second;
}

void Matcher::GoOnBehind(FrameId frame) {
  for (uint32_t i = first_returns_[frame]; i != kNone; i = returns_[i].next) {
    ++work_;
    AddItem(returns_[i].to, returns_[i].frame, /*is_kernel=*/true);
  }
}

void Matcher::TakeCalls(Item item) {
  for (const Grammar::Call& call : grammar_->Calls(item.node)) {
    ++work_;
    Called& called = called_[call.rule];
    const bool is_first = std::exchange(called.place, place_number_) != place_number_;
    if (is_first) {
      called.frame = static_cast<FrameId>(first_returns_.size());
      first_returns_.push_back(kNone);
    }
    returns_.push_back({call.to, item.frame, first_returns_[called.frame]});
    first_returns_[called.frame] = static_cast<uint32_t>(returns_.size() - 1);
    if (is_first) AddItem(grammar_->First(call.rule), called.frame, /*is_kernel=*/false);
  }
}

bool Matcher::IsTail(const Return& to) const {
  return to.frame != kStart && grammar_->IsEnd(to.to) && grammar_->Edges(to.to).empty() &&
         grammar_->Calls(to.to).empty();
}

void Matcher::SkipTails(FrameId frame) {
  std::vector<Return> kept;
  std::vector<FrameId> frames{frame};  // whose returns become those of the frame
  bool has_tail = false;
  for (size_t i = 0; i < frames.size(); ++i) {
    for (uint32_t at = first_returns_[frames[i]]; at != kNone; at = returns_[at].next) {
      const Return& found = returns_[at];
      ++work_;
      if (IsTail(found)) {
        has_tail = true;
        if (std::find(frames.begin(), frames.end(), found.frame) == frames.end()) {
          frames.push_back(found.frame);
        }
      } else if (std::none_of(kept.begin(), kept.end(), [&](const Return& other) {
                   return other.to == found.to && other.frame == found.frame;
                 })) {
        kept.push_back(found);
      }
      if (kept.size() + frames.size() > kFewReturns) return;
    }
  }
  if (!has_tail) return;
  first_returns_[frame] = kNone;
  for (const Return& to : kept) {
    returns_.push_back({to.to, to.frame, first_returns_[frame]});
    first_returns_[frame] = static_cast<uint32_t>(returns_.size() - 1);
  }
}

void Matcher::Commit() {
  Place last = places_.back();
  items_.erase(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(last.items_begin));
  last.items_begin = 0;
  places_.assign(1, last);
  if (first_returns_.size() > 2 * collected_frames_ + kFramesToCollect ||
      returns_.size() > 2 * collected_returns_ + kMaxReturns) {
    Collect();
  }
}

void Matcher::Collect() {
  std::vector<FrameId> numbers(first_returns_.size(), kNone);
  std::vector<uint32_t> kept_first{kNone};
  std::vector<Return> kept;
  std::vector<FrameId> work;
  const auto number = [&](FrameId frame) {
    if (numbers[frame] == kNone) {
      numbers[frame] = static_cast<FrameId>(kept_first.size());
      kept_first.push_back(kNone);
      work.push_back(frame);
    }
    return numbers[frame];
  };
  numbers[kStart] = kStart;
  for (Item& item : items_) item.frame = number(item.frame);
  while (!work.empty()) {
    const FrameId frame = work.back();
    work.pop_back();
    for (uint32_t i = first_returns_[frame]; i != kNone; i = returns_[i].next) {
      const FrameId caller = number(returns_[i].frame);
      kept.push_back({returns_[i].to, caller, kept_first[numbers[frame]]});
      kept_first[numbers[frame]] = static_cast<uint32_t>(kept.size() - 1);
    }
  }
  first_returns_ = std::move(kept_first);
  returns_ = std::move(kept);
  collected_frames_ = first_returns_.size();
  collected_returns_ = returns_.size();
  places_.back().frames_end = first_returns_.size();
  places_.back().returns_end = returns_.size();
}

size_t Matcher::bytes() const {
  return items_.capacity() * sizeof(Item) + first_returns_.capacity() * sizeof(uint32_t) +
         returns_.capacity() * sizeof(Return) + places_.capacity() * sizeof(Place) +
         called_.capacity() * sizeof(Called) + seen_.capacity() * sizeof(uint64_t);
}

}  // namespace longstream
