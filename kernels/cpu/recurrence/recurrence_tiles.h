// The products of a recurrence's block on the tiles of AMX.
//
// A row's bits depend on its position only: every sum runs over the key elements in chunks of
// kKeyChunk, and over the rows of the block in order.
#ifndef LONGSTREAM_KERNELS_CPU_RECURRENCE_RECURRENCE_TILES_H_
#define LONGSTREAM_KERNELS_CPU_RECURRENCE_RECURRENCE_TILES_H_

#include "kernels/cpu/recurrence/recurrence_block.h"

namespace longstream::cpu::LONGSTREAM_ISA {

// PrepareBlock for a fixed decay. Writes no score[r, j] for j > r. REQUIRES: kHasTiles
void PrepareFixedOnTiles(const RecurrenceBlock& block);

// ApplyBlock. Reads no score[r, j] for j > r. REQUIRES: kHasTiles
void ApplyBlockOnTiles(const RecurrenceBlock& block, const RecurrenceSlice& slice);

// The half of ApplyBlock that updates the state. REQUIRES: kHasTiles and block.complete()
void FoldOnTiles(const RecurrenceBlock& block, const RecurrenceSlice& slice);

}  // namespace longstream::cpu::LONGSTREAM_ISA

#endif  // LONGSTREAM_KERNELS_CPU_RECURRENCE_RECURRENCE_TILES_H_
