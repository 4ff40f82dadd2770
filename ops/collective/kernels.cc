// SPDX-License-Identifier: Apache-2.0
// Kernels of collectives on the host, wherever the members stand. Nobody waits in a thread: who comes last computes for
// all, in the order of the ranks, so the same bits every time; a cancelled step ends who waits.
//
// Invariants. A member's subscription to its step's cancellation begins before the table has it and ends before it is
// freed, so the callback may look at the member. Who is given members back finishes them: outputs, then done, once
// each.
#include "tenon/sdk/device/collective.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>

#include "fold.h"
#include "tenon/sdk/kernel/work.h"

namespace tenon::ops {
using namespace sdk;

namespace {

struct HostMember;
using Table = CollectiveTable<HostMember>;

// Whether a member was cancelled before the table had it.
struct Gate {
  std::mutex mutex;
  bool added = false;
  Outcome cancelled;
};

struct HostMember : CollectiveMember {
  HostMember(RunContext c, Done done) : context(c), done(done) {}
  RunContext context;
  Done done;
  std::shared_ptr<Table> table;
  std::shared_ptr<Gate> gate = std::make_shared<Gate>();
  uint64_t token = 0;
};

using Members = Table::Members;

template <class T>
void MergeAll(const Members& members, const RunContext& c) {
  const auto source = [&](size_t k) { return members[k]->context.input<T>(0); };
  const int64_t divisor = members[0]->divide ? static_cast<int64_t>(members.size()) : 0;
  const int64_t part =
      members[0]->scatters ? Count(members[0]->context.output_view(0)) : 0;  // rank r gets the r-th part alone
  WithMerge(members[0]->merge, [&](const auto& op) {
    c.UninterruptedFor(Count(members[0]->context.input_view(0)), 0.4 * static_cast<double>(members.size()),
                       [&](int64_t begin, int64_t end) {
                         if (members[0]->scatters) {
                           while (begin < end) {
                             const int64_t rank = begin / part, stop = std::min(end, (rank + 1) * part);
                             Fold(members.size(), source, op, divisor, begin, stop,
                                  members[static_cast<size_t>(rank)]->context.output<T>(0) - rank * part);
                             begin = stop;
                           }
                           return;
                         }
                         T* const out = members[0]->context.output<T>(0);
                         Fold(members.size(), source, op, divisor, begin, end, out);
                         for (size_t k = 1; k < members.size(); ++k)
                           std::copy(out + begin, out + end, members[k]->context.output<T>(0) + begin);
                       });
  });
}

void CopyTo(const tenon_tensor_view& to, uint64_t offset, const tenon_tensor_view& from) {
  if (from.byte_size > to.byte_size || offset > to.byte_size - from.byte_size) {
    Fail(TENON_INVALID_ARGUMENT, "a result of ", to.byte_size, " bytes has no room for ", from.byte_size, " bytes at ",
         offset);
  }
  if (from.byte_size > 0) std::memcpy(Data<char>(to) + offset, Data<const char>(from), from.byte_size);
}

// Rank r gets the r-th part of what each brings.
void Exchange(const Members& members) {
  const uint64_t part = members[0]->context.input_view(0).byte_size / members.size();
  for (size_t r = 0; part > 0 && r < members.size(); ++r)
    for (size_t k = 0; k < members.size(); ++k)
      std::memcpy(members[r]->context.output<char>(0) + k * part, members[k]->context.input<char>(0) + r * part, part);
}

// c: of the member that came last, whose thread this is.
void Compute(const Members& members, const RunContext& c) {
  switch (members[0]->kind) {
    case CollectiveKind::kReduce:
      CollectiveElements::Dispatch(members[0]->dtype, [&]<class T>(Tag<T>) { MergeAll<T>(members, c); });
      return;
    case CollectiveKind::kGather:
      if (members[0]->scatters) return Exchange(members);
      for (const auto& to : members) {
        for (size_t k = 0; k < members.size(); ++k) {
          const tenon_tensor_view& from = members[k]->context.input_view(0);
          CopyTo(to->context.output_view(0), k * from.byte_size, from);
        }
      }
      return;
    case CollectiveKind::kBroadcast:
      for (const auto& from : members) {
        if (!from->sends) continue;
        for (const auto& to : members) CopyTo(to->context.output_view(0), 0, from->context.input_view(0));
      }
  }
}

void Finish(Table::Ended ended, const RunContext* last) {
  if (ended.members.empty()) return;
  // Nobody is looked at by a cancellation from here on.
  for (const auto& member : ended.members)
    (void)member->context.services().cancel_unsubscribe(member->context.frame(), member->token);
  Outcome outcome = std::move(ended.outcome);
  if (outcome.ok()) {
    outcome = TakeStatus(Guard([&]() -> tenon_status* {
      try {
        Compute(ended.members, *last);
        return nullptr;
      } catch (...) {
        return CurrentFailure();
      }
    }));
  }
  for (auto& member : ended.members) {
    const Done done = member->done;
    member.reset();  // the frame ends with done
    done(ToStatus(outcome));
  }
}

void OnCancelled(void* argument, tenon_status* why) noexcept {
  auto* const member = static_cast<HostMember*>(argument);  // lives: who finishes it waits for this to return
  const Outcome reason = TakeStatus(why);
  {
    const std::lock_guard lock(member->gate->mutex);
    member->gate->cancelled = reason;
    if (!member->gate->added) return;  // who adds it sees it
  }
  const std::shared_ptr<Table> table = member->table;
  Finish(table->Abandon([member](const HostMember& each) { return &each == member; }, reason), nullptr);
}

struct CollectiveKernel {
  explicit CollectiveKernel(CreateContext& c) : node(c) {}

