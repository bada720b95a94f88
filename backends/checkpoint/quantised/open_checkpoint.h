// Opens checkpoints whose weights may be quantised.
#ifndef LONGSTREAM_BACKENDS_CHECKPOINT_QUANTISED_OPEN_CHECKPOINT_H_
#define LONGSTREAM_BACKENDS_CHECKPOINT_QUANTISED_OPEN_CHECKPOINT_H_

#include <string>

#include "backends/checkpoint/checkpoint.h"
#include "backends/checkpoint/config.h"
#include "backends/checkpoint/quantised/quantisation.h"

namespace longstream {

// Opens the checkpoint of a directory and calls AddQuantised if its config says how weights are
// quantised. Fails as Checkpoint, ReadQuantisation and AddQuantised do.
Checkpoint OpenCheckpoint(const std::string& directory, const Config& config);

// Adds the weight "X.weight" of each quantised projection X to a checkpoint, and takes its stored
// parts away (docs/checkpoints.md, Quantised checkpoints). The stored parts say which projections
// are quantised, so lists of modules in the config are not needed. Scales and zero points of
// activations and caches are taken away, too, because they have no effect here.
//
// LS_INVALID_ARGUMENT: a part is missing, has another type or a shape that does not fit; or an
// index of a group is out of range. LS_DATA_LOSS: a file cannot be read.
void AddQuantised(const Quantisation& quantisation, Checkpoint* checkpoint);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CHECKPOINT_QUANTISED_OPEN_CHECKPOINT_H_
