// SPDX-License-Identifier: Apache-2.0
// The buffers of the testing host: reference counted memory with guard bytes behind it, so that a write beyond the end
// is seen.
//
// Any thread may retain and release. live_buffers counts those that nobody has released yet: a test that compares it
// before and after sees a leak.
#ifndef TENON_TESTING_BUFFER_H_
#define TENON_TESTING_BUFFER_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "tenon/tensor.h"

// The C ABI's opaque buffer.
struct tenon_buffer {
  std::atomic<int64_t> references{1};
  char* data = nullptr;
  uint64_t bytes = 0;            // without the guard
  std::vector<int64_t> dims;     // of the tensor that it was made for
  tenon_buffer* home = nullptr;  // whose memory it is, when this is that memory with other dims; holds a reference
  bool foreign = false;          // the memory is another's (a device's): neither guarded nor freed
};

namespace tenon::testing {

using Dimensions = std::vector<int64_t>;

inline std::atomic<int64_t> live_buffers{0};

inline constexpr uint64_t kGuardBytes = 64;
inline constexpr char kGuardByte = '\x5A';

// 64-byte aligned, uninitialised; the caller has the one reference.
inline tenon_buffer* NewBuffer(uint64_t bytes, Dimensions dims = {}) {
  auto* buffer = new tenon_buffer;
  buffer->data = static_cast<char*>(std::aligned_alloc(64, (bytes + kGuardBytes + 63) / 64 * 64));
  buffer->bytes = bytes;
  buffer->dims = std::move(dims);
  std::memset(buffer->data + bytes, kGuardByte, kGuardBytes);
  ++live_buffers;
  return buffer;
}
// Memory that its owner keeps longer than the buffer lives.
inline tenon_buffer* NewForeignBuffer(void* data, uint64_t bytes, Dimensions dims = {}) {
  auto* buffer = new tenon_buffer;
  buffer->data = static_cast<char*>(data);
  buffer->bytes = bytes;
  buffer->dims = std::move(dims);
  buffer->foreign = true;
  ++live_buffers;
  return buffer;
}

inline tenon_buffer* Retain(tenon_buffer* buffer) {
  ++buffer->references;
  return buffer;
}
inline void Release(tenon_buffer* buffer) {
  if (buffer == nullptr || --buffer->references > 0) return;
  if (buffer->home != nullptr) Release(buffer->home);
  else if (!buffer->foreign) std::free(buffer->data);
  delete buffer;
  --live_buffers;
}
// A reference to the view's buffer, or to the same memory with the view's dims.
inline tenon_buffer* Share(const tenon_tensor_view& view) {
  const Dimensions dims(view.dl.shape, view.dl.shape + view.dl.ndim);
  if (dims == view.buffer->dims) return Retain(view.buffer);
  tenon_buffer* const alias = NewForeignBuffer(view.buffer->data, view.buffer->bytes, dims);
  alias->home = Retain(view.buffer);
  return alias;
}
// Whether it is host memory of the testing host.
inline bool OnHost(const tenon_buffer& buffer) {
  return buffer.home != nullptr ? OnHost(*buffer.home) : !buffer.foreign;
}
// Whether nobody has written behind its end.
inline bool Intact(const tenon_buffer& buffer) {
  if (buffer.home != nullptr) return Intact(*buffer.home);
  const char* const guard = buffer.data + buffer.bytes;
  return buffer.foreign || std::all_of(guard, guard + kGuardBytes, [](char byte) { return byte == kGuardByte; });
}

}  // namespace tenon::testing

#endif  // TENON_TESTING_BUFFER_H_
