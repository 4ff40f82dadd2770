// SPDX-License-Identifier: Apache-2.0
// Dataset: a pipeline of input, as nodes of a graph. Names and meanings are those of TensorFlow's tf.data.
//
//   Dataset sentences = Dataset::TextLines(graph, graph.StringConst("train.txt"))
//                           .Shuffle(10'000, {.seed = 1})
//                           .Map([](Graph& body, const std::vector<Output>& x) { return Words(body, x[0]); },
//                                {.parallel_calls = kAutotune})
//                           .BucketByLength(0, {.boundaries = {16, 32}, .batch_sizes = {64, 32, 16}})
//                           .Prefetch();
//   DatasetIterator input = sentences.MakeIterator("training_input");
//   ... nodes that read input.next ...
//   // a pass from the first element on; steps end with OUT_OF_RANGE behind the last
//   session.RunTargets({input.begin});
//
// An element has components, each a tensor of a dtype and a shape as far as it is known. Each call gives a new dataset
// and leaves this one as it is. Functions of elements are built at once, with a graph of their own, of the element's
// components and then of what `captured` names of the graph around (Define in host/function.h). It all runs in the
// engine, on the device and the task where the nodes are placed; files are opened there.
//
// Failures stand in graph.status(). A dataset is valid as long as its graph; threads: as Graph says.
#ifndef TENON_TRAIN_DATASET_H_
#define TENON_TRAIN_DATASET_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/train/base.h"

namespace tenon::train {

inline constexpr int64_t kAutotune = -1;  // the engine chooses how many

// Of an element.
struct Component {
  DType dtype;
  Shape shape = Shape::Unknown();
};

struct DatasetIterator {
  Operation begin;           // begins a pass; run it before the first step, and again for the next pass
  Operation get_next;        // gives the next element; OUT_OF_RANGE where there is none
  std::vector<Output> next;  // its components
};

struct MapOptions {
  int64_t parallel_calls = 0;  // 0: one call after the other
  bool deterministic = true;   // results come in the elements' order; false: as they are ready
  std::vector<Output> captured = {};
  std::string name = "dataset_map";  // of the function, which errors speak of
};

struct InterleaveOptions {
  int64_t cycle_length = kAutotune;  // datasets read in turn
  int64_t block_length = 1;          // elements that each gives when it is its turn
  int64_t parallel_calls = 0;        // datasets that are read beside one another; 0: none
  bool deterministic = true;
  std::vector<Output> captured = {};
};

struct ShuffleOptions {
  int64_t seed = 0, seed2 = 0;  // both 0: from the session's seed, or the system
  bool reshuffle_each_iteration = true;
};

struct PaddingOptions {
  std::vector<Shape> shapes = {};   // of each component; -1, and dimensions beyond those that are known: the longest of
                                    // the batch. Empty: the components' own shapes
  std::vector<Output> values = {};  // scalars of the components' dtypes; empty: 0, "" and false
  bool drop_remainder = false;
};

struct WindowOptions {
  int64_t shift = 0, stride = 1;  // shift 0: the window's size
  bool drop_remainder = false;
};

struct BucketOptions {
  std::vector<int64_t> boundaries;   // bucket i holds lengths below boundaries[i], the last one all others; ascending,
                                     // > 0
  std::vector<int64_t> batch_sizes;  // one more than boundaries, > 0
  PaddingOptions padding = {};       // shapes: those of one element
  bool pad_to_boundary = false;      // what is not known of a shape becomes its bucket's boundary - 1 instead of the
                                     // longest; elements of the last bucket are INVALID_ARGUMENT then
};

class Dataset {
 public:
  using Predicate = std::function<Output(Graph& body, const std::vector<Output>& element)>;
  using Expansion = std::function<Dataset(Graph& body, const std::vector<Output>& element)>;

  // ---- Sources ----

  // One element of these components.
  static Dataset FromTensors(Graph& graph, const std::vector<Output>& components);
  // An element for each index of the first axis, which is as long for all.
  static Dataset FromTensorSlices(Graph& graph, const std::vector<Output>& components);
  // int64: begin, begin + step, ... before end.
  static Dataset Range(Graph& graph, int64_t begin, int64_t end, int64_t step = 1);
  // Strings: names of the files that match a pattern, or some of them, in alphabetical order.
  static Dataset MatchingFiles(Graph& graph, Output patterns);
  // Strings; files: names, one or more. compression: "", "GZIP", "ZLIB".
  static Dataset TFRecords(Graph& graph, Output files, std::string_view compression = "");
  static Dataset TextLines(Graph& graph, Output files, std::string_view compression = "");
  static Dataset FixedLengthRecords(Graph& graph, Output files, int64_t record_bytes, int64_t header_bytes = 0,
                                    int64_t footer_bytes = 0, std::string_view compression = "");
  // A variant that some node gives, as Window's components are.
  static Dataset FromVariant(Graph& graph, Output variant, std::vector<Component> components);
  // Elements of all beside one another: the components of the first, of the second, ... Ends with the shortest.
  static Dataset Zip(const std::vector<Dataset>& datasets);

