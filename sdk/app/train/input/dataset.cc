// SPDX-License-Identifier: Apache-2.0
#include "tenon/train/dataset.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "sdk/app/train/function_name.h"

namespace tenon::train {
namespace {

using Types = std::vector<DType>;
using Shapes = std::vector<Shape>;
using Outputs = std::vector<Output>;

Types TypesOf(const std::vector<Component>& components) {
  Types types;
  for (const Component& component : components) types.push_back(component.dtype);
  return types;
}
Shapes ShapesOf(const std::vector<Component>& components) {
  Shapes shapes;
  for (const Component& component : components) shapes.push_back(component.shape);
  return shapes;
}
std::vector<Component> ComponentsOf(const Outputs& outputs) {
  std::vector<Component> components;
  for (const Output& output : outputs) components.push_back({output.dtype(), output.shape()});
  return components;
}
Types TypesOf(const Outputs& outputs) { return TypesOf(ComponentsOf(outputs)); }

Shape WithFirst(int64_t first, const Shape& rest) {
  if (!rest.has_rank()) return Shape::Unknown();
  std::vector<int64_t> dims = {first};
  dims.insert(dims.end(), rest.dims().begin(), rest.dims().end());
  return Shape(std::move(dims));
}
Shape WithoutFirst(const Shape& shape) {
  if (shape.rank() < 1) return Shape::Unknown();
  return Shape(std::vector<int64_t>(shape.dims().begin() + 1, shape.dims().end()));
}
// What is known of a value that has one of the two shapes.
Shape Either(const Shape& a, const Shape& b) {
  if (a.rank() != b.rank() || !a.has_rank()) return Shape::Unknown();
  std::vector<int64_t> dims = a.dims();
  for (size_t i = 0; i < dims.size(); ++i)
    if (dims[i] != b[i]) dims[i] = -1;
  return Shape(std::move(dims));
}

Attrs WithSpec(Attrs attrs, const std::vector<Component>& components, const char* types = "output_types") {
  attrs.push_back({types, TypesOf(components)});
  attrs.push_back({"output_shapes", ShapesOf(components)});
  return attrs;
}

void Refuse(Graph& graph, const std::string& why) { graph.Fail(Status(Code::kInvalidArgument, why)); }

}  // namespace

// A function that was built of the element.
struct Dataset::Traced {
  host::Function function;
  std::vector<Component> results;
  Outputs captured;
};

Dataset::Traced Dataset::Trace(std::string_view name, const host::FunctionBody& body, const Outputs& captured) const {
  std::vector<host::Argument> arguments;
  for (const Component& component : components_) arguments.emplace_back(component.dtype, component.shape);
  for (const Output& output : captured) arguments.emplace_back(output.dtype(), output.shape());
  Traced traced;
  traced.captured = captured;
  const auto keep = [&](Graph& inside, const Outputs& x) {
    host::FunctionResults results = body(inside, x);
    traced.results = ComponentsOf(results.outputs);
    return results;
  };
  traced.function = host::Define(*graph_, FreeFunctionName(*graph_, std::string(name)), keep, arguments);
  return traced;
}

Dataset Dataset::Then(std::string_view op, Outputs more, Attrs attrs) const {
  return Then(op, std::move(more), std::move(attrs), components_);
}
Dataset Dataset::Then(std::string_view op, Outputs more, Attrs attrs, std::vector<Component> components) const {
  more.insert(more.begin(), variant_);
  const Output made = graph_->Op(op, more, WithSpec(std::move(attrs), components));
  return Dataset(*graph_, made, std::move(components));
}

std::vector<Component> Dataset::Batched(int64_t size) const {
  std::vector<Component> batched = components_;
  for (Component& component : batched) component.shape = WithFirst(size, component.shape);
  return batched;
}

// ---- Sources ----

Dataset Dataset::FromTensors(Graph& graph, const Outputs& components) {
  const std::vector<Component> element = ComponentsOf(components);
  return Dataset(graph, graph.Op("TensorDataset", components, WithSpec({}, element, "Toutput_types")), element);
}

Dataset Dataset::FromTensorSlices(Graph& graph, const Outputs& components) {
  std::vector<Component> element = ComponentsOf(components);
  for (Component& component : element) component.shape = WithoutFirst(component.shape);
  return Dataset(graph, graph.Op("TensorSliceDataset", components, WithSpec({}, element, "Toutput_types")), element);
}

Dataset Dataset::Range(Graph& graph, int64_t begin, int64_t end, int64_t step) {
  const std::vector<Component> element = {{DType::kInt64, Shape()}};
  return Dataset(
      graph, graph.Op("RangeDataset", {graph.Const(begin), graph.Const(end), graph.Const(step)}, WithSpec({}, element)),
      element);
}

Dataset Dataset::OfFiles(Graph& graph, std::string_view op, Outputs inputs) {
  return Dataset(graph, graph.Op(op, inputs), {{DType::kString, Shape()}});
}

Dataset Dataset::MatchingFiles(Graph& graph, Output patterns) {
  return OfFiles(graph, "MatchingFilesDataset", {patterns});
}

Dataset Dataset::TFRecords(Graph& graph, Output files, std::string_view compression) {
  return OfFiles(graph, "TFRecordDataset", {files, graph.StringConst(compression), graph.Const(int64_t{0})});
}

Dataset Dataset::TextLines(Graph& graph, Output files, std::string_view compression) {
  return OfFiles(graph, "TextLineDataset", {files, graph.StringConst(compression), graph.Const(int64_t{0})});
}

Dataset Dataset::FixedLengthRecords(Graph& graph, Output files, int64_t record_bytes, int64_t header_bytes,
                                    int64_t footer_bytes, std::string_view compression) {
  return OfFiles(graph, "FixedLengthRecordDatasetV2",
                 {files, graph.Const(header_bytes), graph.Const(record_bytes), graph.Const(footer_bytes),
                  graph.Const(int64_t{0}), graph.StringConst(compression)});
}

Dataset Dataset::FromVariant(Graph& graph, Output variant, std::vector<Component> components) {
  return Dataset(graph, variant, std::move(components));
}

Dataset Dataset::Zip(const std::vector<Dataset>& datasets) {
  Outputs variants;
  std::vector<Component> components;
  for (const Dataset& dataset : datasets) {
    variants.push_back(dataset.variant_);
    components.insert(components.end(), dataset.components_.begin(), dataset.components_.end());
  }
  Graph& graph = *datasets.at(0).graph_;
  return Dataset(graph, graph.Op("ZipDataset", variants, WithSpec({}, components)), components);
}

// ---- Other datasets ----

Dataset Dataset::Map(const host::FunctionBody& body, const MapOptions& options) const {
  const Traced traced = Trace(options.name, body, options.captured);
  Outputs more = traced.captured;
  Attrs attrs = {{"f", traced.function}, {"Targuments", TypesOf(traced.captured)}};
  if (options.parallel_calls == 0) return Then("MapDataset", std::move(more), std::move(attrs), traced.results);
  more.push_back(graph_->Const(options.parallel_calls));
  attrs.push_back({"deterministic", std::string(options.deterministic ? "true" : "false")});
  return Then("ParallelMapDatasetV2", std::move(more), std::move(attrs), traced.results);
}

Dataset Dataset::Filter(const Predicate& predicate, const Outputs& captured) const {
  const Traced traced = Trace("dataset_filter", predicate, captured);
  return Then("FilterDataset", traced.captured, {{"predicate", traced.function}, {"Targuments", TypesOf(captured)}});
}

Dataset Dataset::TakeWhile(const Predicate& predicate, const Outputs& captured) const {
  const Traced traced = Trace("dataset_take_while", predicate, captured);
  return Then("TakeWhileDataset", traced.captured, {{"predicate", traced.function}, {"Targuments", TypesOf(captured)}});
}

Dataset Dataset::Expand(std::string_view op, std::string_view name, const Expansion& body, const Outputs& captured,
                        Outputs more, Attrs attrs) const {
  std::vector<Component> components;
  const Traced traced = Trace(
      name,
      [&](Graph& inside, const Outputs& x) {
        const Dataset made = body(inside, x);
        components = made.components_;
        return made.variant_;
      },
      captured);
  more.insert(more.begin(), captured.begin(), captured.end());
  attrs.push_back({"f", traced.function});
  attrs.push_back({"Targuments", TypesOf(captured)});
  return Then(op, std::move(more), std::move(attrs), std::move(components));
}

Dataset Dataset::FlatMap(const Expansion& body, const Outputs& captured) const {
  return Expand("FlatMapDataset", "dataset_flat_map", body, captured, {}, {});
}

Dataset Dataset::Interleave(const Expansion& body, const InterleaveOptions& options) const {
  // TensorFlow has no cycle that tunes itself where nothing runs beside: it reads one after the other then.
  const bool parallel = options.parallel_calls != 0;
  const int64_t cycle = options.cycle_length == kAutotune && !parallel ? 1 : options.cycle_length;
  Outputs more = {graph_->Const(cycle), graph_->Const(options.block_length)};
  if (!parallel) return Expand("InterleaveDataset", "dataset_interleave", body, options.captured, std::move(more), {});
  for (const int64_t number : {kAutotune, kAutotune, options.parallel_calls})
    more.push_back(graph_->Const(number));  // buffered, prefetched: the engine's choice
  return Expand("ParallelInterleaveDatasetV4", "dataset_interleave", body, options.captured, std::move(more),
                {{"deterministic", std::string(options.deterministic ? "true" : "false")}});
}

Dataset Dataset::Shuffle(int64_t buffer_size, const ShuffleOptions& options) const {
  return Then("ShuffleDataset", {graph_->Const(buffer_size), graph_->Const(options.seed), graph_->Const(options.seed2)},
              {{"reshuffle_each_iteration", options.reshuffle_each_iteration}});
}

Dataset Dataset::Repeat(int64_t count) const { return Then("RepeatDataset", {graph_->Const(count)}); }
Dataset Dataset::Take(int64_t count) const { return Then("TakeDataset", {graph_->Const(count)}); }
Dataset Dataset::Skip(int64_t count) const { return Skip(graph_->Const(count)); }
Dataset Dataset::Skip(Output count) const { return Then("SkipDataset", {count}); }
Dataset Dataset::Shard(int64_t shards, int64_t index) const {
  return Then("ShardDataset", {graph_->Const(shards), graph_->Const(index)});
}

Dataset Dataset::Concatenate(const Dataset& next) const {
  if (TypesOf(components_) != TypesOf(next.components_))
    Refuse(*graph_, "Concatenate: the datasets' elements have components of different dtypes");
  std::vector<Component> components = components_;
  for (size_t i = 0; i < components.size() && i < next.components_.size(); ++i)
    components[i].shape = Either(components[i].shape, next.components_[i].shape);
  return Then("ConcatenateDataset", {next.variant_}, {}, std::move(components));
}

Dataset Dataset::Enumerate(int64_t first) const {
  return Zip({Range(*graph_, first, std::numeric_limits<int64_t>::max()), *this});
}

Dataset Dataset::Batch(int64_t size, bool drop_remainder) const {
  return Then("BatchDatasetV2", {graph_->Const(size), graph_->Const(drop_remainder)}, {},
              Batched(drop_remainder ? size : -1));
}

Dataset Dataset::PaddedBatch(int64_t size, const PaddingOptions& options) const {
  Dataset batched = PaddedBatch(graph_->Const(size), options);
  if (!options.drop_remainder) return batched;
  for (Component& component : batched.components_) component.shape = WithFirst(size, WithoutFirst(component.shape));
  return batched;
}

Dataset Dataset::PaddedBatch(Output size, const PaddingOptions& options) const {
  const Result<Shapes> known = PaddedShapes(options);
  if (!known.ok()) {
    graph_->Fail(known.status());
    return *this;
  }
  Outputs shapes;
  for (const Shape& shape : *known) shapes.push_back(graph_->Const(shape.dims(), {shape.rank()}));
  return Padded(size, shapes, *known, options);
}

// What the options make of the components' shapes, each of a known rank.
Result<Shapes> Dataset::PaddedShapes(const PaddingOptions& options) const {
  Shapes shapes = options.shapes.empty() ? ShapesOf(components_) : options.shapes;
  const auto wrong = [&](const auto& given) { return !given.empty() && given.size() != components_.size(); };
  if (wrong(shapes) || wrong(options.values))
    return Status(Code::kInvalidArgument, "PaddedBatch: " + std::to_string(shapes.size()) + " shapes and " +
                                              std::to_string(options.values.size()) + " values for elements of " +
                                              std::to_string(components_.size()) + " components");
  for (size_t i = 0; i < shapes.size(); ++i)
    if (!shapes[i].has_rank())
      return Status(Code::kInvalidArgument,
                    "PaddedBatch: nothing is known of the shape of component " + std::to_string(i) +
                        "; say it in PaddingOptions::shapes, with -1 for what is to be as long as the longest");
  return shapes;
}

// shapes: what the step pads to, one vector a component; known: what is known of it now.
Dataset Dataset::Padded(const Output& size, const Outputs& shapes, const Shapes& known,
                        const PaddingOptions& options) const {
  std::vector<Component> components = components_;
  Outputs more = {variant_, size};
  more.insert(more.end(), shapes.begin(), shapes.end());
  for (size_t i = 0; i < components.size(); ++i) {
    components[i].shape = WithFirst(-1, known[i]);
    if (!options.values.empty()) more.push_back(options.values[i]);
    else if (components[i].dtype == DType::kString) more.push_back(graph_->StringConst(""));
    else more.push_back(graph_->Op("Cast", {graph_->Const(0.0f)}, {{"DstT", components[i].dtype}}));
  }
  more.push_back(graph_->Const(options.drop_remainder));
  const Output made = graph_->Op("PaddedBatchDatasetV2", more,
                                 WithSpec({{"N", static_cast<int64_t>(shapes.size())}}, components, "Toutput_types"));
  return Dataset(*graph_, made, std::move(components));
}

Dataset Dataset::Unbatch() const {
  std::vector<Component> components = components_;
  for (Component& component : components) component.shape = WithoutFirst(component.shape);
  return Then("UnbatchDataset", {}, {}, std::move(components));
}

Dataset Dataset::Window(int64_t size, const WindowOptions& options) const {
  const std::vector<Component> windows(components_.size(), {DType::kVariant, Shape()});
  return Then("WindowDataset",
              {graph_->Const(size), graph_->Const(options.shift == 0 ? size : options.shift),
               graph_->Const(options.stride), graph_->Const(options.drop_remainder)},
              {}, windows);
}

Dataset Dataset::GroupByWindow(const Predicate& key,
                               const std::function<Dataset(Graph&, Output, const Dataset&)>& reduce,
                               const std::function<Output(Graph&, Output)>& size) const {
  return Grouped(
      key, [&](Graph& body, Output of, const Dataset& window, const Outputs&) { return reduce(body, of, window); }, {},
      size);
}

Dataset Dataset::Grouped(const host::FunctionBody& key, const Reduction& reduce, const Outputs& captured,
                         const std::function<Output(Graph&, Output)>& size) const {
  const Traced keys = Trace("dataset_key", key, {});
  const Dataset of_key(*graph_, variant_, {{DType::kInt64, Shape()}}),
      of_window(*graph_, variant_, {{DType::kInt64, Shape()}, {DType::kVariant, Shape()}});
  std::vector<Component> components;
  const auto make = [&](Graph& inside, const Outputs& x) {
    const Dataset made = reduce(inside, x[0], Dataset(inside, x[1], components_), Outputs(x.begin() + 2, x.end()));
    components = made.components_;
    return made.variant_;
  };
  const Traced reduced = of_window.Trace("dataset_reduce", make, captured);
  const Traced sizes =
      of_key.Trace("dataset_window_size", [&](Graph& inside, const Outputs& x) { return size(inside, x[0]); }, {});
  return Then("GroupByWindowDataset", captured,
              {{"key_func", keys.function},
               {"reduce_func", reduced.function},
               {"window_size_func", sizes.function},
               {"Tkey_func_other_arguments", Types{}},
               {"Treduce_func_other_arguments", TypesOf(captured)},
               {"Twindow_size_func_other_arguments", Types{}}},
              std::move(components));
}

Dataset Dataset::BucketByLength(size_t component, const BucketOptions& options) const {
  if (component >= components_.size()) {
    Refuse(*graph_, "BucketByLength: component " + std::to_string(component) + " of elements of " +
                        std::to_string(components_.size()));
    return *this;
  }
  const auto first_dimension = [component](Graph& body, const Outputs& x) {
    const Output shape = body.Op("Shape", {x[component]}, {{"out_type", DType::kInt64}});
    return body.Op("StridedSlice", {shape, body.Const({0}), body.Const({1}), body.Const({1})},
                   {{"shrink_axis_mask", int64_t{1}}});
  };
  return BucketByLength(first_dimension, options);
}

Dataset Dataset::BucketByLength(const Predicate& length, const BucketOptions& options) const {
  const std::vector<int64_t>&boundaries = options.boundaries, &sizes = options.batch_sizes;
  const auto positive = [](int64_t n) { return n > 0; };
  const bool ascending =
      std::adjacent_find(boundaries.begin(), boundaries.end(), std::greater_equal<>()) == boundaries.end();
  if (sizes.size() != boundaries.size() + 1 || !ascending || !std::all_of(sizes.begin(), sizes.end(), positive) ||
      !std::all_of(boundaries.begin(), boundaries.end(), positive)) {
    Refuse(*graph_,
           "BucketByLength: boundaries are positive and ascend, and there is one positive batch size more than "
           "boundaries; found " +
               std::to_string(boundaries.size()) + " boundaries and " + std::to_string(sizes.size()) + " batch sizes");
    return *this;
  }
  const Result<Shapes> known = PaddedShapes(options.padding);
  if (!known.ok()) {
    graph_->Fail(known.status());
    return *this;
  }
  const auto of_bucket = [](Graph& body, const std::vector<int64_t>& values, const Output& bucket) {
    return body.Op("GatherV2", {body.Const(values, {static_cast<int64_t>(values.size())}), bucket, body.Const(0)});
  };
  const auto bucket_of = [&](Graph& body, const Outputs& x) {
    const Output n = body.Op("Cast", {length(body, x)}, {{"DstT", DType::kInt64}});
    const Output reached =
        body.Op("GreaterEqual", {n, body.Const(boundaries, {static_cast<int64_t>(boundaries.size())})});
    host::FunctionResults bucket(
        body.Op("Sum", {body.Op("Cast", {reached}, {{"DstT", DType::kInt64}}), body.Const({0})}));
    if (options.pad_to_boundary) {
      const Output fits = body.Op("Less", {bucket.outputs[0], body.Const(static_cast<int64_t>(boundaries.size()))});
      const Output why = body.StringConst(
          "elements are padded to their bucket's boundary, and this one's length is not below the last boundary:");
      bucket.effects.push_back(body.AddNode("Assert", {fits, why, n}));
    }
    return bucket;
  };
  const auto size = [&](Graph& body, const Output& bucket) { return of_bucket(body, sizes, bucket); };
  const auto batch = [&](Graph& body, const Output& bucket, const Dataset& window, const Outputs& values) {
    PaddingOptions padding = options.padding;
    padding.values = values;
    Outputs shapes;
    for (const Shape& shape : *known) {
      const Output given = body.Const(shape.dims(), {shape.rank()});
      if (!options.pad_to_boundary || std::find(shape.dims().begin(), shape.dims().end(), -1) == shape.dims().end()) {
        shapes.push_back(given);
        continue;
      }
      const Output boundary = body.Op("Sub", {of_bucket(body, boundaries, bucket), body.Const(int64_t{1})});
      shapes.push_back(body.Op("SelectV2", {body.Op("Less", {given, body.Const(int64_t{0})}), boundary, given}));
    }
    return window.Padded(size(body, bucket), shapes, *known, padding);
  };
  return Grouped(bucket_of, batch, options.padding.values, size);
}

Dataset Dataset::Cache(std::string_view file) const { return Then("CacheDataset", {graph_->StringConst(file)}); }
Dataset Dataset::Prefetch(int64_t buffer_size) const { return Then("PrefetchDataset", {graph_->Const(buffer_size)}); }
Dataset Dataset::IgnoreErrors(bool log_warning) const {
  return Then("IgnoreErrorsDataset", {}, {{"log_warning", log_warning}});
}

// ---- Use ----

DatasetIterator Dataset::MakeIterator(std::string_view name) const {
  DatasetIterator made;
  const std::string scope(name);
  const Output iterator =
      graph_->Op("IteratorV2", {}, WithSpec({{"shared_name", scope}, {"container", std::string()}}, components_),
                 scope + "/iterator");
  made.begin = graph_->AddNode("MakeIterator", {variant_, iterator}, {}, scope + "/begin");
  made.get_next = graph_->AddNode("IteratorGetNext", {iterator}, WithSpec({}, components_), scope + "/next");
  made.next = made.get_next.outputs();
  return made;
}

}  // namespace tenon::train
