// SPDX-License-Identifier: Apache-2.0
// Collectives: how the members of a group meet, whatever device they are on.
//
// A member is one execution of a node such as CollectiveReduceV2. Members of one name (group and instance) and one step
// meet in a CollectiveTable; when as many have come as the group has, or one does not fit, all of them are given to who
// came last, who ends them: kernels of the host compute (ops/collective), those of GPUs launch (devices/gpu).
//
// Rules.
// - Rank is the order of the members' devices, then of their nodes' names, numbers in them read as numbers. So results
//   do not depend on who came first.
// - A node that comes again in the same step takes part in the next meeting of that name: its turns meet the other
//   nodes' turns in the order in which they come.
// - All members of a group are of one session and one process, and their kernels of one plugin. (Those of several
//   processes are other nodes by then, and timeout_seconds is watched by others: passes/collectives.)
// - A meeting that failed is remembered for a while, so that who comes late fails with it.
// Threads. A table may be used from any thread. A member belongs to the table from Add() until it is given back, which
// happens once.
#ifndef TENON_SDK_DEVICE_COLLECTIVE_H_
#define TENON_SDK_DEVICE_COLLECTIVE_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/sdk/kernel/kernel.h"
#include "tenon/sdk/kernel/resource.h"
#include "tenon/sdk/outcome.h"

namespace tenon::sdk {

enum class CollectiveKind { kReduce, kGather, kBroadcast };
enum class CollectiveMerge : uint32_t { kAdd, kMultiply, kMinimum, kMaximum };

// Of merge_op and reduction, in either of TensorFlow's spellings.
inline CollectiveMerge MergeOf(std::string_view text) {
  if (text == "Mul" || text == "prod") return CollectiveMerge::kMultiply;
  if (text == "Min" || text == "min") return CollectiveMerge::kMinimum;
  return text == "Max" || text == "max" ? CollectiveMerge::kMaximum : CollectiveMerge::kAdd;
}
// As merge_op has it.
inline const char* NameOf(CollectiveMerge merge) {
  static constexpr const char* kNames[] = {"Add", "Mul", "Min", "Max"};
  return kNames[static_cast<size_t>(merge)];
}

// What one member brings. Who adds members derives from it, and may have CheckBeside(other): whether the two may meet
// besides.
struct CollectiveMember {
  CollectiveKind kind = CollectiveKind::kReduce;
  CollectiveMerge merge = CollectiveMerge::kAdd;
  bool divide = false;  // the result by the number of members
  bool sends = false;   // of a broadcast
  // of a reduction and a gather: each member gets its part of the result, or of what each brings, instead of all
  bool scatters = false;
  int64_t group_size = 1;
  uint32_t dtype = TENON_DT_INVALID;
  std::vector<int64_t> dims;  // of what it brings; of who receives a broadcast: of what it gets
  std::string name;           // of the meeting: "group 1, instance 2"
  std::string node, device;

  std::string Who() const { return Concat("node '", node, "'", device.empty() ? "" : Concat(" on ", device)); }
};

// Whether a comes before b; a run of digits is one number: "tower_9" before "tower_10".
inline bool NaturalLess(std::string_view a, std::string_view b) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto take = [&](std::string_view* text) {  // a number without leading zeros
    size_t end = 0;
    while (end < text->size() && digit((*text)[end])) ++end;
    std::string_view number = text->substr(0, end);
    text->remove_prefix(end);
    while (number.size() > 1 && number.front() == '0') number.remove_prefix(1);
    return number;
  };
  while (!a.empty() && !b.empty()) {
    if (digit(a.front()) && digit(b.front())) {
      const std::string_view x = take(&a), y = take(&b);
      if (x.size() != y.size()) return x.size() < y.size();
      if (x != y) return x < y;
    } else {
      if (a.front() != b.front()) return a.front() < b.front();
      a.remove_prefix(1);
      b.remove_prefix(1);
    }
  }
  return a.size() < b.size();
}
inline bool RanksBefore(const CollectiveMember& a, const CollectiveMember& b) {
  return a.device != b.device ? NaturalLess(a.device, b.device) : NaturalLess(a.node, b.node);
}

