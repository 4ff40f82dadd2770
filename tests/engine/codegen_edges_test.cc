// SPDX-License-Identifier: Apache-2.0
// Slices, splits and gathers before chains, and concatenations behind them, in their machine code
// (devices/cpu_codegen): the bits of the kernels one by one, and their failures. TENON_CHAINS=10000 tries so many
// random graphs. Covers N8.
#include <thread>

#include "tests/engine/codegen.h"

namespace tenon::engine::codegen_edges_test {
namespace {

using Edges = Codegen;

int Graphs() {
  const char* const asked = std::getenv("TENON_CHAINS");
  return asked == nullptr ? 300 : std::atoi(asked);
}

Output Vector(Graph& g, const std::vector<int32_t>& numbers) {
  return g.Const(numbers, Shape{static_cast<int64_t>(numbers.size())});
}
std::vector<Output> OutputsOf(const Operation& node, int count) {
  std::vector<Output> outputs;
  for (int k = 0; k < count; ++k) outputs.push_back(node.output(k));
  return outputs;
}
std::vector<Output> Split(Graph& g, const Output& x, int axis, int count) {
  return OutputsOf(g.AddNode("Split", {g.Const<int32_t>(axis), x}, {{"num_split", count}}), count);
}
Output SliceOf(Graph& g, const Output& x, const std::vector<int32_t>& begin, const std::vector<int32_t>& size) {
  return g.Op("Slice", {x, Vector(g, begin), Vector(g, size)});
}
// x[..., begin:end]
Output StridedOf(Graph& g, const Output& x, int32_t begin, int32_t end, int32_t stride = 1) {
  return g.Op("StridedSlice", {x, Vector(g, {0, begin}), Vector(g, {0, end}), Vector(g, {1, stride})},
              {{"ellipsis_mask", 1}});
}
Output Concat(Graph& g, std::vector<Output> values, int axis) {
  const auto count = static_cast<int64_t>(values.size());
  values.push_back(g.Const<int32_t>(axis));
  return g.Op("ConcatV2", values, {{"N", count}});
}
Tensor Indices(DType type, const Shape& shape, int64_t rows, uint64_t seed) {
  Random random(seed);
  int64_t count = 1;
  for (int d = 0; d < shape.rank(); ++d) count *= shape[static_cast<size_t>(d)];
  std::vector<double> numbers;
  for (int64_t i = 0; i < count; ++i) numbers.push_back(static_cast<double>(random() % static_cast<uint64_t>(rows)));
  return TensorOf(type, shape, numbers);
}

// Parts of fed values, and rows of fed tables, of one shape; a chain over them; perhaps some of it side by side.
class RandomEdges {
 public:
  RandomEdges(Runtime& runtime, uint64_t seed) : random_(seed), graph_(runtime) {
    const DType types[] = {DType::kFloat, DType::kFloat, DType::kDouble,  DType::kInt32,
                           DType::kInt64, DType::kHalf,  DType::kBfloat16};
    type_ = types[Up(std::size(types))];
    const int64_t sizes[] = {1, 2, 3, 5, 8, 17};
    for (size_t d = 0, rank = Up(3); d < rank; ++d) shape_.push_back(sizes[Up(std::size(sizes))]);
    const int64_t rows[] = {16, 17, 31, 33, 64, 100, 257};
    shape_.push_back(Up(8) == 0 ? 1 + static_cast<int64_t>(Up(9000)) : rows[Up(std::size(rows))]);
    for (size_t i = 0, count = 1 + Up(3); i < count; ++i) AddEdge();
    if (Up(2) == 0) values_.push_back(Feed(shape_));
    if (Up(3) == 0) values_.push_back(Feed({shape_.back()}));
    for (size_t n = 0, count = 1 + Up(8); n < count; ++n) AddNode();
    results_ = {values_.back()};
    if (Up(3) == 0) results_.push_back(values_[Up(values_.size())]);
    if (Up(3) == 0 && type_ != DType::kInt32 && type_ != DType::kInt64) AddNorm();
    if (Up(3) == 0) AddConcat();
  }
  const Graph& graph() const { return graph_; }
  const std::vector<std::pair<Output, Tensor>>& feeds() const { return feeds_; }
  const std::vector<Output>& results() const { return results_; }

