// Makes the script of a conversation, and a sequence at the end of its prompt.
#include "tests/conformance/conversation.h"

#include <algorithm>

namespace longstream::conformance {

std::vector<int32_t> ConversationTokens(const Kit& kit, size_t count) {
  return kit.Tokens(51, count);
}

Script Conversation(const Kit& kit, size_t past, size_t* first_piece) {
  const std::vector<int32_t> tokens = ConversationTokens(kit, past + kit.grid() + 12);
  Script script;
  AddPrefill(script, tokens, 0, past);
  *first_piece = script.pieces.size();
  AddDecode(script, tokens, past, past + 4);
  AddPrefill(script, tokens, past + 4, tokens.size() - 3,
             GridLines(kit, past + 4, tokens.size() - 3));
  AddDecode(script, tokens, tokens.size() - 3, tokens.size());
  return script;
}

Sequence Prompted(Model& model, const Kit& kit, size_t past) {
  Sequence sequence = model.Create(std::max<size_t>(past, 1));
  if (past > 0) model.Step(Prefill(sequence, ConversationTokens(kit, past)));
  sequence.Reserve(0);
  return sequence;
}

}  // namespace longstream::conformance
