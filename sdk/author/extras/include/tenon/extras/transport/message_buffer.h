// SPDX-License-Identifier: Apache-2.0
// MessageBuffer: memory for a message of a connection.
#ifndef TENON_SDK_TRANSPORT_MESSAGE_BUFFER_H_
#define TENON_SDK_TRANSPORT_MESSAGE_BUFFER_H_

#include <cstdint>
#include <cstring>
#include <new>
#include <utility>

#include "tenon/ext/draft/transport.h"

namespace tenon::sdk {

// Memory for messages, aligned for callbacks and kept while it is small.
class MessageBuffer {
 public:
  static constexpr uint64_t kKept = uint64_t{1} << 20;
  MessageBuffer() = default;
  MessageBuffer(MessageBuffer&& other) noexcept { *this = std::move(other); }
  MessageBuffer& operator=(MessageBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(capacity_, other.capacity_);
    return *this;
  }
  ~MessageBuffer() { Free(); }
  // Contents are lost. nullptr: no memory.
  char* Reserve(uint64_t bytes) {
    if (bytes > capacity_ || data_ == nullptr) {
      Free();
      const uint64_t capacity = bytes < 256 ? 256 : bytes;
      data_ = static_cast<char*>(::operator new(capacity, std::align_val_t(TENON_TRANSPORT_ALIGNMENT), std::nothrow));
      capacity_ = data_ == nullptr ? 0 : capacity;
    }
    return data_;
  }
  void Rest() {
    if (capacity_ > kKept) Free();
  }
  char* data() const { return data_; }

 private:
  void Free() {
    ::operator delete(data_, std::align_val_t(TENON_TRANSPORT_ALIGNMENT));
    data_ = nullptr;
    capacity_ = 0;
  }
  char* data_ = nullptr;
  uint64_t capacity_ = 0;
};

inline uint64_t TotalOf(const tenon_span* pieces, uint64_t count) {
  uint64_t total = 0;
  for (uint64_t i = 0; i < count; ++i) total += pieces[i].size;
  return total;
}
inline void Gather(const tenon_span* pieces, uint64_t count, char* to) {
  for (uint64_t i = 0; i < count; ++i) {
    if (pieces[i].size != 0) std::memcpy(to, pieces[i].data, pieces[i].size);
    to += pieces[i].size;
  }
}

}  // namespace tenon::sdk

#endif  // TENON_SDK_TRANSPORT_MESSAGE_BUFFER_H_
