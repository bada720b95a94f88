// The models that benchmarks of whole steps run: a shape and a kind of layers.
#ifndef LONGSTREAM_TESTS_BENCH_PLANS_BENCH_PLANS_H_
#define LONGSTREAM_TESTS_BENCH_PLANS_BENCH_PLANS_H_

#include <string>
#include <vector>

#include "backends/spec/model_spec.h"

namespace longstream {

// The shapes. d is the width, and ff the width of the MLP. "16/8 heads of 128" means 16 heads of
// queries and 8 heads of keys and values, with 128 numbers each.
// "0.6b"  Qwen3-0.6B: 28 layers, d 1024, 16/8 heads of 128, ff 3072, vocabulary 151936, tied
// "200m"  24 layers, d 768, 12 heads of 64, ff 2048, vocabulary 32000, tied, no QK-norm
// "2b"    Qwen3-1.7B: 28 layers, d 2048, 16/8 heads of 128, ff 6144, vocabulary 151936, tied
// "14b"   40 layers, d 5120, 40/8 heads of 128, ff 17408, vocabulary 151936, untied
// "tiny"  4 layers, d 48, 4/2 heads of 16, ff 64, vocabulary 257, untied: for tests
std::vector<std::string> BenchShapes();

// The plans, which say what the layers are.
// "dense"    full attention
// "experts"  as "dense", with QK-norm and a mixture of 32 experts in each layer; the 8 experts of a
//            token are together as wide as the MLP of "dense" (CPU only)
// "hwfa2"    2 full layers with ReRoPE, windows of 64
// "hypenet"  published layers: attention in every fourth layer (of 28 layers: as in HypeNet-2B)
// "chunked"  HypeNet's chunked profile, attention windows of 2048
std::vector<std::string> BenchPlans();

// Returns the text of a config.json. Its context has room for a measurement after 512K tokens.
// Throws std::invalid_argument, which lists the known names.
std::string BenchConfig(const std::string& shape, const std::string& plan);

// Returns the spec that the plan's backend reads from BenchConfig(shape, plan). Throws like
// BenchConfig.
ModelSpec BenchSpec(const std::string& shape, const std::string& plan);

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_BENCH_PLANS_BENCH_PLANS_H_
