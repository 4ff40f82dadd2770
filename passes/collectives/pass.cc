// SPDX-License-Identifier: Apache-2.0
// The package's pass over the graphs of steps, when each node has its device. Collectives whose members stand in
// several tasks become ordinary nodes and edges between those tasks, so that transports, failures, time lines and
// cancellation are those of any value that goes from task to task. Those of one task stay as they are. What has
// timeout_seconds is watched (ops/collective/patience.cc).
//
// Ways of a reduction over N tasks; values of a task's own members are reduced within the task first. All give the same
// bits every time.
//   direct  each task merges one part of N: the others send it theirs, in the order of the ranks, and get the result.
//   Two hops; every task sends and
//           gets 2 (N - 1) / N of the elements. Values of at most kSmallBytes are merged whole, by the first task. The
//           bits are those of one process where no task has several members.
//   ring    each part goes from task to task, each of which merges its own into it, and then round again as it is: 2 (N
//   - 1) hops, each to the neighbour. tree    whole values, merged by pairs up to the first task and sent down again: 2
//   log2 N hops.
// communication_hint "ring", "tree", "direct" choose; all others: direct for up to kManyTasks tasks, beyond that ring,
// and tree for small values.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tenon/sdk/device/collective.h"
#include "tenon/sdk/op/graph_pass.h"
#include "tenon/sdk/package.h"

namespace tenon::passes {
using namespace sdk;

namespace {

constexpr int64_t kSmallBytes = 16 * 1024;
constexpr size_t kManyTasks = 8;
constexpr size_t kMostMembers = 1024;  // of a meeting between tasks, whose nodes grow with the square of them

struct Member : CollectiveMember {
  int64_t id = -1;
  std::string op, task, host;  // host: the device of the task's memory
  std::string hint;
  float timeout = 0;
  std::optional<Output> input;  // none: who receives a broadcast
  Shape shape;                  // of what it brings, or gets, as far as it is known
  int64_t group = 0, instance = 0;
  bool known = false;  // which meeting it comes to, before the step runs
};

std::string TaskOf(const std::string& device) {
  return device.substr(0, std::min(device.size(), device.find("/device:")));
}

// What a node says of its member.
Member MemberOf(PassContext& p, int64_t id) {
  Member m;
  m.id = id;
  m.device = p.DeviceOf(id);
  m.task = TaskOf(m.device);
  m.host = m.task + "/device:CPU:0";
  bool by_inputs = false;
  p.With(id, [&](NodeContext& node) {
    m.node = node.name();
    m.op = node.op();
    m.dtype = node.Type("T");
    const bool receives = m.op.starts_with("CollectiveBcastRecv");
    by_inputs = m.op.ends_with("V2");
    const auto has = [&](std::string_view text) { return m.op.find(text) != std::string::npos; };
    m.kind = has("Gather") || has("AllToAll") ? CollectiveKind::kGather
             : has("Bcast")                   ? CollectiveKind::kBroadcast
                                              : CollectiveKind::kReduce;
    m.scatters = has("ReduceScatter") || has("AllToAll");
    m.sends = m.op.starts_with("CollectiveBcastSend");
    if (!receives) m.input = p.input(id, 0);
    if (m.op == "NcclAllReduce") {
      m.group_size = node.Int("num_devices");
      m.merge = MergeOf(node.String("reduction"));
      m.name = Concat("NcclAllReduce '", node.String("shared_name"), "'");
      return;
    }
    m.timeout = node.Float("timeout_seconds");
    if (m.op.ends_with("V3")) return;
    m.hint = node.String("communication_hint");
    if (m.kind == CollectiveKind::kReduce) {
      m.merge = MergeOf(node.String("merge_op"));
      m.divide = node.String("final_op") == "Div";
    }
    if (by_inputs) return;
    m.group_size = node.Int("group_size");
    m.group = node.Int("group_key");
    m.instance = node.Int("instance_key");
    if (receives) m.shape = node.ShapeAttr("shape");
  });
  if (!p.ok() || m.op.ends_with("V3")) return m;
  if (by_inputs) {
    const int first = m.input.has_value() ? 1 : 0;
    int64_t* const keys[] = {&m.group_size, &m.group, &m.instance};
    for (int k = 0; k < 3; ++k) {
      const auto value = p.Integers(p.input(id, first + k));
      if (!value.has_value() || value->size() != 1) return m;
      *keys[k] = value->front();
    }
    if (!m.input.has_value()) {
      if (const auto dims = p.Integers(p.input(id, 3))) m.shape = Shape(*dims);
    }
  }
  if (m.name.empty()) m.name = Concat("group ", m.group, ", instance ", m.instance);
  if (m.input.has_value()) m.shape = p.shape(*m.input);
  m.known = true;
  return m;
}

// One meeting whose members stand in several tasks.
class Meeting {
 public:
  Meeting(PassContext& p, std::vector<Member> members) : p_(p), members_(std::move(members)) {
    std::sort(members_.begin(), members_.end(), [](const Member& a, const Member& b) { return RanksBefore(a, b); });
    for (size_t i = 0; i < members_.size(); ++i) {
      if (i == 0 || members_[i].task != members_[i - 1].task) tasks_.emplace_back();
      tasks_.back().members.push_back(i);
    }
  }

