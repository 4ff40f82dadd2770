// SPDX-License-Identifier: Apache-2.0
// Collectives: the work of complete groups on the GPUs of a System, by the vendor's library where there is one, else by
// copies between the GPUs and a merge on the first.
//
// Each GPU has a lane: a queue for collectives alone. A member's own queue tells the point `ready` behind what the
// member needs, and waits for the point `done`; both are points of timelines of the member. Who comes last gives the
// lanes their work: wait for all `ready`, do it, tell `done`. So a member that comes early leaves its thread at once,
// and its queue goes on when the group has.
//
// Rules.
// - A group has one member on a queue: a queue that waits for the group at one never comes to the next.
// - All lanes get the groups in one order (mutex_), so groups never wait for each other there. Queues on which groups
// come in different
//   orders would: within a step that is found when the second group is complete, and fails it; a step that comes while
//   groups of another one lack members waits until they are complete (Enter).
// - A failure of a member's timeline up to its `ready` is the failure of every `done`, and so of the steps that wait
// for it.
// - A lost GPU: its group's points fail and are released, and its communicators are aborted; who does not use it goes
// on.
// - Timelines live until the streams that wait for them or write them have passed.
// Locks, in this order: mutex_, a queue's, System::mutex. gate_mutex_ stands alone.
#ifndef TENON_DEVICES_GPU_COLLECTIVE_COLLECTIVES_H_
#define TENON_DEVICES_GPU_COLLECTIVE_COLLECTIVES_H_

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "collective/communicators.h"
#include "device.h"
#include "queue.h"
#include "tenon/sdk/device/collective.h"

namespace tenon::gpu {

// What streams need of one member. Shared with the watcher.
struct CollectivePart {
  std::shared_ptr<Queue> queue;    // that waits for the group
  std::shared_ptr<Timeline> step;  // that the member's work belongs to; may be NULL
  std::shared_ptr<Timeline> ready, done;
  uint64_t number = 0;             // of coming to the queue
  std::atomic<bool> ended{false};  // whether the table has given the member back
};

struct GpuMember : sdk::CollectiveMember {
  std::shared_ptr<CollectivePart> part;
  const void* source = nullptr;
  void* target = nullptr;
  int64_t count = 0;  // of elements that it brings

  Outcome CheckBeside(const GpuMember& other) const {
    if (part->queue != other.part->queue) return {};
    return Fault(TENON_INVALID_ARGUMENT, name, ": ", other.Who(), " and ", Who(),
                 " are on one GPU; a group has one member on each");
  }
};

// One member of a complete group, and the lane of its GPU.
struct CollectivePlace {
  const GpuMember* member;
  std::shared_ptr<Queue> lane;

  Device& device() const { return lane->device(); }
  const std::shared_ptr<CollectivePart>& part() const { return member->part; }
};
using CollectivePlaces = std::vector<CollectivePlace>;  // by rank

class Collectives {
 public:
  using Table = sdk::CollectiveTable<GpuMember>;
  using Members = Table::Members;
  using StepKey = std::pair<const void*, uint64_t>;  // of a session, its step

  explicit Collectives(std::string library) : library_(std::move(library)) {}

  // Comes in with a member of the step; waits while groups of another step lack members, until is_cancelled().
  Outcome Enter(const StepKey& step, const std::function<bool()>& is_cancelled);
  // So many members of the owner wait no more.
  void Leave(size_t members);

  // Gives the queue the member's two points.
  Outcome Begin(const std::shared_ptr<Queue>& queue, const tenon_frame& frame, GpuMember* member);
  // Fails the member's meeting when its step or its GPU fails before the group is complete.
  void Watch(const std::shared_ptr<Table>& table, const std::shared_ptr<CollectivePart>& part);
  // Ends what the table gave back: work for the lanes, or a failure for all. The failure is the answer.
  Outcome End(Table::Ended ended);
  // Before a device is gone.
  void Forget(const Device& device);

  // The library. Needs mutex().
  std::mutex& mutex() { return mutex_; }
  CommunicatorLibrary& library() { return library_; }

 private:
  using Group = std::vector<Communicator>;  // by rank
  struct Launched;

  // out_given: whether lanes have work of the group, also when it fails; then its points are released when they have
  // passed.
  Outcome Launch(const Members& members, bool* out_given);
  static void Release(const Launched& launched, const Outcome& why);
  Outcome CheckOrder(const Launched& group);
  Outcome LaneOf(Device& device, std::shared_ptr<Queue>* out_lane);
  Outcome ChooseLibrary(const Members& members, bool* out_chosen);
  Outcome JoinGroup(const CollectivePlaces& places, const std::vector<uint32_t>& devices);
  Outcome ByLibrary(const CollectivePlaces& places, const Group& group);
  void WatchLaunched(const std::shared_ptr<Launched>& launched);
  void Abort(const std::vector<uint32_t>& devices);

  std::mutex gate_mutex_;  // guards the three below
  std::condition_variable gate_opened_;
  StepKey owner_{};
  size_t open_ = 0;  // members that wait

  std::mutex mutex_;  // guards all below, and the order in which lanes get groups
  CommunicatorLibrary library_;
  bool told_ = false;  // that there is no library
  std::map<uint32_t, std::shared_ptr<Queue>> lanes_;  // by device
  std::map<std::vector<uint32_t>, Group> groups_;     // by devices in the order of ranks
  std::vector<std::weak_ptr<Launched>> launched_;     // perhaps not done yet
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_COLLECTIVE_COLLECTIVES_H_
