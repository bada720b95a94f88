// Chosen algorithms on disk, so that the next start and every replica with the same file choose the
// same: timings vary from run to run, and the bits of a prefill depend on its algorithms.
//
// A text file: a line that names the format, then a line per choice, key TAB algorithm in hex TAB
// checksum in hex. Lines of other GPUs and library versions stand side by side.
#ifndef LONGSTREAM_KERNELS_CUDA_CUBLASLT_ALGORITHM_FILE_H_
#define LONGSTREAM_KERNELS_CUDA_CUBLASLT_ALGORITHM_FILE_H_

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "kernels/cuda/cublaslt/algorithm_choice.h"

namespace longstream::cuda {

// What the choice depends on, as text: GPU, compute capability, version of the library, shape.
// `device` and `version` as their makers write them; tabs and line ends become spaces.
std::string ChoiceKey(const std::string& device, const std::string& capability,
                      const std::string& version, const ProductShape& shape);

// Where choices are kept: LONGSTREAM_CUDA_ALGORITHMS; else longstream/cuda-algorithms below
// XDG_CACHE_HOME, or below .cache in HOME. "": nowhere, because the first is set and empty or none
// of the others is set.
std::string DefaultAlgorithmFile();

// Used by one thread at a time; any number of processes may use the file at the same time.
class AlgorithmFile {
 public:
  using Warning = std::function<void(const std::string& sentence)>;

  // path "": nothing is stored. `warn` is told what is wrong with the file: what cannot be read is
  // left out, what cannot be written is not stored.
  AlgorithmFile(std::string path, Warning warn);

  std::optional<Algorithm> Find(const std::string& key);

  // Stores a choice where the file still holds `before` for the key. Where another process has put
  // its own there meanwhile, that one stays. Returns the one to be used.
  Algorithm Keep(const std::string& key, const Algorithm& algorithm,
                 const std::optional<Algorithm>& before = std::nullopt);

  // Tells what concerns the choices.
  void Warn(const std::string& sentence) const { warn_(sentence); }

 private:
  using Choices = std::map<std::string, Algorithm>;

  // Lines with a wrong checksum are left out. nullopt: the file is not one of this format, and so
  // not to be written either.
  std::optional<Choices> Read();
  bool Write(const Choices& choices);

  const std::string path_;
  const Warning warn_;
};

// The stored algorithm where there is one that serves; else the fastest, which is stored. One that
// could not be timed is used and not stored. nullopt: none serves.
std::optional<Algorithm> StoredOrChosen(AlgorithmFile& file, const std::string& key,
                                        AlgorithmSource& source, const ProductShape& shape);

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_CUBLASLT_ALGORITHM_FILE_H_