  void Replace() {
    CheckMembers();
    if (!p_.ok()) return;
    switch (members_[0].kind) {
      case CollectiveKind::kReduce: return members_[0].scatters ? ReduceScatter() : Reduce();
      case CollectiveKind::kGather: return members_[0].scatters ? AllToAll() : Gather();
      case CollectiveKind::kBroadcast: return Broadcast();
    }
  }

 private:
  struct Task {
    std::vector<size_t> members;
    Output value{-1, 0, 0}, result{-1, 0, 0};
  };
  using Attributes = std::vector<Attribute>;

  void CheckMembers() {
    const Member& first = members_[0];
    if (static_cast<int64_t>(members_.size()) != first.group_size) {
      std::string who;
      for (size_t i = 0; i < members_.size() && i < 16; ++i) who += Concat(i == 0 ? "" : ", ", members_[i].Who());
      return p_.Invalid(first.name, ": group_size is ", first.group_size, "; this step has ", members_.size(),
                        " members in ", tasks_.size(), " tasks: ", who, members_.size() > 16 ? ", ..." : "",
                        ". All members of a group are nodes of one step, one meeting for each instance");
    }
    if (members_.size() > kMostMembers)
      return p_.Fail(TENON_RESOURCE_EXHAUSTED, first.name, ": ", members_.size(), " members in ", tasks_.size(),
                     " tasks; between tasks a group has at most ", kMostMembers);
    size_t senders = 0;
    for (const Member& m : members_) {
      Member a = first, b = m;
      if (!a.shape.fully_known() || !b.shape.fully_known()) a.shape = b.shape = Shape();
      a.dims = a.shape.dims();
      b.dims = b.shape.dims();
      a.sends = b.sends = false;
      if (Outcome alike = CheckAlike(a, b); !alike.ok()) return p_.Fail(alike.code, alike.message);
      if (m.sends) ++senders;
      if (m.scatters && m.shape.known_rank() && m.shape.rank() > 0 && m.shape[0] >= 0 && m.shape[0] % m.group_size != 0)
        return p_.Invalid(m.name, ": ", m.Who(), " brings a tensor of shape ", m.shape,
                          ", whose rows are no equal parts for ", m.group_size, " members");
    }
    if (first.kind == CollectiveKind::kBroadcast && senders != 1)
      p_.Invalid(first.name, ": a broadcast of ", first.group_size, " members has ", senders,
                 " senders; one of them must be a CollectiveBcastSend");
  }

