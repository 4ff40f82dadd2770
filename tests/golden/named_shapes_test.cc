// SPDX-License-Identifier: Apache-2.0
// Shape functions that carry names of unknown dims, against what TensorFlow computed: the cases' inputs as values of
// which some dims, and some sizes that they hold, are known by name alone. Whatever is inferred is then what the case
// has: numbers are its dims, names stand for them. Covers A3.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>
#include <random>
#include <set>

#include "core/graph/graph.h"
#include "core/graph/shape_inference.h"
#include "tests/fakes/whole.h"
#include "tests/golden/base64.h"
#include "tests/golden/packages.h"

namespace tenon::golden::named_shapes_test {
namespace {

using graph::AttrMap;
using graph::AttrValue;
using graph::Edge;
using graph::Graph;
using graph::NodeId;
using graph::NodeSpec;
using graph::ShapeInference;

// A tensor of a case: its shape, and of a short list of int32 or int64 its numbers.
struct Value {
  DType dtype = TENON_DT_INVALID;
  Shape shape;
  std::optional<std::vector<int64_t>> numbers;
  // Whether the numbers may be the shape of something.
  bool holds_sizes() const {
    double elements = 1;
    for (const int64_t n : numbers.value_or(std::vector<int64_t>{-1}))
      elements *= n < 0 ? 1e30 : static_cast<double>(n + 1);
    return shape.rank() <= 1 && elements < 1e18;
  }
};

std::optional<Value> ValueOf(const Json& json) {
  if (!json.is_array()) return std::nullopt;
  Value value;
  value.dtype = TypeFromName(json[0].get<std::string>());
  if (!json[1].is_array()) return std::nullopt;
  value.shape = Shape(json[1].get<std::vector<int64_t>>());
  const auto count = static_cast<size_t>(*value.shape.num_elements());
  const bool is_whole = value.dtype == TENON_DT_INT32 || value.dtype == TENON_DT_INT64;
  if (!is_whole || count > 64 || !json[2].is_string()) return value;
  const std::string bytes = FromBase64(json[2].get<std::string>());
  const size_t size = value.dtype == TENON_DT_INT32 ? 4 : 8;
  std::vector<int64_t> numbers;
  for (size_t i = 0; i < count && bytes.size() >= size; ++i) {
    const char* const at = bytes.data() + (bytes.size() == size ? 0 : i * size);  // one stands for all
    int32_t narrow = 0;
    int64_t wide = 0;
    std::memcpy(size == 4 ? static_cast<void*>(&narrow) : &wide, at, size);
    numbers.push_back(size == 4 ? narrow : wide);
  }
  if (numbers.size() == count) value.numbers = std::move(numbers);
  return value;
}

std::optional<AttrValue> AttrOf(const Json& json) {
  const std::string kind = json.begin().key();
  const Json& value = json.begin().value();
  const auto type = [](const Json& one) { return TypeFromName(one.get<std::string>()); };
  if (kind == "int") return AttrValue::Int(value.get<int64_t>());
  if (kind == "bool") return AttrValue::Bool(value.get<bool>());
  if (kind == "float") return AttrValue::Float(value.is_number() ? value.get<float>() : 0);
  if (kind == "string") return AttrValue::String(FromBase64(value.get<std::string>()));
  if (kind == "text") return AttrValue::String(value.get<std::string>());
  if (kind == "type") return AttrValue::Type(type(value));
  if (kind == "shape")
    return AttrValue::OfShape(value.is_null() ? Shape::Unknown() : Shape(value.get<std::vector<int64_t>>()));
  if (kind == "ints") return AttrValue::Ints(value.get<std::vector<int64_t>>());
  if (kind == "types") {
    std::vector<DType> types;
    for (const Json& one : value) types.push_back(type(one));
    return AttrValue::Types(types);
  }
  return std::nullopt;
}

// One case with other dims unknown each time.
class Trial {
 public:
  enum class Knows { kSome, kAll };
  Trial(const Json& one, uint64_t seed, Knows knows = Knows::kSome) : one_(one), random_(seed), knows_(knows) {}

