// Which of a library's algorithms computes the products of prefill rows with a shape of weight: the
// fastest of those that give a row the same bits beside any other rows. Knows neither the library
// nor the GPU (AlgorithmSource).
#ifndef LONGSTREAM_KERNELS_CUDA_CUBLASLT_ALGORITHM_CHOICE_H_
#define LONGSTREAM_KERNELS_CUDA_CUBLASLT_ALGORITHM_CHOICE_H_

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace longstream::cuda {

// The product out [rows, n] = rows [rows, k] W^T at any number of rows.
struct ProductShape {
  int64_t n = 0;
  int64_t k = 0;               // with padding
  int64_t out_stride = 0;      // in elements
  uint32_t out_alignment = 0;  // in bytes, of every row of out

  auto operator<=>(const ProductShape&) const = default;
};

// An algorithm as its library writes it down: of meaning to that version of the library alone.
using Algorithm = std::array<uint64_t, 8>;

// A library that offers several algorithms for a product.
class AlgorithmSource {
 public:
  AlgorithmSource() = default;
  virtual ~AlgorithmSource() = default;
  AlgorithmSource(const AlgorithmSource&) = delete;
  AlgorithmSource& operator=(const AlgorithmSource&) = delete;

  // At most `most` algorithms for products of that many rows, the library's favourite first.
  virtual std::vector<Algorithm> Propose(const ProductShape& shape, int64_t rows, size_t most) = 0;
  // Whether each sum over k is one block's, in one sequence: no split of k, no other reduction.
  virtual bool SumsInOneSequence(const Algorithm& algorithm) = 0;
  // Whether it computes products of that many rows, without workspace.
  virtual bool Serves(const ProductShape& shape, int64_t rows, const Algorithm& algorithm) = 0;
  // Seconds of one product. Infinity where it cannot be measured.
  virtual double Seconds(const ProductShape& shape, int64_t rows, const Algorithm& algorithm) = 0;
};

// The rows of a piece of a long prompt, and of what is left at its end: an algorithm is chosen by
// the seconds that it takes for one of each.
inline constexpr int64_t kTimedRows[] = {512, 64};
// At how many rows it must work as well.
inline constexpr int64_t kServedRows[] = {1, 2, 7, 16, 33, 64, 128, 257, 512, 576, 2048};
// How many are asked for at each of kTimedRows.
inline constexpr size_t kMaxProposals = 32;

struct AlgorithmChoice {
  Algorithm algorithm{};
  bool is_timed = false;  // false: nothing could be measured, it is the first that serves
};

// Whether it gives a row the same bits beside any other rows, and works at all kServedRows.
bool ServesAll(AlgorithmSource& source, const ProductShape& shape, const Algorithm& algorithm);

// nullopt: none serves. Of equals the first proposed.
std::optional<AlgorithmChoice> ChooseAlgorithm(AlgorithmSource& source, const ProductShape& shape);

}  // namespace longstream::cuda

#endif  // LONGSTREAM_KERNELS_CUDA_CUBLASLT_ALGORITHM_CHOICE_H_