  const Member& FirstOf(const Task& task) const { return members_[task.members[0]]; }
  Output On(const Member& m, std::string_view op, const std::vector<Output>& inputs,
            const Attributes& attributes = {}) {
    p_.Begin(m.id, m.host);
    return p_.Op(op, inputs, attributes);
  }
  Output On(size_t task, std::string_view op, const std::vector<Output>& inputs, const Attributes& attributes = {}) {
    return On(FirstOf(tasks_[task]), op, inputs, attributes);
  }
  // Each member's output is its task's result.
  void Give() {
    for (const Task& task : tasks_)
      for (const size_t i : task.members) p_.Replace(members_[i].id, {task.result});
  }

  // ---- Reductions ----

  void Reduce() {
    for (Task& task : tasks_) task.value = task.members.size() == 1 ? *FirstOf(task).input : ReduceWithin(task);
    const Member& first = members_[0];
    const int64_t elements = first.shape.fully_known() ? first.shape.elements() : -1;
    const bool small = elements >= 0 && elements * static_cast<int64_t>(ElementSize(first.dtype)) <= kSmallBytes;
    const bool many = tasks_.size() > kManyTasks;
    if (first.hint == "tree" || (first.hint != "ring" && first.hint != "direct" && many && small)) Tree();
    else if (first.hint == "ring" || (first.hint != "direct" && many)) Ring();
    else Direct(small);
    Give();
  }
  // By the devices' own means where they have them.
  Output ReduceWithin(const Task& task) {
    const auto count = static_cast<int64_t>(task.members.size());
    Output own{-1, 0, 0};
    for (const size_t i : task.members) {
      const Member& m = members_[i];
      p_.Begin(m.id, m.device);
      Attributes attributes = {{"merge_op", NameOf(m.merge)},
                               {"final_op", "Id"},
                               {"group_size", count},
                               {"group_key", m.group},
                               {"instance_key", m.instance},
                               {"subdiv_offsets", tenon_attr_value{TENON_ATTR_INT | TENON_ATTR_LIST, 0, 0, nullptr}}};
      if (m.op == "NcclAllReduce") {
        attributes.clear();
        p_.With(m.id, [&](NodeContext& node) {
          attributes = {
              {"reduction", node.Raw("reduction")}, {"shared_name", node.Raw("shared_name")}, {"num_devices", count}};
        });
      }
      const Output reduced =
          p_.Op(m.op == "NcclAllReduce" ? "NcclAllReduce" : "CollectiveReduce", {*m.input}, attributes);
      if (own.node < 0) own = reduced;
      p_.AddTarget(reduced.node);  // the others' results are not read, but they must come
    }
    return own;
  }
  Output Merge(size_t task, Output own, const std::vector<Output>& others, size_t position, bool last, size_t part = 0,
               size_t parts = 1) {
    const Member& m = members_[0];
    return On(task, "Tenon>CollectiveMerge", Joined(own, others),
              {{"N", others.size()},
               {"part", part},
               {"parts", parts},
               {"position", position},
               {"merge_op", NameOf(m.merge)},
               {"divisor", last && m.divide ? m.group_size : 0}});
  }
  Output PartOf(size_t task, size_t part) {
    return On(task, "Tenon>CollectivePart", {tasks_[task].value}, {{"part", part}, {"parts", tasks_.size()}});
  }
  static std::vector<Output> Joined(Output first, const std::vector<Output>& others) {
    std::vector<Output> all = {first};
    all.insert(all.end(), others.begin(), others.end());
    return all;
  }

  void Direct(bool whole) {
    const size_t count = tasks_.size(), parts = whole ? 1 : count;
    std::vector<Output> merged;
    for (size_t owner = 0; owner < parts; ++owner) {
      std::vector<Output> others;
      for (size_t t = 0; t < count; ++t)
        if (t != owner) others.push_back(whole ? tasks_[t].value : PartOf(t, owner));
      merged.push_back(Merge(owner, tasks_[owner].value, others, owner, true, owner, parts));
    }
    for (size_t t = 0; t < count; ++t)
      tasks_[t].result = whole ? (t == 0 ? merged[0] : On(t, "Identity", {merged[0]}))
                               : On(t, "Tenon>CollectiveJoin", Joined(tasks_[t].value, merged), {{"N", parts}});
  }

