// Products with bf16 panels, compressed or plain, on tiles.
//
// A plain panel has the layout of B tiles: 16 steps of its first or of its last 16 outputs are a
// tile, whose rows are a step apart. A compressed panel is decoded into this layout, a block at a
// time. Then all rows use the block, 32 rows at a time: two A tiles times two B tiles. A single row
// is multiplied on vectors, with the bits of tiles.
#include "kernels/cpu/gemm/amx_product.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/gemm/compressed_steps.h"
#include "kernels/cpu/gemm/prefetch.h"

namespace longstream::cpu::LONGSTREAM_ISA {

#if defined(LONGSTREAM_TILES)

namespace {

// The steps of a B tile, and the inputs of an A tile.
constexpr int64_t kTileSteps = kAmxRows;
constexpr int64_t kTileInputs = kTileSteps * kStepInputs;
static_assert(kTileInputs * static_cast<int64_t>(sizeof(BF16)) == kAmxRowBytes);
// The steps of a block, for few rows and for more than kManyRows rows. The block's plain numbers,
// 16 or 32 KiB, stay in the first-level cache while all rows use it. With larger blocks the sums
// are loaded and stored less often, but then the rows must make up for a block that comes from the
// second level. (On a Granite Rapids, 160 rows took 1.1 times as long with large blocks.)
constexpr int64_t kBlockSteps = 128;
constexpr int64_t kLargeBlockSteps = 256;
constexpr int64_t kManyRows = 256;
static_assert(kBlockSteps % kTileSteps == 0 && kLargeBlockSteps % kTileSteps == 0);
constexpr int64_t kBothRows = 2 * kAmxRows;

// How far ahead of the weights in use the weights for one row and for a few rows are prefetched
// into the first-level cache. (On a Granite Rapids, one row took 1.05 times as long with the second
// level and 8 KiB, and 1.2 times as long without a prefetch. 16 rows took 1.03 times as long with
// the second level and 8 KiB.)
constexpr int64_t kOneRowDistance = int64_t{2} << 10;
constexpr int64_t kFewRowsDistance = int64_t{1} << 10;

// Decodes steps, in the layout of plain steps, and prefetches the memory `ahead` bytes behind them,
// into the first-level cache (kSoon) or into the second. Returns the patches of the steps after
// these.
template <bool kSoon>
Patches Decode(const CompressedSteps& steps, int64_t ahead, BF16* plain) {
  const StepReader reader = steps.reader;
  Patches patches = steps.patches;
  const std::byte* from = steps.from;
  const auto two_steps = [&](int64_t first, auto lay) LONGSTREAM_INLINE_LAMBDA {
    LONGSTREAM_UNROLL
    for (int64_t i = 0; i < 2 * kCompressedStepBytes; i += kLineBytes) {
      if constexpr (kSoon) {
        PrefetchL1(from + ahead + i);
      } else {
        PrefetchL2(from + ahead + i);
      }
    }
    LONGSTREAM_UNROLL
    for (int step = 0; step < 2; ++step) {
      Patches of_step = patches;
      LONGSTREAM_UNROLL
      for (int64_t column = 0; column < kColumns; ++column) {
        constexpr int kVectors = static_cast<int>(kColumnOutputs) / kLanes;
        I32x16 numbers[kVectors];
        reader.Read(from + column * kColumnNumbers, step, numbers);
        if constexpr (decltype(lay)::value) {
          of_step = patches;
          StepReader::Lay<kVectors>(of_step, first + step, column * kColumnOutputs, numbers);
        }
        LONGSTREAM_UNROLL
        for (int v = 0; v < kVectors; ++v) {
          Store(numbers[v],
                reinterpret_cast<int32_t*>(plain + column * kColumnNumbers) + v * kLanes);
        }
      }
      patches = of_step;
      plain += kStepNumbers;
    }
    from += 2 * kCompressedStepBytes;
  };
  ForTwoSteps(
      steps.first, steps.count, [&] { return patches.step(); }, two_steps);
  return patches;
}

// Goes on to the next `most` steps of a panel, or to as many as the panel has left, and writes them
// to `plain` in the layout of plain steps.
template <bool kSoon>
LONGSTREAM_INLINE void DecodeNext(const PanelView& panel, int64_t most, int64_t ahead,
                                  CompressedSteps& steps, BF16* plain) {
  steps.count = std::min(most, panel.num_steps() - steps.first);
  if (panel.compressed()) {
    steps.patches = Decode<kSoon>(steps, ahead, plain);
  } else {
    __builtin_memcpy(plain, steps.from, static_cast<size_t>(steps.count * kPlainStepBytes));
  }
  steps.from += steps.count * panel.step_bytes();
  steps.first += steps.count;
}

// Writes zeros behind `count` steps, to the end of their last tile.
LONGSTREAM_INLINE void PadTile(int64_t count, BF16* plain) {
  if (const int64_t in_tile = count % kTileSteps; in_tile != 0) {
    __builtin_memset(plain + count * kStepNumbers, 0,
                     static_cast<size_t>((kTileSteps - in_tile) * kPlainStepBytes));
  }
}

// The sums of one row and kPanels panels, in vectors: in the order of tile products, and rounded as
// they round. All loops must be unrolled (TileSums). REQUIRES: FlushesSubnormals
template <int kPanels>
struct RowSums {
  static constexpr int kVectors = static_cast<int>(kPanelOutputs) / kLanes;

