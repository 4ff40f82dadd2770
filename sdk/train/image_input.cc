// SPDX-License-Identifier: Apache-2.0
#include "sdk/train/image_input.h"

#include <limits>
#include <string>
#include <utility>

namespace tenon::train {
namespace {

constexpr int64_t kHeldOutShare = 10;           // one record of so many
constexpr int64_t kMostShuffledRecords = 10000;  // whose bytes lie in memory
constexpr int32_t kMargin = 4;                   // pixels by which a picture may be moved

using host::Define;
using host::Function;
using Types = std::vector<DType>;
using Shapes = std::vector<Shape>;

// A dataset under construction.
class Pipeline {
 public:
  Pipeline(Graph& graph, Types types, Shapes shapes) : graph_(graph), types_(std::move(types)), shapes_(std::move(shapes)) {}

  Output dataset;

  Output Int(int64_t value) { return graph_.Const(value); }
  Attrs Spec(Attrs attrs = {}) const {
    attrs.push_back({"output_types", types_});
    attrs.push_back({"output_shapes", shapes_});
    return attrs;
  }
  void Then(std::string_view op, std::vector<Output> more, Attrs attrs = {}) {
    more.insert(more.begin(), dataset);
    dataset = graph_.Op(op, {std::move(more)}, Spec(std::move(attrs)));
  }
  // An element's number before it.
  void Enumerate() {
    const Output numbers = graph_.Op("RangeDataset", {Int(0), Int(std::numeric_limits<int64_t>::max()), Int(1)},
                                     {{"output_types", Types{DType::kInt64}}, {"output_shapes", Shapes{Shape()}}});
    types_.insert(types_.begin(), DType::kInt64);
    shapes_.insert(shapes_.begin(), Shape());
    dataset = graph_.Op("ZipDataset", {std::vector<Output>{numbers, dataset}}, Spec());
  }
  void Filter(const Function& predicate) { Then("FilterDataset", {}, {{"predicate", predicate}, {"Targuments", Types{}}}); }
  // The order of the calls' results is that of the elements.
  void Map(const Function& function, Types types, Shapes shapes) {
    types_ = std::move(types);
    shapes_ = std::move(shapes);
    Then("ParallelMapDatasetV2", {Int(-1)}, {{"f", function}, {"Targuments", Types{}}});
  }
  void Batch(int64_t size, bool drop) {
    for (Shape& shape : shapes_) {
      std::vector<int64_t> dims = {drop ? size : -1};
      for (int i = 0; i < shape.rank(); ++i) dims.push_back(shape[i]);
      shape = Shape(dims);
    }
    Then("BatchDatasetV2", {Int(size), graph_.Const(drop)});
  }
  ImageInput Iterate(std::string_view name) {
    const Output iterator = graph_.Op("IteratorV2", {}, Spec({{"shared_name", std::string(name)}, {"container", std::string()}}), "iterator");
    ImageInput input;
    input.begin = graph_.AddNode("MakeIterator", {dataset, iterator}, {}, "begin");
    const Operation next = graph_.AddNode("IteratorGetNext", {iterator}, Spec(), "next");
    input.images = next.output(0);
    input.labels = next.output(1);
    return input;
  }

