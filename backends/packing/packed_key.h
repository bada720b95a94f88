// The key of packed weights: a text that names everything that decides their bytes. Equal keys mean
// equal weights.
#ifndef LONGSTREAM_BACKENDS_PACKING_PACKED_KEY_H_
#define LONGSTREAM_BACKENDS_PACKING_PACKED_KEY_H_

#include <string>

#include "backends/checkpoint/checkpoint.h"
#include "kernels/ops/op_table.h"

namespace longstream {

// One line that identifies a file of a checkpoint without reading all of it: its name, its size,
// the time of the last change of its bytes, the time of the last change of its state (st_ctim), and
// a hash of its header and of 64 samples of 4 KiB.
//
// No program can set st_ctim, and every write, rename and copy changes it. So it detects that the
// content was replaced by other content of the same size. Some file systems do not keep st_ctim.
// For them the line has the samples, because the weights of two trainings differ everywhere. The
// line has neither inode nor device: on network and layered file systems they change with each
// mount.
std::string SourceLine(const TensorFile& file);

// A hash of a small fixed weight that the kernel library has packed in every type. If the library's
// layout or quantisation changes, so does the hash, and nobody has to remember to raise a version
// number.
std::string LayoutLine(const OpTable& ops);

// A hash of the numbers and groups that fixed bytes give as blocks of each type of GGUF files.
std::string BlocksLine();

// The key has a line each for the version of this library, the ops, the layout, the blocks and
// every file, and then `recipes` (how each block is made).
std::string PackedKey(const Checkpoint& checkpoint, const OpTable& ops, const std::string& recipes);

// The first lines that differ in the two keys, as "expected 'A', found 'B'".
std::string DifferenceOf(const std::string& expected, const std::string& found);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_PACKING_PACKED_KEY_H_