 private:
  size_t Up(size_t end) { return static_cast<size_t>(random_() % end); }
  static Shape Of(const std::vector<int64_t>& dims) { return Shape(dims); }
  Output Feed(const std::vector<int64_t>& dims) {
    int64_t count = 1;
    for (const int64_t dim : dims) count *= dim;
    std::vector<double> numbers;
    for (int64_t i = 0; i < count; ++i) numbers.push_back(static_cast<double>(random_() % 41) / 4 - 5);
    const bool is_half = type_ == DType::kHalf || type_ == DType::kBfloat16;
    const DType fed = is_half ? DType::kFloat : type_;
    // The graph may know no more than the rows.
    std::vector<int64_t> known = dims;
    if (known.size() > 1 && Up(4) == 0) known[0] = -1;
    feeds_.emplace_back(graph_.Placeholder("", fed, Of(known)), TensorOf(fed, Of(dims), numbers));
    const Output& x = feeds_.back().first;
    return is_half ? graph_.Op("Cast", {x}, {{"DstT", type_}}) : x;
  }
  std::vector<int64_t> With(size_t axis, int64_t dim) const {
    std::vector<int64_t> dims = shape_;
    dims[axis] = dim;
    return dims;
  }
  void AddEdge() {
    const size_t axis = Up(3) == 0 ? Up(shape_.size()) : shape_.size() - 1;
    const int64_t own = shape_[axis];
    switch (Up(6)) {
      case 0: {
        const int count = 2 + static_cast<int>(Up(3));
        const std::vector<Output> parts = Split(graph_, Feed(With(axis, own * count)), static_cast<int>(axis), count);
        return Keep(parts);
      }
      case 1: {
        const Operation node = graph_.AddNode(
            "SplitV",
            {Feed(With(axis, own * 2 + 7)), Vector(graph_, {static_cast<int32_t>(own), 7, static_cast<int32_t>(own)}),
             graph_.Const<int32_t>(static_cast<int32_t>(axis))},
            {{"num_split", 3}});
        return Keep({node.output(0), node.output(2)});
      }
      case 2: {
        std::vector<int32_t> begin(shape_.size(), 0), size(shape_.begin(), shape_.end());
        begin[axis] = static_cast<int32_t>(Up(9));
        return Keep({SliceOf(graph_, Feed(With(axis, own + 9)), begin, size)});
      }
      case 3:
        return Keep({StridedOf(graph_, Feed(With(shape_.size() - 1, shape_.back() * 2 + 3)), 3,
                               static_cast<int32_t>(shape_.back() + 3))});
      case 4: {
        std::vector<int64_t> dims = shape_;
        dims.insert(dims.begin() + static_cast<int64_t>(axis), 3);
        return Keep(
            OutputsOf(graph_.AddNode("Unpack", {Feed(dims)}, {{"num", 3}, {"axis", static_cast<int64_t>(axis)}}), 3));
      }
      default: return AddGather();
    }
  }
  void AddGather() {
    const size_t own = 1 + Up(std::min<size_t>(2, shape_.size()));  // dims of a row
    std::vector<int64_t> table(shape_.end() - static_cast<int64_t>(own), shape_.end()),
        by(shape_.begin(), shape_.end() - static_cast<int64_t>(own));
    if (Up(4) == 0) std::fill(by.begin(), by.end(), 1);  // broadcast
    const int64_t rows = 1 + static_cast<int64_t>(Up(20));
    table.insert(table.begin(), rows);
    const DType type = Up(2) == 0 ? DType::kInt32 : DType::kInt64;
    feeds_.emplace_back(graph_.Placeholder("", type, Of(by)), Indices(type, Of(by), rows, random_()));
    const Output indices = feeds_.back().first, from = Feed(table);
    Keep({Up(3) == 0 ? graph_.Op("Gather", {from, indices})
                     : graph_.Op("GatherV2", {from, indices, graph_.Const<int32_t>(0)})});
  }
  void Keep(const std::vector<Output>& parts) { values_.insert(values_.end(), parts.begin(), parts.end()); }
  void AddNode() {
    static const char* const kUnary[] = {"Neg", "Abs", "Square", "Relu"};
    static const char* const kBinary[] = {"AddV2", "Sub", "Mul", "Maximum", "Minimum", "SquaredDifference"};
    const auto any = [&] { return values_[Up(2) == 0 ? values_.size() - 1 : Up(values_.size())]; };
    if (Up(3) == 0) return values_.push_back(graph_.Op(kUnary[Up(std::size(kUnary))], {any()}));
    values_.push_back(graph_.Op(kBinary[Up(std::size(kBinary))], {any(), any()}));
  }
  void AddNorm() {
    const Output& x = results_[0];
    const Output mean = graph_.Op("Mean", {x, Vector(graph_, {-1})}, {{"keep_dims", true}}),
                 less = graph_.Op("Sub", {x, mean});
    const Output spread = graph_.Op("Mean", {graph_.Op("Square", {less}), Vector(graph_, {-1})}, {{"keep_dims", true}});
    results_[0] = graph_.Op("Mul", {less, graph_.Op("Rsqrt", {spread})});
  }
  void AddConcat() {
    std::vector<Output> side_by_side;
    const Output full = graph_.Op("Abs", {Feed(shape_)});
    for (size_t i = 0, count = 2 + Up(3); i < count; ++i) {
      AddNode();
      values_.push_back(graph_.Op(Up(2) == 0 ? "Sub" : "Mul", {values_.back(), full}));
      side_by_side.push_back(values_.back());
      if (Up(6) == 0) results_.push_back(values_.back());
    }
    results_.push_back(Concat(graph_, side_by_side, Up(3) == 0 ? 0 : -1));
  }