 private:
  Graph& graph_;
  Types types_;
  Shapes shapes_;
};

// A number in [low, high) that is the example's own.
Output Random(Graph& graph, Output seed, float low, float high) {
  return graph.Op("AddV2", {graph.Op("Mul", {graph.Op("StatelessRandomUniform", {graph.Const(std::vector<int32_t>{}, {0}), seed}), graph.Const(high - low)}), graph.Const(low)});
}

// A picture, float [side + 2 margins, the same, 3] in [0, 255], moved, mirrored, lighter or darker.
Output Distorted(Graph& graph, Output picture, Output number, const ImageOptions& options) {
  const auto side = static_cast<int32_t>(options.side);
  const auto seed = [&](int64_t which) {
    return graph.Op("Pack", {std::vector<Output>{graph.Const(static_cast<int64_t>(options.seed * 8) + which), number}});
  };
  const auto place = [&](int64_t which) { return graph.Op("Cast", {Random(graph, seed(which), 0, 2 * kMargin + 1)}, {{"DstT", DType::kInt32}}); };
  const Output begin = graph.Op("Pack", {std::vector<Output>{place(0), place(1), graph.Const(0)}});
  const Output cut = graph.Op("Slice", {picture, begin, graph.Const({side, side, 3})});
  Output turned = cut;
  if (options.mirror) {
    const Output turns = graph.Op("Less", {Random(graph, seed(2), 0, 1), graph.Const(0.5f)});
    turned = graph.Op("SelectV2", {turns, graph.Op("ReverseV2", {cut, graph.Const({1})}), cut});
  }
  const Output contrasted = graph.Op("AdjustContrastv2", {turned, Random(graph, seed(3), 0.7f, 1.3f)});
  const Output lit = graph.Op("AddV2", {contrasted, Random(graph, seed(4), -40, 40)});
  return graph.Op("Minimum", {graph.Op("Maximum", {lit, graph.Const(0.0f)}), graph.Const(255.0f)});
}

// The picture of an encoded file, scaled; float [side, side, 3] in [0, 255].
Output Picture(Graph& graph, Output encoded, Output number, const ImageOptions& options, bool distort) {
  const auto side = static_cast<int32_t>(options.side) + (distort ? 2 * kMargin : 0);
  const Output decoded = graph.Op("DecodeImage", {encoded}, {{"channels", int64_t{3}}, {"expand_animations", false}}, "decoded");
  const Output pixels = graph.Op("ExpandDims", {graph.Op("Cast", {decoded}, {{"DstT", DType::kFloat}}), graph.Const(0)});
  const Output scaled = graph.Op("ResizeBilinear", {pixels, graph.Const({side, side})}, {{"half_pixel_centers", true}}, "scaled");
  const Output picture = graph.Op("Reshape", {scaled, graph.Const({side, side, 3})});
  return distort ? Distorted(graph, picture, number, options) : picture;
}

std::vector<Output> Element(Graph& graph, Output encoded, Output label, Output number, const ImageOptions& options, bool distort) {
  const Output picture = Picture(graph, encoded, number, options, distort);
  return {graph.Op("Sub", {graph.Op("Mul", {picture, graph.Const(1 / 127.5f)}), graph.Const(1.0f)}), label};
}

// An Example's picture and label.
std::pair<Output, Output> Parsed(Graph& graph, Output record) {
  const Operation parsed = graph.AddNode(
      "ParseSingleExample", {record, graph.StringConst(""), graph.Const(int64_t{0})},
      {{"num_sparse", int64_t{0}}, {"sparse_keys", std::vector<std::string>{}}, {"dense_keys", std::vector<std::string>{"image/encoded", "image/class/label"}},
       {"sparse_types", Types{}}, {"Tdense", Types{DType::kString, DType::kInt64}}, {"dense_shapes", Shapes{Shape(), Shape()}}}, "parsed");
  return {parsed.output(0), parsed.output(1)};
}

// The number of an element, and what it is of: of files name and label, of records the record.
Function Reader(Graph& graph, const ImageSource& source, const ImageOptions& options, std::string_view name, bool distort) {
  const bool records = !source.records.empty();
  std::vector<host::Argument> arguments = {{DType::kInt64, Shape()}, {DType::kString, Shape()}};
  if (!records) arguments.push_back({DType::kInt64, Shape()});
  return Define(graph, name, [&](Graph& body, const std::vector<Output>& x) {
    if (!records) return Element(body, body.Op("ReadFile", {x[1]}, {}, "bytes"), x[2], x[0], options, distort);
    const auto [encoded, label] = Parsed(body, x[1]);
    return Element(body, encoded, label, x[0], options, distort);
  }, arguments);
}

// Names and labels; or the records whose number is of the held-out ones, or is not.
Pipeline Elements(Graph& graph, const ImageSource& source, bool held_out) {
  if (source.records.empty()) {
    Pipeline files(graph, {DType::kString, DType::kInt64}, {Shape(), Shape()});
    const std::vector<std::string>& names = held_out ? source.held_out_files : source.files;
    const std::vector<int64_t>& labels = held_out ? source.held_out_labels : source.labels;
    files.dataset = graph.Op("TensorSliceDataset", {std::vector<Output>{graph.StringConst(names, "names"), graph.Const(labels, {static_cast<int64_t>(labels.size())}, "labels")}},
                             {{"Toutput_types", Types{DType::kString, DType::kInt64}}, {"output_shapes", Shapes{Shape(), Shape()}}});
    return files;
  }
  Pipeline records(graph, {DType::kString}, {Shape()});
  records.dataset = graph.Op("TFRecordDataset", {graph.StringConst(source.records, "file"), graph.StringConst(""), graph.Const(int64_t{0})});
  records.Enumerate();
  records.Filter(Define(graph, held_out ? "is_held_out" : "is_trained_on", [&](Graph& body, const std::vector<Output>& x) {
    const Output rest = body.Op("FloorMod", {x[0], body.Const(kHeldOutShare)});
    return body.Op(held_out ? "Equal" : "NotEqual", {rest, body.Const(int64_t{0})});
  }, {{DType::kInt64, Shape()}, {DType::kString, Shape()}}));
  return records;
}

// Without the numbers in their file, where they have such.
void DropNumbers(Graph& graph, Pipeline* records, std::string_view name) {
  records->Map(Define(graph, name, [](Graph& body, const std::vector<Output>& x) { return body.Op("Identity", {x[1]}); },
                      {{DType::kInt64, Shape()}, {DType::kString, Shape()}}),
               {DType::kString}, {Shape()});
}

Shapes OnePicture(const ImageOptions& options) { return {Shape{options.side, options.side, 3}, Shape()}; }

}  // namespace

ImageInput TrainingInput(Graph& graph, const ImageSource& source, const ImageOptions& options, Output skip) {
  const auto scope = graph.Scope("input");
  Pipeline p = Elements(graph, source, false);
  if (!source.records.empty()) DropNumbers(graph, &p, "trained_on_records");
  const int64_t buffer = source.records.empty() ? static_cast<int64_t>(source.files.size()) : kMostShuffledRecords;
  p.Then("ShuffleDataset", {p.Int(buffer), p.Int(static_cast<int64_t>(options.seed)), p.Int(1)}, {{"reshuffle_each_iteration", true}});
  p.Then("RepeatDataset", {p.Int(-1)});
  p.Enumerate();
  p.Then("SkipDataset", {skip});
  p.Map(Reader(graph, source, options, "read_and_distort", options.distort), {DType::kFloat, DType::kInt64}, OnePicture(options));
  p.Batch(options.batch, true);
  p.Then("PrefetchDataset", {p.Int(-1)});
  return p.Iterate("training_input");
}

ImageInput HeldOutInput(Graph& graph, const ImageSource& source, const ImageOptions& options) {
  const auto scope = graph.Scope("held_out");
  Pipeline p = Elements(graph, source, true);
  if (source.records.empty()) p.Enumerate();
  p.Map(Reader(graph, source, options, "read", false), {DType::kFloat, DType::kInt64}, OnePicture(options));
  p.Batch(options.batch, false);
  p.Then("PrefetchDataset", {p.Int(1)});
  return p.Iterate("held_out_input");
}

Output ScaledPixels(Graph& graph, Output pictures) {
  const Output pixels = graph.Op("Cast", {pictures}, {{"DstT", DType::kFloat}});
  return graph.Op("Sub", {graph.Op("Mul", {pixels, graph.Const(1 / 127.5f)}), graph.Const(1.0f)});
}

}  // namespace tenon::train
