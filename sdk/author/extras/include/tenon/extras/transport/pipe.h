// SPDX-License-Identifier: Apache-2.0
// Pipe: what a transport must bring itself. The rest (calls, streams, data, deadlines, draining) is connection.h's.
//
// A pipe joins two processes and carries frames both ways, each direction in order and without loss, until it is closed
// or breaks. A frame is a head (small) and a body (maybe large), which goes straight into the memory that the receiver
// gives for it. Rules. Write may be called from any thread, also from a sink's functions, and does not wait for the
// other side. The sink's functions are called by one thread at a time, and return soon.
#ifndef TENON_SDK_TRANSPORT_PIPE_H_
#define TENON_SDK_TRANSPORT_PIPE_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "tenon/abi.h"

namespace tenon::sdk {

inline constexpr uint64_t kMaxFrameHead = 128 * 1024;

class FrameSink {
 public:
  virtual ~FrameSink() = default;
  // A frame begins. The head is valid in the call. Memory for the body, which stays until End; nullptr: the body is
  // dropped.
  virtual void* Begin(std::string_view head, uint64_t body_bytes) = 0;
  // It has ended: all of its body is there, or (the pipe breaks) not.
  virtual void End(bool complete) = 0;
  // The last call: the other side has closed, the pipe broke, or what came is no frame (INVALID_ARGUMENT). Takes the
  // status. Not called after Close().
  virtual void Broken(tenon_status* why) = 0;
};

class Pipe {
 public:
  virtual ~Pipe() = default;  // closed before
  // Frames that came before are given now. The sink stays until Close returns, or Broken does.
  virtual void Start(FrameSink* sink) = 0;
  // The head is copied; the pieces stay untouched until written(argument, ok), which is called once, from any thread,
  // also from within this call: not ok when the pipe is closed or broken, also before this call. written() comes before
  // what the other side answers to the frame, where the pipe can know; small bodies are best copied, so that it comes
  // at once.
  virtual void Write(std::string_view head, std::span<const tenon_span> body, void (*written)(void* argument, bool ok),
                     void* argument) = 0;
  // Frames written before are lost unless written() was called for them. When it returns the sink is not called any
  // more and written() was called for every frame; not to be called from within the sink.
  virtual void Close() = 0;
  // The other side, for people: an address, or what its credentials prove.
  virtual std::string_view name() const = 0;
};

}  // namespace tenon::sdk

#endif  // TENON_SDK_TRANSPORT_PIPE_H_
