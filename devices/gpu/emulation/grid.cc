// SPDX-License-Identifier: Apache-2.0
// The fibers of a block. Invariant: a fiber is resumed only when what it waits for has come; a round in which none can
// be resumed while some wait is a kernel whose threads do not all reach a barrier.
#include "emulation/grid.h"

#include <boost/context/fiber.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "tenon/sdk/span.h"

#if defined(TENON_GPU_WATCHED)
#include <sanitizer/tsan_interface.h>
#endif

namespace tenon::gpu {

constinit thread_local EmulatedThread* emulated_thread = nullptr;

namespace {

// ---- What ThreadSanitizer is told: each thread of a grid is one of its own, ordered with others by barriers alone.
// This file is compiled without it (CMakeLists.txt), since its own books are kept by all of them. ----

#if defined(TENON_GPU_WATCHED)
class Watched {
 public:
  Watched() : fiber_(__tsan_create_fiber(0)) {}
  ~Watched() { __tsan_destroy_fiber(fiber_); }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;
  // What follows belongs to this thread, until Leave().
  void Enter() const { __tsan_switch_to_fiber(fiber_, __tsan_switch_to_fiber_no_sync); }
  static void* Current() { return __tsan_get_current_fiber(); }
  static void Leave(void* to) { __tsan_switch_to_fiber(to, __tsan_switch_to_fiber_no_sync); }

 private:
  void* fiber_;
};
void Before(const void* meeting) { __tsan_release(const_cast<void*>(meeting)); }
void After(const void* meeting) { __tsan_acquire(const_cast<void*>(meeting)); }
constexpr uint32_t kFlatFibers = 61;  // threads of a grid without barriers share so many
#else
class Watched {
 public:
  void Enter() const {}
  static void* Current() { return nullptr; }
  static void Leave(void*) {}
};
void Before(const void*) {}
void After(const void*) {}
#endif

char grid_begins, grid_ends;  // what the host's thread and those of its grid meet at

// ---- Fibers ----

// Deep templates at -O0 with sanitizers want room.
constexpr size_t kStackBytes = 256 * 1024;

#if defined(TENON_GPU_WATCHED)
// Runs threads of a grid without barriers, one after the other, on a stack of its own: on one that others use too, what
// they left there would be told as shared.
class FlatThread {
 public:
  FlatThread()
      : fiber_(std::allocator_arg, boost::context::fixedsize_stack(kStackBytes), [this](boost::context::fiber&& back) {
          while (true) {
            After(&grid_begins);
            body_(params_, at_);
            Before(&grid_ends);
            back = std::move(back).resume();
          }
          return std::move(back);
        }) {}
  void Run(EmulatedKernel::Body body, const void* params, EmulatedThread* at) {
    body_ = body;
    params_ = params;
    at_ = at;
    void* const here = Watched::Current();
    watched_.Enter();
    fiber_ = std::move(fiber_).resume();
    Watched::Leave(here);
  }

 private:
  Watched watched_;
  EmulatedKernel::Body body_ = nullptr;
  const void* params_ = nullptr;
  EmulatedThread* at_ = nullptr;
  boost::context::fiber fiber_;
};
#endif

struct Meeting {
  uint32_t arrived = 0;
  uint64_t generation = 0;
};

struct Member {
  boost::context::fiber fiber, back;
  Watched watched;
  EmulatedThread at;
  const Meeting* waits_for = nullptr;
  uint64_t waits_until = 0;  // the meeting's generation has to be above
  uint64_t shuffles = 0;
  bool done = true;
};

// One block at a time; its fibers and memory serve the next one too.
class Block {
 public:
  std::string Run(const uint32_t blocks[3], uint32_t threads, EmulatedKernel::Body body, const void* params,
                  const uint32_t block[3]);
  void Meet(Meeting* meeting, uint32_t members);
  void Shuffle(void* value, size_t bytes, uint32_t from_lane);
  void MeetBlock() { Meet(&meeting_, threads_); }
  void* Shared(int place, size_t bytes);

 private:
  struct Warp {
    Meeting meeting;
    uint64_t posted[2][32];
  };
  void Start(Member* member);
  void Resume(Member* member);

