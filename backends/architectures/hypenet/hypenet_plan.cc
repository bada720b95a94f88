// The spec of HypeNet: the part that both profiles share.
#include "backends/architectures/hypenet/hypenet_plan.h"

#include <algorithm>
#include <vector>

#include "backends/architectures/transformer/transformer_plan.h"

namespace longstream {
namespace {

bool IsHypenet(const Config& config) {
  if (config.FindString("model_type") == "hypenet") return true;
  const std::vector<std::string> classes =
      config.FindStrings("architectures").value_or(std::vector<std::string>());
  return std::any_of(classes.begin(), classes.end(), [](const std::string& name) {
    return name == "HypeNetForCausalLM" || name == "HybridForCausalLM";
  });
}

bool IsMiniCpmSala(const Config& config) {
  return config.FindString("model_type") == "minicpm_sala";
}

}  // namespace

int HypenetFit(const Config& config, std::string* why) {
  if (IsHypenet(config) || IsMiniCpmSala(config)) return 100;
  *why = config.file() +
         ": model_type must be hypenet or minicpm_sala for the backend hypenet, found " +
         config.Found("model_type");
  return 0;
}

ModelSpec HypenetPlan(const Config& config, const LoadOptions& options) {
  if (IsMiniCpmSala(config)) return MiniCpmSalaPlan(config, options);
  if (!IsHypenet(config)) {
    config.Unsupported("model_type",
                       "must be hypenet or minicpm_sala for the backend hypenet, found " +
                           config.Found("model_type"));
  }
  options.RefuseOverridesBut({}, "hypenet", "its layers are as the config states them");
  const std::string profile = config.FindString("hypenet_profile").value_or("published");
  if (profile != "published" && profile != "chunked") {
    config.Unsupported("hypenet_profile",
                       "must be published or chunked, found " + config.Found("hypenet_profile"));
  }
  // In the authors' config class, heads are 128 wide by default.
  ModelSpec spec =
      ReadTransformer(config, options, "hypenet", {.head_dim = profile == "published" ? 128 : 0})
          .spec;
  SetQkNorm(&spec);
  for (const char* key : {"attention_bias", "mlp_bias", "use_sliding_window"}) {
    RequireFalse(config, key);
  }
  // Without use_sliding_window these keys have no effect.
  config.FindInteger("sliding_window", 0, kMaxPositions);
  config.FindInteger("max_window_layers", 0, kMaxLayers);
  if (spec.layers.front().rope != RopeSpec{.theta = spec.layers.front().rope.theta}) {
    const char* key = config.Has("rope_parameters") ? "rope_parameters" : "rope_scaling";
    config.Unsupported(
        key, "must be of the kind default for the backend hypenet, found " + config.Found(key));
  }
  if (profile == "published") {
    PublishedLayers(config, {}, &spec);
  } else {
    ChunkedLayers(config, options, &spec);
  }
  // The authors' config class writes some keys that have no effect here: keys of other mixers,
  // which mixer_types would have to name, and keys of training.
  config.RefuseUnknown("the backend hypenet", {"expand_kv_proj", "fused_ce_loss", "gdn_*", "kda_*",
                                               "loss_fn", "mamba2_*", "rand_init", "shift_labels"});
  return spec;
}

void SetMixers(const Config& config, const std::vector<std::string>& types,
               const std::vector<NamedMixer>& mixers, std::string_view where, ModelSpec* spec) {
  if (types.size() != spec->layers.size()) {
    config.Invalid("mixer_types",
                   "must have num_hidden_layers = " + std::to_string(spec->layers.size()) +
                       " items, found " + std::to_string(types.size()));
  }
  for (size_t i = 0; i < types.size(); ++i) {
    const auto named = std::find_if(mixers.begin(), mixers.end(), [&](const NamedMixer& mixer) {
      const auto& others = mixer.other_spellings;
      return types[i] == mixer.name ||
             std::find(others.begin(), others.end(), types[i]) != others.end();
    });
    if (named != mixers.end()) {
      spec->layers[i] = named->mixer;
      continue;
    }
    std::string names;
    for (const NamedMixer& mixer : mixers) {
      names += (names.empty() ? "" : " and ") + std::string(mixer.name);
    }
    config.Unsupported("mixer_types", "must hold " + names + " only" + std::string(where) +
                                          ", found \"" + types[i] + "\" in layer " +
                                          std::to_string(i));
  }
}

}  // namespace longstream
