// Let B be the size of a block. Then least...most parts are
//
//   least / B blocks, and then least % B ... most - (least / B) * B parts.
//
// The rest is r...m parts with r < B. If m is large, then it is
//
//   r...B-1 parts, or one block and 0...m-B parts;
//
// and 0...q*B+s parts with s < B are
//
//   0...q-1 blocks and 0...B-1 parts, or q blocks and 0...s parts.
//
// Each count of parts is made in one way only. So a matcher follows two ways at most: it is in a
// block, or in the parts after the last block.
#include "service/grammar/formats/counted.h"

namespace longstream {
namespace {

using Expression = GrammarBuilder::Expression;

constexpr uint32_t kBlock = 128;
// Up to this count, each part has its own nodes, so that no call is needed.
constexpr uint32_t kMostInlineRepeats = 8;

class Counter {
 public:
  Counter(GrammarBuilder& builder, Expression part) : builder_(builder), part_(part) {}

  Expression Make(uint32_t least, std::optional<uint32_t> most) {
    if (least <= kBlock && most.value_or(0) <= kBlock) return builder_.Repeat(part_, least, most);
    const uint32_t blocks = least / kBlock;
    const uint32_t before = blocks * kBlock;
    const Expression rest = most.has_value() ? Rest(least - before, *most - before)
                                             : builder_.Repeat(part_, least - before, std::nullopt);
    return builder_.Sequence({Blocks(blocks, blocks), rest});
  }

 private:
  Expression Blocks(uint32_t least, uint32_t most) {
    if (most == 0) return builder_.Empty();
    if (!block_.has_value()) block_ = builder_.Named(builder_.Repeat(part_, kBlock, kBlock));
    return Counter(builder_, *block_).Make(least, most);
  }

  // REQUIRES: least < kBlock.
  Expression Rest(uint32_t least, uint32_t most) {
    if (most < kBlock) return builder_.Repeat(part_, least, most);
    const uint32_t blocks = most / kBlock;
    if (least == 0) {
      return builder_.Choice(
          {builder_.Sequence({Blocks(0, blocks - 1), builder_.Repeat(part_, 0, kBlock - 1)}),
           builder_.Sequence({Blocks(blocks, blocks), builder_.Repeat(part_, 0, most % kBlock)})});
    }
    return builder_.Choice({builder_.Repeat(part_, least, kBlock - 1),
                            builder_.Sequence({Blocks(1, 1), Rest(0, most - kBlock)})});
  }

  GrammarBuilder& builder_;
  const Expression part_;
  std::optional<Expression> block_;
};

}  // namespace

Expression Counted(GrammarBuilder& builder, Expression part, uint32_t least,
                   std::optional<uint32_t> most) {
  const bool is_short = least <= kMostInlineRepeats && most.value_or(0) <= kMostInlineRepeats;
  return Counter(builder, is_short ? part : builder.Named(part)).Make(least, most);
}

}  // namespace longstream
