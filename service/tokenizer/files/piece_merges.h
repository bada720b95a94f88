// The merges of a SentencePiece model.
#ifndef LONGSTREAM_SERVICE_TOKENIZER_FILES_PIECE_MERGES_H_
#define LONGSTREAM_SERVICE_TOKENIZER_FILES_PIECE_MERGES_H_

#include "absl/status/status.h"
#include "service/tokenizer/spec/tokenizer_spec.h"

namespace longstream {

// Adds merges and their ranks to a BPE model that has a vocabulary with scores. Two pieces can be
// merged if their joined text is a piece. The merge whose result has the greatest score comes
// first. User-defined symbols are not merged. Invalid argument: the vocabulary gives more than 8
// million merges, or merges of more than 64 MiB. The largest known ones give 600 thousand.
absl::Status AddPieceMerges(TokenizerSpec* spec);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_FILES_PIECE_MERGES_H_