  LONGSTREAM_INLINE void Begin() {
    ForEach([&](int p, int v) LONGSTREAM_INLINE_LAMBDA { sum[p][v] = Zero(); });
  }
  LONGSTREAM_INLINE void BeginTile() {
    ForEach([&](int p, int v) LONGSTREAM_INLINE_LAMBDA { even[p][v] = odd[p][v] = Zero(); });
  }
  // Adds the products of a step of panel p. The step's inputs are input[0] and input[kLanes].
  LONGSTREAM_INLINE void Add(int p, const float* input, const I32x16 (&numbers)[kVectors]) {
    LONGSTREAM_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      const I32x16 upper = numbers[v] & Broadcast(-0x10000);
      even[p][v] = Fma(Broadcast(input[0]), FromBits(numbers[v] << 16), even[p][v]);
      odd[p][v] = Fma(Broadcast(input[kLanes]), FromBits(upper), odd[p][v]);
    }
  }
  // padded: zeros follow the last step of the tile. They make -0 to +0.
  LONGSTREAM_INLINE void EndTile(bool padded) {
    ForEach([&](int p, int v) LONGSTREAM_INLINE_LAMBDA {
      if (padded) {
        even[p][v] = even[p][v] + Zero();
        odd[p][v] = odd[p][v] + Zero();
      }
      sum[p][v] = sum[p][v] + (even[p][v] + odd[p][v]);
    });
  }
  LONGSTREAM_INLINE void End(float* sums) const {
    ForEach([&](int p, int v)
                LONGSTREAM_INLINE_LAMBDA { Store(sum[p][v], sums + (p * kVectors + v) * kLanes); });
  }

  F32x16 sum[kPanels][kVectors], even[kPanels][kVectors], odd[kPanels][kVectors];

