// SPDX-License-Identifier: Apache-2.0
// What keeps values beyond a call, by itself or in a loop: a stranger's graph makes it keep as much as there is. Each
// is refused at the session's limit, the process stays within that and 64 MB, and what ends with the step is given
// back.
#include <gtest/gtest.h>
#include <malloc.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/graph/graphdef/graph.pb.h"
#include "tests/engine/engine.h"

namespace tenon::engine {
namespace {

using tensorflow::AttrValue;
using tensorflow::DataType;
using tensorflow::FunctionDef;
using tensorflow::GraphDef;
using tensorflow::NodeDef;
using tensorflow::DT_BOOL;
using tensorflow::DT_FLOAT;
using tensorflow::DT_INT32;
using tensorflow::DT_INT64;
using tensorflow::DT_RESOURCE;
using tensorflow::DT_STRING;
using tensorflow::DT_VARIANT;

constexpr uint64_t kLimit = 64 << 20, kSlack = 64 << 20;

// ---- Building ----

using Names = std::vector<std::string>;
using Attrs = std::vector<std::pair<std::string, AttrValue>>;

AttrValue Type(DataType type) {
  AttrValue value;
  value.set_type(type);
  return value;
}
AttrValue Types(const std::vector<DataType>& types) {
  AttrValue value;
  value.mutable_list();
  for (const DataType type : types) value.mutable_list()->add_type(type);
  return value;
}
AttrValue Function(const std::string& name) {
  AttrValue value;
  value.mutable_func()->set_name(name);
  return value;
}
AttrValue Number(int64_t number) {
  AttrValue value;
  value.set_i(number);
  return value;
}
AttrValue Text(const std::string& text) {
  AttrValue value;
  value.set_s(text);
  return value;
}
// Of one component with `rank` dims of which nothing is known; -1: nothing at all.
AttrValue Shapes(int rank = 0, int count = 1) {
  AttrValue value;
  for (int i = 0; i < count; ++i) {
    auto* shape = value.mutable_list()->add_shape();
    shape->set_unknown_rank(rank < 0);
    for (int k = 0; k < rank; ++k) shape->add_dim()->set_size(-1);
  }
  return value;
}

template <class Nodes>  // a graph, or a function
void Add(Nodes* nodes, const std::string& name, const std::string& op, const Names& inputs, const Attrs& attrs = {}) {
  NodeDef* node = nullptr;
  if constexpr (std::is_same_v<Nodes, GraphDef>) node = nodes->add_node();
  else node = nodes->add_node_def();
  node->set_name(name);
  node->set_op(op);
  for (const std::string& input : inputs) node->add_input(input);
  for (const auto& [key, value] : attrs) (*node->mutable_attr())[key] = value;
}
template <class Nodes>
void AddConst(Nodes* nodes, const std::string& name, DataType type, const std::vector<int64_t>& values,
              const std::vector<int64_t>& dims = {}) {
  AttrValue value;
  auto* tensor = value.mutable_tensor();
  tensor->set_dtype(type);
  for (const int64_t dim : dims) tensor->mutable_tensor_shape()->add_dim()->set_size(dim);
  tensor->mutable_tensor_shape();
  for (const int64_t each : values) {
    if (type == DT_INT64) tensor->add_int64_val(each);
    else if (type == DT_INT32) tensor->add_int_val(static_cast<int32_t>(each));
    else if (type == DT_BOOL) tensor->add_bool_val(each != 0);
    else if (type == DT_STRING) tensor->add_string_val(each == 0 ? "" : std::to_string(each));
    else tensor->add_float_val(static_cast<float>(each));
  }
  Add(nodes, name, "Const", {}, {{"dtype", Type(type)}, {"value", value}});
}
using Arguments = std::vector<std::pair<std::string, DataType>>;
FunctionDef* AddFunction(GraphDef* graph, const std::string& name, const Arguments& takes, const Arguments& gives) {
  FunctionDef* function = graph->mutable_library()->add_function();
  auto* signature = function->mutable_signature();
  signature->set_name(name);
  signature->set_is_stateful(true);
  for (const auto& [argument, type] : takes) {
    auto* added = signature->add_input_arg();
    added->set_name(argument);
    added->set_type(type);
  }
  for (const auto& [result, type] : gives) {
    auto* added = signature->add_output_arg();
    added->set_name(result);
    added->set_type(type);
  }
  return function;
}
void Return(FunctionDef* function, const std::string& result, const std::string& value) {
  (*function->mutable_ret())[result] = value;
}

// ---- Trying ----

void ForgetPeak() { std::ofstream("/proc/self/clear_refs") << "5"; }
uint64_t Memory(const char* what) {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word)
    if (word == what) {
      uint64_t kilobytes = 0;
      status >> kilobytes;
      return kilobytes << 10;
    }
  return 0;
}
constexpr bool kWatched =  // a sanitizer's memory is not ours
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    true;
#else
    false;
#endif

enum class Ends { kWithStep, kWithSession };

void ExpectRefused(const GraphDef& graph, const std::string& target, Ends ends, const std::string& about) {
  (void)TheRuntime();
  malloc_trim(0);  // what an earlier one has left is not there to be used again
  ForgetPeak();
  const uint64_t before = Memory("VmRSS:");
  SessionOptions options;
  options.memory_limit = kLimit;
  auto session = Session::Create(TheRuntime(), options);
  ASSERT_TRUE(session.ok()) << session.status();
  const Status imported = session->Extend(graph.SerializeAsString());
  ASSERT_TRUE(imported.ok()) << about << ": " << imported;
  const Status status = session->Run({}, {}, {target}, {.timeout = std::chrono::seconds(10)}).status();
  EXPECT_EQ(status.code(), Code::kResourceExhausted) << about << ": " << status;
  EXPECT_NE(std::string(status.message()).find("would pass the memory limit of 67108864 bytes"), std::string::npos)
      << about << ": " << status;
  if (!kWatched) {
    EXPECT_LE(Memory("VmHWM:"), before + kLimit + kSlack) << about;
  }
  if (ends == Ends::kWithStep) {
    EXPECT_LT(session->Metrics()->bytes_in_use, 1u << 20) << about << ": not given back";
  }
}

// ---- Datasets ----

// The dataset that `add` makes of one that never ends, "r", of one shared tensor, "x", summed. There are "big", "one"
// and "zero", functions of such an element that give big and three, and one that gives the second of its arguments, a
// dataset.
void TryDataset(const std::string& about, const std::function<void(GraphDef* graph)>& add, int rank = 0) {
  GraphDef graph;
  const Attrs elements = {{"output_types", Types({DT_INT64})}, {"output_shapes", Shapes(rank)}};
  AddConst(&graph, "x", DT_INT64, {7}, rank == 0 ? std::vector<int64_t>{} : std::vector<int64_t>{1});
  AddConst(&graph, "ever", DT_INT64, {-1});
  AddConst(&graph, "zero", DT_INT64, {0});
  AddConst(&graph, "one", DT_INT64, {1});
  AddConst(&graph, "big", DT_INT64, {int64_t{1} << 40});
  AddConst(&graph, "true", DT_BOOL, {1});
  AddConst(&graph, "nowhere", DT_STRING, {0});
  Add(&graph, "d", "TensorDataset", {"x"}, {{"Toutput_types", Types({DT_INT64})}, {"output_shapes", Shapes(rank)}});
  Add(&graph, "r", "RepeatDataset", {"d", "ever"}, elements);
  add(&graph);
  Add(&graph, "sum", "ReduceDataset", {"kept", "zero"},
      {{"f", Function("add")},
       {"Tstate", Types({DT_INT64})},
       {"Targuments", Types({})},
       {"output_types", Types({DT_INT64})},
       {"output_shapes", Shapes(-1)}});
  FunctionDef* function = AddFunction(&graph, "add", {{"a", DT_INT64}, {"b", DT_INT64}}, {{"y", DT_INT64}});
  Return(function, "y", "a");
  for (const auto& [name, number] :
       {std::pair<std::string, int64_t>{"gives_big", int64_t{1} << 40}, {"gives_three", 3}}) {
    function = AddFunction(&graph, name, {{"a", DT_INT64}}, {{"y", DT_INT64}});
    AddConst(function, "k", DT_INT64, {number});
    Return(function, "y", "k:output:0");
  }
  function = AddFunction(&graph, "gives_window", {{"a", DT_INT64}, {"w", DT_VARIANT}}, {{"y", DT_VARIANT}});
  Return(function, "y", "w");
  function = AddFunction(&graph, "same", {{"a", DT_INT64}}, {{"y", DT_INT64}});
  Return(function, "y", "a");
  ExpectRefused(graph, "sum", Ends::kWithStep, about);
}

const Attrs& OfNumbers() {
  static const Attrs attrs = {{"output_types", Types({DT_INT64})}, {"output_shapes", Shapes(-1)}};
  return attrs;
}
Attrs With(Attrs attrs, const Attrs& more) {
  attrs.insert(attrs.end(), more.begin(), more.end());
  return attrs;
}

TEST(HostileKeeping, ElementsOfAShuffleAreCharged) {
  TryDataset("shuffle", [](GraphDef* g) { Add(g, "kept", "ShuffleDataset", {"r", "big", "one", "one"}, OfNumbers()); });
}
TEST(HostileKeeping, ElementsOfACacheAreCharged) {
  TryDataset("cache", [](GraphDef* g) { Add(g, "kept", "CacheDataset", {"r", "nowhere"}, OfNumbers()); });
}
TEST(HostileKeeping, ElementsAheadOfTheirConsumerAreCharged) {
  TryDataset("prefetch", [](GraphDef* g) {
    Add(g, "ahead", "PrefetchDataset", {"r", "big"}, OfNumbers());
    Add(g, "kept", "CacheDataset", {"ahead", "nowhere"}, OfNumbers());  // whose consumer takes them for ever
  });
}
TEST(HostileKeeping, ElementsOfWindowsAreCharged) {
  TryDataset("window", [](GraphDef* g) {
    Add(g, "windows", "WindowDataset", {"r", "big", "one", "one", "true"},
        {{"output_types", Types({DT_VARIANT})}, {"output_shapes", Shapes()}});
    FunctionDef* first = AddFunction(g, "first", {{"w", DT_VARIANT}}, {{"y", DT_VARIANT}});
    Return(first, "y", "w");
    Add(g, "kept", "FlatMapDataset", {"windows"},
        With(OfNumbers(), {{"f", Function("first")}, {"Targuments", Types({})}}));
  });
  TryDataset("sliding window", [](GraphDef* g) {
    Add(g, "kept", "SlidingWindowDataset", {"r", "big", "one", "one"}, OfNumbers());
  });
}
TEST(HostileKeeping, ElementsOfGroupsAreCharged) {
  TryDataset("group by window", [](GraphDef* g) {
    Attrs attrs = OfNumbers();
    for (const char* of : {"key", "reduce", "window_size"})
      attrs.emplace_back("T" + std::string(of) + "_func_other_arguments", Types({}));
    Add(g, "kept", "GroupByWindowDataset", {"r"},
        With(attrs, {{"key_func", Function("gives_three")},
                     {"reduce_func", Function("gives_window")},
                     {"window_size_func", Function("gives_big")}}));
  });
  TryDataset("group by reducer", [](GraphDef* g) {
    Add(g, "numbers", "RangeDataset", {"zero", "big", "one"}, OfNumbers());
    Attrs attrs = OfNumbers();
    for (const char* of : {"key", "init", "reduce", "finalize"})
      attrs.emplace_back("T" + std::string(of) + "_func_other_arguments", Types({}));
    Add(g, "kept", "GroupByReducerDataset", {"numbers"},
        With(attrs, {{"key_func", Function("same")},
                     {"init_func", Function("gives_three")},
                     {"reduce_func", Function("add")},
                     {"finalize_func", Function("same")}}));
  });
}
TEST(HostileKeeping, RowsOfASparseBatchAreCharged) {
  TryDataset("sparse batch", [](GraphDef* g) {
    AddConst(g, "row", DT_INT64, {1}, {1});
    Add(g, "batch", "DenseToSparseBatchDataset", {"r", "big", "row"},
        {{"output_types", Types({DT_VARIANT})}, {"output_shapes", Shapes(1)}});
    FunctionDef* function = AddFunction(g, "number", {{"w", DT_VARIANT}}, {{"y", DT_INT64}});
    AddConst(function, "k", DT_INT64, {3});
    Return(function, "y", "k:output:0");
    Add(g, "kept", "MapDataset", {"batch"}, With(OfNumbers(), {{"f", Function("number")}, {"Targuments", Types({})}}));
  }, 1);
}

// ---- Loops ----

// A loop that counts for ever, and whose body is what `add` makes, ending with the node "e", which knows the number of
// the turn, "i", and what was there before the loop, "kept" (none: nothing).
struct Loop {
  std::string about;
  std::function<void(FunctionDef* body)> add;
  Ends ends = Ends::kWithStep;
  std::function<void(GraphDef* graph)> before = nullptr;
  DataType kept = DT_INT32;
  std::string becomes = "kept";  // what is there for the next turn
};
void TryLoop(const Loop& loop) {
  GraphDef graph;
  AddConst(&graph, "zero", DT_INT32, {0});
  if (loop.before) loop.before(&graph);
  else AddConst(&graph, "kept", DT_INT32, {0});
  Add(&graph, "loop", "While", {"zero", "kept"},
      {{"T", Types({DT_INT32, loop.kept})},
       {"cond", Function("on")},
       {"body", Function("turn")},
       {"output_shapes", Shapes(-1, 2)}});
  Add(&graph, "turns", "Identity", {"loop"}, {{"T", Type(DT_INT32)}});
  FunctionDef* on = AddFunction(&graph, "on", {{"i", DT_INT32}, {"kept", loop.kept}}, {{"y", DT_BOOL}});
  AddConst(on, "most", DT_INT32, {100000000});
  Add(on, "less", "Less", {"i", "most:output:0"}, {{"T", Type(DT_INT32)}});
  Return(on, "y", "less:z:0");
  FunctionDef* body =
      AddFunction(&graph, "turn", {{"i", DT_INT32}, {"kept", loop.kept}}, {{"next", DT_INT32}, {"still", loop.kept}});
  AddConst(body, "one", DT_INT32, {1});
  AddConst(body, "number", DT_INT64, {1});
  AddConst(body, "x", DT_FLOAT, {1});
  loop.add(body);
  Add(body, "sum", "AddV2", {"i", "one:output:0", "^e"}, {{"T", Type(DT_INT32)}});
  Return(body, "next", "sum:z:0");
  Return(body, "still", loop.becomes);
  ExpectRefused(graph, "turns", loop.ends, loop.about);
}

const Attrs kSharedName = {{"container", Text("")}, {"shared_name", Text("it")}};

TEST(HostileKeeping, HandlesThatALoopMakesAreCharged) {
  for (const char* op : {"AnonymousIterator", "AnonymousIteratorV2", "AnonymousIteratorV3"})
    TryLoop({op, [op](FunctionDef* b) { Add(b, "e", op, {}, OfNumbers()); }});
  for (const char* op : {"AnonymousMultiDeviceIterator", "AnonymousMultiDeviceIteratorV3"})
    TryLoop({op, [op](FunctionDef* b) {
               AttrValue devices;
               devices.mutable_list()->add_s("/device:CPU:0");
               Add(b, "e", op, {}, With(OfNumbers(), {{"devices", devices}}));
             }});
  for (const char* op : {"AnonymousHashTable", "AnonymousMutableHashTable"})
    TryLoop({op, [op](FunctionDef* b) {
               Add(b, "e", op, {}, {{"key_dtype", Type(DT_INT64)}, {"value_dtype", Type(DT_INT64)}});
             }});
  TryLoop({"AnonymousMemoryCache", [](FunctionDef* b) { Add(b, "e", "AnonymousMemoryCache", {}); }});
  TryLoop({"AnonymousRandomSeedGenerator", [](FunctionDef* b) {
             Add(b, "e", "AnonymousRandomSeedGenerator", {"number:output:0", "number:output:0"});
           }});
  TryLoop({"StackV2", [](FunctionDef* b) {
             Add(b, "e", "StackV2", {"one:output:0"}, {{"elem_type", Type(DT_FLOAT)}});
           }});
  TryLoop({"TensorArrayV3", [](FunctionDef* b) {
             Add(b, "e", "TensorArrayV3", {"one:output:0"}, {{"dtype", Type(DT_FLOAT)}});
           }});
}

// What an attribute says is copied for each.
TEST(HostileKeeping, LongNamesOfWhatALoopMakesAreCharged) {
  const std::string name(100'000, 'n');
  TryLoop({"StackV2", [&](FunctionDef* b) {
             Add(b, "e", "StackV2", {"one:output:0"}, {{"elem_type", Type(DT_FLOAT)}, {"stack_name", Text(name)}});
           }});
  TryLoop(
      {"TensorArrayV3", [&](FunctionDef* b) {
         Add(b, "e", "TensorArrayV3", {"one:output:0"}, {{"dtype", Type(DT_FLOAT)}, {"tensor_array_name", Text(name)}});
       }});
  TryLoop({"types", [](FunctionDef* b) {
             Add(b, "e", "AnonymousIteratorV3", {},
                 {{"output_types", Types(std::vector<DataType>(1000, DT_INT64))}, {"output_shapes", Shapes(5, 1000)}});
           }});
}

TEST(HostileKeeping, IteratorsThatALoopBeginsAreCharged) {
  TryLoop({"MakeIterator", [](FunctionDef* b) {
             Add(b, "d", "TensorDataset", {"number:output:0"},
                 {{"Toutput_types", Types({DT_INT64})}, {"output_shapes", Shapes()}});
             Add(b, "it", "AnonymousIteratorV3", {}, OfNumbers());
             Add(b, "e", "MakeIterator", {"d:handle:0", "it:handle:0"});
           }});
}

TEST(HostileKeeping, ValuesOnAStackAreCharged) {
  TryLoop({"StackPushV2",
           [](FunctionDef* b) {
             Add(b, "e", "StackPushV2", {"kept", "x:output:0"}, {{"T", Type(DT_FLOAT)}});
           },
           Ends::kWithStep,
           [](GraphDef* g) {
             AddConst(g, "ever", DT_INT32, {-1});
             Add(g, "kept", "StackV2", {"ever"}, {{"elem_type", Type(DT_FLOAT)}});
           },
           DT_RESOURCE});
}

TEST(HostileKeeping, ElementsOfQueuesAreCharged) {
  for (const char* op : {"FIFOQueueV2", "RandomShuffleQueueV2", "PaddingFIFOQueueV2"})
    TryLoop({op,
             [op](FunctionDef* b) {
               Add(b, "q", op, {},
                   With(kSharedName,
                        {{"component_types", Types({DT_FLOAT})}, {"shapes", Shapes()}, {"capacity", Number(-1)}}));
               Add(b, "e", "QueueEnqueueV2", {"q:handle:0", "x:output:0"}, {{"Tcomponents", Types({DT_FLOAT})}});
             },
             Ends::kWithSession});
  TryLoop({"PriorityQueueV2",
           [](FunctionDef* b) {
             Add(b, "q", "PriorityQueueV2", {},
                 With(kSharedName,
                      {{"component_types", Types({DT_FLOAT})}, {"shapes", Shapes()}, {"capacity", Number(-1)}}));
             Add(b, "e", "QueueEnqueueV2", {"q:handle:0", "number:output:0", "x:output:0"},
                 {{"Tcomponents", Types({DT_INT64, DT_FLOAT})}});
           },
           Ends::kWithSession});
}

TEST(HostileKeeping, ElementsOfStagesAreCharged) {
  const Attrs bounds = {{"capacity", Number(0)}, {"memory_limit", Number(0)}};
  TryLoop({"Stage",
           [&](FunctionDef* b) {
             Add(b, "e", "Stage", {"x:output:0"}, With(With(kSharedName, bounds), {{"dtypes", Types({DT_FLOAT})}}));
           },
           Ends::kWithSession});
  for (const bool ordered : {false, true})
    TryLoop({ordered ? "OrderedMapStage" : "MapStage", [&](FunctionDef* b) {
               Add(b, "key", "Cast", {"i"}, {{"SrcT", Type(DT_INT32)}, {"DstT", Type(DT_INT64)}});
               AddConst(b, "first", DT_INT32, {0}, {1});
               Add(b, "e", ordered ? "OrderedMapStage" : "MapStage", {"key:y:0", "first:output:0", "x:output:0"},
                   With(With(kSharedName, bounds),
                        {{"dtypes", Types({DT_FLOAT})}, {"fake_dtypes", Types({DT_FLOAT})}}));
             },
             Ends::kWithSession});
}

// One of a thousand values has come, for which there are places.
TEST(HostileKeeping, PlacesForValuesThatHaveNotComeAreCharged) {
  const std::vector<DataType> wide(1000, DT_FLOAT);
  TryLoop({"MapStage", [&](FunctionDef* b) {
             Add(b, "key", "Cast", {"i"}, {{"SrcT", Type(DT_INT32)}, {"DstT", Type(DT_INT64)}});
             AddConst(b, "first", DT_INT32, {0}, {1});
             Add(b, "e", "MapStage", {"key:y:0", "first:output:0", "x:output:0"},
                 With(kSharedName, {{"capacity", Number(0)},
                                    {"memory_limit", Number(0)},
                                    {"dtypes", Types(wide)},
                                    {"fake_dtypes", Types({DT_FLOAT})}}));
           },
           Ends::kWithSession});
  TryLoop({"Barrier",
           [&](FunctionDef* b) {
             Add(b, "q", "Barrier", {},
                 With(kSharedName,
                      {{"component_types", Types(wide)}, {"shapes", Shapes(0, 1000)}, {"capacity", Number(-1)}}));
             Add(b, "key", "AsString", {"i"}, {{"T", Type(DT_INT32)}});
             AddConst(b, "axis", DT_INT32, {0});
             Add(b, "keys", "ExpandDims", {"key:output:0", "axis:output:0"},
                 {{"T", Type(DT_STRING)}, {"Tdim", Type(DT_INT32)}});
             AddConst(b, "values", DT_FLOAT, {1}, {1});
             Add(b, "e", "BarrierInsertMany", {"q:handle:0", "keys:output:0", "values:output:0"},
                 {{"T", Type(DT_FLOAT)}, {"component_index", Number(0)}});
           },
           Ends::kWithSession});
}

TEST(HostileKeeping, SparseTensorsOfAMapAreCharged) {
  for (const bool many : {false, true})
    TryLoop({many ? "AddManySparseToTensorsMap" : "AddSparseToTensorsMap", [many](FunctionDef* b) {
               const int64_t rank = many ? 2 : 1;
               AddConst(b, "indices", DT_INT64, std::vector<int64_t>(static_cast<size_t>(rank), 0), {1, rank});
               AddConst(b, "values", DT_FLOAT, {1}, {1});
               AddConst(b, "shape", DT_INT64, std::vector<int64_t>(static_cast<size_t>(rank), 1), {rank});
               Add(b, "e", many ? "AddManySparseToTensorsMap" : "AddSparseToTensorsMap",
                   {"indices:output:0", "values:output:0", "shape:output:0"},
                   With(kSharedName, {{"T", Type(DT_FLOAT)}}));
             },
             Ends::kWithSession});
}

TEST(HostileKeeping, ValuesInOneAnotherAreCharged) {
  const auto number = [](GraphDef* g) {
    AddConst(g, "x", DT_INT64, {7});
    Add(g, "kept", "TensorDataset", {"x"}, {{"Toutput_types", Types({DT_INT64})}, {"output_shapes", Shapes()}});
  };
  TryLoop(
      {"TensorDataset",
       [](FunctionDef* b) {
         Add(b, "e", "TensorDataset", {"kept"}, {{"Toutput_types", Types({DT_VARIANT})}, {"output_shapes", Shapes()}});
       },
       Ends::kWithStep, number, DT_VARIANT, "e:handle:0"});
  TryLoop({"OptionalFromValue",
           [](FunctionDef* b) {
             Add(b, "e", "OptionalFromValue", {"kept"}, {{"Toutput_types", Types({DT_VARIANT})}});
           },
           Ends::kWithStep, number, DT_VARIANT, "e:optional:0"});
  TryLoop({"lists in a list", [](FunctionDef* b) {
             AddConst(b, "shape", DT_INT32, std::vector<int64_t>(250, -1), {250});  // what a list says of itself
             Add(b, "list", "EmptyTensorList", {"shape:output:0", "one:output:0"},
                 {{"element_dtype", Type(DT_FLOAT)}, {"shape_type", Type(DT_INT32)}});
             Add(b, "e", "TensorListPushBack", {"kept", "list:handle:0"}, {{"element_dtype", Type(DT_VARIANT)}});
           },
           Ends::kWithStep,
           [](GraphDef* g) {
             AddConst(g, "shape", DT_INT32, {-1});
             AddConst(g, "most", DT_INT32, {-1});
             Add(g, "kept", "EmptyTensorList", {"shape", "most"},
                 {{"element_dtype", Type(DT_VARIANT)}, {"shape_type", Type(DT_INT32)}});
           },
           DT_VARIANT, "e:output_handle:0"});
}

TEST(HostileKeeping, NumbersInAListAreCharged) {
  TryLoop({"numbers in a list",
           [](FunctionDef* b) {
             Add(b, "e", "TensorListPushBack", {"kept", "i"}, {{"element_dtype", Type(DT_INT32)}});
           },
           Ends::kWithStep,
           [](GraphDef* g) {
             AddConst(g, "shape", DT_INT32, {-1});
             AddConst(g, "most", DT_INT32, {-1});
             Add(g, "kept", "EmptyTensorList", {"shape", "most"},
                 {{"element_dtype", Type(DT_INT32)}, {"shape_type", Type(DT_INT32)}});
           },
           DT_VARIANT, "e:output_handle:0"});
}

// A dataset has its types, its name and its input's; a thousand of them may lie in one.
TEST(HostileKeeping, DatasetsThatAreKeptAreCharged) {
  TryLoop({"chains of datasets",
           [](FunctionDef* b) {
             Add(b, "d0", "TensorDataset", {"number:output:0"},
                 {{"Toutput_types", Types({DT_INT64})}, {"output_shapes", Shapes()}});
             for (int i = 1; i < 100; ++i)
               Add(b, "d" + std::to_string(i), "TakeDataset",
                   {"d" + std::to_string(i - 1) + ":handle:0", "number:output:0"}, OfNumbers());
             Add(b, "e", "Stage", {"d99:handle:0"},
                 With(kSharedName,
                      {{"capacity", Number(0)}, {"memory_limit", Number(0)}, {"dtypes", Types({DT_VARIANT})}}));
           },
           Ends::kWithSession});
  TryLoop({"names of files", [](FunctionDef* b) {
             AddConst(b, "names", DT_STRING, std::vector<int64_t>(1000, 123456789), {1000});
             AddConst(b, "none", DT_STRING, {0});
             Add(b, "d", "TextLineDataset", {"names:output:0", "none:output:0", "number:output:0"});
             Add(b, "e", "Stage", {"d:handle:0"},
                 With(kSharedName,
                      {{"capacity", Number(0)}, {"memory_limit", Number(0)}, {"dtypes", Types({DT_VARIANT})}}));
           },
           Ends::kWithSession});
}

// ---- What others made ----

// A feed is the application's memory, but who keeps it a million times keeps a million records.
TEST(HostileKeeping, WhatAFeedIsKeptInIsCharged) {
  GraphDef graph;
  AttrValue scalar;
  scalar.mutable_shape();
  Add(&graph, "x", "Placeholder", {}, {{"dtype", Type(DT_INT64)}, {"shape", scalar}});
  AddConst(&graph, "ever", DT_INT64, {-1});
  AddConst(&graph, "big", DT_INT64, {int64_t{1} << 40});
  Add(&graph, "d", "TensorDataset", {"x"}, {{"Toutput_types", Types({DT_INT64})}, {"output_shapes", Shapes()}});
  Add(&graph, "r", "RepeatDataset", {"d", "ever"}, OfNumbers());
  Add(&graph, "kept", "ShuffleDataset", {"r", "big", "big", "big"}, OfNumbers());
  Add(&graph, "one", "DatasetToSingleElement", {"kept"}, OfNumbers());
  SessionOptions options;
  options.memory_limit = kLimit;
  auto session = Session::Create(TheRuntime(), options);
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE(session->Extend(graph.SerializeAsString()).ok());
  const Status status =
      session->Run({Feed{"x", *Tensor::Scalar(int64_t{5})}}, {}, {"one"}, {.timeout = std::chrono::seconds(10)})
          .status();
  EXPECT_EQ(status.code(), Code::kResourceExhausted) << status;
  EXPECT_LT(session->Metrics()->bytes_in_use, 1u << 20);
}

}  // namespace
}  // namespace tenon::engine