  Random random_;
  Graph graph_;
  DType type_;
  std::vector<int64_t> shape_;
  std::vector<std::pair<Output, Tensor>> feeds_;
  std::vector<Output> values_, results_;
};

TEST_P(Edges, RandomGraphsHaveTheBitsOfTheirNodes) {
  const char* const from = std::getenv("TENON_CHAINS_FROM");
  int compiled = 0;
  for (int seed = from == nullptr ? 1 : std::atoi(from); seed <= Graphs() && !HasFailure(); ++seed) {
    RandomEdges edges(*runtime_, static_cast<uint64_t>(seed));
    compiled +=
        Compare(edges.graph(), edges.feeds(), edges.results(), "seed " + std::to_string(seed) + ": ") > 1 ? 1 : 0;
  }
  EXPECT_TRUE(from != nullptr || compiled > Graphs() / 2)
      << "so few graphs were compiled that nothing was tried: " << compiled;
}

TEST_P(Edges, SlicesAreReadWhereTheyLie) {
  Graph g(*runtime_);
  const Output x = g.Placeholder("x", DType::kFloat, {-1, 4 * 40}), c = g.Placeholder("c", DType::kFloat, {-1, 40});
  const Tensor gates = Ramp({33, 160}), cells = Ramp({33, 40});
  const auto cell = [&](const std::vector<Output>& p) {
    return g.Op("AddV2", {g.Op("Mul", {c, g.Op("Relu", {p[2]})}),
                          g.Op("Mul", {g.Op("Relu", {p[0]}), g.Op("Softsign", {p[1]})})});
  };
  // The split and 6 nodes; four slices and 6.
  EXPECT_EQ(Compare(g, {{x, gates}, {c, cells}}, {cell(Split(g, x, 1, 4))}), 7);
  EXPECT_EQ(Compare(g, {{x, gates}, {c, cells}}, {cell(Split(g, x, -1, 4))}), 7);
  std::vector<Output> slices, strided;
  for (int32_t k = 0; k < 3; ++k) {
    slices.push_back(SliceOf(g, x, {0, k * 40}, {-1, 40}));
    strided.push_back(StridedOf(g, x, k * 40, (k + 1) * 40));
  }
  EXPECT_EQ(Compare(g, {{x, gates}, {c, cells}}, {cell(slices)}), 9);
  EXPECT_EQ(Compare(g, {{x, gates}, {c, cells}}, {cell(strided)}), 9);
}

// What makes no rows that lie evenly, what others read too, and rows that are short.
TEST_P(Edges, OtherSlicesAreLeftToTheirKernels) {
  Graph g(*runtime_);
  const Output x = g.Placeholder("x", DType::kFloat, {33, 160});
  const auto chain = [&](const Output& y) { return g.Op("Square", {g.Op("Neg", {y})}); };
  const auto compiled = [&](const std::vector<Output>& fetches) { return Compare(g, {{x, Ramp({33, 160})}}, fetches); };
  EXPECT_EQ(compiled({chain(StridedOf(g, x, 0, 80))}), 3);
  EXPECT_EQ(compiled({chain(StridedOf(g, x, 0, 80, 2))}), 2);
  EXPECT_EQ(compiled({chain(StridedOf(g, x, 79, 0, -1))}), 2);
  EXPECT_EQ(compiled({chain(SliceOf(g, x, {1, 2}, {20, 50}))}), 2);
  EXPECT_EQ(compiled({chain(SliceOf(g, x, {0, 2}, {33, 15}))}), 2);
  EXPECT_EQ(compiled({chain(SliceOf(g, x, {3, 0}, {20, 160}))}), 3) << "rows in a row";
  const Output read_twice = StridedOf(g, x, 0, 80);
  EXPECT_EQ(compiled({chain(read_twice), g.Op("Transpose", {read_twice, Vector(g, {1, 0})})}), 2);
  const Output unknown = g.Placeholder("unknown", DType::kInt32, {2});
  EXPECT_EQ(Compare(g, {{x, Ramp({33, 160})}, {unknown, TensorOf(DType::kInt32, {2}, {0, 40})}},
                    {chain(g.Op("Slice", {x, unknown, Vector(g, {33, 40})}))}),
            2);
}

struct Lookup {
  Lookup(Runtime& runtime, DType type, const Shape& by, int64_t rows, int64_t row) : graph(runtime) {
    table = graph.Placeholder("table", DType::kFloat, {rows, row});
    indices = graph.Placeholder("indices", type, by);
    gather = graph.Op("GatherV2", {table, indices, graph.Const<int32_t>(0)}, {}, "rows");
    sum = graph.Op("AddV2", {gather, graph.Const(0.5f)});
  }
  Graph graph;
  Output table, indices, gather, sum;
};

TEST_P(Edges, GathersAreRowsWhereTheyLie) {
  for (const DType type : {DType::kInt32, DType::kInt64}) {
    Lookup lookup(*runtime_, type, {6, 11}, 50, 77);
    EXPECT_EQ(Compare(lookup.graph, {{lookup.table, Ramp({50, 77})}, {lookup.indices, Indices(type, {6, 11}, 50, 3)}},
                      {lookup.sum}),
              2);
  }
}

// That of the node, behind the region's name.
bool EndsAs(const std::string& compiled, const std::string& one_by_one) {
  return compiled.ends_with(one_by_one) && compiled.empty() == one_by_one.empty();
}
void ExpectTheKernelsFailure(Runtime& runtime, const Lookup& lookup,
                             const std::vector<std::pair<Output, Tensor>>& feeds, const std::string& what) {
  const std::string one_by_one = RunIt(runtime, lookup.graph, feeds, {lookup.sum}, false).failure,
                    compiled = RunIt(runtime, lookup.graph, feeds, {lookup.sum}, true).failure;
  EXPECT_TRUE(EndsAs(compiled, one_by_one)) << compiled << " and " << one_by_one;
  EXPECT_NE(compiled.find(what), std::string::npos) << compiled;
  EXPECT_NE(compiled.find("'rows'"), std::string::npos) << compiled;
}

// Nothing is read, and the failure is the kernel's.
TEST_P(Edges, BadIndicesFailAsTheKernelDoes) {
  for (const DType type : {DType::kInt32, DType::kInt64})
    for (const double bad : {-1.0, 50.0, -2147483648.0, 2147483647.0, 4294967296.0, -9223372036854775808.0}) {
      if (type == DType::kInt32 && std::abs(bad) > 2147483648.0) continue;
      Lookup lookup(*runtime_, type, {40}, 50, 77);
      std::vector<double> numbers(40, 7);
      numbers[39] = bad;
      const std::vector<std::pair<Output, Tensor>> feeds = {{lookup.table, Ramp({50, 77})},
                                                            {lookup.indices, TensorOf(type, {40}, numbers)}};
      ExpectTheKernelsFailure(*runtime_, lookup, feeds, "indices[39] = ");
    }
  Lookup empty(*runtime_, DType::kInt32, {40}, 0, 77);
  ExpectTheKernelsFailure(
      *runtime_, empty, {{empty.table, Ramp({0, 77})}, {empty.indices, Indices(DType::kInt32, {40}, 1, 3)}}, "[0, 0)");
  Lookup none(*runtime_, DType::kInt32, {-1}, 50, 77);
  Compare(none.graph, {{none.table, Ramp({50, 77})}, {none.indices, Indices(DType::kInt32, {0}, 1, 3)}}, {none.sum});
}

// Embeddings of words, places and kinds, summed and normalised, as BERT begins.
struct Embeddings {
  Embeddings(Runtime& runtime, int64_t batch, int64_t length, int64_t cells, bool is_variable) : graph(runtime) {
    words = graph.Placeholder("words", DType::kInt32, {-1, length});
    kinds = graph.Placeholder("kinds", DType::kInt64, {-1, length});
    const Tensor table = Ramp({50, cells}), places = Ramp({length + 5, cells}), two = Ramp({2, cells});
    Output rows = graph.Const(View(table));
    if (is_variable) {
      const Output handle = graph.Op(
          "VarHandleOp", {}, {{"dtype", DType::kFloat}, {"shape", Shape{50, cells}}, {"shared_name", "embeddings"}});
      init = graph.AddNode("AssignVariableOp", {handle, rows}, {}, "init");
      rows = graph.Op("ResourceGather", {handle, words}, {{"dtype", DType::kFloat}}, "words_rows");
    } else {
      rows = graph.Op("GatherV2", {rows, words, graph.Const<int32_t>(0)});
    }
    const Output place = SliceOf(graph, graph.Const(View(places)), {0, 0}, {static_cast<int32_t>(length), -1});
    const Output kind = graph.Op("GatherV2", {graph.Const(View(two)), kinds, graph.Const<int32_t>(0)});
    sum = graph.Op("AddV2", {graph.Op("AddV2", {rows, kind}), place});
    const Output mean = graph.Op("Mean", {sum, Vector(graph, {2})}, {{"keep_dims", true}}),
                 less = graph.Op("Sub", {sum, mean});
    const Output spread =
        graph.Op("Mean", {graph.Op("SquaredDifference", {sum, mean}), Vector(graph, {2})}, {{"keep_dims", true}});
    norm = graph.Op("Mul", {less, graph.Op("Rsqrt", {graph.Op("AddV2", {spread, graph.Const(1e-6f)})})});
    feeds = {{words, Indices(DType::kInt32, {batch, length}, 50, 9)},
             {kinds, Indices(DType::kInt64, {batch, length}, 2, 7)}};
  }
  Graph graph;
  Output words, kinds, sum, norm;
  Operation init;
  std::vector<std::pair<Output, Tensor>> feeds;
};

TEST_P(Edges, EmbeddingsAreNormalisedInOnePass) {
  Embeddings small(*runtime_, 3, 7, 48, false);
  EXPECT_GE(Compare(small.graph, small.feeds, {small.norm}), 10);
  EXPECT_GE(Compare(small.graph, small.feeds, {small.sum}), 4);
  Embeddings large(*runtime_, 5, 33, 768, false);
  EXPECT_GE(Compare(large.graph, large.feeds, {large.norm, large.sum}), 10);
}

std::vector<Tensor> RunTwice(Runtime& runtime, const Embeddings& embeddings, bool compile, std::string* failure,
                             bool init) {
  SessionOptions options;
  options.compile = compile;
  auto session = Session::Create(runtime, embeddings.graph, options);
  EXPECT_TRUE(session.ok());
  if (init) {
    EXPECT_TRUE(session->Run({}, {}, {embeddings.init}).ok());
  }
  auto callable = session->Prepare({embeddings.words, embeddings.kinds}, {embeddings.norm});
  EXPECT_TRUE(callable.ok()) << callable.status().message();
  auto values = callable->Run({View(embeddings.feeds[0].second), View(embeddings.feeds[1].second)});
  if (values.ok()) values = callable->Run({View(embeddings.feeds[0].second), View(embeddings.feeds[1].second)});
  *failure = values.status().message();
  return values.ok() ? std::move(*values) : std::vector<Tensor>();
}

TEST_P(Edges, RowsOfVariablesAreReadAsTheKernelDoes) {
  Embeddings embeddings(*runtime_, 3, 7, 48, true);
  std::string one_by_one, compiled;
  for (const bool init : {false, true}) {
    const std::vector<Tensor> right = RunTwice(*runtime_, embeddings, false, &one_by_one, init),
                              got = RunTwice(*runtime_, embeddings, true, &compiled, init);
    EXPECT_TRUE(EndsAs(compiled, one_by_one)) << compiled << " and " << one_by_one;
    EXPECT_EQ(compiled.empty(), init) << compiled;
    ASSERT_EQ(right.size(), got.size());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(DifferenceOf(right[i], got[i]), "");
  }
}

// The table is changed while others read its rows: each row is one value's, since a value that is read is not written.
TEST_P(Edges, AVariableMayBeChangedWhileItsRowsAreRead) {
  Graph g(*runtime_);
  const Output handle =
      g.Op("VarHandleOp", {}, {{"dtype", DType::kFloat}, {"shape", Shape{64, 256}}, {"shared_name", "changed_table"}});
  const Tensor zeros = TensorOf(DType::kFloat, {64, 256}, std::vector<double>(64 * 256, 0)),
               ones = TensorOf(DType::kFloat, {64, 256}, std::vector<double>(64 * 256, 1));
  const Operation init = g.AddNode("AssignVariableOp", {handle, g.Const(View(zeros))}, {}, "init"),
                  more = g.AddNode("AssignAddVariableOp", {handle, g.Const(View(ones))}, {}, "more");
  const Output by = g.Placeholder("by", DType::kInt32, {64});
  const Output rows = g.Op("Neg", {g.Op("Neg", {g.Op("ResourceGather", {handle, by}, {{"dtype", DType::kFloat}})})});
  SessionOptions options;
  options.compile = true;
  auto session = Session::Create(*runtime_, g, options);
  ASSERT_TRUE(session.ok()) << session.status().message();
  ASSERT_TRUE(session->Run({}, {}, {init}).ok());
  auto reads = session->Prepare({by}, {rows});
  auto writes = session->Prepare({}, {}, {more});
  ASSERT_TRUE(reads.ok() && writes.ok());
  std::thread writer([&] {
    for (int i = 0; i < 200; ++i) EXPECT_TRUE(writes->Run({}).ok());
  });
  const Tensor indices = Indices(DType::kInt32, {64}, 64, 5);
  for (int i = 0; i < 200; ++i) {
    auto values = reads->Run({View(indices)});
    ASSERT_TRUE(values.ok()) << values.status().message();
    const std::vector<float> got = Values<float>((*values)[0]);
    EXPECT_TRUE(std::all_of(got.begin(), got.end(), [&](float each) { return each == got[0]; }));
  }
  writer.join();
  EXPECT_EQ(HowNodesRun(*reads->Explain())["compiled"], 3);
}

TEST_P(Edges, ResultsLieSideBySide) {
  for (const int64_t row : {16, 33, 100}) {
    Graph g(*runtime_);
    const Output x = g.Placeholder("x", DType::kFloat, {-1, 5, row}),
                 y = g.Placeholder("y", DType::kFloat, {-1, 5, row});
    const Output a = g.Op("Neg", {x}), b = g.Op("Mul", {a, y}), c = g.Op("Square", {b});
    const std::vector<std::pair<Output, Tensor>> feeds = {{x, Ramp({7, 5, row})}, {y, Ramp({7, 5, row})}};
    for (const int axis : {-1, 1, 2}) EXPECT_EQ(Compare(g, feeds, {Concat(g, {b, a, c}, axis)}), 4) << axis;
    Compare(g, feeds, {Concat(g, {b, a, c}, 0)});
    EXPECT_EQ(Compare(g, feeds, {Concat(g, {g.Op("Abs", {x}), g.Op("Relu", {y})}, -1)}), 3);
    // Read elsewhere, twice side by side, from outside, and of other widths.
    Compare(g, feeds, {Concat(g, {b, c}, -1), c});
    Compare(g, feeds, {Concat(g, {c, c}, -1)});
    Compare(g, feeds, {Concat(g, {c, x}, -1)});
    Compare(g, feeds, {Concat(g, {c, a}, -1), Concat(g, {b, a}, -1)});
    Compare(g, feeds, {g.Op("Neg", {Concat(g, {c, a}, -1)})});
  }
}

TEST_P(Edges, PartsAreFetchedAndFed) {
  Graph g(*runtime_);
  const Output x = g.Placeholder("x", DType::kFloat, {33, 160});
  const std::vector<Output> parts = Split(g, x, 1, 4);
  const Output sum = g.Op("AddV2", {g.Op("Mul", {parts[0], parts[1]}), g.Op("Square", {parts[3]})});
  const std::vector<std::pair<Output, Tensor>> feed = {{x, Ramp({33, 160})}};
  EXPECT_EQ(Compare(g, feed, {sum, parts[1]}), 4);
  EXPECT_EQ(Compare(g, feed, {parts[2], sum, parts[3], parts[0]}), 4);
  Compare(g, feed, {parts[0]});
  const Tensor other = Ramp({33, 40});
  Compare(g, {{x, feed[0].second}, {parts[1], other}}, {sum, parts[1]});
  Compare(g, {{parts[0], other}, {parts[1], other}, {parts[3], other}}, {sum});
  Lookup lookup(*runtime_, DType::kInt32, {40}, 50, 77);
  EXPECT_EQ(
      Compare(lookup.graph, {{lookup.table, Ramp({50, 77})}, {lookup.indices, Indices(DType::kInt32, {40}, 50, 3)}},
              {lookup.gather, lookup.sum}),
      2);
  Compare(lookup.graph, {{lookup.gather, Ramp({40, 77})}}, {lookup.sum});
  const Output a = g.Op("Neg", {parts[0]}), b = g.Op("Abs", {parts[1]}), joined = Concat(g, {a, b}, -1),
               behind = g.Op("Neg", {joined});
  Compare(g, feed, {joined, a});
  Compare(g, {{x, feed[0].second}, {a, other}}, {joined});
  Compare(g, {{joined, Ramp({33, 80})}}, {behind});
}

// A result may have the memory of what is read element by element, but not of what rows are taken from.
TEST_P(Edges, NothingIsWrittenWhereRowsAreReadLater) {
  Graph g(*runtime_);
  const Output x = g.Placeholder("x", DType::kFloat, {64, 64}), by = g.Placeholder("by", DType::kInt32, {64});
  // Not fed, so that its memory may be taken.
  const Output own = g.Op("MatMul", {x, x});
  const Tensor reversed = [] {
    std::vector<double> numbers;
    for (int i = 63; i >= 0; --i) numbers.push_back(i);
    return TensorOf(DType::kInt32, {64}, numbers);
  }();
  const Output rows = g.Op("GatherV2", {own, by, g.Const<int32_t>(0)});
  EXPECT_EQ(Compare(g, {{x, Ramp({64, 64})}, {by, reversed}}, {g.Op("Sub", {own, rows})}), 2);
  const Output mean = g.Op("Mean", {g.Op("Sub", {own, rows}), Vector(g, {1})}, {{"keep_dims", true}});
  EXPECT_GE(Compare(g, {{x, Ramp({64, 64})}, {by, reversed}}, {g.Op("Sub", {g.Op("Sub", {own, rows}), mean})}), 3);
  const std::vector<Output> parts = Split(g, own, 1, 2);
  Compare(g, {{x, Ramp({64, 64})}}, {g.Op("Neg", {parts[0]}), g.Op("Neg", {parts[1]}), g.Op("Neg", {own})});
  // Indices that are computed with, too.
  const Output numbers = g.Placeholder("numbers", DType::kInt32, {16, 16}),
               fed = g.Placeholder("which", DType::kInt32, {16}), which = g.Op("Abs", {fed});
  std::vector<double> values;
  for (int i = 0; i < 256; ++i) values.push_back(i * 7 % 101);
  const Output taken = g.Op("GatherV2", {numbers, which, g.Const<int32_t>(0)});
  const std::vector<double> down = {-15, -14, -13, -12, -11, -10, -9, -8, -7, -6, -5, -4, -3, -2, -1, 0};
  Compare(g, {{numbers, TensorOf(DType::kInt32, {16, 16}, values)}, {fed, TensorOf(DType::kInt32, {16}, down)}},
          {g.Op("Sub", {taken, which})});
}

// An LSTM's cell in a loop, a concatenation in a branch.
TEST_P(Edges, LoopsAndBranches) {
  Graph g(*runtime_);
  const Output x = g.Placeholder("x", DType::kFloat, {30, 96}), flag = g.Placeholder("flag", DType::kBool, Shape{});
  const auto loop = While(
      g, {g.Const<int32_t>(0), x}, {},
      [&](const std::vector<Output>& v) {
        return g.Op("Less", {v[0], g.Const<int32_t>(5)});
      },
      [&](const std::vector<Output>& v) {
        const std::vector<Output> parts = Split(g, v[1], 1, 2);
        const Output a = g.Op("Softsign", {g.Op("AddV2", {parts[0], parts[1]})}),
                     b = g.Op("Relu", {g.Op("Sub", {parts[1], a})});
        return std::vector<Output>{g.Op("AddV2", {v[0], g.Const<int32_t>(1)}), Concat(g, {a, b}, -1)};
      });
  const Operation part = g.AddNode("Switch", {x, flag});
  const auto half = [&](const Output& y, const char* op) {
    const std::vector<Output> parts = Split(g, y, 1, 2);
    return g.Op(op, {g.Op("Mul", {parts[0], parts[1]})});
  };
  const Operation merged =
      g.AddNode("Merge", {half(part.output(0), "Neg"), half(part.output(1), "Square")}, {{"N", 2}});
  ASSERT_TRUE(g.status().ok()) << g.status().message();
  for (const double taken : {0.0, 1.0})
    for (const uint32_t executor : {TENON_EXECUTOR_AUTO, TENON_EXECUTOR_DYNAMIC}) {
      const std::vector<std::pair<Output, Tensor>> feeds = {{x, Ramp({30, 96})},
                                                            {flag, TensorOf(DType::kBool, Shape{}, {taken})}};
      const Answer one_by_one = RunIt(*runtime_, g, feeds, {loop[1], merged.output(0)}, false, executor),
                   together = RunIt(*runtime_, g, feeds, {loop[1], merged.output(0)}, true, executor);
      ASSERT_EQ(one_by_one.failure, "");
      ASSERT_EQ(together.failure, "");
      for (size_t i = 0; i < 2; ++i) EXPECT_EQ(DifferenceOf(one_by_one.values[i], together.values[i]), "") << i;
      EXPECT_TRUE(executor != TENON_EXECUTOR_AUTO || together.how.at("compiled") >= 8) << together.how.at("compiled");
    }
}

// What orders a gather among other nodes still does: its readers' region does not depend on itself.
TEST_P(Edges, AGatherBeforeAnAssignmentReadsWhatWasThere) {
  Graph g(*runtime_);
  const Output handle =
      g.Op("VarHandleOp", {}, {{"dtype", DType::kFloat}, {"shape", Shape{16, 64}}, {"shared_name", "ordered_table"}});
  const Tensor first = Ramp({16, 64});
  const Operation init = g.AddNode("AssignVariableOp", {handle, g.Const(View(first))}, {}, "init");
  const Output by = g.Placeholder("by", DType::kInt32, {16});
  const Operation gather = g.AddNode("ResourceGather", {handle, by}, {{"dtype", DType::kFloat}});
  Output after;
  {
    const auto guard = g.ControlDependencies({gather});
    const Operation assign = g.AddNode("AssignAddVariableOp", {handle, g.Const(View(first))});
    const auto later = g.ControlDependencies({assign});
    after = g.Op("ReadVariableOp", {handle}, {{"dtype", DType::kFloat}});
  }
  const Output sum = g.Op("AddV2", {g.Op("Neg", {gather.output(0)}), after});
  const Tensor indices = Indices(DType::kInt32, {16}, 16, 1);
  std::vector<Tensor> values[2];
  for (const bool compile : {false, true}) {
    SessionOptions options;
    options.compile = compile;
    auto session = Session::Create(*runtime_, g, options);
    ASSERT_TRUE(session.ok());
    ASSERT_TRUE(session->Run({}, {}, {init}).ok());
    auto got = session->Run({{by, View(indices)}}, {sum});
    ASSERT_TRUE(got.ok()) << got.status().message();
    values[compile ? 1 : 0] = std::move(*got);
  }
  EXPECT_EQ(DifferenceOf(values[0][0], values[1][0]), "");
}

INSTANTIATE_TEST_SUITE_P(Levels, Edges, ::testing::Values("avx512", "avx2"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace tenon::engine::codegen_edges_test