  std::vector<std::unique_ptr<Member>> members_;
  std::vector<Warp> warps_;
  std::map<int, std::unique_ptr<char[]>> shared_;
  Meeting meeting_;
  Member* current_ = nullptr;
  uint32_t threads_ = 0;
  EmulatedKernel::Body body_ = nullptr;
  const void* params_ = nullptr;
};

void Block::Start(Member* member) {
  member->fiber = boost::context::fiber(std::allocator_arg, boost::context::fixedsize_stack(kStackBytes),
                                        [this, member](boost::context::fiber&& back) {
                                          member->back = std::move(back);
                                          while (true) {
                                            After(&grid_begins);
                                            body_(params_, &member->at);
                                            Before(&grid_ends);
                                            member->done = true;
                                            member->back = std::move(member->back).resume();
                                          }
                                          return std::move(member->back);
                                        });
}

void Block::Resume(Member* member) {
  current_ = member;
  emulated_thread = &member->at;
  void* const here = Watched::Current();
  member->watched.Enter();
  member->fiber = std::move(member->fiber).resume();
  Watched::Leave(here);
}

std::string Block::Run(const uint32_t blocks[3], uint32_t threads, EmulatedKernel::Body body, const void* params,
                       const uint32_t block[3]) {
  threads_ = threads;
  body_ = body;
  params_ = params;
  meeting_ = {};
  warps_.assign((threads + 31) / 32, {});
  shared_.clear();  // a new block sees nothing of the last one's
  for (uint32_t t = 0; t < threads; ++t) {
    if (t == members_.size()) members_.push_back(std::make_unique<Member>());
    Member& member = *members_[t];
    if (!member.fiber) Start(&member);
    member.at = {t, threads, {block[0], block[1], block[2]}, {blocks[0], blocks[1], blocks[2]}};
    member.waits_for = nullptr;
    member.shuffles = 0;
    member.done = false;
  }
  Before(&grid_begins);  // what was made just now is theirs
  for (uint32_t left = threads; left > 0;) {
    bool moved = false;
    for (uint32_t t = 0; t < threads; ++t) {
      Member& member = *members_[t];
      if (member.done || (member.waits_for != nullptr && member.waits_for->generation <= member.waits_until)) continue;
      member.waits_for = nullptr;
      Resume(&member);
      moved = true;
      left -= member.done ? 1 : 0;
    }
    if (moved) continue;
    members_.clear();  // their stacks are unwound
    return sdk::Concat(left, " of ", threads, " threads of a block wait for threads that never come");
  }
  After(&grid_ends);  // the block's shared memory is given back
  return "";
}

void Block::Meet(Meeting* meeting, uint32_t members) {
  Before(meeting);
  if (++meeting->arrived == members) {
    meeting->arrived = 0;
    ++meeting->generation;
  } else {
    Member* const self = current_;
    self->waits_for = meeting;
    self->waits_until = meeting->generation;
    self->back = std::move(self->back).resume();
  }
  After(meeting);
}

void Block::Shuffle(void* value, size_t bytes, uint32_t from_lane) {
  const uint32_t thread = emulated_thread->thread;
  Warp& warp = warps_[thread / 32];
  uint64_t* posted = warp.posted[current_->shuffles++ % 2];
  std::memcpy(&posted[thread % 32], value, bytes);
  Meet(&warp.meeting, std::min<uint32_t>(32, threads_ - thread / 32 * 32));
  std::memcpy(value, &posted[from_lane], bytes);
}

void* Block::Shared(int place, size_t bytes) {
  std::unique_ptr<char[]>& memory = shared_[place];
  if (memory == nullptr) {
    memory = std::make_unique_for_overwrite<char[]>(bytes);
    Before(&memory);
  }
  After(&memory);
  return memory.get();
}

Block& ThisBlock() {
  thread_local Block block;
  return block;
}

std::map<std::string_view, const EmulatedKernel*>& Kernels() {
  static auto* const kernels = new std::map<std::string_view, const EmulatedKernel*>;  // NOLINT: outlives every library
  return *kernels;
}

}  // namespace

EmulatedKernel::EmulatedKernel(const char* name, bool meets, size_t params_bytes, Body body)
    : name_(name), meets_(meets), params_bytes_(params_bytes), body_(body) {
  Kernels().emplace(name, this);
}
const EmulatedKernel* EmulatedKernel::Find(const char* name) {
  const auto found = Kernels().find(name);
  return found == Kernels().end() ? nullptr : found->second;
}

std::string EmulatedKernel::Run(const uint32_t blocks[3], uint32_t threads, const void* params) const {
  uint32_t block[3];
#if defined(TENON_GPU_WATCHED)
  thread_local std::unique_ptr<FlatThread[]> flat = std::make_unique<FlatThread[]>(kFlatFibers);
  uint64_t number = 0;
#endif
  Before(&grid_begins);
  for (block[2] = 0; block[2] < blocks[2]; ++block[2]) {
    for (block[1] = 0; block[1] < blocks[1]; ++block[1]) {
      for (block[0] = 0; block[0] < blocks[0]; ++block[0]) {
        if (meets_) {
          std::string text = ThisBlock().Run(blocks, threads, body_, params, block);
          if (!text.empty()) return sdk::Concat("kernel ", name_, ": ", text);
          continue;
        }
        EmulatedThread at = {0, threads, {block[0], block[1], block[2]}, {blocks[0], blocks[1], blocks[2]}};
        emulated_thread = &at;
        for (at.thread = 0; at.thread < threads; ++at.thread) {
#if defined(TENON_GPU_WATCHED)
          flat[number++ % kFlatFibers].Run(body_, params, &at);
#else
          body_(params, &at);
#endif
        }
      }
    }
  }
  After(&grid_ends);
  return "";
}

int NewSharedPlace() {
  static std::atomic<int> places{0};
  return ++places;
}
void* SharedMemory(int place, size_t bytes) { return ThisBlock().Shared(place, bytes); }
void Barrier() { ThisBlock().MeetBlock(); }
void ShuffleBytes(void* value, size_t bytes, uint32_t from_lane) { ThisBlock().Shuffle(value, bytes, from_lane); }

}  // namespace tenon::gpu