  void Ring() {
    const size_t count = tasks_.size();
    std::vector<std::vector<Output>> results(count);  // of each task, by part
    for (auto& each : results) each.resize(count);
    for (size_t part = 0; part < count; ++part) {
      Output value = PartOf((part + 1) % count, part);
      for (size_t hop = 2; hop <= count; ++hop) {
        const size_t t = (part + hop) % count;
        value = Merge(t, tasks_[t].value, {value}, 1, hop == count, part, count);
      }
      results[part][part] = value;
      for (size_t hop = 1; hop < count; ++hop) {
        const size_t t = (part + hop) % count;
        results[t][part] = value = On(t, "Identity", {value});
      }
    }
    for (size_t t = 0; t < count; ++t)
      tasks_[t].result = On(t, "Tenon>CollectiveJoin", Joined(tasks_[t].value, results[t]), {{"N", count}});
  }

  void Tree() {
    const size_t count = tasks_.size();
    std::vector<Output> values;
    for (const Task& task : tasks_) values.push_back(task.value);
    size_t top = 1;
    for (; top < count; top *= 2)
      for (size_t t = 0; t + top < count; t += 2 * top)
        values[t] = Merge(t, values[t], {values[t + top]}, 0, t == 0 && 2 * top >= count);
    tasks_[0].result = values[0];
    for (size_t step = top / 2; step > 0; step /= 2)
      for (size_t t = 0; t + step < count; t += 2 * step)
        tasks_[t + step].result = On(t + step, "Identity", {tasks_[t].result});
  }

  // ---- The others ----

  // Rank r's part of each member's rows, on the member's host.
  std::vector<std::vector<Output>> SplitAll() {
    std::vector<std::vector<Output>> parts;
    const auto count = static_cast<int64_t>(members_.size());
    for (const Member& m : members_) {
      p_.Begin(m.id, m.host);
      const int64_t split = p_.Node("Split", {p_.Number(0), *m.input}, {{"num_split", count}});
      parts.emplace_back();
      for (int32_t r = 0; r < count; ++r) parts.back().push_back({split, r, 0});
    }
    return parts;
  }
  Output ConcatOn(const Member& m, std::vector<Output> rows) {
    p_.Begin(m.id, m.host);
    const auto count = static_cast<int64_t>(rows.size());
    rows.push_back(p_.Number(0));
    return p_.Op("ConcatV2", rows, {{"N", count}});
  }

  void ReduceScatter() {
    const auto parts = SplitAll();
    for (size_t r = 0; r < members_.size(); ++r) {
      const Member& m = members_[r];
      std::vector<Output> others;
      for (size_t k = 0; k < members_.size(); ++k)
        if (k != r) others.push_back(parts[k][r]);
      const Output merged = On(m, "Tenon>CollectiveMerge", Joined(parts[r][r], others),
                               {{"N", others.size()},
                                {"part", 0},
                                {"parts", 1},
                                {"position", r},
                                {"merge_op", NameOf(m.merge)},
                                {"divisor", m.divide ? m.group_size : 0}});
      p_.Replace(m.id, {merged});
    }
  }
  void AllToAll() {
    const auto parts = SplitAll();
    for (size_t r = 0; r < members_.size(); ++r) {
      std::vector<Output> rows;
      for (const auto& each : parts) rows.push_back(each[r]);
      p_.Replace(members_[r].id, {ConcatOn(members_[r], rows)});
    }
  }
  void Gather() {
    std::vector<Output> rows;
    for (const Member& m : members_) rows.push_back(*m.input);
    for (Task& task : tasks_) task.result = ConcatOn(FirstOf(task), rows);
    Give();
  }
  // By a tree: who has it gives it on.
  void Broadcast() {
    const auto sender = std::find_if(members_.begin(), members_.end(), [](const Member& m) { return m.sends; });
    const auto from =
        static_cast<size_t>(std::find_if(tasks_.begin(), tasks_.end(),
                                         [&](const Task& task) { return FirstOf(task).task == sender->task; }) -
                            tasks_.begin());
    const size_t count = tasks_.size();
    tasks_[from].result = *sender->input;
    for (size_t done = 1; done < count; done *= 2)
      for (size_t k = 0; k < done && k + done < count; ++k) {
        Task& next = tasks_[(from + k + done) % count];
        next.result = On((from + k + done) % count, "Identity", {tasks_[(from + k) % count].result});
      }
    Give();
  }

