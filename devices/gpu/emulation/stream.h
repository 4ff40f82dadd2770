// SPDX-License-Identifier: Apache-2.0
// An emulated stream as an emulated library of a vendor sees it: cudaStream_t and hipStream_t point to one.
#ifndef TENON_DEVICES_GPU_EMULATION_STREAM_H_
#define TENON_DEVICES_GPU_EMULATION_STREAM_H_

#include <functional>

namespace tenon::gpu {

class EmulatedStream {
 public:
  virtual ~EmulatedStream() = default;
  // Does it when the stream gets there; while a graph is captured, each time that the graph is launched. A kernel, to a
  // profiler.
  virtual void Give(std::function<void()> work) = 0;
  // Calls the host when the stream gets there; false: the GPU is lost. To a profiler, nothing.
  virtual bool GiveCall(std::function<void()> call) = 0;
  // Does it when the stream gets there, also when the GPU is lost and does nothing any more. Is no part of a captured
  // graph.
  virtual void GiveAlways(std::function<void(bool lost)> work) = 0;
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_EMULATION_STREAM_H_