// Whether two members may meet: INVALID_ARGUMENT says in what they differ, and names both.
inline Outcome CheckAlike(const CollectiveMember& a, const CollectiveMember& b) {
  const auto differ = [&](const auto& what, const auto& x, const auto& y) {
    return Fault(TENON_INVALID_ARGUMENT, a.name, ": ", a.Who(), " has ", what, " ", x, ", ", b.Who(), " has ", y,
                 "; members of an instance must agree");
  };
  static constexpr const char* kKinds[] = {"a reduction", "a gather", "a broadcast"};
  if (a.kind != b.kind)
    return differ("the kind", kKinds[static_cast<size_t>(a.kind)], kKinds[static_cast<size_t>(b.kind)]);
  if (a.scatters != b.scatters)
    return differ("what it gets", a.scatters ? "its part" : "all", b.scatters ? "its part" : "all");
  if (a.group_size != b.group_size) return differ("group_size", a.group_size, b.group_size);
  if (a.dtype != b.dtype) return differ("dtype", TypeName(a.dtype), TypeName(b.dtype));
  if (a.dims != b.dims) return differ("shape", a.dims, b.dims);
  if (a.merge != b.merge) return differ("the merge", NameOf(a.merge), NameOf(b.merge));
  if (a.divide != b.divide) return differ("final_op", a.divide ? "Div" : "Id", b.divide ? "Div" : "Id");
  if (a.sends && b.sends)
    return Fault(TENON_INVALID_ARGUMENT, a.name, ": ", a.Who(), " and ", b.Who(),
                 " both send; a broadcast has one sender");
  return {};
}

// A member's side of a group that CollectiveInitializeCommunicator names; it lives for a step. Any thread.
class Communicator {
 public:
  Communicator(int64_t group_key, int64_t rank, int64_t size) : group_key_(group_key), rank_(rank), size_(size) {}
  int64_t rank() const { return rank_; }
  int64_t size() const { return size_; }
  // Of the next meeting of these ranks: each member counts for itself, so that its uses meet the others' in their
  // order.
  std::string NextName(const std::string& ranks) {
    const std::lock_guard lock(mutex_);
    return Concat("communicator of group ", group_key_, ", ranks ", ranks, ", use ", ++uses_[ranks]);
  }

 private:
  const int64_t group_key_, rank_, size_;
  std::mutex mutex_;
  std::map<std::string, int64_t> uses_;
};
inline constexpr tenon_span kCommunicatorType = TENON_SPAN("tenon.Communicator/1");

// What a node's attributes and inputs say of its members: CollectiveReduce, CollectiveGather, CollectiveBcastSend,
// CollectiveBcastRecv, those of version 2, CollectiveReduceScatterV2, CollectiveAllToAllV2, CollectiveReduceV3, and
// NcclAllReduce. A field of a kernel, immutable once made. Keys and sizes of version 2 lie in the host's memory.
class CollectiveNode {
 public:
  explicit CollectiveNode(CreateContext& c) {
    const std::string_view op = c.op();
    of_version_3_ = op.ends_with("V3");
    of_version_2_ = op.ends_with("V2") || of_version_3_;
    receives_ = op.starts_with("CollectiveBcastRecv");
    const bool all_to_all = op.find("AllToAll") != op.npos;
    proto_.kind = op.find("Gather") != op.npos || all_to_all ? CollectiveKind::kGather
                  : op.find("Bcast") != op.npos              ? CollectiveKind::kBroadcast
                                                             : CollectiveKind::kReduce;
    proto_.scatters = op.find("Scatter") != op.npos || all_to_all;
    proto_.sends = op.starts_with("CollectiveBcastSend");
    proto_.node = c.name();
    proto_.device = ToText(c.args().node_services->device(c.args().node));
    proto_.dtype = c.Type("T");
    if (op == "NcclAllReduce") {
      proto_.group_size = c.Int("num_devices");
      proto_.merge = MergeOf(c.String("reduction"));
      proto_.name = Concat("NcclAllReduce '", c.String("shared_name"), "'");
    } else {
      if (!of_version_2_) SetName(&proto_, c.Int("group_size"), c.Int("group_key"), c.Int("instance_key"));
    }
    if (proto_.kind == CollectiveKind::kReduce && op != "NcclAllReduce") {
      proto_.merge = MergeOf(c.String(of_version_3_ ? "reduction" : "merge_op"));
      proto_.divide = !of_version_3_ && c.String("final_op") == "Div";
    }
    // Those of version 2 know their names when they run: they share one table.
    const auto handle = [&](std::string_view name, tenon_resource** out_handle) {
      if (c.ok())
        c.Check(c.args().services->resource_handle(c.args().context, {}, ToSpan(name), ToSpan("collective"), 0,
                                                   out_handle));
    };
    handle("collectives", &session_);
    handle_ = session_;
    if (!of_version_2_) handle(Concat("collective ", proto_.name), &handle_);
  }

