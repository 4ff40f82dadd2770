// SPDX-License-Identifier: Apache-2.0
// Planted: failpoints: bugs that tests/simulation switches on one by one, to see that it finds them. Elsewhere there
// are none: Planted is false at compile time.
#ifndef TENON_NET_CLUSTER_PLANTED_H_
#define TENON_NET_CLUSTER_PLANTED_H_

namespace tenon::cluster {

enum class Bug {
  kNone,
  kPeerNotVerified,    // a connection to an earlier start of a task is used on
  kPeersNotWatched,    // two tasks that cannot reach each other wait for ever
  kLossNotTold,        // a broken connection between tasks may have lost a value of a step that is over for its sender
  kSilenceIgnored,     // a task that does not answer is waited for
  kPartsGoOn,          // a part fails, and the others are not cancelled
  kStepNumberIgnored,  // a value goes to whatever step of its part runs
  kEarlyValueDropped,  // a value that comes before its step is forgotten
  kStepRepeated,       // a step that failed is tried again, though tasks may have done their part
  kLeaseIgnored,       // the sessions of a silent master stay
  kEndedStepComesBack, // a value that comes after its step makes it anew
  kOwnerIgnored,       // what an earlier session of the same training sent is still done
  kGivenUpGoesOn,      // a step begins while an earlier one, which was given up, is still done somewhere
  kDroppedPartStays,   // what a session runs no more stays at its tasks
  kResetForgetsATask,  // the last of them is not asked to empty its containers
  kResetNotSettled,    // containers are emptied while a step that was given up may write still
  kResetTakesAll,      // a task empties the unnamed container too
  kResetFailureIgnored,// a task that could not empty its containers is not told of
  kResetAskedTwice,    // what was dropped is the second answer's
  kEarlyWishForgotten, // a value that is asked for before it is made stays with its sender
  kKeptForEver,        // what a step that is given up keeps for its receivers keeps it open
  kCount,
};

#ifdef TENON_PLANTED_BUGS
bool Planted(Bug bug);
#else
constexpr bool Planted(Bug) { return false; }
#endif

}  // namespace tenon::cluster

#endif  // TENON_NET_CLUSTER_PLANTED_H_
