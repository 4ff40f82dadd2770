// SPDX-License-Identifier: Apache-2.0
// A ring of bytes in shared memory: one process writes records, the other reads them.
//
// Idea: head and tail count bytes since the beginning. The bytes are mapped twice in a row, so that a record never
// wraps. Each side keeps its own counter and takes only the other's from shared memory. Rules: the other side is not
// trusted. What it says of its counter is checked (kBroken); what is in a record may change while it is looked at, so
// that whoever reads copies first and checks the copy.
#ifndef TENON_NET_SHM_RING_H_
#define TENON_NET_SHM_RING_H_

#include <atomic>
#include <cstdint>

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace tenon::shm {

// In shared memory, one for each direction; all zero in the beginning.
struct RingWords {
  alignas(64) std::atomic<uint64_t> head;  // the writer's
  alignas(64) std::atomic<uint64_t> tail;  // the reader's
  alignas(64) std::atomic<uint32_t> writer_waits;   // for room
  alignas(64) std::atomic<uint32_t> writer_closed;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);

// The thread sanitizer does not see that two mappings are one memory, when both sides are in one process.
#if defined(__SANITIZE_THREAD__)
inline char same_process;
inline void Published() { __tsan_release(&same_process); }
inline void Seen() { __tsan_acquire(&same_process); }
#else
inline void Published() {}
inline void Seen() {}
#endif

class RingWriter {
 public:
  static constexpr uint64_t kBroken = UINT64_MAX;
  RingWriter() = default;
  RingWriter(RingWords* words, char* bytes, uint64_t size) : words_(words), bytes_(bytes), size_(size) {}
  // Whether `bytes` fit now. The reader's counter is looked at only when it must be.
  bool Fits(uint64_t bytes) {
    if (size_ - (head_ - tail_) >= bytes) return true;
    const uint64_t tail = words_->tail.load();
    Seen();
    if (head_ - tail > size_) {
      broken_ = true;
      return false;
    }
    tail_ = tail;
    return size_ - (head_ - tail_) >= bytes;
  }
  bool broken() const { return broken_; }
  char* at() const { return bytes_ + head_ % size_; }
  void Publish(uint64_t bytes) {
    Published();
    head_ += bytes;
    words_->head.store(head_);
  }
  // The reader's counter as it is, and as it was last looked at.
  uint64_t tail_now() const { return words_->tail.load(); }
  uint64_t tail_seen() const { return tail_; }
  void WaitForRoom() { words_->writer_waits.store(1); }
  void Close() { words_->writer_closed.store(1); }

 private:
  RingWords* words_ = nullptr;
  char* bytes_ = nullptr;
  uint64_t size_ = 0;
  uint64_t head_ = 0;
  uint64_t tail_ = 0;
  bool broken_ = false;
};

class RingReader {
 public:
  RingReader() = default;
  RingReader(RingWords* words, const char* bytes, uint64_t size) : words_(words), bytes_(bytes), size_(size) {}
  // Bytes that can be read; more than the ring has: the writer is broken.
  uint64_t Available() {
    if (head_ == tail_) {
      head_ = words_->head.load();
      Seen();
    }
    return head_ - tail_;
  }
  uint64_t size() const { return size_; }
  const char* at() const { return bytes_ + tail_ % size_; }
  void Consume(uint64_t bytes) {
    Published();
    tail_ += bytes;
    words_->tail.store(tail_);
  }
  bool TakeWaiter() { return words_->writer_waits.load() != 0 && words_->writer_waits.exchange(0) != 0; }
  bool WriterClosed() const { return words_->writer_closed.load() != 0; }

 private:
  RingWords* words_ = nullptr;
  const char* bytes_ = nullptr;
  uint64_t size_ = 0;
  uint64_t head_ = 0;  // as last seen
  uint64_t tail_ = 0;
};

}  // namespace tenon::shm

#endif  // TENON_NET_SHM_RING_H_
