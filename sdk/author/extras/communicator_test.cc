// SPDX-License-Identifier: Apache-2.0
// The table that tenon/extras/device/communicator.h makes, called as a host calls it: what is wrong is refused before
// the library is called.
#include "tenon/extras/device/communicator.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "tenon/testing/host.h"
#include "tenon/testing/linked.h"

namespace tenon::sdk::communicator_test {
namespace {

using testing::Text;

std::vector<std::string> asked;
std::vector<std::string> Asked() { return std::exchange(asked, {}); }

struct Card : Handled<Card, tenon_device> {
  explicit Card(std::string of) : name_(std::move(of)) {}
  const std::string& name() const { return name_; }

 private:
  const std::string name_;
};
struct Lane : Handled<Lane, tenon_queue> {
  explicit Lane(std::shared_ptr<Card> of) : card_(std::move(of)) {}
  Card& device() const { return *card_; }

 private:
  const std::shared_ptr<Card> card_;
};
struct Point : Handled<Point, tenon_semaphore> {};

// Sums floats at once. Its tokens have four bytes, as many as `token_size` says.
size_t token_size = 4;
struct Library {
  static constexpr tenon_span kDeviceType = TENON_SPAN("NPU");
  struct Driver {
    using Device = Card;
    using Queue = Lane;
    using Timeline = Point;
  };
  using Communicator = int;
  using Seat = CollectiveSeat<Library>;
  using Work = CollectiveWork<Library>;

  static const tenon_device* foreign;
  static bool Owns(tenon_plugin_self*, const tenon_device* device) { return device != foreign; }
  static void MakeToken(tenon_plugin_self*, std::string* out_token) { out_token->assign(token_size, 't'); }
  static Outcome Join(tenon_plugin_self*, std::span<const std::unique_ptr<Seat>> seats, Deadline deadline) {
    asked.push_back(
        Concat("Join ", seats.size(), " of ", seats[0]->size, deadline == Deadline::max() ? " for ever" : ""));
    if (seats[0]->token == "none") return Fault(TENON_UNAVAILABLE, "nobody is there");
    for (const auto& seat : seats) seat->communicator = 10 + seat->rank;
    return {};
  }
  static void Leave(const Seat& seat) {
    asked.push_back(Concat("Leave ", seat.communicator));
    if (seat.communicator == 13) throw std::runtime_error("thirteen");
  }
  static void Abort(const Seat& seat) { asked.push_back(Concat("Abort ", seat.communicator)); }
  static Outcome AllReduce(tenon_plugin_self*, std::span<const Work> works, uint64_t elements, uint32_t dtype,
                           uint32_t) {
    asked.push_back(Concat("AllReduce ", works.size(), " label ", ToText(works.back().submission.label)));
    if (dtype != TENON_DT_FLOAT) return Fault(TENON_UNIMPLEMENTED, "no dtype ", dtype);
    for (uint64_t i = 0; i < elements; ++i) {
      float sum = 0;
      for (const Work& work : works) sum += static_cast<const float*>(work.source)[i];
      for (const Work& work : works) static_cast<float*>(work.target)[i] = sum;
    }
    return {};
  }
  static void AllGather(tenon_plugin_self*, std::span<const Work> works, uint64_t, uint32_t) {
    asked.push_back(Concat("AllGather ", works[0].queue.device().name()));
  }
  static void Broadcast(tenon_plugin_self*, std::span<const Work>, uint64_t, uint32_t, int32_t root) {
    asked.push_back(Concat("Broadcast ", root));
  }
};
const tenon_device* Library::foreign = nullptr;
constexpr const tenon_collective& kTable = kCollectiveTable<Library>;

constexpr tenon_submission kPlain = {TENON_HEAD(tenon_submission), nullptr, 0, nullptr, 0, TENON_SPAN("node")};

class CollectivesTable : public ::testing::Test {
 protected:
  static constexpr int kMembers = 2;

  void SetUp() override {
    for (int i = 0; i < kMembers; ++i) {
      cards[i] = std::make_shared<Card>(Concat("NPU:", i));
      lanes[i] = std::make_shared<Lane>(cards[i]);
      places[i] = {cards[i]->handle(), i, 0};
    }
    ASSERT_EQ(Join(kMembers, kMembers), "");
    std::copy_n(out, kMembers, members);
    for (int i = 0; i < kMembers; ++i) calls[i] = {members[i], lanes[i]->handle(), &sources[i], &targets[i], &kPlain};
    Asked();
  }
  void TearDown() override {
    for (tenon_communicator* member : members) kTable.leave(member);
    for (const auto& card : cards) EXPECT_EQ(card.use_count(), 2);  // this, and its lane's: no seat is left
    EXPECT_EQ(testing::live_statuses, 0);
    Library::foreign = nullptr;
  }
  std::string Join(uint64_t count, int32_t size, tenon_span token = TENON_SPAN("tttt")) {
    std::fill_n(out, kMembers, reinterpret_cast<tenon_communicator*>(this));
    return Text(kTable.join(nullptr, token, places, count, size, UINT64_MAX, out));
  }
  std::string Sum(uint64_t count = kMembers, uint32_t dtype = TENON_DT_FLOAT, uint32_t reduce = TENON_REDUCE_SUM) {
    return Text(kTable.all_reduce(nullptr, calls, count, 1, dtype, reduce));
  }
  std::string Gather() { return Text(kTable.all_gather(nullptr, calls, kMembers, 1, TENON_DT_FLOAT)); }
  std::string Broadcast(int32_t root) {
    return Text(kTable.broadcast(nullptr, calls, kMembers, 1, TENON_DT_FLOAT, root));
  }

