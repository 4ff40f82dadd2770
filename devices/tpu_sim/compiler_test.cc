// SPDX-License-Identifier: Apache-2.0
// The compiler through its table: what it claims of small graphs, and that a region gives the kernels' numbers. Covers
// N8, Q2.
#include <random>
#include <set>

#include "tenon/ext/draft/compile.h"
#include "tests/device/tested.h"

namespace tenon::device_test::compiler_test {
namespace {

struct Source {
  int64_t node;
  int32_t index = 0;
};
// A node of the fake graph: its outputs' dtypes and shapes are given.
struct GraphNode {
  tenon_node node;
  std::vector<Source> inputs;
  std::vector<int64_t> controls;
  std::vector<Tensor> outputs;
};

}  // namespace
}  // namespace tenon::device_test::compiler_test

struct tenon_graph {
  std::vector<tenon::device_test::compiler_test::GraphNode> nodes;
};

// What claim() says.
struct tenon_claim_context {
  std::vector<std::vector<int64_t>> claims;
  std::map<int64_t, std::pair<uint32_t, std::string>> refused;
};

// Views of edges, with the values of constants.
struct tenon_compile_context {
  std::map<std::pair<int64_t, int32_t>, tenon_tensor_view> views;
};

namespace tenon::device_test::compiler_test {
namespace {

class Program {
 public:
  // Gives the node's number. arguments: where those that stay on the host are.
  int64_t Add(const std::string& op, std::vector<Source> inputs, std::vector<Tensor> outputs,
              Attributes attributes = {}, decltype(Node::arguments) arguments = {},
              std::vector<int64_t> controls = {}) {
    GraphNode n;
    n.node.op = n.node.name = op;
    n.node.attributes = std::move(attributes);
    for (const Source& source : inputs) {
      n.node.input_types.push_back(
          graph.nodes[static_cast<size_t>(source.node)].outputs[static_cast<size_t>(source.index)].dtype);
    }
    for (const Tensor& value : outputs) n.node.output_types.push_back(value.dtype);
    if (n.node.attributes.count("T") == 0)
      n.node.attributes["T"] = Type{n.node.input_types.empty() ? TENON_DT_FLOAT : n.node.input_types[0]};
    n.inputs = std::move(inputs);
    n.outputs = std::move(outputs);
    n.controls = std::move(controls);
    n.node.arguments = std::move(arguments);
    graph.nodes.push_back(std::move(n));
    return static_cast<int64_t>(graph.nodes.size()) - 1;
  }
  int64_t Input(Tensor value) { return Add("Placeholder", {}, {std::move(value)}); }
  int64_t Const(Tensor value) { return Add("Const", {}, {std::move(value)}); }
  int64_t Float(const char* op, std::vector<Source> inputs, Dimensions dims, Attributes attributes = {}) {
    return Add(op, std::move(inputs), {{TENON_DT_FLOAT, std::move(dims)}}, std::move(attributes));
  }

  tenon_graph_cursor Cursor() const {
    tenon_graph_cursor c = {};
    c.struct_size = sizeof c;
    c.graph = &graph;
    c.node_services = NodeServices();
    c.node_count = [](const tenon_graph* g) { return static_cast<int64_t>(g->nodes.size()); };
    c.node = [](const tenon_graph* g, int64_t id) -> const tenon_node* {
      return &g->nodes[static_cast<size_t>(id)].node;
    };
    c.input = [](const tenon_graph* g, int64_t id, int32_t i, tenon_output* out) -> tenon_status* {
      const Source& source = g->nodes[static_cast<size_t>(id)].inputs[static_cast<size_t>(i)];
      *out = {source.node, source.index, 0};
      return nullptr;
    };
    c.control_input_count = [](const tenon_graph* g, int64_t id) {
      return static_cast<int32_t>(g->nodes[static_cast<size_t>(id)].controls.size());
    };
    c.control_input = [](const tenon_graph* g, int64_t id, int32_t i, int64_t* out) -> tenon_status* {
      *out = g->nodes[static_cast<size_t>(id)].controls[static_cast<size_t>(i)];
      return nullptr;
    };
    return c;
  }

