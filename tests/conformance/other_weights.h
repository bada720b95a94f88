// Another model for the plugin under test.
#ifndef LONGSTREAM_TESTS_CONFORMANCE_OTHER_WEIGHTS_H_
#define LONGSTREAM_TESTS_CONFORMANCE_OTHER_WEIGHTS_H_

#include <string>

#include "tests/conformance/kit.h"
#include "tests/temporary_directory.h"

namespace longstream::conformance {

// The directory of a model with other weights: the one that the user named, or a copy of the model
// with one changed bit. The destructor removes the copy.
class OtherWeights {
 public:
  // Throws CheckNotApplicable if the user named none and the model has no safetensors file.
  explicit OtherWeights(const Target& target);

  const std::string& directory() const { return directory_; }

 private:
  const TemporaryDirectory copy_;
  std::string directory_;
};

}  // namespace longstream::conformance

#endif  // LONGSTREAM_TESTS_CONFORMANCE_OTHER_WEIGHTS_H_