  // What is wrong; empty: nothing, or the case is none for this.
  std::string Run() {
    NodeSpec spec;
    spec.op = Registry().FindOrNull(one_["op"].get<std::string>());
    if (spec.op == nullptr || spec.op->c->shape == nullptr) return "";
    spec.name = "node";
    for (const auto& [name, json] : one_["attrs"].items()) {
      auto attr = AttrOf(json);
      if (!attr) return "";
      spec.attrs.insert_or_assign(name, *std::move(attr));
    }
    for (const Json& json : one_["in"]) {
      const auto value = ValueOf(json);
      if (!value) return "";
      spec.inputs.push_back(Input(*value));
    }
    auto node = graph_.Add(std::move(spec));
    if (!node.ok()) return "";
    ShapeInference known(&graph_);
    std::string wrong;
    if (const Status status = known.Run(); !status.ok()) wrong = "fails: " + status.ToString();
    for (const auto& [edge, value] : sources_) Bind(known.named_shape(edge), value.shape.dims());
    for (size_t i = 0; i < one_["out"].size() && wrong.empty(); ++i)
      if (const auto value = ValueOf(one_["out"][i])) wrong = Compare(known, {*node, static_cast<int32_t>(i)}, *value);
    // What TensorFlow computes and we refuse once all is known is no step.
    const bool is_refused = !wrong.empty() && knows_ == Knows::kSome && !Trial(one_, 0, Knows::kAll).Run().empty();
    return is_refused ? "" : wrong;
  }
  bool gave_names() const { return gave_names_; }

 private:
  bool Chance(int of) { return static_cast<int>(random_() % static_cast<uint64_t>(of)) == 0; }

  Edge Add(std::string_view op, std::vector<Edge> inputs, AttrMap attrs) {
    NodeSpec spec;
    spec.op = Registry().FindOrNull(op);
    spec.name = graph_.UniqueName("input");
    spec.inputs = std::move(inputs);
    spec.attrs = std::move(attrs);
    return {*graph_.Add(std::move(spec)), 0};
  }
  Edge Const(DType dtype, Shape shape, const std::vector<int64_t>& numbers) {
    auto tensor = Tensor::Allocate(GlobalPool(), dtype, shape);
    for (size_t i = 0; i < numbers.size(); ++i) {
      if (dtype == TENON_DT_INT32) tensor->as<int32_t>()[i] = static_cast<int32_t>(numbers[i]);
      else tensor->as<int64_t>()[i] = numbers[i];
    }
    return Add("Const", {}, {{"dtype", AttrValue::Type(dtype)}, {"value", AttrValue::OfTensor(*std::move(tensor))}});
  }
  // A value that is fed, of which some dims are unknown.
  Edge Fed(const Value& value, int unknown_of) {
    Shape shape = value.shape;
    for (int64_t& dim : shape.dims())
      if (knows_ == Knows::kSome && Chance(unknown_of)) dim = -1;
    const Edge edge = Add("Placeholder", {}, {{"dtype", AttrValue::Type(value.dtype)},
                                              {"shape", AttrValue::OfShape(std::move(shape))}});
    sources_.emplace_back(edge, value);
    return edge;
  }
  Edge Input(const Value& value) {
    // Those of one shape are perhaps one, so that they have the same names.
    for (const auto& [edge, other] : sources_)
      if (other.dtype == value.dtype && other.shape == value.shape && !value.numbers && Chance(2)) return edge;
    if (knows_ == Knows::kSome && value.holds_sizes() && Chance(2)) {
      // The shape of something.
      const Edge of = Fed({TENON_DT_FLOAT, Shape(*value.numbers), {}}, 2);
      const Edge sizes = Add("Shape", {of}, {{"T", AttrValue::Type(TENON_DT_FLOAT)},
                                             {"out_type", AttrValue::Type(value.dtype)}});
      if (value.shape.rank() == 1) return sizes;
      return Add("Reshape", {sizes, Const(TENON_DT_INT32, {0}, {})},
                 {{"T", AttrValue::Type(value.dtype)}, {"Tshape", AttrValue::Type(TENON_DT_INT32)}});
    }
    if (value.numbers && (knows_ == Knows::kAll || Chance(2))) return Const(value.dtype, value.shape, *value.numbers);
    return Fed(value, 2);
  }

  void Bind(const Shape& named, const std::vector<int64_t>& dims) {
    for (size_t d = 0; d < dims.size() && named.known_rank(); ++d)
      if (named.dims()[d] < 0) sizes_.emplace(named.dims()[d], dims[d]);
  }
  // A dim of the node's own has no size yet: it gets one, and keeps it.
  std::string CompareDim(const ShapeInference& known, int64_t found, int64_t want) {
    if (found >= 0 || found == -1) return found == -1 || found == want ? "" : StrCat(found, " where it is ", want);
    const auto size = known.names().SizeOf(found, sizes_);
    gave_names_ = gave_names_ || size.has_value();
    if (!size) sizes_.emplace(found, want);
    return !size || *size == want ? "" : StrCat("a name that stands for ", *size, " where it is ", want);
  }
  std::string Compare(const ShapeInference& known, Edge edge, const Value& want) {
    const Shape& shape = known.named_shape(edge);
    if (shape.known_rank() && shape.rank() != want.shape.rank())
      return StrCat("rank ", shape.rank(), " where it is ", want.shape.rank());
    for (int d = 0; d < shape.rank(); ++d)
      if (std::string wrong = CompareDim(known, shape.dim(d), want.shape.dim(d)); !wrong.empty())
        return StrCat("dim ", d, " of output ", edge.index, ": ", wrong);
    const Shape& elements = known.elements(edge);
    if (!want.numbers || !elements.known_rank()) return "";
    if (static_cast<size_t>(elements.rank()) != want.numbers->size()) return StrCat(elements.rank(), " elements");
    for (size_t i = 0; i < want.numbers->size(); ++i)
      if (std::string wrong = CompareDim(known, elements.dims()[i], (*want.numbers)[i]); !wrong.empty())
        return StrCat("element ", i, " of output ", edge.index, ": ", wrong);
    return "";
  }

