// What decides the bytes of packed weights, as a text: equal keys mean equal weights.
#ifndef LONGSTREAM_BACKENDS_PACKING_PACKED_KEY_H_
#define LONGSTREAM_BACKENDS_PACKING_PACKED_KEY_H_

#include <string>

#include "backends/checkpoint/safetensors.h"
#include "kernels/ops/op_table.h"

namespace longstream {

// A file of a checkpoint, in one line, without reading all of it: its name, its size, when its
// bytes and its state were last changed, and a hash of its header and of 64 samples of 4 KiB.
//
// The second time changes with every write, rename and copy, and no program can set it, so that it
// tells a file whose content was exchanged for as much of another. The samples are for file systems
// that do not keep it: trained weights differ everywhere. Neither the inode nor the device are in
// it, because on network and layered file systems they are others after each mount.
std::string SourceLine(const SafetensorsFile& file);

// The layout that a kernel library packs in, and its quantisation, as a hash of what becomes of a
// small fixed weight in every type. No version number that somebody must remember to raise.
std::string LayoutLine(const OpTable& ops);

// Lines: version of this library, ops, layout, files, `recipes` (what each block is made of).
std::string PackedKey(const Checkpoint& checkpoint, const OpTable& ops, const std::string& recipes);

// The first lines in which two keys differ, as "expected 'A', found 'B'".
std::string DifferenceOf(const std::string& expected, const std::string& found);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_PACKING_PACKED_KEY_H_
