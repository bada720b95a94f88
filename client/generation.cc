// Puts the messages of a turn together.
#include <string>

#include "client/connection.h"

namespace longstream::client {

void Generation::Add(const v1::GenerateResponse& response, double seconds) {
  if (response.has_started()) started = response.started();
  if (response.has_finish()) finish = response.finish();
  for (int i = 0; i < response.twin().rows_size(); ++i) {
    // A turn that was resumed may send rows again.
    if (response.twin().first_index() + static_cast<uint64_t>(i) < twin_rows.size()) continue;
    twin_rows.push_back(response.twin().rows(i));
  }
  if (!response.has_delta()) return;
  const v1::Delta& delta = response.delta();
  text += delta.text();
  position = delta.position();
  if (delta.token_ids().empty()) return;
  token_seconds.push_back(seconds);
  token_counts.push_back(delta.token_ids_size());
  token_ids.insert(token_ids.end(), delta.token_ids().begin(), delta.token_ids().end());
  log_probs.insert(log_probs.end(), delta.log_probs().begin(), delta.log_probs().end());
}

}  // namespace longstream::client
