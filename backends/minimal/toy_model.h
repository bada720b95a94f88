// A toy in place of a real language model. Its tokens are bytes. The logits of the next byte are a
// hash of the whole history, shaped so that the text looks like lower-case words.
#ifndef LONGSTREAM_BACKENDS_MINIMAL_TOY_MODEL_H_
#define LONGSTREAM_BACKENDS_MINIMAL_TOY_MODEL_H_

#include <cstdint>
#include <string_view>
#include <type_traits>

namespace longstream::toy {

inline constexpr int32_t kVocabulary = 256;  // a token is a byte

// Takes the place of weights: the logits depend on these values and on the history.
struct Weights {
  uint64_t seed = 0;
  bool utf8 = false;  // also write characters of two, three and four bytes
};

// Takes the place of caches: the part of the history that the next logits need.
struct State {
  uint64_t position = 0;  // bytes fed
  uint64_t hash = 0;      // of all bytes fed: one lost byte changes all later logits
  uint32_t previous = 0;  // the last byte
  uint32_t lead = 0;      // the last lead byte of a UTF-8 character
  uint32_t missing = 0;   // continuation bytes that the current character still needs
  uint32_t letters = 0;   // characters since the last space
};
static_assert(std::has_unique_object_representations_v<State>, "copied to snapshots byte by byte");

// SplitMix64's finaliser (Steele et al. 2014).
constexpr uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Adds one byte to the history.
constexpr void Feed(State& state, uint32_t byte) {
  const bool is_space = byte == ' ' || byte == '\n';
  const bool continues = (byte & 0xc0) == 0x80;
  state.position += 1;
  state.hash = Mix(state.hash + 0x9e3779b97f4a7c15u * (byte + 1));
  state.previous = byte;
  if (continues) {
    state.missing -= state.missing > 0 ? 1 : 0;
  } else {
    state.missing = byte < 0xc0 ? 0 : byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
    state.letters = is_space ? 0 : state.letters + 1;
  }
  if (byte >= 0xc0) state.lead = byte;
}

constexpr bool IsVowel(uint32_t byte) {
  return byte < 0x80 &&
         std::string_view("aeiou").find(static_cast<char>(byte)) != std::string_view::npos;
}

// Whether `byte` fits the text so far: words have two to six letters, vowels and consonants
// alternate, and every character is complete (U+00E0 ..., U+2220 ..., U+1F620 ...).
constexpr bool IsPlausible(const Weights& weights, const State& state, uint32_t byte) {
  if (state.missing == 3) return byte == 0x9f;
  if (state.missing == 2) return byte == (state.lead >= 0xf0 ? 0x98 : 0x88);
  if (state.missing == 1) return byte >= 0xa0 && byte <= 0xbf;
  if (byte == ' ') return state.letters >= 2;
  if (byte == '\n') return state.letters >= 6;
  if (state.letters >= 6) return false;
  if (byte == 0xc3 || byte == 0xe2 || byte == 0xf0) return weights.utf8;
  return byte >= 'a' && byte <= 'z' && IsVowel(byte) != IsVowel(state.previous);
}

// Writes logits, [kVocabulary]: noise in [0, 5) from the hash, plus 16 for a plausible byte. So
// about a dozen bytes have a noticeable probability.
constexpr void ComputeLogits(const Weights& weights, const State& state, float* logits) {
  for (uint32_t byte = 0; byte < kVocabulary; ++byte) {
    const uint64_t noise = Mix(state.hash ^ Mix(weights.seed * kVocabulary + byte + 1)) >> 40;
    logits[byte] = 5.0f * 0x1p-24f * static_cast<float>(noise) +
                   (IsPlausible(weights, state, byte) ? 16.0f : 0.0f);
  }
}

}  // namespace longstream::toy

#endif  // LONGSTREAM_BACKENDS_MINIMAL_TOY_MODEL_H_
