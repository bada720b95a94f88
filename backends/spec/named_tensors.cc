// From names of tensors to parts of weights.
#include "backends/spec/named_tensors.h"

namespace longstream {

std::vector<WeightPart> NamedTensors::Parts(const std::vector<NamedRows>& named,
                                            std::string_view suffix) const {
  std::vector<WeightPart> parts;
  for (const NamedRows& rows : named) {
    WeightPart part = {prefix_ + std::string(rows.name) + std::string(suffix), rows.rows};
    part.order = rows.order;
    for (const NamedRows& other : named) {
      if (other.name != rows.name) continue;
      if (&other < &rows) part.first_row += other.rows;
      part.stored_rows += other.rows;
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

NormWeights NamedTensors::StreamNorm(std::string_view name) const {
  NormWeights norm;
  if (name.empty()) return norm;
  const std::vector<NamedRows> rows = {{name, spec_.width}};
  norm.weight = Vector(rows, ".weight", norm_plus());
  if (spec_.norm_bias) norm.bias = Vector(rows, ".bias");
  return norm;
}

}  // namespace longstream
