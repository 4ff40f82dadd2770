// SPDX-License-Identifier: Apache-2.0
// SentBuffers: values of a program that are sent as the buffers in which they are made.
#ifndef TENON_CORE_EXEC_PROGRAM_SENT_BUFFERS_H_
#define TENON_CORE_EXEC_PROGRAM_SENT_BUFFERS_H_

#include <deque>

#include "core/exec/program/fetch_places.h"
#include "core/exec/program/machine.h"

namespace tenon::exec::program {

class SentBuffers {
 public:
  // The machine outlives it, and has its contexts. Of one process, where nobody sends, there are none; nor where
  // devices' work is captured with its addresses, nor of a fetch that may be made elsewhere.
  SentBuffers(Machine* machine, const FetchPlaces& fetches);
  ~SentBuffers();
  SentBuffers(const SentBuffers&) = delete;
  SentBuffers& operator=(const SentBuffers&) = delete;

  // Before a step: each has a buffer.
  Status Place();
  // After it: who got one may keep it, as a variable does, and write in it then.
  void LetGo();

 private:
  bool MayBeSent(const Operation& operation) const;
  // By an operation behind the position, or by the turns of a loop.
  bool IsWrittenAfter(SlotId root, int32_t position) const;

  Machine& machine_;
  std::deque<SentBuffer> sent_;  // contexts point at them
};

}  // namespace tenon::exec::program

#endif  // TENON_CORE_EXEC_PROGRAM_SENT_BUFFERS_H_