  std::shared_ptr<Card> cards[kMembers];
  std::shared_ptr<Lane> lanes[kMembers];
  tenon_collective_place places[kMembers] = {};
  tenon_communicator* members[kMembers] = {};
  tenon_communicator* out[kMembers] = {};
  tenon_collective_call calls[kMembers] = {};
  float sources[kMembers] = {3, 4};
  float targets[kMembers] = {};
};

TEST_F(CollectivesTable, GivesTheLibraryWholeWorks) {
  EXPECT_EQ(kTable.struct_size, sizeof(tenon_collective));
  EXPECT_EQ(ToText(kTable.device_type), "NPU");
  EXPECT_EQ(Sum(), "");
  EXPECT_EQ(targets[0], 7);
  EXPECT_EQ(targets[1], 7);
  EXPECT_EQ(Gather(), "");
  calls[1].source = nullptr;  // which nobody reads
  EXPECT_EQ(Broadcast(0), "");
  EXPECT_EQ(Sum(0), "");  // of nobody
  EXPECT_EQ(Asked(), (std::vector<std::string>{"AllReduce 2 label node", "AllGather NPU:0", "Broadcast 0"}));
  EXPECT_EQ(Sum(1, TENON_DT_INT64), Concat("UNIMPLEMENTED: no dtype ", TENON_DT_INT64));
}

TEST_F(CollectivesTable, RefusesPlacesThatAreNone) {
  EXPECT_EQ(Join(2, 1), "INVALID_ARGUMENT: 2 of 1 members join");
  EXPECT_EQ(Join(0, 2), "INVALID_ARGUMENT: 0 of 2 members join");
  EXPECT_EQ(Join(1, -1), "INVALID_ARGUMENT: 1 of -1 members join");
  const std::string token(257, 't');
  EXPECT_EQ(Join(2, 2, ToSpan(token)), "INVALID_ARGUMENT: a token of 257 bytes; the most is 256");
  places[1].rank = 0;
  EXPECT_EQ(Join(2, 2), "INVALID_ARGUMENT: rank 0 of 2 members comes twice or does not exist");
  places[1].rank = 2;
  EXPECT_EQ(Join(2, 2), "INVALID_ARGUMENT: rank 2 of 2 members comes twice or does not exist");
  places[1] = {places[0].device, 1, 0};
  EXPECT_EQ(Join(2, 2), "INVALID_ARGUMENT: members 0 and 1 are both on NPU:0");
  places[1].device = nullptr;
  EXPECT_EQ(Join(2, 2), "INVALID_ARGUMENT: member 1 has no device");
  Library::foreign = places[0].device;
  EXPECT_EQ(Join(1, 2), "INVALID_ARGUMENT: member 0 is no open device of this plugin");
  EXPECT_EQ(out[0], nullptr);
  EXPECT_EQ(Text(kTable.join(nullptr, TENON_SPAN("tttt"), nullptr, 2, 2, 0, out)),
            "INVALID_ARGUMENT: the list of members is NULL");
  EXPECT_EQ(Text(kTable.join(nullptr, TENON_SPAN("tttt"), places, 2, 2, 0, nullptr)),
            "INVALID_ARGUMENT: out_communicators is NULL");
  EXPECT_EQ(Asked(), std::vector<std::string>());
}

TEST_F(CollectivesTable, AJoinThatFailsLeavesNoMember) {
  EXPECT_EQ(Join(2, 2, TENON_SPAN("none")), "UNAVAILABLE: nobody is there");
  EXPECT_EQ(out[0], nullptr);
  EXPECT_EQ(out[1], nullptr);
  EXPECT_EQ(Asked(), std::vector<std::string>{"Join 2 of 2 for ever"});
}

TEST_F(CollectivesTable, MakesTokensOfTheAbisSize) {
  char token[kMostTokenBytes];
  uint64_t size = 0;
  EXPECT_EQ(Text(kTable.make_token(nullptr, token, &size)), "");
  EXPECT_EQ(std::string(token, size), "tttt");
  EXPECT_EQ(Text(kTable.make_token(nullptr, nullptr, &size)), "INVALID_ARGUMENT: out_token is NULL");
  EXPECT_EQ(Text(kTable.make_token(nullptr, token, nullptr)), "INVALID_ARGUMENT: out_size is NULL");
  token_size = 257;
  EXPECT_EQ(Text(kTable.make_token(nullptr, token, &size)), "INTERNAL: the library has made a token of 257 bytes");
  EXPECT_EQ(size, 0u);
  token_size = 4;
}

TEST_F(CollectivesTable, RefusesCallsThatFitNoMember) {
  EXPECT_EQ(Text(kTable.all_reduce(nullptr, nullptr, 2, 1, TENON_DT_FLOAT, 0)),
            "INVALID_ARGUMENT: the list of calls is NULL");
  EXPECT_EQ(Sum(2, TENON_DT_FLOAT, 4), "INVALID_ARGUMENT: a reduction of number 4; there are 0 (sum) to 3 (max)");
  calls[1].queue = nullptr;
  EXPECT_EQ(Sum(), "INVALID_ARGUMENT: call 1 has no queue");
  calls[1].queue = calls[0].queue;
  EXPECT_EQ(Sum(), "INVALID_ARGUMENT: call 1 has a queue of NPU:0 and a communicator of NPU:1");
  calls[1].communicator = calls[0].communicator;
  EXPECT_EQ(Sum(), "INVALID_ARGUMENT: call 1 is of a member that has one before it");
  calls[1].communicator = nullptr;
  EXPECT_EQ(Sum(), "INVALID_ARGUMENT: call 1 has no communicator");
  ASSERT_EQ(Join(2, 2, TENON_SPAN("uuuu")), "");
  calls[1] = {out[1], lanes[1]->handle(), &sources[1], &targets[1], &kPlain};
  EXPECT_EQ(Sum(), "INVALID_ARGUMENT: call 1 is of another group than those before it");
  for (tenon_communicator* member : out) kTable.abort(member);
  EXPECT_EQ(Asked(), (std::vector<std::string>{"Join 2 of 2 for ever", "Abort 10", "Abort 11"}));
}

TEST_F(CollectivesTable, RefusesMemoryAndRootsThatAreNone) {
  EXPECT_EQ(Broadcast(2), "INVALID_ARGUMENT: root 2 of 2 members");
  EXPECT_EQ(Broadcast(-1), "INVALID_ARGUMENT: root -1 of 2 members");
  calls[1].target = const_cast<void*>(calls[1].source);
  EXPECT_EQ(Gather(), "INVALID_ARGUMENT: NPU:1: source and target of a gather are one");
  calls[1].source = nullptr;
  EXPECT_EQ(Sum(), "INVALID_ARGUMENT: NPU:1: the source of a collective is NULL");
  EXPECT_EQ(Broadcast(1), "INVALID_ARGUMENT: NPU:1: the source of a collective is NULL");
  calls[1].target = nullptr;
  EXPECT_EQ(Broadcast(0), "INVALID_ARGUMENT: NPU:1: the target of a collective is NULL");
  EXPECT_EQ(Asked(), std::vector<std::string>());
  EXPECT_EQ(Text(kTable.all_reduce(nullptr, calls, 2, 0, TENON_DT_FLOAT, 0)), "");  // nothing lies there
}

TEST_F(CollectivesTable, TakesSubmissionsThatAreShorterAndRefusesWhatItDoesNotKnow) {
  calls[1].submission = nullptr;
  EXPECT_EQ(Sum(), "INVALID_ARGUMENT: a submission is missing or has no struct_size");
  tenon_submission submission = kPlain;
  calls[1].submission = &submission;
  submission.must_understand = 1;
  EXPECT_EQ(Sum(), "UNIMPLEMENTED: a submission with a feature that this plugin does not know");
  submission = kPlain;
  submission.signal = 3;
  EXPECT_EQ(Sum(), "INVALID_ARGUMENT: a signal of 3 without a timeline");
  EXPECT_EQ(Asked(), std::vector<std::string>());

  // An older host's, without a label: what stands behind is not read. Under a sanitizer that is seen.
  constexpr size_t kOld = offsetof(tenon_submission, label);
  const std::unique_ptr<tenon_submission, void (*)(void*)> old(static_cast<tenon_submission*>(std::malloc(kOld)),
                                                               std::free);
  std::memcpy(old.get(), &kPlain, kOld);
  old->struct_size = kOld;
  calls[1].submission = old.get();
  EXPECT_EQ(Sum(), "");
  EXPECT_EQ(Asked(), std::vector<std::string>{"AllReduce 2 label "});
}

TEST_F(CollectivesTable, LogsWhatALeaveThrows) {
  kTable.leave(nullptr);
  kTable.abort(nullptr);
  EXPECT_EQ(Asked(), std::vector<std::string>());
  places[0].rank = 3;
  ASSERT_EQ(Join(1, 4), "");
  kTable.leave(out[0]);
  EXPECT_EQ(testing::TakeLog(), std::vector<std::string>{"thirteen"});
}

}  // namespace
}  // namespace tenon::sdk::communicator_test
