// Errors that tests put into the ownership of sessions, to prove that they would find them. The
// shipped library has none of them: tests compile its sources again with
// LONGSTREAM_OWNERSHIP_MUTATIONS.
#ifndef LONGSTREAM_SERVICE_SESSIONS_FLEET_MUTATIONS_H_
#define LONGSTREAM_SERVICE_SESSIONS_FLEET_MUTATIONS_H_

#include <cstdint>

namespace longstream::fleet {

enum class Mutation : uint8_t {
  kNone,
  // Of the state machine.
  kAnswerBeforeCommit,      // a turn is acknowledged when it has run
  kUnknownIsMade,           // a commit whose outcome is unknown is acknowledged
  kShowBeforeStart,         // a call sees the turn before its start is durable
  kKeepCopyWhenFenced,      // a replica that lost a session keeps its copy
  kTrustOldCopy,            // a copy is used although the row has another version
  kOwnWithoutTransfer,      // a receiver takes the session without a transaction
  kReplayStarted,           // a turn that was only started is replayed
  kDisownUnknown,           // an owner that does not know that it is one refuses the session
  kWaitForPeerForever,      // no time limit for the answer of a peer
  kWaitForReceiverForever,  // no time limit for the transaction of a receiver
  kOnlyReadAfterGiving,     // after that limit the row is read, and nothing fences the receiver
  kNoCheckAfterLapse,       // a lease that lapsed is renewed, and the rows are not read again
  kFenceAnew,               // a fenced commit is made again with the epoch and version of the row
  kClaimLiving,             // a session is claimed while its owner's lease holds (store too)
  kRunAbandoned,            // a turn runs although the head has moved since its start
  kForgetUndecided,         // a start that was given up, and is made late, passes for a change
  kForgetWithdrawn,         // a commit that is withdrawn, and made late, passes for a change
  kRunAfterGrace,           // a turn whose start is being made when the grace time ends runs
  // Of the store that tests use.
  kNoFence,            // transactions do not compare epoch and version
  kNoEpochs,           // a change of the owner raises neither epoch nor version
  kClaimAfterRestart,  // claims are allowed at once after a restart
};

#ifdef LONGSTREAM_OWNERSHIP_MUTATIONS
inline thread_local Mutation mutation = Mutation::kNone;  // NOLINT(google-global-names-in-headers)
inline bool Mutated(Mutation which) { return mutation == which; }
#else
constexpr bool Mutated(Mutation /*which*/) { return false; }
#endif

}  // namespace longstream::fleet

#endif  // LONGSTREAM_SERVICE_SESSIONS_FLEET_MUTATIONS_H_
