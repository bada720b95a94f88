// Keys of Hugging Face configs that no part of this project reads: those that do not change what a
// decoder computes, and those that would.
#ifndef LONGSTREAM_BACKENDS_CHECKPOINT_HARMLESS_KEYS_H_
#define LONGSTREAM_BACKENDS_CHECKPOINT_HARMLESS_KEYS_H_

#include <string_view>

namespace longstream {

// True for keys about training, special tokens, generation defaults, classes and tools.
// docs/checkpoints.md lists them.
bool IsHarmlessKey(std::string_view key);

// True for keys that are harmless while their feature is off: false, {} or [].
bool IsHarmlessIfOff(std::string_view key);

// True for keys that are known to change the mathematics: they ask some class, some author's code
// or this project for other layers, positions, masks or experts.
bool ChangesMathematics(std::string_view key);

}  // namespace longstream

#endif  // LONGSTREAM_BACKENDS_CHECKPOINT_HARMLESS_KEYS_H_
