// Keeps chosen algorithms on disk, so that the next start, and every replica with the same file,
// chooses the same: timings vary from run to run, and the bits of a prefill depend on its
// algorithms.
//
// The file is a text. Its first line names the format. Each other line is a choice: key TAB
// algorithm in hex TAB checksum in hex. One file may hold choices of several GPUs and library
// versions.
#ifndef LONGSTREAM_KERNELS_CUDA_CUBLASLT_ALGORITHM_FILE_H_
#define LONGSTREAM_KERNELS_CUDA_CUBLASLT_ALGORITHM_FILE_H_

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "kernels/cuda/cublaslt/algorithm_choice.h"

namespace longstream::cuda {

// A text that contains all that a choice depends on: GPU, compute capability, version of the
// library, shape. `device` and `version` are texts from the driver and the library; tabs and line
// ends in them become spaces.
std::string ChoiceKey(const std::string& device, const std::string& capability,
                      const std::string& version, const ProductShape& shape);

// The file that keeps choices: LONGSTREAM_CUDA_ALGORITHMS, else longstream/cuda-algorithms below
// XDG_CACHE_HOME, else below .cache in HOME. "" means no file: the first variable is set but empty,
// or none of them is set.
std::string DefaultAlgorithmFile();

// One thread at a time may use an AlgorithmFile; any number of processes may use the file.
class AlgorithmFile {
 public:
  using Warning = std::function<void(const std::string& sentence)>;

  // path "": nothing is stored. `warn` is called with each problem of the file. Lines that cannot
  // be read are left out; choices that cannot be written are not stored.
  AlgorithmFile(std::string path, Warning warn);

  std::optional<Algorithm> Find(const std::string& key);

  // Stores a choice, unless the file holds a choice other than `before` for the key. In that case
  // another process has stored its own choice meanwhile, and that choice stays. Returns the choice
  // to use.
  Algorithm Keep(const std::string& key, const Algorithm& algorithm,
                 const std::optional<Algorithm>& before = std::nullopt);

  // Calls `warn` with a sentence about the choices.
  void Warn(const std::string& sentence) const { warn_(sentence); }

 private:
  using Choices = std::map<std::string, Algorithm>;

  // Leaves out lines with a wrong checksum. nullopt: the file has another format, so it must not be
  // overwritten.
  std::optional<Choices> Read();
  bool Write(const Choices& choices);

  const std::string path_;
  const Warning warn_;
};

// Returns the stored algorithm, if there is one that serves. Otherwise returns the fastest one and
// stores it. If no algorithm could be timed, returns one that serves but does not store it.
// nullopt: none serves.
std::optional<Algorithm> StoredOrChosen(AlgorithmFile& file, const std::string& key,
                                        AlgorithmSource& source, const ProductShape& shape);

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_CUBLASLT_ALGORITHM_FILE_H_