  PassContext& p_;
  std::vector<Member> members_;
  std::vector<Task> tasks_;
};

// Puts the two nodes of patience.cc around it. The host cannot wait for what an accelerator's queue has before the
// member: the queue may wait for the other members by then. So the time of those begins with the step.
void WatchOver(PassContext& p, const Member& m) {
  const bool on_host = m.device.find("/device:CPU:") != std::string::npos;
  p.Begin(on_host ? m.id : -1, m.host);
  std::vector<int64_t> after;
  if (on_host && m.input.has_value()) after.push_back(m.input->node);
  p.AddTarget(p.Node("Tenon>CollectiveBegins", {},
                     {{"collective", m.node},
                      {"what", m.name.empty() ? std::string_view(m.op) : std::string_view(m.name)},
                      {"since", on_host ? "this member came to it" : "the step began"},
                      {"timeout_seconds", m.timeout}},
                     after));
  p.Begin(m.id, m.host);
  p.AddTarget(p.Node("Tenon>CollectiveEnds", {}, {{"collective", m.node}}, {m.id}));
}

void Connect(PassContext& p) {
  std::map<std::string, std::vector<Member>> meetings;
  std::set<std::string> unknown_tasks, tasks;
  std::string unknown;  // who it is
  for (const int64_t id : p.nodes()) {
    Member member = MemberOf(p, id);
    if (!p.ok()) return;
    tasks.insert(member.task);
    if (member.timeout > 0) WatchOver(p, member);
    if (member.known) {
      meetings[member.name].push_back(std::move(member));
    } else {
      unknown_tasks.insert(member.task);
      unknown = Concat("'", member.node, "' (", member.op, ") on ", member.device);
    }
  }
  if (unknown_tasks.size() > 1 || (!unknown_tasks.empty() && tasks.size() > 1)) {
    return p.Fail(TENON_UNIMPLEMENTED, unknown,
                  ": where collectives of a step stand in several tasks, their group_size, group_key and instance_key "
                  "must be constants of the graph, and "
                  "CollectiveReduceV3 is not supported; use CollectiveReduceV2 with constant keys");
  }
  for (const auto& [name, members] : meetings) {
    const bool together =
        std::all_of(members.begin(), members.end(), [&](const Member& m) { return m.task == members[0].task; });
    if (!together) Meeting(p, members).Replace();
    if (!p.ok()) return;
  }
}

constexpr tenon_span kOps[] = {
    TENON_SPAN("CollectiveReduce"),      TENON_SPAN("CollectiveReduceV2"),        TENON_SPAN("CollectiveReduceV3"),
    TENON_SPAN("CollectiveGather"),      TENON_SPAN("CollectiveGatherV2"),        TENON_SPAN("CollectiveBcastSend"),
    TENON_SPAN("CollectiveBcastSendV2"), TENON_SPAN("CollectiveBcastRecv"),       TENON_SPAN("CollectiveBcastRecvV2"),
    TENON_SPAN("CollectiveAllToAllV2"),  TENON_SPAN("CollectiveReduceScatterV2"), TENON_SPAN("NcclAllReduce")};

constexpr tenon_graph_pass kPass = DefinePass<Connect>("collectives", kOps, 0, 0, "known-axes");

}  // namespace
}  // namespace tenon::passes

TENON_PASS_PLUGIN("tenon.passes.collectives", "0.1.0",
                  "Collectives whose members stand in several tasks as nodes and edges between those.",
                  tenon::passes::kPass)
