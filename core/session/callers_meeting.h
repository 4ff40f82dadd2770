// SPDX-License-Identifier: Apache-2.0
// CallersMeeting: where a step in goes (StepInGoes) meets those who feed and fetch it.
//
// A step that runs in other processes (a remote's) cannot look here by itself: it is told which channels the call that
// drives it has to do with.
#ifndef TENON_CORE_SESSION_CALLERS_MEETING_H_
#define TENON_CORE_SESSION_CALLERS_MEETING_H_

#include <cstdint>
#include <vector>

#include "core/exec/exchange/rendezvous.h"

namespace tenon::session {

class CallersMeeting final : public exec::Rendezvous {
 public:
  using Rendezvous::Rendezvous;
  // Of the call that goes on now: feeds that it has sent, and fetches that it asks for.
  std::vector<int32_t> fed, wanted;
};

}  // namespace tenon::session

#endif  // TENON_CORE_SESSION_CALLERS_MEETING_H_
