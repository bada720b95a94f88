// A conversation in the middle of which a sequence is saved and loaded.
#ifndef LONGSTREAM_TESTS_CONFORMANCE_CONVERSATION_H_
#define LONGSTREAM_TESTS_CONFORMANCE_CONVERSATION_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/conformance/kit.h"
#include "tests/conformance/model.h"
#include "tests/conformance/script.h"

namespace longstream::conformance {

// The first `count` tokens of the conversation.
std::vector<int32_t> ConversationTokens(const Kit& kit, size_t count);

// A prompt of `past` tokens, then decode steps, a prefill and decode steps. *first_piece is the
// first piece after the prompt.
Script Conversation(const Kit& kit, size_t past, size_t* first_piece);

// A sequence that has read the prompt of Conversation, with no reservation.
Sequence Prompted(Model& model, const Kit& kit, size_t past);

}  // namespace longstream::conformance

#endif  // LONGSTREAM_TESTS_CONFORMANCE_CONVERSATION_H_
