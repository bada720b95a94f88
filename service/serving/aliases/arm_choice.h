// Chooses one of the models of an alias for a session. A pure function: it remembers nothing.
#ifndef LONGSTREAM_SERVICE_SERVING_ALIASES_ARM_CHOICE_H_
#define LONGSTREAM_SERVICE_SERVING_ALIASES_ARM_CHOICE_H_

#include <cstddef>
#include <string_view>

#include "service/config/alias_config.h"
#include "service/sessions/session_id.h"

namespace longstream {

// The index of the arm of `alias` that serves the session `id`.
//
// Weighted rendezvous hashing (Thaler and Ravishankar, "Using name-based mappings to increase hit
// rates", 1998; weights: the logarithmic method of Schindelhauer and Schomaker, "Weighted
// distributed hash tables", SPAA 2005). Each arm i draws u_i in (0, 1) from a hash of the alias,
// the session and the model, and
//
//   the arm with the least -ln(u_i) / w_i
//
// wins. -ln(u_i) / w_i has an exponential distribution with the rate w_i, so arm i is the least one
// with the probability w_i / sum(w), independently for each session. And because the hash does not
// know the weights:
//   - the same alias, session and weights choose the same arm, in every process;
//   - if the weight of one arm grows, sessions move only to that arm; if it shrinks, only from it.
//
// A client that chooses the ids of its sessions can choose their arms. Weights that are all
// multiplied by one number, and the order of the arms, change nothing.
//
// REQUIRES: one of the weights is not 0.
size_t ChooseArm(const AliasConfig& alias, const SessionId& id);

// Whether a turn of the alias is replayed on its shadow. A hash of the alias, the session and the
// turn decides, so a repeat of the turn is decided in the same way, and a greater share adds turns
// to those of a smaller one. The choice does not depend on ChooseArm.
bool ChooseForShadow(std::string_view alias, double share, const SessionId& session,
                     const SessionId& turn);

}  // namespace longstream

#endif  // LONGSTREAM_SERVICE_SERVING_ALIASES_ARM_CHOICE_H_
