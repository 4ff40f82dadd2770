// SPDX-License-Identifier: Apache-2.0
// Shared memory, in memfds that can neither shrink nor grow: a connection's two rings and their words, and an
// endpoint's bell.
#ifndef TENON_NET_SHM_SEGMENT_H_
#define TENON_NET_SHM_SEGMENT_H_

#include <memory>
#include <utility>

#include "ring.h"
#include "tenon/sdk/span.h"

namespace tenon::shm {

// A file descriptor that is closed with its owner.
class File {
 public:
  File() = default;
  explicit File(int file) : file_(file) {}
  File(File&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  File& operator=(File&& other) noexcept {
    std::swap(file_, other.file_);
    return *this;
  }
  ~File();
  int get() const { return file_; }
  bool ok() const { return file_ >= 0; }

 private:
  int file_ = -1;
};

class Segment {
 public:
  static constexpr uint64_t kRingBytes = 512 * 1024;

  // A new one; the file is for the other side.
  [[nodiscard]] static tenon_status* Make(std::unique_ptr<Segment>* out_segment, File* out_file);
  // One that the other side made. What is not sealed or has another size is INVALID_ARGUMENT.
  [[nodiscard]] static tenon_status* Open(const File& file, std::unique_ptr<Segment>* out_segment);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  // direction: 0 from the side that made it, 1 to it.
  RingWriter Writer(int direction) const { return {&words_[direction], rings_[direction], kRingBytes}; }
  RingReader Reader(int direction) const { return {&words_[direction], rings_[direction], kRingBytes}; }

 private:
  Segment() = default;
  tenon_status* Map(int file);
  RingWords* words_ = nullptr;  // [2]
  char* rings_[2] = {};
};

// Says whether the one thread that reads for an endpoint sleeps. All its peers see it, so that of those who write at
// once only the first wakes it. A peer that plays with it delays messages, no longer than the reader sleeps at most.
class Bell {
 public:
  [[nodiscard]] static tenon_status* Make(std::unique_ptr<Bell>* out_bell);
  // Another side's. What is not sealed or has another size is INVALID_ARGUMENT.
  [[nodiscard]] static tenon_status* Open(File file, std::unique_ptr<Bell>* out_bell);
  ~Bell();
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;

  const File& file() const { return file_; }
  void SetSleeping(bool sleeping) { sleeps_->store(sleeping ? 1 : 0); }
  // True: it is asleep, and the caller's to wake.
  bool TakeSleeper() { return sleeps_->load() != 0 && sleeps_->exchange(0) != 0; }

 private:
  Bell(std::atomic<uint32_t>* sleeps, File file) : sleeps_(sleeps), file_(std::move(file)) {}
  std::atomic<uint32_t>* const sleeps_;
  const File file_;
};

}  // namespace tenon::shm

#endif  // TENON_NET_SHM_SEGMENT_H_
