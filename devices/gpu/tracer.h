// SPDX-License-Identifier: Apache-2.0
// Tracer: a vendor's own profiler, as the Profile of one GPU asks it: what the GPU did for each piece of work, by its
// own clock.
//
// A piece has a number, from 1 on. What a thread gives to streams between Begin and End belongs to the piece, and so do
// the kernels of a captured graph that is launched there. Optional: without one pieces are measured by events. Threads:
// any; a piece begins and ends on one thread, inside no other. The GPU is the calling thread's (Card::Activate).
#ifndef TENON_DEVICES_GPU_TRACER_H_
#define TENON_DEVICES_GPU_TRACER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "options.h"

namespace tenon::gpu {

class Tracer {
 public:
  // One thing that the GPU did.
  struct Record {
    uint64_t piece = 0;
    uint64_t begin_ns = 0, end_ns = 0;  // of the host's monotonic clock
    const char* kind = "";              // "kernel", "copy", "fill"; static
    char detail[80] = "";               // the kernel's name and grid, the copy's bytes; cut where too long
  };

  virtual ~Tracer() = default;
  // From now on work is traced. false: it is not, and the log has said why; another time it may be.
  virtual bool Start() = 0;
  virtual void Stop() = 0;
  // false: there is nothing to End.
  virtual bool Begin(uint64_t piece) = 0;
  virtual void End() = 0;
  // Appends what was not told before: all that has ended by now, unless it was lost on the way.
  virtual void Collect(std::vector<Record>* out_records) = 0;
};

// The vendor's, defined once by each plugin; NULL where there is none.
std::unique_ptr<Tracer> MakeTracer(const Options& options);

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_TRACER_H_