 private:
  template <typename Body>
  LONGSTREAM_INLINE static void ForEach(const Body& body) {
    LONGSTREAM_UNROLL
    for (int p = 0; p < kPanels; ++p) {
      LONGSTREAM_UNROLL
      for (int v = 0; v < kVectors; ++v) body(p, v);
    }
  }
};

// Multiplies one row with kPanels panels side by side, all of them compressed or all plain. It uses
// vectors, because one row is too little work for tiles: its weights would have to be stored, and
// loaded again as a tile. REQUIRES: FlushesSubnormals
template <int kPanels, bool kCompressed>
[[gnu::noinline]] void OneRow(const BF16* a, const PanelView (&panels)[kPanels], float* sums) {
  constexpr int kVectors = RowSums<kPanels>::kVectors;
  constexpr int kOfColumn = static_cast<int>(kColumnOutputs) / kLanes;
  CompressedSteps steps[kPanels];
  for (int p = 0; p < kPanels; ++p) steps[p] = StepsOf(panels[p]);
  RowSums<kPanels> sum;
  sum.Begin();
  alignas(64) float inputs[kTileInputs];  // of a tile: the even ones, then the odd ones
  const auto next_patched = [&] {
    int64_t next = steps[0].patches.step();
    for (const CompressedSteps& of_panel : steps) next = std::min(next, of_panel.patches.step());
    return next;
  };
  const auto two_steps = [&](int64_t first, auto lay) LONGSTREAM_INLINE_LAMBDA {
    LONGSTREAM_UNROLL
    for (int p = 0; p < kPanels; ++p) {
      LONGSTREAM_UNROLL
      for (int64_t i = 0; i < 2 * kCompressedStepBytes; i += kLineBytes) {
        PrefetchL1(steps[p].from + kOneRowDistance + i);
      }
      LONGSTREAM_UNROLL
      for (int step = 0; step < 2; ++step) {
        I32x16 numbers[kVectors];
        LONGSTREAM_UNROLL
        for (int64_t c = 0; c < kColumns; ++c) {
          steps[p].reader.Read(steps[p].from + c * kColumnNumbers, step, numbers + c * kOfColumn);
        }
        if constexpr (decltype(lay)::value) {
          StepReader::Lay<kVectors>(steps[p].patches, first + step, 0, numbers);
        }
        sum.Add(p, inputs + (first + step) % kTileSteps, numbers);
      }
      steps[p].from += 2 * kCompressedStepBytes;
    }
  };
  const auto plain_step = [&](int64_t step) LONGSTREAM_INLINE_LAMBDA {
    LONGSTREAM_UNROLL
    for (int p = 0; p < kPanels; ++p) {
      const auto* from = reinterpret_cast<const int32_t*>(steps[p].from);
      const I32x16 numbers[kVectors] = {Load(from), Load(from + kLanes)};
      sum.Add(p, inputs + step % kTileSteps, numbers);
      steps[p].from += kPlainStepBytes;
    }
  };
  const int64_t num_steps = panels[0].num_steps();
  for (int64_t first = 0; first < num_steps; first += kTileSteps) {
    const I32x16 pairs = Load(reinterpret_cast<const int32_t*>(a + first * kStepInputs));
    Store(FromBits(pairs << 16), inputs);
    Store(FromBits(pairs & Broadcast(-0x10000)), inputs + kLanes);
    sum.BeginTile();
    const int64_t count = std::min(kTileSteps, num_steps - first);
    if constexpr (kCompressed) {
      ForTwoSteps(first, count, next_patched, two_steps);
    } else {
      for (int64_t step = first; step < first + count; ++step) plain_step(step);
    }
    sum.EndTile(count < kTileSteps);
  }
  sum.End(sums);
}

template <int kPanels>
LONGSTREAM_INLINE void OneRow(const BF16* a, const PanelView (&panels)[kPanels], float* sums) {
  if (panels[0].compressed()) return OneRow<kPanels, true>(a, panels, sums);
  OneRow<kPanels, false>(a, panels, sums);
}

// Multiplies one row with the panels of a block.
void SingleRow(const BF16* a, const PackedWeight& weight, const OutputBlock& block, float* sums) {
  const FlushesSubnormals flushes;
  const auto panel = [&](int64_t p) {
    return PanelView(PanelAt(weight, block.first_panel + p), weight.k);
  };
  for (int64_t p = 0; p < block.num_panels;) {
    const PanelView first = panel(p), second = panel(std::min(p + 1, block.num_panels - 1));
    float* to = sums + p * kPanelOutputs;
    if (p + 1 < block.num_panels && first.compressed() == second.compressed()) {
      OneRow<2>(a, {first, second}, to);
      p += 2;
    } else {
      OneRow<1>(a, {first}, to);
      p += 1;
    }
  }
}

// Multiplies at most 16 rows with kPanels panels side by side. They wait for memory, so panels are
// decoded at an even rate, a tile at a time, while the tiles before are multiplied.
template <int kPanels>
void FewRows(AmxTiles& unit, const BF16* a, int64_t a_stride, const PackedWeight& weight,
             int64_t first_panel, float* sums, int64_t sums_stride) {
  constexpr int64_t kNumber = sizeof(BF16);
  constexpr int64_t kTileNumbers = kTileSteps * kStepNumbers;
  alignas(64) BF16 plain[2][kPanels][kTileNumbers];
  const PanelView panels[2] = {PanelView(PanelAt(weight, first_panel), weight.k),
                               PanelView(PanelAt(weight, first_panel + kPanels - 1), weight.k)};
  CompressedSteps steps[kPanels];
  for (int p = 0; p < kPanels; ++p) steps[p] = StepsOf(panels[p]);
  AmxSums<(kPanels > 1), true>::Zero(unit);
  const auto decode = [&](int64_t tile) LONGSTREAM_INLINE_LAMBDA {
    for (int p = 0; p < kPanels; ++p) {
      DecodeNext<true>(panels[p], kTileSteps, kFewRowsDistance, steps[p], plain[tile % 2][p]);
      PadTile(steps[p].count, plain[tile % 2][p]);
    }
  };
  const int64_t num_tiles = (panels[0].num_steps() + kTileSteps - 1) / kTileSteps;
  decode(0);
  for (int64_t tile = 0; tile < num_tiles; ++tile) {
    if (tile + 1 < num_tiles) decode(tile + 1);
    const BF16* b = plain[tile % 2][0];
    unit.Load<kAmxA>(a + tile * kTileInputs, a_stride * kNumber);
    unit.Load<kAmxB>(b, kStepNumbers * kNumber);
    unit.Load<kAmxB + 1>(b + kLanes * kStepInputs, kStepNumbers * kNumber);
    unit.MultiplyBF16<0, kAmxA, kAmxB>();
    unit.MultiplyBF16<1, kAmxA, kAmxB + 1>();
    if constexpr (kPanels > 1) {
      b = plain[tile % 2][1];
      unit.Load<kAmxB>(b, kStepNumbers * kNumber);
      unit.Load<kAmxB + 1>(b + kLanes * kStepInputs, kStepNumbers * kNumber);
      unit.MultiplyBF16<2, kAmxA, kAmxB>();
      unit.MultiplyBF16<3, kAmxA, kAmxB + 1>();
    }
  }
  unit.Store<0>(sums, sums_stride);
  unit.Store<1>(sums + kLanes, sums_stride);
  if constexpr (kPanels > 1) {
    unit.Store<2>(sums + 2 * kLanes, sums_stride);
    unit.Store<3>(sums + 3 * kLanes, sums_stride);
  }
}

// The blocks of a panel, one after the other. While the rows multiply a block, the next one is
// decoded part by part: some steps after the products of each tile of k. So the vectors decode
// while the unit multiplies, and prefetches go out at an even rate. (64 rows took 1.3 times as long
// when steps were decoded only after all tiles of 32 rows.)
class Blocks {
 public:
  Blocks(const PanelView& panel, int64_t block_steps)
      : panel_(panel), block_steps_(block_steps), steps_(StepsOf(panel)) {}