  bool receives() const { return receives_; }
  // One for each session.
  const void* session() const { return session_; }
  // Fills what this run brings, but for what a derived member has besides. INVALID_ARGUMENT for a group without
  // members, thrown as in kernel.h.
  void Fill(const RunContext& c, CollectiveMember* member) const {
    *member = proto_;
    if (of_version_3_) {
      SetRow(c, member);
    } else if (of_version_2_) {
      const int32_t first = receives_ ? 0 : 1;
      SetName(member, *c.input<int32_t>(first), *c.input<int32_t>(first + 1), *c.input<int32_t>(first + 2));
    }
    const Dims dims = DimsOf(receives_ ? c.output_view(0) : c.input_view(0));
    member->dims.assign(dims.begin(), dims.end());
    if (member->group_size < 1)
      sdk::Fail(TENON_INVALID_ARGUMENT, member->name, ": group_size is ", member->group_size, "; it must be 1 or more");
    if (member->scatters && (dims.empty() || dims[0] % member->group_size != 0))
      sdk::Fail(TENON_INVALID_ARGUMENT, member->name, ": ", member->Who(), " brings a tensor of shape ", dims,
                ", whose rows are no equal parts for ", member->group_size, " members");
  }
  // The session's table, which a plugin makes when it is the first.
  template <class Table>
  std::shared_ptr<Table> TableOf(const RunContext& c) const {
    // Of this library alone: another's table talks to another vendor's library.
    const std::string type = Concat("tenon.CollectiveTable/", reinterpret_cast<uintptr_t>(&MakeTable<Table>));
    std::shared_ptr<Table>* table = nullptr;
    tenon_status* const status = FindOrMake(c, handle_, ToSpan(type), &MakeTable<Table>, &table);
    if (status != nullptr) {
      const Outcome why = TakeStatus(status);
      if (why.code != TENON_INVALID_ARGUMENT) sdk::Fail(why.code, why.message);
      sdk::Fail(TENON_INVALID_ARGUMENT, "members of ", of_version_2_ ? "collectives of one session" : proto_.name,
                " are run by two plugins; put all of them on devices of one plugin, or all on the host");
    }
    return *table;
  }

 private:
  template <class Table>
  static std::unique_ptr<std::shared_ptr<Table>> MakeTable() {
    return std::make_unique<std::shared_ptr<Table>>(std::make_shared<Table>());
  }
  // Of the row of group_assignment in which the communicator's rank stands.
  static void SetRow(const RunContext& c, CollectiveMember* member) {
    Communicator& communicator = ObjectOf<Communicator>(c, c.resource(1), kCommunicatorType);
    const Dims dims = DimsOf(c.input_view(2));
    const int32_t* const ranks = c.input<int32_t>(2);
    const int64_t count = Count(c.input_view(2));
    if (dims.size() != 2)
      sdk::Fail(TENON_INVALID_ARGUMENT, "group_assignment must be [groups, ranks]; its shape is ", dims);
    const int32_t* const found = std::find(ranks, ranks + count, static_cast<int32_t>(communicator.rank()));
    if (found == ranks + count)
      sdk::Fail(TENON_INVALID_ARGUMENT, "rank ", communicator.rank(), " stands in no row of group_assignment");
    if (dims[1] > communicator.size())
      sdk::Fail(TENON_INVALID_ARGUMENT, "group_assignment has rows of ", dims[1],
                " ranks; the communicator's group has ", communicator.size());
    const int64_t row = (found - ranks) / dims[1];
    member->group_size = dims[1];
    member->name =
        communicator.NextName(Concat(std::vector<int64_t>(ranks + row * dims[1], ranks + (row + 1) * dims[1])));
  }
  static void SetName(CollectiveMember* member, int64_t size, int64_t group, int64_t instance) {
    member->group_size = size;
    member->name = Concat("group ", group, ", instance ", instance);
  }

  CollectiveMember proto_;
  // version 3 has no keys among its inputs either
  bool of_version_2_ = false, of_version_3_ = false, receives_ = false;
  tenon_resource *session_ = nullptr, *handle_ = nullptr;
};

// The meetings of a session. Member derives from CollectiveMember.
template <class Member>
class CollectiveTable {
 public:
  using Members = std::vector<std::unique_ptr<Member>>;
  struct Ended {
    Members members;  // to end, in the order of their ranks; none: nothing has come to its end
    Outcome outcome;
  };

