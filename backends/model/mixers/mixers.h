// The kinds of mixers.
#ifndef LONGSTREAM_BACKENDS_MODEL_MIXERS_MIXERS_H_
#define LONGSTREAM_BACKENDS_MODEL_MIXERS_MIXERS_H_

#include "backends/model/mixers/mixer.h"
#include "backends/spec/model_spec.h"

namespace longstream {

const Mixer& Attention();           // attention.cc
const Mixer& GatedAttentionUnit();  // gated_attention_unit.cc
const Mixer& GatedRnn();            // gated_rnn.cc
const Mixer& Lightning();           // lightning.cc

// The mixer that a layer asks for.
const Mixer& MixerOf(const MixerSpec& mixer);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_MODEL_MIXERS_MIXERS_H_
