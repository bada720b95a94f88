// The merges of a SentencePiece model.
#ifndef LONGSTREAM_SERVICE_TOKENIZER_FILES_PIECE_MERGES_H_
#define LONGSTREAM_SERVICE_TOKENIZER_FILES_PIECE_MERGES_H_

#include "service/tokenizer/spec/tokenizer_spec.h"

namespace longstream {

// Adds merges and their ranks to a BPE model that has a vocabulary with scores. Two pieces can be
// merged if their joined text is a piece. The merge whose result has the greatest score comes
// first. User-defined symbols are not merged.
void AddPieceMerges(TokenizerSpec* spec);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_TOKENIZER_FILES_PIECE_MERGES_H_
