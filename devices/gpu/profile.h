// SPDX-License-Identifier: Apache-2.0
// Profile: when the pieces of work of a device's streams ran, while somebody watches.
//
// A piece is what was submitted at once: a kernel's launches, a copy, a fill, a captured graph. Events of the driver
// around it tell when it is over. Where the vendor has a Tracer, each thing that it told of the piece is a span: a
// graph's kernels are several, all with the graph's label. A piece of which it told nothing (there is no Tracer,
// records were lost, a copy by the host alone) is one span, by its events; so is a piece that still runs when the last
// one stops watching. Times of events are put on the host's clock at the moment when somebody began to watch. The
// latest spans are kept; what is still running is told later. Threads: any; a stream's pieces begin and end in its
// queue's Turn.
#ifndef TENON_DEVICES_GPU_PROFILE_H_
#define TENON_DEVICES_GPU_PROFILE_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime.h"
#include "tenon/ext/draft/profile.h"
#include "tracer.h"

namespace tenon::gpu {

class Profile {
 public:
  // tracer: NULL where there is none.
  Profile(Card& card, std::unique_ptr<Tracer> tracer) : card_(card), tracer_(std::move(tracer)) {}
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
    uint64_t number_ = 0;
    bool traced_ = false;
  };

  // As tenon_profile.read.
  void Read(uint64_t first, tenon_profile_span* out_spans, uint64_t capacity, uint64_t* out_count, uint64_t* out_next);

 private:
  struct Pending {
    tenon_profile_span span;
    Event begin = nullptr, end = nullptr;  // end NULL: it is still being submitted
    std::vector<Tracer::Record> traced;
  };
  // All of these need mutex_.
  Event TakeEvent();
  // An event that the stream gets here; NULL: it does not.
  Event Mark(Stream stream);
  void Settle();
  void AskTracer();
  void Conclude(const Pending& piece, std::vector<tenon_profile_span>* out_spans) const;
  void Drop(std::map<uint64_t, Pending>::iterator piece);
  void StopTracer();
  uint64_t HostTime(Event event) const;

  Card& card_;
  const std::unique_ptr<Tracer> tracer_;
  std::atomic<int> watchers_{0};
  std::mutex mutex_;
  bool traces_ = false;  // tracer_ has started
  std::vector<Event> spare_;
  Event base_ = nullptr;    // came at base_ns_
  uint64_t base_ns_ = 0;
  uint64_t pieces_ = 0;  // that began
  std::map<uint64_t, Pending> pending_;  // by number of the piece
  std::deque<tenon_profile_span> spans_;
  uint64_t next_ = 0;  // number of the next span
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_PROFILE_H_