  // A member comes, of that step of the session. Gives back all members of its meeting when that has come to its end by
  // this, with the outcome; else none, and the member waits here, without a thread.
  Ended Add(uint64_t step, std::unique_ptr<Member> member) {
    const std::lock_guard lock(mutex_);
    Ended ended;
    if (ended.outcome = FailureOf(step, *member); !ended.outcome.ok()) {
      ended.members.push_back(std::move(member));
      return ended;
    }
    const typename std::list<Meeting>::iterator meeting = FindFor(step, *member);
    for (const auto& other : meeting->members) {
      if (ended.outcome.ok()) ended.outcome = CheckAlike(*other, *member);
      if constexpr (requires { member->CheckBeside(*other); }) {
        if (ended.outcome.ok()) ended.outcome = member->CheckBeside(*other);
      }
    }
    meeting->members.push_back(std::move(member));
    const bool complete = static_cast<int64_t>(meeting->members.size()) == meeting->members.front()->group_size;
    if (complete && ended.outcome.ok()) ended.outcome = CheckSender(*meeting);
    if (!ended.outcome.ok() || complete) ended.members = End(meeting, ended.outcome);
    return ended;
  }

  // Fails the meeting in which a member waits of which is(member) holds. None when it does not wait any more.
  template <class Is>
  Ended Abandon(Is&& is, const Outcome& why) {
    const std::lock_guard lock(mutex_);
    for (auto meeting = meetings_.begin(); meeting != meetings_.end(); ++meeting) {
      for (const auto& each : meeting->members) {
        if (!is(*each)) continue;
        Ended ended;
        ended.outcome = {why.code, Concat(Missing(*meeting), ": ", why.message)};
        ended.members = End(meeting, ended.outcome);
        return ended;
      }
    }
    return {};
  }

 private:
  struct Meeting {
    uint64_t step;
    std::string name;
    Members members;
  };
  struct Failed {
    uint64_t step;
    std::string name;
    Outcome outcome;
  };
  static constexpr size_t kMostFailed = 64, kMostKnown = 4096;  // that are remembered

  Outcome FailureOf(uint64_t step, const Member& member) const {
    for (const Failed& failed : failed_) {
      if (failed.step == step && failed.name == member.name) return failed.outcome;
    }
    return {};
  }
  // The oldest of that name in which the member's node is not yet.
  typename std::list<Meeting>::iterator FindFor(uint64_t step, const Member& member) {
    for (auto meeting = meetings_.begin(); meeting != meetings_.end(); ++meeting) {
      if (meeting->step != step || meeting->name != member.name) continue;
      const bool there = std::any_of(meeting->members.begin(), meeting->members.end(),
                                     [&](const auto& each) { return each->node == member.node; });
      if (!there) return meeting;
    }
    return meetings_.insert(meetings_.end(), Meeting{step, member.name, {}});
  }
  static Outcome CheckSender(const Meeting& meeting) {
    const Member& first = *meeting.members.front();
    if (first.kind != CollectiveKind::kBroadcast) return {};
    for (const auto& each : meeting.members) {
      if (each->sends) return {};
    }
    return Fault(TENON_INVALID_ARGUMENT, first.name, ": a broadcast of ", first.group_size,
                 " members has no sender; one of them must be a CollectiveBcastSend");
  }
  Members End(typename std::list<Meeting>::iterator meeting, const Outcome& outcome) {
    Members members = std::move(meeting->members);
    std::sort(members.begin(), members.end(), [](const auto& a, const auto& b) { return RanksBefore(*a, *b); });
    if (outcome.ok()) {
      if (known_.size() == kMostKnown) known_.clear();  // instances that are numbered anew in every step
      std::vector<std::string>& known = known_[meeting->name];
      known.clear();
      for (const auto& each : members) known.push_back(each->node);
    } else {
      if (failed_.size() == kMostFailed) failed_.pop_front();
      failed_.push_back({meeting->step, meeting->name, outcome});
    }
    meetings_.erase(meeting);
    return members;
  }
  // Who has come and who has not, by name where an earlier step knew.
  std::string Missing(const Meeting& meeting) const {
    const int64_t size = meeting.members.front()->group_size;
    std::string text = Concat(meeting.name, ": ", meeting.members.size(), " of ", size, " members came (");
    for (const auto& each : meeting.members) text += Concat(each == meeting.members.front() ? "" : ", ", each->Who());
    text += Concat("), ", size - static_cast<int64_t>(meeting.members.size()), " are missing");
    const auto known = known_.find(meeting.name);
    if (known == known_.end()) return text;
    const char* before = ": ";
    for (const std::string& node : known->second) {
      const bool came = std::any_of(meeting.members.begin(), meeting.members.end(),
                                    [&](const auto& each) { return each->node == node; });
      if (!came) text += Concat(std::exchange(before, ", "), "'", node, "'");
    }
    return text;
  }

  mutable std::mutex mutex_;  // guards all below
  std::list<Meeting> meetings_;
  std::deque<Failed> failed_;
  std::map<std::string, std::vector<std::string>> known_;  // the nodes of the last meeting of a name
};

}  // namespace tenon::sdk

#endif  // TENON_SDK_DEVICE_COLLECTIVE_H_
