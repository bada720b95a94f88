// The fingerprint of a tokenizer: a hash of everything that affects the ids of a text.
#ifndef LONGSTREAM_SERVICE_TOKENIZER_SPEC_SPEC_FINGERPRINT_H_
#define LONGSTREAM_SERVICE_TOKENIZER_SPEC_SPEC_FINGERPRINT_H_

#include <cstdint>

#include "service/tokenizer/spec/tokenizer_spec.h"

namespace longstream {

// The fingerprint is the same in every process and build, because snapshots of sessions hold it.
uint64_t FingerprintOf(const TokenizerSpec& spec);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_SPEC_SPEC_FINGERPRINT_H_
