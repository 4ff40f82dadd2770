// SPDX-License-Identifier: Apache-2.0
// The shared memory of one connection: two rings and their words, in a memfd that can neither shrink nor grow.
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

}  // namespace tenon::shm

#endif  // TENON_NET_SHM_SEGMENT_H_