  void RunAsync(RunContext c, Done done) const {
    auto member = std::make_unique<HostMember>(c, done);
    node.Fill(c, member.get());
    member->table = node.TableOf<Table>(c);
    member->token = c.services().cancel_subscribe(c.frame(), &OnCancelled, member.get());
    if (member->token == 0)
      Fail(TENON_CANCELLED, member->name, ": the step was cancelled before ", member->Who(), " came");
    const std::shared_ptr<Table> table = member->table;
    HostMember* const raw = member.get();
    Table::Ended ended = Add(table, c.services().step_id(c.frame()), std::move(member));
    const bool is_own =
        std::any_of(ended.members.begin(), ended.members.end(), [&](const auto& each) { return each.get() == raw; });
    Finish(std::move(ended), is_own ? &c : nullptr);
  }
  // A cancellation either finds the member in the table, or is found here.
  static Table::Ended Add(const std::shared_ptr<Table>& table, uint64_t step, std::unique_ptr<HostMember> member) {
    const std::shared_ptr<Gate> gate = member->gate;  // the member may end while this returns
    const std::lock_guard lock(gate->mutex);
    if (!gate->cancelled.ok()) {
      Table::Ended ended;
      ended.outcome = gate->cancelled;
      ended.members.push_back(std::move(member));
      return ended;
    }
    gate->added = true;
    return table->Add(step, std::move(member));
  }
  CollectiveNode node;
};

// Which of the groups a device is in.
struct AssignGroup {
  void Run(RunContext c) const {
    const Dims dims = DimsOf(c.input_view(0));
    const int32_t device = *c.input<int32_t>(1), base = *c.input<int32_t>(2);
    const int32_t* const devices = c.input<int32_t>(0);
    const int64_t count = Count(c.input_view(0));
    const int32_t* const found = std::find(devices, devices + count, device);
    if (found == devices + count)
      Fail(TENON_INVALID_ARGUMENT, "Failed to find device_index ", device, " in group_assignment of shape ", dims);
    if (std::find(found + 1, devices + count, device) != devices + count)
      Fail(TENON_INVALID_ARGUMENT, "device_index ", device, " stands twice in group_assignment");
    const auto key =
        static_cast<int32_t>(static_cast<uint32_t>(base) + static_cast<uint32_t>((found - devices) / dims[1]));
    if (key == 0) Fail(TENON_INVALID_ARGUMENT, "Using the reserved group_key = 0 is not allowed: base_key is ", base);
    *c.output<int32_t>(0) = static_cast<int32_t>(dims[1]);
    *c.output<int32_t>(1) = key;
  }
};

// Nobody waits here: members meet when they reduce.
struct InitializeCommunicator {
  void Run(RunContext c) const {
    const int32_t key = *c.input<int32_t>(0), rank = *c.input<int32_t>(1), size = *c.input<int32_t>(2);
    if (size < 1 || rank < 0 || rank >= size) Fail(TENON_INVALID_ARGUMENT, "rank ", rank, " of a group of ", size);
    tenon_resource* handle = nullptr;
    Check(c.services().step_resource(c.frame(), ToSpan("communicator"), &handle));
    (void)ObjectOf<Communicator>(c, handle, kCommunicatorType,
                                 [&] { return std::make_unique<Communicator>(key, rank, size); });
    *c.output<tenon_resource*>(0) = handle;
  }
};

constexpr Traits kCollective = {.flags = TENON_KERNEL_DETERMINISTIC};

}  // namespace

TENON_KERNEL(kCollectiveInitializeCommunicatorKernel) =
    Registration<InitializeCommunicator>("CollectiveInitializeCommunicator", {.flags = TENON_KERNEL_STATEFUL});

TENON_KERNEL(kCollectiveAssignGroupV2Kernel) = Registration<AssignGroup>("CollectiveAssignGroupV2", kCollective);

#define TENON_COLLECTIVE_KERNEL(op) \
  TENON_KERNEL(k##op##Kernel) = Registration<CollectiveKernel>(#op, kCollective);
TENON_COLLECTIVE_KERNEL(CollectiveReduce)
TENON_COLLECTIVE_KERNEL(CollectiveReduceV2)
TENON_COLLECTIVE_KERNEL(CollectiveGather)
TENON_COLLECTIVE_KERNEL(CollectiveGatherV2)
TENON_COLLECTIVE_KERNEL(CollectiveBcastSend)
TENON_COLLECTIVE_KERNEL(CollectiveBcastSendV2)
TENON_COLLECTIVE_KERNEL(CollectiveBcastRecv)
TENON_COLLECTIVE_KERNEL(CollectiveBcastRecvV2)
TENON_COLLECTIVE_KERNEL(CollectiveReduceScatterV2)
TENON_COLLECTIVE_KERNEL(CollectiveAllToAllV2)
TENON_COLLECTIVE_KERNEL(CollectiveReduceV3)
TENON_COLLECTIVE_KERNEL(NcclAllReduce)

}  // namespace tenon::ops
