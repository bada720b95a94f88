// Checkpoints of tests/golden with larger vocabularies; theirs have a few dozen tokens.
#ifndef LONGSTREAM_TESTS_BACKENDS_CHECKPOINT_WIDE_VOCABULARY_H_
#define LONGSTREAM_TESTS_BACKENDS_CHECKPOINT_WIDE_VOCABULARY_H_

#include <cstdint>
#include <filesystem>
#include <string>

namespace longstream {

// The bytes of a safetensors file, with `rows` rows in embedding and head. Row r beyond the stored
// V rows is row r mod V, rotated by r div V elements. So no two rows are equal, and all have the
// distribution of the stored rows. Throws std::runtime_error.
std::string FileWithVocabulary(const std::filesystem::path& safetensors, int64_t rows);

// Writes the config and the weights of a golden case, with such a vocabulary, into the existing
// `directory`. The config has vocab_size at its top level.
void WriteWithVocabulary(const std::filesystem::path& golden_case, int64_t rows,
                         const std::filesystem::path& directory);

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_BACKENDS_CHECKPOINT_WIDE_VOCABULARY_H_