  // Ends the block in use and returns the next one. The rows will use it in `parts` parts.
  const BF16* Next(int64_t parts) {
    if (!begun_) Begin(1);
    while (left_ > 0) Go();
    const BF16* block = next_;
    if (!in_place_) PadTile(count_, decoded_[index_]);
    Begin(parts);
    return block;
  }

  // To be called once for each part of the block in use.
  LONGSTREAM_INLINE void Go() {
    const int64_t count = std::min(part_, left_);
    left_ -= count;
    if (in_place_) {
      for (int64_t i = 0; i < count * kPlainStepBytes; i += kLineBytes) {
        PrefetchL2(steps_.from + block_steps_ * kPlainStepBytes + i);
      }
      steps_.from += count * kPlainStepBytes;
      steps_.first += count;
    } else if (count > 0) {
      DecodeNext<false>(panel_, count, block_steps_ * kCompressedStepBytes, steps_, to_);
      to_ += count * kStepNumbers;
    }
  }

 private:
  // Begins to decode the next block. It is used in place if the panel is plain and the block has
  // whole tiles.
  void Begin(int64_t parts) {
    begun_ = true;
    index_ ^= 1;
    count_ = left_ = std::min(block_steps_, panel_.num_steps() - steps_.first);
    part_ = (left_ + 2 * parts - 1) / (2 * parts) * 2;
    in_place_ = !panel_.compressed() && count_ % kTileSteps == 0;
    to_ = decoded_[index_];
    next_ = in_place_ ? reinterpret_cast<const BF16*>(steps_.from) : to_;
  }

