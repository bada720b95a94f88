// The hash, and the draw of each arm.
#include "service/serving/aliases/arm_choice.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>

namespace longstream {
namespace {

// A hash of 64 bits: each word is added with the golden ratio, then mixed by the finaliser of
// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014;
// constants: Stafford's variant 13). In the finaliser each bit of the input changes each bit of the
// output with a probability near 1/2, so equal low bits of ids do not matter.
class Hash {
 public:
  void Add(uint64_t word) {
    constexpr uint64_t kGoldenRatio = 0x9E3779B97F4A7C15u;
    uint64_t z = (value_ ^ word) + kGoldenRatio;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    value_ = z ^ (z >> 31);
  }
  // With its length, so that ("a", "bc") and ("ab", "c") differ.
  void Add(std::string_view text) {
    Add(text.size());
    for (size_t begin = 0; begin < text.size(); begin += sizeof(uint64_t)) {
      uint64_t word = 0;
      std::memcpy(&word, text.data() + begin, std::min(sizeof(word), text.size() - begin));
      Add(word);
    }
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0;
};

// The upper 52 bits as the middle of one of 2^52 equal parts of (0, 1): never 0 and never 1.
double Uniform(uint64_t bits) { return (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52; }

}  // namespace

size_t ChooseArm(const AliasConfig& alias, const SessionId& id) {
  Hash of_session;
  of_session.Add(alias.name);
  of_session.Add(id.high);
  of_session.Add(id.low);
  size_t chosen = 0;
  double least = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < alias.arms.size(); ++i) {
    const AliasArm& arm = alias.arms[i];
    if (arm.weight == 0) continue;
    Hash of_arm = of_session;
    of_arm.Add(arm.model);
    const double draw = -std::log(Uniform(of_arm.value())) / static_cast<double>(arm.weight);
    if (draw >= least) continue;
    least = draw;
    chosen = i;
  }
  return chosen;
}

bool ChooseForShadow(std::string_view alias, double share, const SessionId& session,
                     const SessionId& turn) {
  Hash of_turn;
  of_turn.Add("shadow");
  of_turn.Add(alias);
  for (const SessionId& id : {session, turn}) {
    of_turn.Add(id.high);
    of_turn.Add(id.low);
  }
  return Uniform(of_turn.value()) < share;
}

}  // namespace longstream