  tenon_graph graph;
};

const tenon_compiler& Compiler() { return *Tested().Capability<tenon_compiler>(TENON_CAPABILITY_COMPILER); }

tenon_claim_context Claim(const Program& program) {
  tenon_claim_context context;
  tenon_claim_sink sink = {};
  sink.struct_size = sizeof sink;
  sink.context = &context;
  sink.claim = [](tenon_claim_context* c, const int64_t* nodes, uint64_t count) -> tenon_status* {
    c->claims.emplace_back(nodes, nodes + count);
    return nullptr;
  };
  sink.refuse = [](tenon_claim_context* c, int64_t node, uint32_t reason, tenon_span text) -> tenon_status* {
    EXPECT_TRUE(c->refused.emplace(node, std::make_pair(reason, std::string(text.data, text.size))).second)
        << "refused twice";
    return nullptr;
  };
  std::vector<int64_t> all;
  for (size_t id = 0; id < program.graph.nodes.size(); ++id) {
    const std::string& op = program.graph.nodes[id].node.op;
    if (op != "Placeholder" && op != "Const") all.push_back(static_cast<int64_t>(id));
  }
  const tenon_graph_cursor cursor = program.Cursor();
  EXPECT_EQ(Text(Compiler().claim(nullptr, &cursor, all.data(), all.size(), nullptr, &sink)), "");
  std::set<int64_t> once;
  for (const auto& claim : context.claims) {
    for (int64_t id : claim) EXPECT_TRUE(once.insert(id).second && context.refused.count(id) == 0) << id;
  }
  EXPECT_EQ(once.size() + context.refused.size(), all.size());  // an answer for every node
  return context;
}

// ---- Claims ----

TEST(Claims, AreConnectedNodesWithKernels) {
  Program p;
  const int64_t x = p.Input(RandomFloatsOf({4, 3})), w = p.Input(RandomFloatsOf({3, 5})),
                b = p.Input(RandomFloatsOf({5}));
  const int64_t product = p.Float("MatMul", {{x}, {w}}, {4, 5}, {{"transpose_a", false}, {"transpose_b", false}});
  const int64_t sum = p.Float("BiasAdd", {{product}, {b}}, {4, 5});
  const int64_t relu = p.Float("Relu", {{sum}}, {4, 5});
  const int64_t drawn = p.Add("RandomUniform", {{x}}, {{TENON_DT_FLOAT, {4, 5}}});
  const int64_t far = p.Float("Tanh", {{drawn}}, {4, 5});
  const auto found = Claim(p);
  ASSERT_EQ(found.claims.size(), 1u);
  EXPECT_EQ(found.claims[0], (std::vector<int64_t>{product, sum, relu}));
  EXPECT_EQ(found.refused.at(drawn).first, TENON_REFUSE_OP);
  EXPECT_EQ(found.refused.at(drawn).second,
            "RandomUniform is not compiled: it keeps state, moves control, or has no TPU kernel");
  EXPECT_EQ(found.refused.at(far).first, TENON_REFUSE_COST);
  EXPECT_EQ(found.refused.at(far).second, "it stands alone: nothing is saved");
}

TEST(Claims, SayWhichTypeOrArgumentIsTheMatter) {
  Program p;
  const int64_t x = p.Input(RandomFloatsOf({4, 3}));
  const int64_t z = p.Input({TENON_DT_HALF, {2}});
  const int64_t axes = p.Input(Ints({0})), fixed = p.Const(Ints({0}));
  const decltype(Node::arguments) ranges = {{"reduction_indices", {1, 1}}};
  const Attributes types = {{"T", Type{TENON_DT_FLOAT}}, {"Tidx", Type{TENON_DT_INT32}}};
  const int64_t half = p.Add("Neg", {{z}}, {{TENON_DT_HALF, {2}}});
  const int64_t open = p.Add("Sum", {{x}, {axes}}, {{TENON_DT_FLOAT, {3}}}, types, ranges);
  const int64_t known = p.Add("Sum", {{x}, {fixed}}, {{TENON_DT_FLOAT, {3}}}, types, ranges);
  const int64_t next = p.Float("Neg", {{known}}, {3});
  const auto found = Claim(p);
  EXPECT_EQ(found.refused.at(half), std::make_pair(TENON_REFUSE_DTYPE, std::string("the TPU has no half for Neg")));
  EXPECT_EQ(
      found.refused.at(open),
      std::make_pair(TENON_REFUSE_SHAPE, std::string("its argument reduction_indices is known only when it runs")));
  ASSERT_EQ(found.claims.size(), 1u);
  EXPECT_EQ(found.claims[0], (std::vector<int64_t>{known, next}));
}

// Whether the claims, each as one node, and the other nodes depend on each other without a circle.
bool Acyclic(const Program& p, const std::vector<std::vector<int64_t>>& claims) {
  const size_t n = p.graph.nodes.size();
  std::vector<size_t> group(n);
  for (size_t i = 0; i < n; ++i) group[i] = i;
  for (const auto& claim : claims) {
    for (int64_t id : claim) group[static_cast<size_t>(id)] = static_cast<size_t>(claim[0]);
  }
  std::map<size_t, std::set<size_t>> before;
  for (size_t i = 0; i < n; ++i) {
    before[group[i]];
    const auto add = [&](int64_t source) {
      if (group[static_cast<size_t>(source)] != group[i]) before[group[i]].insert(group[static_cast<size_t>(source)]);
    };
    for (const Source& source : p.graph.nodes[i].inputs) add(source.node);
    for (int64_t control : p.graph.nodes[i].controls) add(control);
  }
  while (!before.empty()) {
    const auto ready = std::find_if(before.begin(), before.end(), [](const auto& each) { return each.second.empty(); });
    if (ready == before.end()) return false;
    const size_t done = ready->first;
    before.erase(ready);
    for (auto& each : before) each.second.erase(done);
  }
  return true;
}

TEST(Claims, DoNotReachAroundWhatIsNotTheirs) {
  Program p;
  const int64_t x = p.Input(RandomFloatsOf({3}));
  const int64_t a = p.Float("Neg", {{x}}, {3});
  const int64_t b = p.Float("Exp", {{a}}, {3});
  const int64_t outside = p.Add("RandomUniform", {{b}}, {{TENON_DT_FLOAT, {3}}});
  const int64_t c = p.Float("AddV2", {{a}, {outside}}, {3});
  const int64_t d = p.Float("Tanh", {{c}}, {3});
  const auto found = Claim(p);
  ASSERT_EQ(found.claims.size(), 2u);
  EXPECT_EQ(found.claims[0], (std::vector<int64_t>{a, b}));
  EXPECT_EQ(found.claims[1], (std::vector<int64_t>{c, d}));
}

TEST(Claims, OfRandomGraphsNeverDependOnEachOtherInACircle) {
  std::mt19937 random(11);
  size_t claimed = 0;
  for (int n = 0; n < 500; ++n) {
    Program p;
    p.Input(RandomFloatsOf({3}));
    for (int64_t id = 1; id < 30; ++id) {
      const Source a = {static_cast<int64_t>(random() % static_cast<uint64_t>(id))};
      const Source b = {static_cast<int64_t>(id - 1 - random() % std::min<uint64_t>(4, static_cast<uint64_t>(id)))};
      std::vector<int64_t> controls;
      if (random() % 5 == 0) controls.push_back(static_cast<int64_t>(random() % static_cast<uint64_t>(id)));
      const char* op = random() % 4 == 0 ? "RandomUniform" : "AddV2";
      p.Add(op, {a, b}, {{TENON_DT_FLOAT, {3}}}, {}, {}, controls);
    }
    const auto found = Claim(p);
    EXPECT_TRUE(Acyclic(p, found.claims)) << n;
    for (const auto& claim : found.claims) claimed += claim.size();
  }
  EXPECT_GT(claimed, 3000u);  // it is not by refusing that there is no circle
}

TEST(Claims, HoldNodesThatAreDeadTogether) {
  Program p;
  const int64_t x = p.Input(RandomFloatsOf({3})), question = p.Input(Bools({}, {1}));
  const int64_t always = p.Float("Neg", {{x}}, {3});
  const int64_t alone = p.Float("Exp", {{always}}, {3});
  const int64_t branch = p.Add("Switch", {{alone}, {question}}, {{TENON_DT_FLOAT, {3}}, {TENON_DT_FLOAT, {3}}});
  const int64_t if_not = p.Float("AddV2", {{branch, 0}, {always}}, {3});
  const int64_t more = p.Float("Tanh", {{if_not}}, {3});
  const int64_t if_so = p.Float("Mul", {{branch, 1}, {always}}, {3});
  const int64_t square = p.Float("Square", {{if_so}}, {3});
  const auto found = Claim(p);
  EXPECT_EQ(found.claims, (std::vector<std::vector<int64_t>>{{always, alone}, {if_not, more}, {if_so, square}}));
}

// ---- Regions ----

// Runs the claim's nodes as one executable and gives the named edges.
class Region {
 public:
  Region(Bench& bench, const Program& program, std::vector<int64_t> nodes, std::vector<Source> outputs)
      : bench_(bench), program_(program), nodes_(std::move(nodes)), outputs_(std::move(outputs)) {
    const std::set<int64_t> inside(nodes_.begin(), nodes_.end());
    for (int64_t id : nodes_) {
      for (const Source& source : program.graph.nodes[static_cast<size_t>(id)].inputs) {
        const bool known = std::any_of(inputs_.begin(), inputs_.end(), [&](const tenon_output& o) {
          return o.node == source.node && o.index == source.index;
        });
        if (inside.count(source.node) == 0 && !known) inputs_.push_back({source.node, source.index, 0});
      }
    }
    for (size_t id = 0; id < program.graph.nodes.size(); ++id) {
      const GraphNode& n = program.graph.nodes[id];
      for (size_t k = 0; k < n.outputs.size(); ++k) {
        Tensor& value = const_cast<Tensor&>(n.outputs[k]);
        auto view = ViewOf(value.dtype, value.dims, n.node.op == "Const" ? value.bytes.data() : nullptr);
        context_.views[{static_cast<int64_t>(id), static_cast<int32_t>(k)}] = view;
      }
    }
    for (const Source& output : outputs_) named_.push_back({output.node, output.index, 0});
    cursor_ = program.Cursor();
    tenon_compile_args args = {};
    args.struct_size = sizeof args;
    args.cursor = &cursor_;
    args.nodes = nodes_.data();
    args.node_count = nodes_.size();
    args.inputs = inputs_.data();
    args.input_count = inputs_.size();
    args.outputs = named_.data();
    args.output_count = named_.size();
    args.device = bench.device.device;
    args.context = &context_;
    args.edge = [](tenon_compile_context* c, tenon_output output, const tenon_tensor_view** out) -> tenon_status* {
      *out = &c->views.at({output.node, output.index});
      return nullptr;
    };
    text = Text(Compiler().compile(nullptr, &args, &executable_));
    workspace_bytes = args.out_workspace_bytes;
  }
  ~Region() {
    if (executable_ != nullptr) Compiler().destroy(executable_);
  }

