// How much of the host's memory a model will need, as far as its files say.
#ifndef LONGSTREAM_SERVICE_MODELS_EXPECTED_MEMORY_H_
#define LONGSTREAM_SERVICE_MODELS_EXPECTED_MEMORY_H_

#include <cstdint>
#include <string>

#include "service/models/served_model.h"

namespace longstream {

// About the size of the weights: that of the checkpoint's files. If they are quantised, the size
// that the weights get in memory, from the number of their bits in config.json and the option
// weights. 0: there are none.
uint64_t ExpectedWeights(const ModelSource& source);

// Bytes of a model that is not opened yet. Whether they were enough is known when it is open.
struct ExpectedMemory {
  uint64_t weights = 0;
  uint64_t workspace = 0;     // activations of the largest step, and its logits
  uint64_t least_caches = 0;  // one page of each layer

  // Reads the sizes of the weights and config.json. A value that config.json does not name, or that
  // is no number, counts as 0.
  static ExpectedMemory Of(const ModelSource& source);

  uint64_t Sum() const;
};

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_MODELS_EXPECTED_MEMORY_H_
