// Reads a text byte by byte and says whether it can become a text of a grammar.
#ifndef LONGSTREAM_SERVICE_GRAMMAR_MATCHER_H_
#define LONGSTREAM_SERVICE_GRAMMAR_MATCHER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"
#include "service/grammar/grammar.h"

namespace longstream {

// Follows all readings of the text at once. An item is a node of a rule that a reading has come to,
// with the frame of the rule: where its callers go on. Calls of a rule at the same place of the
// text share one frame, so left recursion ends, and a text of n bytes takes O(n^3) time in the
// worst case and O(n) in most grammars. (J. Earley, "An efficient context-free parsing algorithm",
// 1970; frames are the nodes of M. Tomita's graph-structured stack, 1985.)
//
// The matcher remembers the items behind each of the last bytes, so Undo is cheap; a walk through a
// tree of texts pushes and undoes bytes. Not thread-safe. Memory grows with the depth to which
// rules are nested, and with the bytes that can be undone.
class Matcher {
 public:
  using FrameId = uint32_t;
  struct Item {
    Grammar::Node node = 0;
    FrameId frame = 0;
    // Whether the item was reached by a byte or by the end of a rule. False: by a call.
    bool is_kernel = false;
  };

  // Begins at the first byte of the grammar's start rule. The grammar must outlive the matcher.
  explicit Matcher(const Grammar& grammar)
      : Matcher(grammar, grammar.First(grammar.start_rule())) {}
  // Begins at a node, as if nobody had called the node's rule. The text is complete where the rule
  // may end.
  Matcher(const Grammar& grammar, Grammar::Node node);

  // Reads a byte. Returns false, and changes nothing, if no text of the grammar goes on with it, or
  // if the readings have more than kMaxItems items or kMaxReturns returns behind it (overflowed()).
  bool Push(uint8_t byte);
  // Keeps only the readings that go on behind the rule of `item`, as if the rule ended here.
  // Returns false, and changes nothing, if nobody has called the rule, or as Push. Counts as one
  // byte for Undo. REQUIRES: the item is one of items(), and a kernel item.
  bool Leave(Item item);
  // Takes back the last `count` bytes. REQUIRES: count <= depth().
  void Undo(size_t count);
  // The number of bytes that can be taken back.
  size_t depth() const { return places_.size() - 1; }
  // Forgets how to take back bytes. Sometimes frees the memory of frames that are not used any
  // more.
  void Commit();

  // Whether the text so far is complete.
  bool CanEnd() const { return places_.back().can_end; }
  // Where the readings are, behind the last byte.
  absl::Span<const Item> items() const {
    return absl::MakeSpan(items_).subspan(places_.back().items_begin);
  }
  // Whether Push or Leave has returned false because of a limit.
  bool overflowed() const { return overflowed_; }
  // The number of items, calls and returns that all functions together have read. For limits of
  // time.
  uint64_t work() const { return work_; }
  // Bytes of memory.
  size_t bytes() const;

  static constexpr size_t kMaxItems = 2000;
  static constexpr size_t kMaxReturns = 20'000;  // that one byte adds

 private:
  static constexpr FrameId kStart = 0;  // nobody has called the rule that the matcher began in
  static constexpr uint32_t kNone = ~uint32_t{0};

  // Where a caller of a rule goes on. The returns of a frame are a list.
  struct Return {
    Grammar::Node to = 0;
    FrameId frame = 0;
    uint32_t next = kNone;
  };
  // The arrays have grown to these sizes behind a byte.
  struct Place {
    size_t items_begin = 0;
    size_t frames_end = 0;
    size_t returns_end = 0;
    bool can_end = false;
  };
  // The frame of a rule that was called at a place.
  struct Called {
    uint64_t place = 0;
    FrameId frame = 0;
  };

  void BeginPlace();
  // Takes all steps that need no byte. Returns false, and drops the place, if it has no items or
  // too many.
  bool Close();
  void DropPlace();
  void AddItem(Grammar::Node node, FrameId frame, bool is_kernel);
  bool IsNew(Grammar::Node node, FrameId frame);
  // The returns of the frame become items.
  void GoOnBehind(FrameId frame);
  void TakeCalls(Item item);
  // Whether the caller's rule ends where it goes on, so that only its own callers matter.
  bool IsTail(const Return& to) const;
  // Lets a frame return to the callers of callers that would end at once. So a rule that ends with
  // a call of itself does not nest. Does nothing if the returns are many.
  void SkipTails(FrameId frame);
  // Drops the frames that no item needs.
  void Collect();

  const Grammar* grammar_;
  std::vector<Item> items_;              // of all places, the last one last
  std::vector<uint32_t> first_returns_;  // [frames] index of the first return
  std::vector<Return> returns_;
  std::vector<Place> places_;
  uint64_t place_number_ = 0;           // of the last place that was begun
  std::vector<Called> called_;          // [rules]
  absl::flat_hash_set<uint64_t> seen_;  // the items of the last place, if they are many
  size_t collected_frames_ = 0;         // frames after the last Collect
  size_t collected_returns_ = 0;        // the same of returns
  bool overflowed_ = false;
  uint64_t work_ = 0;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_GRAMMAR_MATCHER_H_
