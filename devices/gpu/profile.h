// SPDX-License-Identifier: Apache-2.0
// Profile: when the pieces of work of a device's streams ran, by events of the driver around each, while somebody watches.
//
// A piece is what was submitted at once: a kernel's launches, a copy, a fill, a captured graph. Its times are the GPU's, put on the
// host's clock at the moment when somebody began to watch. The latest pieces are kept; what is still running is told later.
// Threads: any; a stream's pieces begin and end in its queue's Turn.
#ifndef TENON_DEVICES_GPU_PROFILE_H_
#define TENON_DEVICES_GPU_PROFILE_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string_view>
#include <vector>

#include "runtime.h"
#include "tenon/ext/draft/profile.h"

namespace tenon::gpu {

class Profile {
 public:
  explicit Profile(Card& card) : card_(card) {}
  // Needs the GPU to be the calling thread's, if it lives.
  ~Profile();
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;

  // Counted. stream: one that nobody uses.
  Outcome Watch(bool on, Stream stream);
  bool is_watched() const { return watchers_.load(std::memory_order_relaxed) > 0; }

  // A piece of work on a stream: begins here, ends with the object. kind: "kernel", "copy", ...; static.
  class Piece {
   public:
    // profile NULL: nothing is noted.
    Piece(Profile* profile, uint64_t queue, Stream stream, tenon_span label, const char* kind);
    ~Piece();
    Piece(const Piece&) = delete;
    Piece& operator=(const Piece&) = delete;

   private:
    Profile* profile_;
    Stream stream_;
    Event begin_ = nullptr;
    tenon_profile_span span_;
  };

  // As tenon_profile.read.
  void Read(uint64_t first, tenon_profile_span* out_spans, uint64_t capacity, uint64_t* out_count, uint64_t* out_next);

 private:
  struct Pending {
    tenon_profile_span span;
    Event begin, end;
  };
  // Both need mutex_.
  Event TakeEvent();
  void Settle();
  uint64_t HostTime(Event event) const;

  Card& card_;
  std::atomic<int> watchers_{0};
  std::mutex mutex_;
  std::vector<Event> spare_;
  Event base_ = nullptr;    // came at base_ns_
  uint64_t base_ns_ = 0;
  std::deque<Pending> pending_;
  std::deque<tenon_profile_span> spans_;
  uint64_t next_ = 0;  // number of the next span
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_PROFILE_H_
