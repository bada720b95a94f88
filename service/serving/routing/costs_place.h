// Where the costs of a model are kept, and under which key.
#ifndef LONGSTREAM_SERVICE_SERVING_ROUTING_COSTS_PLACE_H_
#define LONGSTREAM_SERVICE_SERVING_ROUTING_COSTS_PLACE_H_

#include <string>

#include "service/models/served_model.h"

namespace longstream {

struct CostsPlace {
  std::string path;  // empty: the costs are not kept
  std::string key;   // one line; see EncodeCosts
};

// Beside the packed weights of the model (the option packed_cache): in the directory that it names,
// or in the model's own directory if it is `auto` and the weights have at least 64 MiB, as those of
// models for which packed weights are kept. `off`: nowhere. The name has a hash of the key, so that
// several machines can share a directory. `threads`: of the host.
CostsPlace PlaceOfCosts(const ServedModel& model, uint32_t threads);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_ROUTING_COSTS_PLACE_H_
