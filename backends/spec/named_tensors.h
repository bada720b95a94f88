// The tensors below one prefix of a checkpoint, by the names that the spec gives them.
#ifndef LONGSTREAM_BACKENDS_SPEC_NAMED_TENSORS_H_
#define LONGSTREAM_BACKENDS_SPEC_NAMED_TENSORS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/spec/model_spec.h"
#include "backends/spec/model_weights.h"
#include "backends/spec/weight_source.h"

namespace longstream {

// Rows of the tensor <prefix><name><suffix>.
struct NamedRows {
  std::string_view name;
  int64_t rows;
  std::vector<int32_t> order{};  // WeightPart::order
};

// A NamedTensors borrows the arguments of its constructor.
class NamedTensors {
 public:
  // prefix: such as "model.layers.3."
  NamedTensors(const ModelSpec& spec, std::string prefix, WeightSource& source)
      : spec_(spec), prefix_(std::move(prefix)), source_(source) {}

  const ModelSpec& spec() const { return spec_; }
  const TensorNames& names() const { return spec_.names; }
  WeightSource& source() const { return source_; }
  std::string FullName(std::string_view name) const { return prefix_ + std::string(name); }

  // Rows that have the same name are parts of one tensor, one part below the other in this order.
  std::vector<WeightPart> Parts(const std::vector<NamedRows>& named, std::string_view suffix) const;

  // [all rows, k]: the tensors <prefix><name>.weight.
  PackedWeight Projection(const std::vector<NamedRows>& named, int64_t k) const {
    return source_.Projection(Parts(named, ".weight"), k);
  }
  // [all rows]: the tensors <prefix><name><suffix>, `plus` added to each number.
  const float* Vector(const std::vector<NamedRows>& named, std::string_view suffix,
                      float plus = 0.0f) const {
    return source_.Vector(Parts(named, suffix), plus);
  }

  // A norm of the residual stream. If `name` is empty, the result is empty.
  NormWeights StreamNorm(std::string_view name) const;

  // The number to add to a norm's stored weights.
  float norm_plus() const { return spec_.norms_less_one ? 1.0f : 0.0f; }

 private:
  const ModelSpec& spec_;
  const std::string prefix_;
  WeightSource& source_;
};

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_SPEC_NAMED_TENSORS_H_
