// Checkpoints of tests/golden, whose vocabularies are a few dozen tokens, with more.
#ifndef LONGSTREAM_TESTS_BACKENDS_CHECKPOINT_WIDE_VOCABULARY_H_
#define LONGSTREAM_TESTS_BACKENDS_CHECKPOINT_WIDE_VOCABULARY_H_

#include <cstdint>
#include <filesystem>
#include <string>

namespace longstream {

// The bytes of that safetensors file with `rows` rows of embedding and head. Row r beyond the
// stored V is row r mod V, turned by r div V elements: no two are alike, and all are drawn as the
// stored ones are. Throws std::runtime_error.
std::string FileWithVocabulary(const std::filesystem::path& safetensors, int64_t rows);

// Writes the config and the weights of a golden case into `directory`, which is there, likewise.
// The config has vocab_size at its top.
void WriteWithVocabulary(const std::filesystem::path& golden_case, int64_t rows,
                         const std::filesystem::path& directory);

}  // namespace longstream

#endif  // LONGSTREAM_TESTS_BACKENDS_CHECKPOINT_WIDE_VOCABULARY_H_
