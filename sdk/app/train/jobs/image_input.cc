// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/train/jobs/image_input.h"

#include <string>
#include <utility>

#include "tenon/train/dataset.h"

namespace tenon::train {
namespace {

constexpr int64_t kHeldOutShare = 10;           // one record of so many
constexpr int64_t kMostShuffledRecords = 10000;  // whose bytes lie in memory
constexpr int32_t kMargin = 4;                   // pixels by which a picture may be moved

using Types = std::vector<DType>;
using Shapes = std::vector<Shape>;

// A number in [low, high) that is the example's own.
Output Random(Graph& graph, Output seed, float low, float high) {
  return graph.Op(
      "AddV2", {graph.Op("Mul", {graph.Op("StatelessRandomUniform", {graph.Const(std::vector<int32_t>{}, {0}), seed}),
                                 graph.Const(high - low)}),
                graph.Const(low)});
}

// A picture, float [side + 2 margins, the same, 3] in [0, 255], moved, mirrored, lighter or darker.
Output Distorted(Graph& graph, Output picture, Output number, const ImageOptions& options) {
  const auto side = static_cast<int32_t>(options.side);
  const auto seed = [&](int64_t which) {
    return graph.Op("Pack", {std::vector<Output>{graph.Const(static_cast<int64_t>(options.seed * 8) + which), number}});
  };
  const auto place = [&](int64_t which) {
    return graph.Op("Cast", {Random(graph, seed(which), 0, 2 * kMargin + 1)}, {{"DstT", DType::kInt32}});
  };
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
  const Output decoded =
      graph.Op("DecodeImage", {encoded}, {{"channels", int64_t{3}}, {"expand_animations", false}}, "decoded");
  const Output pixels =
      graph.Op("ExpandDims", {graph.Op("Cast", {decoded}, {{"DstT", DType::kFloat}}), graph.Const(0)});
  const Output scaled =
      graph.Op("ResizeBilinear", {pixels, graph.Const({side, side})}, {{"half_pixel_centers", true}}, "scaled");
  const Output picture = graph.Op("Reshape", {scaled, graph.Const({side, side, 3})});
  return distort ? Distorted(graph, picture, number, options) : picture;
}

std::vector<Output> Element(Graph& graph, Output encoded, Output label, Output number, const ImageOptions& options,
                            bool distort) {
  const Output picture = Picture(graph, encoded, number, options, distort);
  return {graph.Op("Sub", {graph.Op("Mul", {picture, graph.Const(1 / 127.5f)}), graph.Const(1.0f)}), label};
}

// An Example's picture and label.
std::pair<Output, Output> Parsed(Graph& graph, Output record) {
  const Operation parsed =
      graph.AddNode("ParseSingleExample", {record, graph.StringConst(""), graph.Const(int64_t{0})},
                    {{"num_sparse", int64_t{0}},
                     {"sparse_keys", std::vector<std::string>{}},
                     {"dense_keys", std::vector<std::string>{"image/encoded", "image/class/label"}},
                     {"sparse_types", Types{}},
                     {"Tdense", Types{DType::kString, DType::kInt64}},
                     {"dense_shapes", Shapes{Shape(), Shape()}}},
                    "parsed");
  return {parsed.output(0), parsed.output(1)};
}

// The number of an element, and what it is of: of files name and label, of records the record.
host::FunctionBody Reader(const ImageSource& source, const ImageOptions& options, bool distort) {
  return [records = !source.records.empty(), options, distort](Graph& body, const std::vector<Output>& x) {
    if (!records) return Element(body, body.Op("ReadFile", {x[1]}, {}, "bytes"), x[2], x[0], options, distort);
    const auto [encoded, label] = Parsed(body, x[1]);
    return Element(body, encoded, label, x[0], options, distort);
  };
}

// Names and labels, or records, of which the held-out ones, or the others, and which have their numbers in the file.
Dataset Elements(Graph& graph, const ImageSource& source, bool held_out) {
  if (source.records.empty()) {
    const std::vector<std::string>& names = held_out ? source.held_out_files : source.files;
    const std::vector<int64_t>& labels = held_out ? source.held_out_labels : source.labels;
    return Dataset::FromTensorSlices(graph, {graph.StringConst(names, "names"),
                                             graph.Const(labels, {static_cast<int64_t>(labels.size())}, "labels")});
  }
  return Dataset::TFRecords(graph, graph.StringConst(source.records, "file"))
      .Enumerate()
      .Filter([held_out](Graph& body, const std::vector<Output>& x) {
        const Output rest = body.Op("FloorMod", {x[0], body.Const(kHeldOutShare)});
        return body.Op(held_out ? "Equal" : "NotEqual", {rest, body.Const(int64_t{0})});
      });
}

ImageInput Begun(const Dataset& pictures, std::string_view name) {
  const DatasetIterator iterator = pictures.MakeIterator(name);
  if (iterator.next.size() != 2) return {};  // the graph has failed
  return {iterator.begin, iterator.next[0], iterator.next[1]};
}

}  // namespace

ImageInput TrainingInput(Graph& graph, const ImageSource& source, const ImageOptions& options, Output skip) {
  const auto scope = graph.Scope("input");
  Dataset elements = Elements(graph, source, false);
  if (!source.records.empty())
    elements = elements.Map(
        [](Graph& body, const std::vector<Output>& x) { return body.Op("Identity", {x[1]}); });  // without the numbers
  const int64_t buffer = source.records.empty() ? static_cast<int64_t>(source.files.size()) : kMostShuffledRecords;
  const Dataset examples = elements.Shuffle(buffer, {.seed = static_cast<int64_t>(options.seed), .seed2 = 1})
                               .Repeat()
                               .Enumerate()
                               .Skip(skip);
  return Begun(
      examples.Map(Reader(source, options, options.distort), {.parallel_calls = kAutotune, .name = "read_and_distort"})
          .Batch(options.batch, true)
          .Prefetch(),
      "training_input");
}

ImageInput HeldOutInput(Graph& graph, const ImageSource& source, const ImageOptions& options) {
  const auto scope = graph.Scope("held_out");
  const Dataset elements = Elements(graph, source, true);
  const Dataset numbered = source.records.empty() ? elements.Enumerate() : elements;
  return Begun(numbered.Map(Reader(source, options, false), {.parallel_calls = kAutotune, .name = "read"})
                   .Batch(options.batch)
                   .Prefetch(1),
               "held_out_input");
}

Output ScaledPixels(Graph& graph, Output pictures) {
  const Output pixels = graph.Op("Cast", {pictures}, {{"DstT", DType::kFloat}});
  return graph.Op("Sub", {graph.Op("Mul", {pixels, graph.Const(1 / 127.5f)}), graph.Const(1.0f)});
}

}  // namespace tenon::train
