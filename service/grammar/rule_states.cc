// Writes expressions as states.
#include "service/grammar/rule_states.h"

#include <algorithm>

#include "service/grammar/utf8_ranges.h"

namespace longstream {

RuleStates::RuleStates(const GrammarBuilder& builder, size_t limit)
    : builder_(builder), limit_(limit) {
  for (size_t rule = 0; rule < builder.rules_.size() && ok_; ++rule) {
    firsts_.push_back(NewState());
    lasts_.push_back(Write(*builder.rules_[rule], firsts_.back(), 0));
  }
}

RuleStates::State RuleStates::NewState() {
  if (states_.size() >= limit_) {
    ok_ = false;
    return 0;
  }
  states_.emplace_back();
  return static_cast<State>(states_.size() - 1);
}

GrammarBuilder::Expression RuleStates::WithoutCall(GrammarBuilder::Expression part) const {
  const GrammarBuilder::Part& call = builder_.parts_[part.index];
  if (call.kind != GrammarBuilder::Kind::kCall) return part;
  const GrammarBuilder::Expression rule = *builder_.rules_[call.least];
  return StatesOf(rule, 0) <= kSmallRule ? rule : part;
}

size_t RuleStates::StatesOf(GrammarBuilder::Expression expression, int depth) const {
  using Kind = GrammarBuilder::Kind;
  constexpr size_t kTooMany = kSmallRule + 1;
  constexpr int kMostDepth = 20;
  const GrammarBuilder::Part& part = builder_.parts_[expression.index];
  if (part.kind == Kind::kCall || depth > kMostDepth) return kTooMany;
  if (part.kind == Kind::kLiteral) return std::min(part.end - part.begin, kTooMany);
  size_t states = 2;
  for (size_t i = part.begin; i < part.end && states < kTooMany; ++i) {
    if (part.kind == Kind::kCharacter) {
      states += Utf8Ranges(builder_.characters_[i]).size() * 2;
    } else {
      states += 1 + StatesOf(builder_.operands_[i], depth + 1);
    }
  }
  if (part.kind == Kind::kRepeat && part.most.has_value()) states *= *part.most + size_t{1};
  if (part.kind == Kind::kRepeat && !part.most.has_value()) states *= part.least + size_t{1};
  return std::min(states, kTooMany);
}

RuleStates::State RuleStates::Write(GrammarBuilder::Expression expression, State from, int depth) {
  using Kind = GrammarBuilder::Kind;
  if (depth > kMaxDepth) ok_ = false;
  if (!ok_) return 0;
  const GrammarBuilder::Part& part = builder_.parts_[expression.index];
  switch (part.kind) {
    case Kind::kLiteral:
      for (size_t i = part.begin; i < part.end && ok_; ++i) {
        const State to = NewState();
        states_[from].bytes.push_back({builder_.bytes_[i], builder_.bytes_[i], to});
        from = to;
      }
      return from;
    case Kind::kCharacter:
      return WriteCharacter(builder_, part.begin, part.end, from);
    case Kind::kSequence:
      for (size_t i = part.begin; i < part.end; ++i) {
        from = Write(builder_.operands_[i], from, depth + 1);
      }
      return from;
    case Kind::kChoice: {
      const State to = NewState();
      for (size_t i = part.begin; i < part.end && ok_; ++i) {
        // A state of its own: a repetition in one option must not lead into the other ones.
        const State option = NewState();
        states_[from].empty.push_back(option);
        const State last = Write(builder_.operands_[i], option, depth + 1);
        if (ok_) states_[last].empty.push_back(to);
      }
      return to;
    }
    case Kind::kRepeat:
      return WriteRepeat(WithoutCall(builder_.operands_[part.begin]), part.least, part.most, from,
                         depth + 1);
    case Kind::kCall: {
      const State to = NewState();
      states_[from].calls.push_back({part.least, to});
      return to;
    }
  }
  return from;
}

RuleStates::State RuleStates::WriteCharacter(const GrammarBuilder& builder, size_t begin,
                                             size_t end, State from) {
  const State to = NewState();
  for (size_t i = begin; i < end; ++i) {
    for (const ByteRanges& bytes : Utf8Ranges(builder.characters_[i])) {
      State state = from;
      for (size_t byte = 0; byte < bytes.length && ok_; ++byte) {
        const State next = byte + 1 == bytes.length ? to : NewState();
        states_[state].bytes.push_back({bytes.ranges[byte].first, bytes.ranges[byte].last, next});
        state = next;
      }
    }
  }
  return to;
}

RuleStates::State RuleStates::WriteRepeat(GrammarBuilder::Expression part, uint32_t least,
                                          const std::optional<uint32_t>& most, State from,
                                          int depth) {
  for (uint32_t i = 0; i < least && ok_; ++i) {
    const size_t before = states_.size();
    from = Write(part, from, depth);
    if (states_.size() == before) return from;  // the part is always empty
  }
  if (!most.has_value()) {
    const State loop = NewState();
    if (!ok_) return 0;
    states_[from].empty.push_back(loop);
    const State last = Write(part, loop, depth);
    if (ok_ && last != loop) states_[last].empty.push_back(loop);
    // Edges that are added later must not be taken in the middle of the loop.
    const State to = NewState();
    if (ok_) states_[loop].empty.push_back(to);
    return to;
  }
  if (*most == least) return from;
  const State to = NewState();
  for (uint32_t i = least; i < *most && ok_; ++i) {
    states_[from].empty.push_back(to);
    // A state of its own: the part may begin with a loop that leads back to its first state.
    const State first = NewState();
    if (!ok_) return 0;
    states_[from].empty.push_back(first);
    const size_t before = states_.size();
    from = Write(part, first, depth);
    if (states_.size() == before) break;  // the part is always empty
  }
  if (ok_) states_[from].empty.push_back(to);
  return to;
}

}  // namespace longstream