  // ---- Other datasets ----

  Dataset Map(const host::FunctionBody& body, const MapOptions& options = {}) const;
  // Elements of which predicate, a scalar bool, holds.
  Dataset Filter(const Predicate& predicate, const std::vector<Output>& captured = {}) const;
  Dataset TakeWhile(const Predicate& predicate, const std::vector<Output>& captured = {}) const;
  // The elements of the dataset that the body makes of each element, one dataset after the other, or several in turn.
  Dataset FlatMap(const Expansion& body, const std::vector<Output>& captured = {}) const;
  Dataset Interleave(const Expansion& body, const InterleaveOptions& options = {}) const;
  Dataset Shuffle(int64_t buffer_size, const ShuffleOptions& options = {}) const;
  Dataset Repeat(int64_t count = -1) const;  // -1: without end
  Dataset Take(int64_t count) const;
  Dataset Skip(int64_t count) const;
  Dataset Skip(Output count) const;
  Dataset Shard(int64_t shards, int64_t index) const;  // element n where n % shards == index
  Dataset Concatenate(const Dataset& next) const;
  Dataset Enumerate(int64_t first = 0) const;  // an int64 before the other components
  Dataset Batch(int64_t size, bool drop_remainder = false) const;
  Dataset PaddedBatch(int64_t size, const PaddingOptions& options = {}) const;
  Dataset PaddedBatch(Output size, const PaddingOptions& options = {}) const;
  Dataset Unbatch() const;
  // Elements whose components are datasets of `size` elements each, one a component (FromVariant).
  Dataset Window(int64_t size, const WindowOptions& options = {}) const;
  // Elements with the same key, a scalar int64, come together: `size` of them, or what is left at the end, become what
  // `reduce` makes of (key, dataset of them).
  Dataset GroupByWindow(const Predicate& key,
                        const std::function<Dataset(Graph& body, Output key, const Dataset& window)>& reduce,
                        const std::function<Output(Graph& body, Output key)>& size) const;
  // Batches of sequences of about the same length, padded: the length is the first dimension of that component.
  Dataset BucketByLength(size_t component, const BucketOptions& options) const;
  // The same with a length, a scalar int32 or int64, of the body's own.
  Dataset BucketByLength(const Predicate& length, const BucketOptions& options) const;
  Dataset Cache(std::string_view file = "") const;  // "": in memory
  Dataset Prefetch(int64_t buffer_size = kAutotune) const;
  // Without the elements whose making fails.
  Dataset IgnoreErrors(bool log_warning = false) const;

  // ---- Use ----

  const std::vector<Component>& components() const { return components_; }
  Output variant() const { return variant_; }
  // The iterator lives in the session under this name, so a graph needs one for each.
  DatasetIterator MakeIterator(std::string_view name) const;

 private:
  Dataset(Graph& graph, Output variant, std::vector<Component> components)
      : graph_(&graph), variant_(variant), components_(std::move(components)) {}
  struct Traced;
  Traced Trace(std::string_view name, const host::FunctionBody& body, const std::vector<Output>& captured) const;
  Dataset Then(std::string_view op, std::vector<Output> more, Attrs attrs = {}) const;
  Dataset Then(std::string_view op, std::vector<Output> more, Attrs attrs, std::vector<Component> components) const;
  Dataset Expand(std::string_view op, std::string_view name, const Expansion& body, const std::vector<Output>& captured,
                 std::vector<Output> more, Attrs attrs) const;
  using Reduction =
      std::function<Dataset(Graph& body, Output key, const Dataset& window, const std::vector<Output>& captured)>;
  static Dataset OfFiles(Graph& graph, std::string_view op, std::vector<Output> inputs);
  std::vector<Component> Batched(int64_t size) const;
  Dataset Padded(const Output& size, const std::vector<Output>& shapes, const std::vector<Shape>& known,
                 const PaddingOptions& options) const;
  Result<std::vector<Shape>> PaddedShapes(const PaddingOptions& options) const;
  Dataset Grouped(const host::FunctionBody& key, const Reduction& reduce, const std::vector<Output>& captured,
                  const std::function<Output(Graph& body, Output key)>& size) const;

  Graph* graph_;
  Output variant_;
  std::vector<Component> components_;
};

}  // namespace tenon::train

#endif  // TENON_TRAIN_DATASET_H_
