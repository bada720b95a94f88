// Events and actions of the ownership of sessions in words, for traces.
#ifndef LONGSTREAM_TESTS_FLEET_DESCRIBE_H_
#define LONGSTREAM_TESTS_FLEET_DESCRIBE_H_

#include <string>

#include "service/sessions/fleet/actions.h"
#include "service/sessions/fleet/events.h"

namespace longstream::fleet {

std::string Describe(const Event& event);
std::string Describe(const Action& action);
std::string Describe(const PeerMessage& message);
std::string Describe(Outcome outcome);
std::string Describe(Answer answer);

}  // namespace longstream::fleet

#endif  // LONGSTREAM_TESTS_FLEET_DESCRIBE_H_