  // values: of the placeholders and constants, by node. Gives the outputs, or the failure.
  std::string Run(const std::map<int64_t, Tensor>& values, std::vector<Tensor>* out) {
    std::vector<tenon_tensor_view> views;
    std::vector<Tensor> kept;
    for (const tenon_output& input : inputs_) {
      kept.push_back(values.at(input.node));
      Tensor& value = kept.back();
      void* memory = value.bytes.empty() ? nullptr : bench_.device.Memory(value.bytes.size());
      if (memory != nullptr) bench_.device.UploadBytes(bench_.queue, value.bytes.data(), memory, value.bytes.size());
      views.push_back(ViewOf(value.dtype, value.dims, memory));
    }
    kept.reserve(inputs_.size() + outputs_.size());
    for (const Source& output : outputs_) {
      kept.push_back(program_.graph.nodes[static_cast<size_t>(output.node)].outputs[static_cast<size_t>(output.index)]);
      Tensor& value = kept.back();
      views.push_back(
          ViewOf(value.dtype, value.dims, value.bytes.empty() ? nullptr : bench_.device.Memory(value.bytes.size())));
    }
    // The values were moved about while the list grew.
    for (size_t i = 0; i < views.size(); ++i) views[i].dl.shape = kept[i].dims.data();
    std::vector<const tenon_tensor_view*> in;
    std::vector<tenon_tensor_view*> outs;
    for (size_t i = 0; i < views.size(); ++i) i < inputs_.size() ? in.push_back(&views[i]) : outs.push_back(&views[i]);
    tenon_semaphore* timeline = bench_.device.Semaphore();
    tenon_frame frame = {};
    frame.struct_size = sizeof frame;
    frame.inputs = in.data();
    frame.outputs = outs.data();
    frame.input_count = static_cast<int32_t>(in.size());
    frame.output_count = static_cast<int32_t>(outs.size());
    frame.workspace = workspace_bytes == 0 ? nullptr : bench_.device.Memory(workspace_bytes);
    frame.workspace_bytes = workspace_bytes;
    frame.device = bench_.device.device;
    frame.queue = bench_.queue;
    frame.timeline = timeline;
    frame.label = Span("claim0");
    std::string why = Text(Compiler().run(executable_, &frame));
    EXPECT_EQ(bench_.device.Barrier(bench_.queue, {{}, timeline, 1}), "");
    if (why.empty()) why = bench_.device.Wait(timeline, 1);
    bench_.device.Finish(bench_.queue);
    bench_.device.Destroy(timeline);
    if (!why.empty()) return why;
    for (size_t k = 0; k < outputs_.size(); ++k) {
      Tensor value = kept[inputs_.size() + k];
      if (!value.bytes.empty())
        value.bytes = bench_.device.Download<char>(bench_.queue, outs[k]->dl.data, value.bytes.size());
      out->push_back(std::move(value));
    }
    return "";
  }
  std::string text;
  uint64_t workspace_bytes = 0;

