// SPDX-License-Identifier: Apache-2.0
// What must hold of a placement. Covers D7, G4 to G7, G9, G12, H1.
#include "core/place/place.h"

#include "core/graph/graph.h"

#include "tests/fakes/place_request.h"

namespace tenon::place::place_test {
namespace {

using fakes::PlaceMaker;
using graph::AttrValue;
using graph::Edge;

constexpr const char* kFast1 = "/device:FAST:1";

bool Says(const Status& status, std::string_view text) { return status.message().find(text) != std::string_view::npos; }

TEST(Place, OneDeviceTakesAll) {
  PlaceMaker g;
  g.devices.resize(1);
  const Edge a = g.Seconds({}, 1), b = g.Seconds({a}, 1);
  const Placement placement = g.Placed();
  EXPECT_EQ(placement.device_of_node[a.node], DeviceId(0));
  EXPECT_EQ(placement.device_of_node[b.node], DeviceId(0));
}

TEST(Place, WithoutDevicesSaysSo) {
  PlaceMaker g;
  g.devices.clear();
  EXPECT_TRUE(Says(g.Error(), "there is no device"));
}

TEST(Place, FollowsKernels) {
  PlaceMaker g;
  g.kernels = {{"Work", {"FAST"}}, {"Stop", {"HOST"}}};
  const Edge a = g.Seconds({}, 1e-6), b = g.Add("Stop", {a});
  const Placement placement = g.Placed();
  EXPECT_NE(placement.device_of_node[a.node], DeviceId(0));
  EXPECT_EQ(placement.device_of_node[b.node], DeviceId(0));
  EXPECT_EQ(placement.choices[b.node].reason, Reason::kOnlyKernel);
}

TEST(Place, WithoutAKernelNamesTheNodeTheReasonAndTheDevices) {
  PlaceMaker g;
  g.kernels = {{"Work", {}}};
  g.Seconds({}, 1, 4, "lonely");
  g.Ask().why_none = [](const graph::Node&) { return "kernels for Work: none for float"; };
  const Status status = g.Error();
  EXPECT_EQ(status.code(), Code::kUnimplemented);
  EXPECT_TRUE(Says(status, "node 'lonely' (Work): no device can run it: kernels for Work: none for float"))
      << status.ToString();
  for (const DeviceInfo& device : g.devices) EXPECT_TRUE(Says(status, device.name));
}

TEST(Place, FollowsPartialDeviceNames) {
  for (const auto& [name, expected] :
       std::map<std::string, int>{{"/device:HOST:0", 0},
                                  {"/host:*", 0},
                                  {kFast1, 2},
                                  {"/job:localhost/fast:1", 2},
                                  {"/device:*:1", 2},
                                  {"/job:localhost/replica:0/task:0/device:FAST:0", 1}}) {
    PlaceMaker g;
    const Edge a = g.Seconds({}, 1);
    g.Pin(a, name);
    const Placement placement = g.Placed();
    EXPECT_EQ(placement.device_of_node[a.node], DeviceId(expected)) << name;
    EXPECT_EQ(placement.choices[a.node].reason, Reason::kDeviceName) << name;
  }
  PlaceMaker g;
  const Edge a = g.Seconds({}, 1), b = g.Seconds({}, 1);
  g.Pin(a, "/fast:*");
  g.request.default_device = kFast1;
  const Placement placement = g.Placed();
  EXPECT_NE(placement.device_of_node[a.node], DeviceId(0));
  EXPECT_EQ(placement.device_of_node[b.node], DeviceId(2)) << "the default is for nodes that say nothing";
}

TEST(Place, ANameThatNoDeviceHasIsAnError) {
  PlaceMaker g;
  const Edge a = g.Seconds({}, 1, 4, "a");
  g.Pin(a, "/device:FAST:7");
  const Status status = g.Error();
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_TRUE(
      Says(status, "node 'a' (Work) wants /device:FAST:7, and no device is named so; there are: /job:localhost"))
      << status.ToString();
}

// This process has one task, of which all is left: the node goes where it would without the name, off the named type
// where that is better.
TEST(Place, ANameThatNoDeviceHasIsANoteWhereItMayGiveWay) {
  for (const int64_t elements : {1, 1000000}) {
    DeviceId chosen[2];
    for (const bool named : {false, true}) {
      PlaceMaker g;
      const Edge x = g.Feed(TENON_DT_FLOAT, {elements}), a = g.Seconds({x}, 1, 4, "a");
      g.request.feeds = {x};
      g.request.fetches = {a};
      if (named) g.Pin(a, "/device:FAST:7");
      g.request.soft_placement = true;
      const Placement placement = g.Placed();
      chosen[named] = placement.device_of_node[a.node];
      ASSERT_EQ(placement.notes.size(), named ? 1u : 0u);
      if (!named) continue;
      EXPECT_NE(placement.notes[0].find("node 'a' (Work) wants /device:FAST:7, and no device is named so"),
                std::string::npos)
          << placement.notes[0];
      EXPECT_NE(placement.choices[a.node].reason, Reason::kDeviceName);
    }
    EXPECT_EQ(chosen[true], chosen[false]);
    EXPECT_EQ(chosen[true] == DeviceId(0), elements > 1) << "what is dear to bring stays on the host";
  }
}

// ---- Several tasks ----

// A cluster of three tasks: /job:ps/replica:0/task:0, and two workers; each with a HOST, the workers with a FAST
// besides.
struct ClusterMaker : PlaceMaker {
  ClusterMaker() {
    devices.clear();
    for (const auto& [task, types] : std::vector<std::pair<std::string, std::vector<const char*>>>{
             {"/job:ps/replica:0/task:0", {"HOST"}},
             {"/job:worker/replica:0/task:0", {"HOST", "FAST"}},
             {"/job:worker/replica:0/task:1", {"HOST", "FAST"}}}) {
      for (const char* type : types) {
        DeviceInfo device =
            fakes::MakeDevice(type, 0, std::string_view(type) == "FAST" ? 10 : 1, std::string_view(type) == "HOST");
        device.name = StrCat(task, "/device:", type, ":0");
        devices.push_back(device);
      }
    }
    request.of_cluster = true;
  }
  // "ps:0 HOST"
  std::string At(const Placement& placement, Edge edge) const {
    const DeviceName name = *DeviceName::Parse(devices[placement.device_of_node[edge.node]].name);
    return StrCat(*name.job, ":", *name.task, " ", *name.type);
  }
  Edge List(std::string_view name) { return Add("Feed", {}, {{"dtype", AttrValue::Type(TENON_DT_VARIANT)}}, name); }
};

TEST(PlaceOnACluster, SoftPlacementKeepsTheTaskAndGivesUpTheType) {
  for (const auto& [wish, at] : std::map<std::string, std::string>{{"/job:worker/task:1/device:GPU:0", "worker:1"},
                                                                   {"/job:worker/replica:0/task:0/fast:3", "worker:0"},
                                                                   {"/job:ps/device:FAST:0", "ps:0"},
                                                                   {"/job:ps/task:0/gpu:*", "ps:0"}}) {
    ClusterMaker g;
    const Edge a = g.Seconds({}, 1, 4, "a");
    g.Pin(a, wish);
    EXPECT_EQ(g.Error().code(), Code::kNotFound) << wish;
    g.request.soft_placement = true;
    const Placement placement = g.Placed();
    EXPECT_EQ(g.At(placement, a).substr(0, at.size()), at) << wish;
    ASSERT_EQ(placement.notes.size(), 1u) << wish;
    EXPECT_NE(placement.notes[0].find("it goes to another device of the task"), std::string::npos)
        << placement.notes[0];
  }
}

TEST(PlaceOnACluster, ATaskThatIsNotThereIsAnErrorThatNamesThoseThatAreEvenSoft) {
  for (const char* wish : {"/job:worker/task:7", "/job:chief", "/job:worker/replica:3/task:0/device:FAST:0"}) {
    for (const bool soft : {false, true}) {
      ClusterMaker g;
      g.Pin(g.Seconds({}, 1, 4, "a"), wish);
      g.request.soft_placement = soft;
      const Status status = g.Error();
      EXPECT_EQ(status.code(), Code::kNotFound);
      EXPECT_TRUE(Says(status, StrCat("node 'a' (Work) wants ", wish,
                                      ", and the cluster has no such task; its tasks: /job:ps/replica:0/task:0, "
                                      "/job:worker/replica:0/task:0, /job:worker/replica:0/task:1")))
          << status.ToString();
    }
  }
}

TEST(PlaceOnACluster, ADeviceWithoutTheKernelIsGivenUpAndItsTaskKept) {
  ClusterMaker g;
  g.kernels = {{"Work", {"HOST"}}};
  const Edge a = g.Seconds({}, 1, 4, "a");
  g.Pin(a, "/job:worker/task:1/device:FAST:0");
  g.request.soft_placement = true;
  const Placement placement = g.Placed();
  EXPECT_EQ(g.At(placement, a), "worker:1 HOST");
  ASSERT_EQ(placement.notes.size(), 1u);
  g.kernels = {{"Work", {"FAST"}}};
  g.Pin(a, "/job:ps/task:0");
  const Status status = g.Error();
  EXPECT_TRUE(Says(status, "node 'a' (Work) wants /job:ps/task:0, but can run on")) << status.ToString();
  EXPECT_TRUE(Says(status, "keeps a node's job and task")) << status.ToString();
}

TEST(PlaceOnACluster, ClassesAgreeOnTheirTaskAndUsersOfStateFollowIt) {
  ClusterMaker g;
  g.request.soft_placement = true;
  const Edge a = g.Seconds({}, 1, 4, "a"), b = g.Seconds({}, 1, 4, "b");
  g.graph.mutable_node(b.node).attrs["_class"] = AttrValue::Strings({"loc:@a"});
  g.Pin(a, "/job:worker/task:0");
  g.Pin(b, "/job:worker/task:1");
  EXPECT_TRUE(Says(g.Error(),
                   "node 'b' (Work) wants /job:worker/task:1, but must be on one device with node 'a' (Work), which "
                   "wants /job:worker/task:0"))
      << g.Error().ToString();
  g.Pin(b, "/job:worker/task:0/device:GPU:0");
  const Edge handle = g.Add("Handle"), look = g.Add("Look", {handle}, {}, "look");
  g.Pin(handle, "/job:ps/task:0");
  g.Pin(look, "/job:worker/task:1");
  const Placement placement = g.Placed();
  EXPECT_EQ(g.At(placement, b).substr(0, 8), "worker:0");
  EXPECT_EQ(g.At(placement, look), "ps:0 HOST")
      << "what reads a handle goes to its state, wherever its own name points";
}

TEST(PlaceOnACluster, VariantsStayInOneTask) {
  for (int chain : {1, 4}) {  // long, so that costs alone would part them
    ClusterMaker g;
    std::vector<Edge> lists, works;
    for (int i = 0; i < chain; ++i) {
      Edge list = g.List(StrCat("made", i));
      for (int k = 0; k < 3; ++k) {
        list = g.Add("Stop", {list}, {}, StrCat("list", i, "_", k));
        works.push_back(
            g.Seconds({g.Add("Convert", {list},
                             {{"SrcT", AttrValue::Type(TENON_DT_VARIANT)}, {"DstT", AttrValue::Type(TENON_DT_FLOAT)}})},
                      1));
        lists.push_back(list);
      }
    }
    g.link = {};
    g.request.soft_placement = true;
    g.Pin(works[0], "/job:worker/task:1");
    g.Pin(works[1], "/job:ps/task:0");
    const Placement placement = g.Placed();
    const auto task = [&](Edge edge) { return g.At(placement, edge).substr(0, g.At(placement, edge).find(' ')); };
    for (const graph::NodeId id : g.graph.ids())
      for (const Edge& edge : g.graph.node(id).inputs)
        if (g.graph.TypeOf(edge) == TENON_DT_VARIANT) {
          EXPECT_EQ(task(edge), task({id, 0})) << g.graph.node(id).name;
        }
  }
}

TEST(PlaceOnACluster, VariantsFollowOneTasksNameAndAreRefusedWhereNamesCutThem) {
  ClusterMaker g;
  g.request.soft_placement = true;
  const Edge made = g.List("made"), middle = g.Add("Stop", {made}, {}, "middle"),
             last = g.Add("Stop", {middle}, {}, "last");
  g.Pin(last, "/job:worker/task:1/fast:0");
  g.Pin(middle, "/job:worker/task:1/host:0");
  const Placement placement = g.Placed();
  EXPECT_EQ(g.At(placement, last), "worker:1 FAST") << "devices of a task may differ";
  EXPECT_EQ(g.At(placement, middle), "worker:1 HOST");
  EXPECT_EQ(g.At(placement, made).substr(0, 8), "worker:1");
  g.Pin(made, "/job:ps/task:0");
  for (const bool soft : {true, false}) {
    g.request.soft_placement = soft;
    const Status status = g.Error();
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_TRUE(Says(status,
                     "node 'middle' (Stop), which can go to /job:worker/replica:0/task:1/device:HOST:0 alone, takes a "
                     "variant of node 'made' (Feed), which can go to "
                     "/job:ps/replica:0/task:0/device:HOST:0 alone"))
        << status.ToString();
    EXPECT_TRUE(Says(status, "Give both nodes one task")) << status.ToString();
  }
}

// A list that may cross goes where names say, and is parted nowhere else.
TEST(PlaceOnACluster, VariantsThatMayCrossArePartedByNamesAlone) {
  for (const bool soft : {true, false}) {
    ClusterMaker g;
    g.request.soft_placement = soft;
    g.request.variants_may_cross = [](const graph::Node& node) {
      return node.op->name == "Feed" || node.op->name == "Stop";
    };
    std::vector<Edge> lists{g.List("made")};
    for (int i = 0; i < 9; ++i) {
      lists.push_back(g.Add("Stop", {lists.back()}, {}, StrCat("list", i)));
      g.Seconds({g.Add("Convert", {lists.back()},
                       {{"SrcT", AttrValue::Type(TENON_DT_VARIANT)}, {"DstT", AttrValue::Type(TENON_DT_FLOAT)}})},
                1);
    }
    const auto parted = [&](const Placement& placement) {
      const auto task = [&](Edge edge) { return g.At(placement, edge).substr(0, g.At(placement, edge).find(' ')); };
      int count = 0;
      for (const graph::NodeId id : g.graph.ids())
        for (const Edge& edge : g.graph.node(id).inputs)
          count += g.graph.TypeOf(edge) == TENON_DT_VARIANT && task(edge) != task({id, 0});
      return count;
    };
    EXPECT_EQ(parted(g.Placed()), 0) << "no name asks for it";
    g.Pin(lists[0], "/job:ps/task:0");
    EXPECT_EQ(parted(g.Placed()), 0);
    g.Pin(lists[9], "/job:worker/task:1/fast:0");
    const Placement placement = g.Placed();
    EXPECT_EQ(parted(placement), 1);
    EXPECT_EQ(g.At(placement, lists[0]), "ps:0 HOST");
    EXPECT_EQ(g.At(placement, lists[9]), "worker:1 FAST");
    g.Pin(lists[4], "/job:worker/task:0");
    EXPECT_EQ(parted(g.Placed()), 2);
    EXPECT_EQ(g.At(g.Placed(), lists[4]).substr(0, 8), "worker:0");
  }
}

// What stays together leaves what may be parted the one place where the names agree; and what a node only passes on is
// what its source is.
TEST(PlaceOnACluster, VariantsThatStayGoBeforeThoseThatMayCross) {
  for (const bool may_cross : {true, false}) {
    ClusterMaker g;
    g.request.variants_may_cross = [may_cross](const graph::Node& node) {
      return node.op->name == "Feed" && (may_cross || node.name != "first");
    };
    const Edge first = g.List("first"), passed = g.Add("Copy", {first}, {}, "passed"),
               dataset = g.Add("Stop", {passed}, {}, "dataset"), last = g.Add("Stop", {dataset}, {}, "last");
    g.Pin(first, "/job:ps/task:0");
    g.Pin(last, "/job:worker/task:1");
    if (!may_cross) {
      EXPECT_TRUE(Says(g.Error(), "takes a variant of node 'dataset' (Stop), which can go to /job:ps"))
          << g.Error().ToString();
      continue;
    }
    const Placement placement = g.Placed();
    EXPECT_EQ(g.At(placement, dataset).substr(0, 8), "worker:1") << "of a dataset all is at its reader";
    EXPECT_EQ(g.At(placement, first), "ps:0 HOST");
  }
}

TEST(PlaceOnACluster, StateWithoutADeviceHasOneHomeWhateverItsClientHas) {
  std::set<std::string> homes;
  for (int client = 0; client < 4; ++client) {
    ClusterMaker g;
    const Edge handle = g.Add("Handle", {}, {}, "v");
    Edge at = g.Add("Look", {handle}, {}, "look");
    // Work that costs would put beside its weights, on other devices.
    if (client == 1) g.Pin(at = g.Seconds({at}, 1, 1 << 20), "/job:worker/task:1/fast:0");
    if (client == 2) for (int i = 0; i < 9; ++i) at = g.Seconds({at}, 100, 1 << 20);
    if (client == 3) g.Pin(at = g.Seconds({at}, 1, 1 << 20), "/job:worker/task:0/fast:0");
    homes.insert(g.At(g.Placed(), handle));
  }
  EXPECT_EQ(homes, std::set<std::string>{"ps:0 HOST"});
  ClusterMaker g;  // of the devices that are left
  const Edge worker = g.Add("Handle", {}, {}, "a"), task = g.Add("Handle", {}, {}, "b"),
             host = g.Add("Handle", {}, {}, "c"), cell = g.Add("Cell", {}, {}, "d");
  g.Add("Look", {worker});
  g.Pin(worker, "/job:worker");
  g.Pin(task, "/job:worker/task:1");
  g.Pin(host, "/job:worker/host:0");
  g.kernels = {{"Cell", {"FAST"}}};
  const Placement placement = g.Placed();
  EXPECT_EQ(g.At(placement, worker), "worker:0 FAST");
  EXPECT_EQ(placement.choices[worker.node].reason, Reason::kState);
  EXPECT_EQ(g.At(placement, task), "worker:1 FAST");
  EXPECT_EQ(g.At(placement, host), "worker:0 HOST");
  EXPECT_EQ(g.At(placement, cell), "worker:0 FAST");
  g.Ask().run_by_host = [](const graph::Node& node, DeviceId) { return node.op->name == "Handle"; };
  EXPECT_EQ(g.At(g.Placed(), worker), "worker:0 HOST") << "what the host runs stands on the host";
}

TEST(Place, AtOneTaskANameOfAnotherIsAnErrorEvenSoft) {
  PlaceMaker g;
  const Edge a = g.Seconds({}, 1, 4, "a");
  g.Pin(a, "/job:other/device:FAST:0");
  g.request.soft_placement = g.request.one_task = true;
  EXPECT_TRUE(Says(g.Error(), "node 'a' (Work) wants /job:other/device:FAST:0")) << g.Error().ToString();
  g.Pin(a, "/job:localhost/device:FAST:7");
  EXPECT_EQ(g.Placed().notes.size(), 1u);
}

TEST(Place, AMalformedNameIsAnErrorEvenSoft) {
  PlaceMaker g;
  g.Pin(g.Seconds({}, 1, 4, "a"), "/device:FAST:x");
  g.request.soft_placement = true;
  const Status status = g.Error();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_TRUE(Says(status, "node 'a' (Work): '/device:FAST:x' is no device name")) << status.ToString();
}

TEST(Place, ADeviceWithoutTheKernelIsAnErrorOrGivenUp) {
  PlaceMaker g;
  g.kernels = {{"Work", {"HOST"}}};
  const Edge a = g.Seconds({}, 1, 4, "a");
  g.Pin(a, "/fast:0");
  const Status status = g.Error();
  EXPECT_TRUE(
      Says(status, "node 'a' (Work) wants /fast:0, but can run on /job:localhost/replica:0/task:0/device:HOST:0 alone"))
      << status.ToString();
  g.request.soft_placement = true;
  const Placement placement = g.Placed();
  EXPECT_EQ(placement.device_of_node[a.node], DeviceId(0));
  EXPECT_EQ(placement.notes.size(), 1u);
}

TEST(Place, ColocatesClassesWhereverTheirLeaderIs) {
  for (const char* prefix : {"loc:@", "loc@"}) {
    PlaceMaker g;
    const Edge a = g.Seconds({}, 1, 4, "a");
    const auto with = [&](Edge edge, const char* leader) {
      g.graph.mutable_node(edge.node).attrs["_class"] = AttrValue::Strings({"other", StrCat(prefix, leader)});
    };
    const Edge b = g.Seconds({}, 1), c = g.Seconds({}, 1), d = g.Seconds({}, 1), e = g.Seconds({}, 1);
    with(b, "a");
    with(c, "a");
    with(d, "pruned");
    with(e, "pruned");
    g.Pin(c, kFast1);
    g.Pin(e, "/host:0");
    const Placement placement = g.Placed();
    for (Edge edge : {a, b, c}) EXPECT_EQ(placement.device_of_node[edge.node], DeviceId(2));
    for (Edge edge : {d, e})
      EXPECT_EQ(placement.device_of_node[edge.node], DeviceId(0)) << "a class without its leader";
    EXPECT_EQ(placement.choices[b.node].reason, Reason::kTogether);
  }
}

TEST(Place, StateAndWhatUsesItAreTogether) {
  PlaceMaker g;
  const Edge cell = g.Add("Cell", {}, {}, "cell"), write = g.Add("Write", {cell, g.Value(1)}, {}, "write");
  const Edge handle = g.Add("Handle", {}, {}, "handle"), look = g.Add("Look", {handle}, {}, "look");
  g.Pin(write, kFast1);
  g.Pin(look, "/host:0");
  const Placement placement = g.Placed();
  EXPECT_EQ(placement.device_of_node[write.node], DeviceId(2));
  EXPECT_EQ(placement.device_of_node[cell.node], DeviceId(2));
  EXPECT_EQ(placement.device_of_node[handle.node], DeviceId(0));
}

TEST(Place, AConflictOfStateNamesBothNodes) {
  PlaceMaker g;
  const Edge cell = g.Add("Cell", {}, {}, "cell"), write = g.Add("Write", {cell, g.Value(1)}, {}, "write");
  g.Pin(cell, "/host:0");
  g.Pin(write, kFast1);
  const Status status = g.Error();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_TRUE(Says(status,
                   "node 'write' (Write) wants /device:FAST:1, but must be on one device with node 'cell' (Cell), "
                   "which wants /host:0 "
                   "(node 'write' (Write) takes a reference that comes from node 'cell' (Cell))"))
      << status.ToString();
  g.request.soft_placement = true;
  const Placement placement = g.Placed();
  EXPECT_EQ(placement.device_of_node[write.node], DeviceId(0)) << "the first name that can hold does";
  EXPECT_NE(placement.notes.at(0).find("its device name is not followed"), std::string::npos);
}

TEST(Place, NodesThatMustBeTogetherNeedACommonDevice) {
  PlaceMaker g;
  g.kernels = {{"Handle", {"HOST"}}, {"Look", {"FAST"}}};
  g.Add("Look", {g.Add("Handle", {}, {}, "handle")}, {}, "look");
  g.request.soft_placement = true;
  const Status status = g.Error();
  EXPECT_EQ(status.code(), Code::kUnimplemented);
  EXPECT_TRUE(Says(status,
                   "node 'look' (Look) must be on one device with node 'handle' (Handle) (node 'look' (Look) takes a "
                   "resource handle that comes "
                   "from node 'handle' (Handle))"))
      << status.ToString();
}

TEST(Place, StateThatIsWhereALaterNodeHasNoKernelSaysSo) {
  PlaceMaker g;
  g.kernels = {{"Cell", {"HOST", "FAST"}}, {"Write", {"HOST"}}};
  const Edge cell = g.Add("Cell", {}, {}, "cell"), write = g.Add("Write", {cell, g.Value(1)}, {}, "write");
  EXPECT_EQ(g.Placed().device_of_node[write.node], DeviceId(0)) << "in the first step that uses it";
  const std::string there = g.devices[DeviceId(2)].name;
  const std::unordered_map<std::string, std::string> homes = {{"cell", there}};
  g.request.homes = &homes;
  g.request.soft_placement = true;
  const Status status = g.Error();
  EXPECT_EQ(status.code(), Code::kUnimplemented);
  EXPECT_TRUE(Says(status, "must be on one device with")) << status.ToString();
  EXPECT_TRUE(Says(status, "; the state of node 'cell' (Cell) stands on " + there +
                               " since an earlier step: name a device for it that has kernels for all that uses it"))
      << status.ToString();
}

TEST(Place, StateThatIsSomewhereStaysThere) {
  PlaceMaker g;
  const Edge cell = g.Add("Cell", {}, {}, "cell"), write = g.Add("Write", {cell, g.Value(1)}, {}, "write");
  g.Pin(write, "/host:0");
  const std::unordered_map<std::string, std::string> homes = {{"cell", g.devices[DeviceId(2)].name}};
  g.request.homes = &homes;
  const Status status = g.Error();
  EXPECT_TRUE(
      Says(status,
           "node 'write' (Write) wants /host:0, but must be on one device with node 'cell' (Cell), which can run on "
           "/job:localhost/replica:0/task:0/device:FAST:1 alone"))
      << status.ToString();
  g.request.soft_placement = true;
  EXPECT_EQ(g.Placed().device_of_node[write.node], DeviceId(2));
}

TEST(Place, AFedReferenceJoinsNothing) {
  PlaceMaker g;
  const Edge handle = g.Add("Handle"), look = g.Add("Look", {handle});
  g.Pin(handle, "/host:0");
  g.Pin(look, kFast1);
  g.request.feeds = {handle};
  EXPECT_EQ(g.Placed().device_of_node[look.node], DeviceId(2));
}

TEST(Place, APartOfALoopVariableIsNeverAlone) {
  PlaceMaker g;
  const auto loop = g.While(
      "loop", {g.Value(0), g.Value(1)},
      [&](const auto& v) {
        return g.Add("Below", {v[0], v[1]}, {}, "below");
      },
      [&](const auto& v) {
        return std::vector{g.Add("Plus", {v[0], v[0]}), g.Seconds({v[1]}, 10)};
      });
  g.Pin(loop.merges[0], "/fast:0");
  const Placement placement = g.Placed();
  const auto of = [&](Edge edge) { return placement.device_of_node[edge.node]; };
  for (size_t i = 0; i < 2; ++i)
    for (Edge part : {loop.enters[i], loop.switches[i], loop.nexts[i], loop.exits[i]})
      EXPECT_EQ(of(part), of(loop.merges[i]));
  EXPECT_EQ(of(loop.merges[0]), DeviceId(1));
  EXPECT_EQ(of(loop.condition), DeviceId(0)) << "the engine reads it on the host";
  EXPECT_EQ(of({g.graph.Find("below"), 0}), DeviceId(0)) << "and so it is computed there";
}

TEST(Place, AGeneratorGoesWithItsOnlyReader) {
  PlaceMaker g;
  const Edge draw = g.Add("Draw"), twice = g.Add("Draw");
  const Edge a = g.Add("Stop", {draw}), b = g.Add("Stop", {twice}), c = g.Add("Stop", {twice});
  g.Pin(a, kFast1);
  g.Pin(b, kFast1);
  g.Pin(c, "/host:0");
  g.link = {};
  const Placement placement = g.Placed();
  EXPECT_EQ(placement.device_of_node[draw.node], DeviceId(2));
  EXPECT_GE(placement.device_of_node[twice.node], DeviceId(0)) << "of two readers one must wait for a transfer";
}

TEST(Place, WhatLooksAtAShapeGoesWithTheTensor) {
  PlaceMaker g;
  const Edge big = g.Seconds({}, 1, 1 << 20), size = g.Add("Measure", {big}), user = g.Add("Stop", {size});
  g.Pin(big, kFast1);
  g.Pin(user, "/host:0");
  EXPECT_EQ(g.Placed().device_of_node[size.node], DeviceId(2));
}

TEST(Place, ConstantsGoWhereTheyAreRead) {
  PlaceMaker g;
  const Edge constant = g.Value(1), a = g.Add("Stop", {constant}), b = g.Add("Stop", {constant});
  g.Pin(a, kFast1);
  g.Pin(b, kFast1);
  const Placement placement = g.Placed();
  EXPECT_EQ(placement.device_of_node[constant.node], DeviceId(2));
  EXPECT_EQ(placement.transfers, 0);
}

TEST(Place, WhatIsForwardedStaysWithItsSourceOrItsReader) {
  PlaceMaker g;
  const Edge a = g.Seconds({}, 1), copy = g.Add("Copy", {g.Add("Copy", {a})}), b = g.Seconds({copy}, 1);
  g.Pin(a, "/host:0");
  g.Pin(b, kFast1);
  EXPECT_EQ(g.Placed().transfers, 1);
}

// Union-find against the obvious way: classes as connected parts.
TEST(Place, RandomClassesMakeTheGroupsThatSearchFinds) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    PlaceMaker g;
    std::vector<Edge> nodes;
    std::vector<std::vector<size_t>> joined(40);
    for (size_t i = 0; i < joined.size(); ++i) nodes.push_back(g.Seconds({}, 1, 4, StrCat("n", i)));
    for (size_t i = 0; i < joined.size(); ++i) {
      if (random() % 2 == 0) continue;
      const size_t k = random() % joined.size();
      g.graph.mutable_node(nodes[i].node).attrs["_class"] = AttrValue::Strings({StrCat("loc:@n", k)});
      joined[i].push_back(k);
      joined[k].push_back(i);
    }
    const fakes::MadeProblem made(g.Ask());
    std::vector<int> part(joined.size(), -1);
    for (size_t i = 0; i < part.size(); ++i) {
      if (part[i] >= 0) continue;
      std::vector<size_t> open = {i};
      while (!open.empty()) {
        const size_t at = open.back();
        open.pop_back();
        if (part[at] >= 0) continue;
        part[at] = static_cast<int>(i);
        open.insert(open.end(), joined[at].begin(), joined[at].end());
      }
    }
    const auto& groups = made.problem.groups.group_of;
    for (size_t i = 0; i < part.size(); ++i)
      for (size_t k = 0; k < i; ++k)
        EXPECT_EQ(part[i] == part[k], groups[Position(i)] == groups[Position(k)]) << round << ": " << i << ", " << k;
  }
}

}  // namespace
}  // namespace tenon::place::place_test
