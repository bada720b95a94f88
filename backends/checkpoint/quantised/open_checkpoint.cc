// Makes the weights of quantised projections from their stored parts.
#include "backends/checkpoint/quantised/open_checkpoint.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/checkpoint/quantised/float8_weight.h"
#include "backends/checkpoint/quantised/integer_weight.h"
#include "backends/checkpoint/quantised/module_parts.h"

namespace longstream {
namespace {

using Method = Quantisation::Method;

// AutoAWQ packs eight outputs into a word in this order of their nibbles: output i of the word is
// nibble kAwqOrder[i].
constexpr std::array<uint8_t, 8> kAwqOrder = {0, 4, 1, 5, 2, 6, 3, 7};

// The parts of a projection that only concern its activations.
constexpr std::string_view kActivationParts[] = {"input_scale",    "input_zero_point",
                                                 "output_scale",   "output_zero_point",
                                                 "input_scale_ub", "activation_scale"};
// The ends of names of scales for caches of keys and values.
constexpr std::string_view kCacheParts[] = {".k_scale",      ".v_scale",      ".q_scale",
                                            ".k_zero_point", ".v_zero_point", ".q_zero_point",
                                            ".prob_scale"};

DType DecodedType(const Quantisation& quantisation, const ScaleMatrix& scales) {
  if (quantisation.type) return *quantisation.type;
  const DType type = *scales.part().tensor->type;
  return type == DType::kF32 ? DType::kBF16 : type;
}

int64_t GroupSize(const QuantisationScheme& scheme, int64_t k) {
  return scheme.group_size == 0 ? std::max<int64_t>(k, 1) : scheme.group_size;
}

// GPTQ: words [k / codes, n], zero points [groups, n / codes], scales [groups, n].
// AWQ: words [k, n / 8], zero points [groups, n / 8], scales [groups, n].
std::unique_ptr<ComputedTensor> GptqOrAwq(const Quantisation& quantisation,
                                          const ModuleParts& module) {
  const bool is_awq = quantisation.method == Method::kAwq;
  const QuantisationScheme& scheme = quantisation.schemes.front();
  const StoredPart words = module.Get("qweight", {"I32"}, 2);
  CodeLayout layout;
  layout.bits = scheme.bits;
  layout.by_column = true;
  layout.axis = is_awq ? CodeLayout::Axis::kRows : CodeLayout::Axis::kColumns;
  if (is_awq) layout.order = kAwqOrder;
  const StoredPart scaled = module.Get("scales", {"F16", "BF16", "F32"}, 2);
  const int64_t n = scaled.tensor->shape[1];
  int64_t k = words.tensor->shape[0] * (is_awq ? 1 : layout.codes_of_word());
  // The last word of each output may be filled in part; the list of groups has the inputs.
  if (const std::optional<StoredPart> index = module.Find("g_idx")) {
    const std::vector<int64_t>& shape = index->tensor->shape;
    if (!is_awq && shape.size() == 1 && layout.Words(shape[0]) == words.tensor->shape[0]) {
      k = shape[0];
    }
  }
  const int64_t group_size = GroupSize(scheme, k);
  const int64_t groups = GroupsFor(k, group_size);
  CodeLayout zeros = layout;
  zeros.axis = CodeLayout::Axis::kRows;
  ScaleMatrix scales = module.Scales("scales", n, groups, /*by_column=*/true);
  return std::make_unique<IntegerWeight>(IntegerWeightParts{
      .name = module.Name("weight"),
      .format = quantisation.name,
      .n = n,
      .k = k,
      .bits = scheme.bits,
      .symmetric = scheme.symmetric,
      .group_size = group_size,
      .group_of = module.GroupOf("g_idx", k, group_size, groups),
      .decoded = DecodedType(quantisation, scales),
      .codes = PackedCodes(words, n, k, layout),
      .scales = scales,
      .zeros = PackedCodes(module.Get("qzeros", {"I32"}, 2), n, groups, zeros),
      .zero_plus = quantisation.zeros_are_one_less ? 1 : 0,
  });
}

std::unique_ptr<ComputedTensor> Float8(const Quantisation& quantisation,
                                       const QuantisationScheme& scheme, const ModuleParts& module,
                                       std::string_view scale) {
  const StoredPart codes = module.Get("weight", {"F8_E4M3"}, 2);
  const int64_t n = codes.tensor->shape[0], k = codes.tensor->shape[1];
  const int64_t group_size = GroupSize(scheme, k);
  ScaleMatrix scales =
      module.Scales(scale, GroupsFor(n, scheme.row_block), GroupsFor(k, group_size),
                    /*by_column=*/false, scheme.row_block);
  return std::make_unique<Float8Weight>(Float8WeightParts{
      .name = module.Name("weight"),
      .format = quantisation.name,
      .n = n,
      .k = k,
      .codes = codes,
      .scales = scales,
      .column_block = group_size,
      .decoded = DecodedType(quantisation, scales),
  });
}

// The scheme of compressed-tensors that fits a weight [n, k] of `bits` bits (0: floats). The config
// says by patterns which modules each scheme is for. The shapes say it, too.
QuantisationScheme FittingScheme(const Quantisation& quantisation, const ModuleParts& module,
                                 const StoredPart& weight, int bits, int64_t k) {
  const StoredPart scale = module.Get(
      "weight_scale", {"F16", "BF16", "F32"},
      module.Find("weight_scale") ? module.Find("weight_scale")->tensor->shape.size() : 2);
  const std::vector<int64_t>& shape = scale.tensor->shape;
  const int64_t columns = shape.size() == 2 ? shape[1] : 1;
  const bool has_zeros = module.Find("weight_zero_point").has_value();
  std::optional<QuantisationScheme> fitting;
  for (const QuantisationScheme& scheme : quantisation.schemes) {
    if (scheme.is_float != (bits == 0) || (!scheme.is_float && scheme.bits != bits)) continue;
    if (!scheme.is_float && scheme.symmetric == has_zeros) continue;
    if (GroupsFor(k, GroupSize(scheme, k)) != columns) continue;
    if (fitting && (GroupSize(*fitting, k) != GroupSize(scheme, k) ||
                    fitting->row_block != scheme.row_block)) {
      ModuleParts::Refuse(weight, "fits more than one scheme of config_groups");
    }
    fitting = scheme;
  }
  if (fitting) return *fitting;
  ModuleParts::Refuse(weight, "fits no scheme of config_groups: " +
                                  (bits == 0 ? "floats" : std::to_string(bits) + " bits") +
                                  (has_zeros ? " with zero points" : "") + ", " +
                                  std::to_string(columns) + " groups of " + std::to_string(k) +
                                  " inputs");
}

// Words [n, k / codes], zero points [n / codes, groups], scales [n, groups]; or bytes [n, k] with
// zero points [n, groups].
std::unique_ptr<ComputedTensor> CompressedInteger(const Quantisation& quantisation,
                                                  const ModuleParts& module, bool is_packed) {
  const StoredPart words =
      is_packed ? module.Get("weight_packed", {"I32"}, 2) : module.Get("weight", {"I8"}, 2);
  int64_t n = words.tensor->shape[0], k = words.tensor->shape[1];
  CodeLayout layout;
  if (is_packed) {
    const auto [rows, inputs] = module.Shape("weight_shape");
    layout.bits = inputs > 4 * k ? 4 : 8;
    // A weight of so few inputs that its words could have either: the scheme decides.
    if (inputs <= 4 && !quantisation.schemes.empty()) layout.bits = quantisation.schemes[0].bits;
    if (rows != n || layout.Words(inputs) != k) {
      ModuleParts::Refuse(words, "of shape " + ShapeText(words.tensor->shape) +
                                     " does not fit weight_shape, [" + std::to_string(rows) + ", " +
                                     std::to_string(inputs) + "]");
    }
    k = inputs;
  } else {
    layout = {.bits = 8, .word_bytes = 1, .flip = 0x80};
  }
  const QuantisationScheme scheme = FittingScheme(quantisation, module, words, layout.bits, k);
  const int64_t group_size = GroupSize(scheme, k);
  const int64_t groups = GroupsFor(k, group_size);
  ScaleMatrix scales = module.Scales("weight_scale", n, groups, /*by_column=*/false);
  CodeLayout zero_layout = layout;
  if (is_packed) zero_layout.axis = CodeLayout::Axis::kRows;
  std::optional<PackedCodes> zeros;
  if (module.Find("weight_zero_point")) {
    zeros.emplace(module.Get("weight_zero_point", {is_packed ? "I32" : "I8"}, 2), n, groups,
                  zero_layout);
  }
  return std::make_unique<IntegerWeight>(IntegerWeightParts{
      .name = module.Name("weight"),
      .format = quantisation.name,
      .n = n,
      .k = k,
      .bits = layout.bits,
      .symmetric = !zeros,
      .group_size = group_size,
      .group_of = module.GroupOf("weight_g_idx", k, group_size, groups),
      .decoded = DecodedType(quantisation, scales),
      .codes = PackedCodes(words, n, k, layout),
      .scales = scales,
      .zeros = zeros,
  });
}

std::unique_ptr<ComputedTensor> CompressedTensors(const Quantisation& quantisation,
                                                  const ModuleParts& module) {
  if (module.Find("weight_packed")) return CompressedInteger(quantisation, module, true);
  const StoredPart weight = module.Get("weight", {"I8", "F8_E4M3"}, 2);
  if (weight.tensor->type_name == "I8") return CompressedInteger(quantisation, module, false);
  const QuantisationScheme scheme =
      FittingScheme(quantisation, module, weight, 0, weight.tensor->shape[1]);
  return Float8(quantisation, scheme, module, "weight_scale");
}

// The ends of the names that tell a quantised projection.
constexpr std::string_view kWordMarks[] = {".qweight"};
constexpr std::string_view kFloatMarks[] = {".weight_scale_inv", ".weight_scale"};
constexpr std::string_view kCompressedMarks[] = {".weight_packed", ".weight_scale"};

std::span<const std::string_view> MarksOf(Method method) {
  if (method == Method::kFloat8) return kFloatMarks;
  if (method == Method::kCompressedTensors) return kCompressedMarks;
  return kWordMarks;
}

std::set<std::string> ModulesOf(const Quantisation& quantisation, const Checkpoint& checkpoint) {
  std::set<std::string> modules;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    for (const std::string_view mark : MarksOf(quantisation.method)) {
      if (name.ends_with(mark)) modules.insert(name.substr(0, name.size() - mark.size()));
    }
  }
  return modules;
}

std::unique_ptr<ComputedTensor> WeightOf(const Quantisation& quantisation,
                                         const ModuleParts& module) {
  switch (quantisation.method) {
    case Method::kCompressedTensors:
      return CompressedTensors(quantisation, module);
    case Method::kFloat8:
      return Float8(quantisation, quantisation.schemes.front(), module,
                    module.Find("weight_scale_inv") ? "weight_scale_inv" : "weight_scale");
    case Method::kAwq:
    case Method::kGptq:
      break;
  }
  return GptqOrAwq(quantisation, module);
}

std::vector<std::string> PartsOf(Method method, const ModuleParts& module) {
  std::vector<std::string> parts = module.Present(kActivationParts);
  const auto add = [&](std::initializer_list<std::string_view> names) {
    for (std::string& name : module.Present(std::span(names.begin(), names.size())))
      parts.push_back(std::move(name));
  };
  if (method == Method::kCompressedTensors) {
    if (module.Find("weight_packed")) {
      add({"weight_packed", "weight_scale", "weight_shape", "weight_zero_point", "weight_g_idx"});
    } else {
      add({"weight", "weight_scale", "weight_zero_point", "weight_g_idx"});
    }
  } else if (method == Method::kFloat8) {
    add({"weight", module.Find("weight_scale_inv") ? "weight_scale_inv" : "weight_scale"});
  } else {
    add({"qweight", "qzeros", "scales", "g_idx"});
  }
  return parts;
}

}  // namespace

void AddQuantised(const Quantisation& quantisation, Checkpoint* checkpoint) {
  for (const std::string& name : ModulesOf(quantisation, *checkpoint)) {
    const ModuleParts module(*checkpoint, name);
    std::unique_ptr<ComputedTensor> weight = WeightOf(quantisation, module);
    checkpoint->AddComputed(std::move(weight), PartsOf(quantisation.method, module));
  }
  std::vector<std::string> unused;
  for (const auto& [name, tensor] : checkpoint->tensors()) {
    if (std::any_of(std::begin(kCacheParts), std::end(kCacheParts),
                    [&name = name](std::string_view end) { return name.ends_with(end); })) {
      unused.push_back(name);
    }
  }
  for (const std::string& name : unused) checkpoint->Remove(name);
}

Checkpoint OpenCheckpoint(const std::string& directory, const Config& config) {
  const std::optional<Quantisation> quantisation = ReadQuantisation(config);
  Checkpoint checkpoint(directory);
  if (quantisation) AddQuantised(*quantisation, &checkpoint);
  return checkpoint;
}

}  // namespace longstream