  const Json& one_;
  std::mt19937_64 random_;
  const Knows knows_;
  Graph graph_{&Registry()};
  std::vector<std::pair<Edge, Value>> sources_;
  std::map<int64_t, int64_t> sizes_;
  bool gave_names_ = false;
};

TEST(NamedShapes, AreWhatTensorFlowComputes) {
  LoadAll();
  const uint64_t tries = fakes::IsWhole() ? 200 : 8;
  std::set<std::string> with_names, tried, wrong_ops;
  size_t cases = 0, wrong_ones = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TENON_TEST_SOURCE_DIR "/tests/golden/cases")) {
    std::ifstream text(entry.path());
    for (std::string line; std::getline(text, line);) {
      const Json one = Json::parse(line);
      if (one.contains("graph") || one.contains("error") || one.contains("before") || one.contains("vars")) continue;
      ++cases;
      for (uint64_t seed = 0; seed < tries; ++seed) {
        Trial trial(one, cases * 1000 + seed);
        const std::string wrong = trial.Run();
        tried.insert(one["op"]);
        if (trial.gave_names()) with_names.insert(one["op"]);
        if (!wrong.empty() && ++wrong_ones > 0 && wrong_ops.insert(one["op"]).second)
          ADD_FAILURE() << one["op"] << " in " << entry.path().stem() << ", seed " << cases * 1000 + seed << ": "
                        << wrong << "\n"
                        << one["attrs"] << " of " << line.substr(0, 300);
      }
    }
  }
  std::printf("%zu cases of %zu ops; names came out of %zu of them\n", cases, tried.size(), with_names.size());
  EXPECT_EQ(wrong_ones, 0u);
  EXPECT_GT(cases, 10000u);
  EXPECT_GT(with_names.size(), 400u);
}

// What a stranger's graph computes may be known before the step, and reach beyond the list that it is taken from.
TEST(NamedShapes, OfASliceThatReachesTooFarHoldNoSizes) {
  LoadAll();
  Graph graph(&Registry());
  const auto add = [&](const char* op, std::vector<Edge> inputs, AttrMap attrs) -> Edge {
    NodeSpec spec{Registry().FindOrNull(op), graph.UniqueName(op), std::move(inputs), {}, std::move(attrs), {}};
    return {*graph.Add(std::move(spec)), 0};
  };
  const auto list = [&](std::vector<int32_t> numbers, Shape shape) {
    auto tensor = *Tensor::Allocate(GlobalPool(), TENON_DT_INT32, shape);
    std::copy(numbers.begin(), numbers.end(), tensor.as<int32_t>());
    return add("Const", {}, {{"dtype", AttrValue::Type(TENON_DT_INT32)}, {"value", AttrValue::OfTensor(tensor)}});
  };
  const AttrMap ints = {{"T", AttrValue::Type(TENON_DT_INT32)}};
  const Edge x = add("Placeholder", {}, {{"dtype", AttrValue::Type(TENON_DT_FLOAT)},
                                         {"shape", AttrValue::OfShape({-1, -1, -1})}});
  const Edge sizes = add("Shape", {x}, {{"T", AttrValue::Type(TENON_DT_FLOAT)}});
  const Edge count = add("Size", {x}, {{"T", AttrValue::Type(TENON_DT_FLOAT)}});
  const Edge million = add("FloorDiv", {add("Mul", {count, list({1000000}, {})}, ints), count}, ints);
  const Edge reach = add("Pack", {million}, {{"T", AttrValue::Type(TENON_DT_INT32)}, {"N", AttrValue::Int(1)}});
  const Edge slice = add("Slice", {sizes, list({1}, {1}), reach},
                         {{"T", AttrValue::Type(TENON_DT_INT32)}, {"Index", AttrValue::Type(TENON_DT_INT32)}});
  ShapeInference known(&graph);
  ASSERT_TRUE(known.Run().ok());
  EXPECT_EQ(known.elements(reach), (Shape{1000000}));
  EXPECT_FALSE(known.elements(slice).known_rank());
}

}  // namespace
}  // namespace tenon::golden::named_shapes_test