  const PanelView panel_;
  const int64_t block_steps_;
  CompressedSteps steps_;  // those that are decoded next
  bool begun_ = false;
  bool in_place_ = false;
  int index_ = 0;
  int64_t count_ = 0;  // steps of the next block
  int64_t left_ = 0;   // those of them that are not decoded yet
  int64_t part_ = 0;   // steps that are decoded at a time
  const BF16* next_ = nullptr;
  BF16* to_ = nullptr;
  alignas(64) BF16 decoded_[2][kLargeBlockSteps * kStepNumbers];
};

// Adds the products of `tiles` tiles of k to the sums of at most 32 rows with the 32 outputs of a
// panel. kBoth: there are more than 16 rows. resume: continue the sums that are at `sums`. Decodes
// a part of the next block after each tile.
template <bool kBoth>
LONGSTREAM_INLINE void Multiply(AmxTiles& unit, const BF16* a, int64_t a_stride, const BF16* b,
                                int64_t tiles, bool resume, float* sums, Blocks& blocks) {
  constexpr int64_t kNumber = sizeof(BF16);
  using Sums = AmxSums<kBoth, true>;
  if (resume) {
    Sums::Load(unit, sums, kSumsStride);
  } else {
    Sums::Zero(unit);
  }
  const BF16* a_below = a + kAmxRows * a_stride;
  for (int64_t i = 0; i < tiles; ++i) {
    unit.Load<kAmxB>(b, kStepNumbers * kNumber);
    unit.LoadOnce<kAmxA>(a, a_stride * kNumber);
    unit.Load<kAmxB + 1>(b + kLanes * kStepInputs, kStepNumbers * kNumber);
    unit.MultiplyBF16<0, kAmxA, kAmxB>();
    unit.MultiplyBF16<1, kAmxA, kAmxB + 1>();
    if constexpr (kBoth) {
      unit.LoadOnce<kAmxA + 1>(a_below, a_stride * kNumber);
      unit.MultiplyBF16<2, kAmxA + 1, kAmxB>();
      unit.MultiplyBF16<3, kAmxA + 1, kAmxB + 1>();
    }
    blocks.Go();
    a += kTileInputs;
    a_below += kTileInputs;
    b += kTileSteps * kStepNumbers;
  }
  Sums::Store(unit, sums, kSumsStride);
}

// Multiplies any number of rows with a panel.
void ManyRows(AmxTiles& unit, const PreparedRows& h, const PackedWeight& weight,
              const OutputBlock& block, float* sums) {
  const int64_t row_tiles = (block.num_rows + kBothRows - 1) / kBothRows;
  const int64_t block_steps = block.num_rows > kManyRows ? kLargeBlockSteps : kBlockSteps;
  Blocks blocks(PanelView(PanelAt(weight, block.first_panel), weight.k), block_steps);
  for (int64_t first = 0; first < weight.k; first += block_steps * kStepInputs) {
    const int64_t inputs = std::min(block_steps * kStepInputs, weight.k - first);
    const int64_t tiles = (inputs + kTileInputs - 1) / kTileInputs;
    const BF16* b = blocks.Next(row_tiles * tiles);
    for (int64_t r = 0; r < block.num_rows; r += kBothRows) {
      const BF16* a = h.row<BF16>(block.first_row + r) + first;
      float* to = sums + r * kSumsStride;
      const int rows = static_cast<int>(std::min(block.num_rows - r, kBothRows));
      if (rows > kAmxRows) {
        unit.SetShape({kAmxRows, rows - kAmxRows});
        Multiply<true>(unit, a, h.stride, b, tiles, first > 0, to, blocks);
      } else {
        unit.SetShape({rows, 0});
        Multiply<false>(unit, a, h.stride, b, tiles, first > 0, to, blocks);
      }
    }
  }
}

}  // namespace

void AmxProduct(const PreparedRows& h, const PackedWeight& weight, const OutputBlock& block,
                float* sums) {
  if (block.num_rows == 1) {
    return SingleRow(h.row<BF16>(block.first_row), weight, block, sums);
  }
  AmxTiles unit;
  if (block.num_rows > kAmxRows) return ManyRows(unit, h, weight, block, sums);
  // Tiles 2 and 3 are sums of the same rows with a second panel.
  const int rows = static_cast<int>(block.num_rows);
  unit.SetShape({rows, rows});
  const BF16* a = h.row<BF16>(block.first_row);
  const int64_t stride = block.stride() * static_cast<int64_t>(sizeof(float));
  for (int64_t p = 0; p < block.num_panels;) {
    const int64_t panel = block.first_panel + p;
    float* to = sums + p * kPanelOutputs;
    if (p + 1 < block.num_panels) {
      FewRows<2>(unit, a, h.stride, weight, panel, to, stride);
      p += 2;
    } else {
      FewRows<1>(unit, a, h.stride, weight, panel, to, stride);
      p += 1;
    }
  }
}

#endif

}  // namespace longstream::cpu::LONGSTREAM_ISA