 private:
  Bench& bench_;
  const Program& program_;
  std::vector<int64_t> nodes_;
  std::vector<Source> outputs_;
  std::vector<tenon_output> inputs_, named_;
  tenon_graph_cursor cursor_ = {};
  tenon_compile_context context_;
  tenon_executable* executable_ = nullptr;
};

// The same, each node by its kernel.
std::map<std::pair<int64_t, int32_t>, Tensor> OneByOne(Bench& bench, const Program& program,
                                                       const std::vector<int64_t>& nodes,
                                                       const std::map<int64_t, Tensor>& values) {
  std::map<std::pair<int64_t, int32_t>, Tensor> all;
  for (const auto& [id, value] : values) all[{id, 0}] = value;
  for (int64_t id : nodes) {
    const GraphNode& n = program.graph.nodes[static_cast<size_t>(id)];
    DeviceCase c = {n.node.op, n.node.attributes, {}, n.outputs};
    for (const Source& source : n.inputs) c.inputs.push_back(all.at({source.node, source.index}));
    for (const auto& [name, range] : n.node.arguments) c.host.push_back(range.first);
    if (n.node.op == "Reshape" || n.node.op == "Identity") {
      all[{id, 0}] = c.inputs[0];
      all[{id, 0}].dims = n.outputs[0].dims;
      continue;
    }
    std::vector<Tensor> out;
    EXPECT_EQ(bench.OnDevice(c, &out), "");
    for (size_t k = 0; k < out.size(); ++k) all[{id, static_cast<int32_t>(k)}] = out[k];
  }
  return all;
}

std::vector<tenon_profile_span> SpansOf(const Bench& bench, std::string_view kind) {
  std::vector<tenon_profile_span> found;
  for (const tenon_profile_span& span : bench.device.Profile()) {
    if (span.kind == kind) found.push_back(span);
  }
  return found;
}

uint64_t Ticks(const std::vector<tenon_profile_span>& spans) {
  uint64_t ticks = 0;
  for (const tenon_profile_span& span : spans) ticks += span.end_tick - span.begin_tick;
  return ticks;
}

TEST(Regions, GiveTheKernelsNumbersInOneLaunchAndLessTime) {
  Bench bench;
  Program p;
  std::map<int64_t, Tensor> values;
  const auto input = [&](Dimensions dims, uint32_t seed) {
    const int64_t id = p.Input({TENON_DT_FLOAT, dims});
    values[id] = RandomFloatsOf(dims, seed);
    return id;
  };
  const int64_t x = input({64, 30}, 1), w = input({30, 50}, 2), b = input({50}, 3);
  const int64_t axes = p.Const(Ints({0})), shape = p.Const(Ints({50, 64}));
  values[axes] = Ints({0});
  values[shape] = Ints({50, 64});
  const int64_t product = p.Float("MatMul", {{x}, {w}}, {64, 50}, {{"transpose_a", false}, {"transpose_b", false}});
  const int64_t sum = p.Float("BiasAdd", {{product}, {b}}, {64, 50});
  const int64_t relu = p.Float("Relu", {{sum}}, {64, 50});
  const int64_t soft = p.Float("Softmax", {{relu}}, {64, 50});
  const int64_t reshaped = p.Add("Reshape", {{soft}, {shape}}, {{TENON_DT_FLOAT, {50, 64}}}, {}, {{"shape", {1, 1}}});
  const int64_t twice = p.Float("AddV2", {{reshaped}, {reshaped}}, {50, 64});
  const int64_t total =
      p.Add("Sum", {{twice}, {axes}}, {{TENON_DT_FLOAT, {64}}},
            {{"T", Type{TENON_DT_FLOAT}}, {"Tidx", Type{TENON_DT_INT32}}}, {{"reduction_indices", {1, 1}}});
  const auto found = Claim(p);
  ASSERT_EQ(found.claims.size(), 1u);
  ASSERT_EQ(found.claims[0].size(), 7u);
  Region region(bench, p, found.claims[0], {{total}, {reshaped}, {relu}, {soft}});
  ASSERT_EQ(region.text, "");
  std::vector<Tensor> got;
  ASSERT_EQ(region.Run(values, &got), "");
  const auto regions = SpansOf(bench, "region");
  ASSERT_EQ(regions.size(), 1u);
  EXPECT_STREQ(regions[0].name, "claim0");
  auto want = OneByOne(bench, p, found.claims[0], values);
  EXPECT_EQ(Difference(got, {want[{total, 0}], want[{reshaped, 0}], want[{relu, 0}], want[{soft, 0}]}, 0), "");
  EXPECT_EQ(SpansOf(bench, "kernel").size(), 6u);
  EXPECT_LT(Ticks(regions), Ticks(SpansOf(bench, "kernel")) - 5 * 700);  // more is saved than the launches
  // Of the values between, at most two are alive at once.
  EXPECT_LE(region.workspace_bytes, 2u * 64 * 50 * 4);
}

TEST(Regions, OfAliasesAloneBesideWorkCopyWhatLeaves) {
  Bench bench;
  Program p;
  const int64_t x = p.Input({TENON_DT_FLOAT, {2, 3}});
  const std::map<int64_t, Tensor> values = {{x, RandomFloatsOf({2, 3})}};
  const int64_t same = p.Float("Identity", {{x}}, {2, 3});
  const int64_t negative = p.Float("Neg", {{same}}, {2, 3});
  const int64_t also = p.Float("Identity", {{negative}}, {2, 3});
  const int64_t back = p.Float("Neg", {{also}}, {2, 3});
  Region region(bench, p, {same, negative, also, back}, {{same}, {also}, {negative}, {back}});
  ASSERT_EQ(region.text, "");
  std::vector<Tensor> got;
  ASSERT_EQ(region.Run(values, &got), "");
  EXPECT_EQ(Numbers(got[0]), Numbers(values.at(x)));
  EXPECT_EQ(Numbers(got[1]), Numbers(got[2]));
  EXPECT_EQ(Numbers(got[3]), Numbers(values.at(x)));
  EXPECT_EQ(region.workspace_bytes, 0u);
}

TEST(Regions, OfRandomChainsGiveTheKernelsNumbersWhateverIsReused) {
  Bench bench;
  std::mt19937 random(3);
  for (int n = 0; n < 40; ++n) {
    Program p;
    std::map<int64_t, Tensor> values;
    for (uint32_t i = 0; i < 3; ++i) {
      const int64_t id = p.Input({TENON_DT_FLOAT, {4, 5}});
      values[id] = RandomFloatsOf({4, 5}, i);
    }
    std::vector<int64_t> nodes;
    for (int64_t id = 3; id < 20; ++id) {
      const Source a = {static_cast<int64_t>(random() % static_cast<uint64_t>(id))},
                   b = {static_cast<int64_t>(random() % static_cast<uint64_t>(id))};
      static const char* kTwo[] = {"AddV2", "Mul", "Maximum", "Sub"};
      static const char* kOne[] = {"Tanh", "Neg", "Identity", "Softmax"};
      nodes.push_back(random() % 2 == 0 ? p.Float(kTwo[random() % 4], {a, b}, {4, 5})
                                        : p.Float(kOne[random() % 4], {a}, {4, 5}));
    }
    std::vector<Source> outputs = {
        {19}, {static_cast<int64_t>(3 + random() % 16)}, {static_cast<int64_t>(3 + random() % 16)}};
    Region region(bench, p, nodes, outputs);
    ASSERT_EQ(region.text, "");
    std::vector<Tensor> got, want;
    ASSERT_EQ(region.Run(values, &got), "");
    auto all = OneByOne(bench, p, nodes, values);
    for (const Source& output : outputs) want.push_back(all[{output.node, output.index}]);
    EXPECT_EQ(Difference(got, want, 0), "") << n;
  }
}

TEST(Regions, SayWhichNodeFailed) {
  Bench bench;
  Program p;
  const int64_t x = p.Input({TENON_DT_INT32, {2}}), y = p.Input({TENON_DT_INT32, {2}});
  const int64_t rest = p.Add("FloorMod", {{x}, {y}}, {{TENON_DT_INT32, {2}}});
  const int64_t negative = p.Add("Neg", {{rest}}, {{TENON_DT_INT32, {2}}});
  Region region(bench, p, {rest, negative}, {{negative}});
  std::vector<Tensor> got;
  EXPECT_EQ(region.Run({{x, Ints({1, 2})}, {y, Ints({1, 0})}}, &got),
            "INVALID_ARGUMENT: region 'claim0' on TPU:0: FloorMod 'FloorMod': Integer division by zero");
}

TEST(Regions, FailLateByTheirKind) {
  Bench bench({{"fail_late", "region:2"}});
  Program p;
  const int64_t x = p.Input({TENON_DT_FLOAT, {2}});
  const int64_t a = p.Float("Neg", {{x}}, {2}), b = p.Float("Tanh", {{a}}, {2});
  Region region(bench, p, {a, b}, {{b}});
  std::vector<Tensor> got;
  EXPECT_EQ(region.Run({{x, Floats({2}, {1, 2})}}, &got), "");
  EXPECT_EQ(region.Run({{x, Floats({2}, {1, 2})}}, &got),
            "INTERNAL: region 'claim0' failed on TPU:0 (option fail_late=region:2)");
}

TEST(Regions, WithArgumentsThatAreNotConstantAreNotCompiled) {
  Bench bench;
  Program p;
  const int64_t x = p.Input({TENON_DT_FLOAT, {2}}), axes = p.Input(Ints({0}));
  const int64_t sum = p.Add("Sum", {{x}, {axes}}, {{TENON_DT_FLOAT, {}}}, {{"T", Type{TENON_DT_FLOAT}}},
                            {{"reduction_indices", {1, 1}}});
  EXPECT_EQ(Region(bench, p, {sum}, {{sum}}).text,
            "UNIMPLEMENTED: Sum 'Sum': an argument is not constant in this plan");
}

}  // namespace
}  // namespace tenon::device_test::compiler_test
