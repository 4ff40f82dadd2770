// SPDX-License-Identifier: Apache-2.0
// Choosing devices: greedy simulated execution, then a bounded search for better.
//
// Greedy: nodes in the order of their upward rank; each free group goes where its first node would finish earliest, its
// inputs' transfers counted, plus what the rest of the group takes there; once with and once without a look at what
// comes after (how long the rest must take from each device at least). Nodes without inputs that take no time
// (constants), or that have one reader (generators), wait for their reader and go there. Everything on one device, as
// far as that is possible, is tried too. The best of these, simulated, is improved by moving groups, in small graphs up
// to four at once, as long as a fixed amount of work allows: graphs of thousands of nodes get little of it, so that the
// time stays near linear.
#ifndef TENON_CORE_PLACE_CHOOSE_H_
#define TENON_CORE_PLACE_CHOOSE_H_

#include <vector>

#include "core/place/schedule.h"

namespace tenon::place {

struct Assignment {
  GroupDevices device_of_group;
  double seconds = 0;
};

// RESOURCE_EXHAUSTED when nothing that was tried fits; names the node and the devices' memory. `greedy_seconds`, when
// given, gets the step's seconds before the search.
Result<Assignment> Choose(const Problem& problem, const Sequence& sequence, double* greedy_seconds = nullptr);

}  // namespace tenon::place

#endif  // TENON_CORE_PLACE_CHOOSE_H_
