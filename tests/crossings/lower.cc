// SPDX-License-Identifier: Apache-2.0
#include "tests/crossings/lower.h"

#include <algorithm>
#include <map>
#include <optional>
#include <random>

#include "tests/crossings/calculation.h"

namespace tenon::crossings {
namespace {

using host::Argument, host::Function, host::FunctionResults, host::Graph, host::Operation, host::Output, host::Shape;

// How a region gets at a variable.
struct Access {
  std::vector<Output> handles;  // a resource, one of each shard, or a reference
  Output value;                 // valid: the region has its value alone
  bool is_reference = false;

  const Output& handle() const { return handles[0]; }
  bool is_parted() const { return handles.size() > 1; }
  // What a function, or a frame, is given of it.
  std::vector<Output> arguments() const {
    if (value.valid()) return {value};
    return is_reference ? std::vector<Output>() : handles;
  }
  // As it is inside, where `given` are arguments of all; takes its own. reference: what a reference outside is inside.
  Access Inside(std::vector<Output>::const_iterator* given,
                const std::function<Output(const Output&)>& reference) const {
    Access inside = *this;
    if (value.valid()) inside.value = *(*given)++;
    else if (is_reference) inside.handles[0] = reference(handles[0]);
    else for (Output& handle : inside.handles) handle = *(*given)++;
    return inside;
  }
};

// Where a region is built: its graph, its variables, and what must go before what.
struct Place {
  Graph& g;
  std::map<int, Access> variables;
  std::map<int, Operation> written;             // last, by variable
  std::map<int, std::vector<Operation>> read;   // since then
  bool is_main = false;

  std::vector<Operation> Before(int variable, bool writes) const {
    std::vector<Operation> operations;
    if (const auto last = written.find(variable); last != written.end()) operations.push_back(last->second);
    if (const auto reads = read.find(variable); writes && reads != read.end())
      operations.insert(operations.end(), reads->second.begin(), reads->second.end());
    return operations;
  }
  void Note(int variable, bool writes, const Operation& operation) {
    if (!writes) return read[variable].push_back(operation);
    written[variable] = operation;
    read[variable].clear();
  }
  // All that must have been done when the region is left.
  std::vector<Operation> Effects() const {
    std::vector<Operation> effects;
    for (const auto& [variable, operation] : written) effects.push_back(operation);
    for (const auto& [variable, operations] : read) effects.insert(effects.end(), operations.begin(), operations.end());
    return effects;
  }
};

bool IsPlain(DType dtype) { return IsNumber(dtype) || dtype == DType::kBool || dtype == DType::kString; }

std::vector<Output> Flatten(const std::vector<Value>& values) {
  std::vector<Output> flat;
  for (const Value& value : values) flat.insert(flat.end(), value.begin(), value.end());
  return flat;
}
std::vector<Value> Unflatten(const std::vector<Type>& types, const std::vector<Output>& flat) {
  std::vector<Value> values;
  size_t at = 0;
  for (const Type& type : types) {
    Value& value = values.emplace_back();
    for (size_t k = 0; k < PartsOf(type); ++k, ++at) value.push_back(at < flat.size() ? flat[at] : Output());
  }
  return values;
}

class Lowering {
 public:
  Lowering(Lowered* to, const Program& program, const Form& form, const std::vector<host::Tensor>& values)
      : to_(*to),
        program_(program),
        form_(form),
        values_(values),
        calculation_(program.smooth),
        random_(program.seed),
        placing_(program.seed) {}

  void Run() {
    Place place{to_.graph, {}, {}, {}, true};
    std::vector<Value> parameters;
    for (size_t i = 0; i < program_.main.parameters.size(); ++i)
      parameters.push_back({Input("x" + std::to_string(i), program_.main.parameters[i], i)});
    MakeVariables(&place);
    begin_ = to_.graph.node_count();
    const std::vector<Value> all = Build(place, program_.main, parameters);
    if (!to_.graph.status().ok()) return;
    for (const int result : program_.main.results) AddResult(result, all[static_cast<size_t>(result)]);
    AddGradients(&place, parameters, all);
    for (const Operation& effect : place.Effects()) AddEffect(effect);
    for (const Operation& effect : effects_) AddEffect(effect);
    for (size_t i = 0; i < program_.variables.size(); ++i) {
      const auto scope = to_.graph.Scope("last");
      const auto device = to_.graph.Device(
          program_.variables[i].holder == Variable::Holder::kTensor ? std::string() : DeviceOfHolder());
      to_.variables.push_back(Last(to_.graph, place.variables.at(static_cast<int>(i)), static_cast<int>(i)).name());
    }
    ListEdges(all);
    ListValues(all);
  }

 private:
  // ---- Inputs and variables ----
  Output Input(const std::string& name, const Type& type, size_t i) {
    if (form_.constants) {
      to_.feeds.emplace_back();
      return to_.graph.Const(host::View(values_[i]), name);
    }
    to_.feeds.push_back(name);
    return to_.graph.Placeholder(name, type.dtype, form_.blind && i % 2 == 0 ? Shape::Unknown() : Shape(type.dims));
  }
  bool IsInFunction(int variable) const {
    bool inside = false;
    std::set<std::pair<int, bool>> called;
    const auto look = [&](const Region& region, bool within, const auto& again) -> void {
      for (const Step& step : region.steps) {
        const bool takes_in_branch = step.what == Do::k_dequeue_or && form_.control != Form::Control::kFrames;
        inside = inside || ((within || takes_in_branch) && step.variable == variable);
        for (const auto& part : step.parts) again(*part, within || form_.control != Form::Control::kFrames, again);
        const bool in_call = within || !form_.inlined || form_.control != Form::Control::kFrames;
        if (step.function >= 0 && called.insert({step.function, in_call}).second)
          again(*program_.functions[static_cast<size_t>(step.function)], in_call, again);
      }
    };
    look(program_.main, false, look);
    return inside;
  }
  bool HasRows(int variable) const {
    bool rows = false;
    const auto look = [&](const Region& region, const auto& again) -> void {
      for (const Step& step : region.steps) {
        rows = rows || (step.variable == variable &&
                        (step.what == Do::k_read_rows || step.what == Do::k_add_rows || step.what == Do::k_set_row));
        for (const auto& part : step.parts) again(*part, again);
      }
    };
    look(program_.main, look);
    for (const auto& function : program_.functions) look(*function, look);
    return rows;
  }
  void MakeVariables(Place* place) {
    Graph& g = to_.graph;
    std::vector<Operation> initial;
    for (size_t i = 0; i < program_.variables.size(); ++i) {
      const Variable& variable = program_.variables[i];
      const auto number = static_cast<int>(i);
      const std::string name = "variable" + std::to_string(i);
      to_.feeds.push_back(name + "_first");
      const Output first = g.Placeholder(name + "_first", variable.dtype, Shape(variable.first().dims));
      Access& access = place->variables[number];
      access.is_reference = form_.references && variable.holder != Variable::Holder::kIterator && !IsInFunction(number);
      switch (variable.holder) {
        case Variable::Holder::kTensor: MakeTensors(number, name, first, &access, &initial); break;
        case Variable::Holder::kQueue: {
          const auto device = g.Device(DeviceOfHolder());
          access.handles = {MakeQueue(g, variable.element(), name, access.is_reference)};
          initial.push_back(
              g.AddNode(access.is_reference ? "QueueEnqueue" : "QueueEnqueueV2", {access.handle(), first}));
          break;
        }
        case Variable::Holder::kIterator: {
          const auto device = g.Device(DeviceOfHolder());
          access.handles = {g.Op(
              "IteratorV2", {}, Spec(variable.element(), {{"shared_name", name}, {"container", std::string()}}), name)};
          initial.push_back(g.AddNode(
              "MakeIterator", {Dataset(g, number, first, calculation_.Scalar(g, variable.dtype, 1)), access.handle()}));
        }
      }
    }
    const auto after = g.ControlDependencies(initial);
    to_.initial = g.AddNode("NoOp", {}, {}, "initial").name();
  }
  // Of queues and iterators, which stay where they are: all that is done with them is done there.
  std::string DeviceOfHolder() const { return form_.placer ? form_.placer(0) : std::string(); }
  std::string DeviceOfTensor(int variable) {
    if (!form_.placer) return "";
    const std::string device = form_.placer(static_cast<uint32_t>(placing_()));
    // Where a variable is, the step that gives it its value says, and a TPU has no kernels that read or change rows.
    return HasRows(variable) && (device.empty() || device.find("TPU") != device.npos) ? form_.placer(0) : device;
  }
  void MakeTensors(int number, const std::string& name, const Output& first, Access* access,
                   std::vector<Operation>* initial) {
    Graph& g = to_.graph;
    const Variable& variable = program_.variables[static_cast<size_t>(number)];
    const bool parted = form_.shards && !access->is_reference && !variable.dims.empty();
    for (int64_t shard = 0; shard < (parted ? kShards : 1); ++shard) {
      const auto device = g.Device(DeviceOfTensor(number));
      const std::string named = parted ? name + "_shard" + std::to_string(shard) : name;
      Dims dims = variable.dims;
      if (parted) dims[0] = static_cast<int64_t>(RowsOf(variable, shard).size());
      const std::string state = Has("shared") ? Describe(TensorType(variable.dtype, variable.dims)) : named;
      const host::Attrs attrs = {{"dtype", variable.dtype}, {"shape", Shape(dims)}, {"shared_name", state}};
      access->handles.push_back(g.Op(access->is_reference ? "VariableV2" : "VarHandleOp", {}, attrs, named));
      const Output value = parted ? RowsOf(g, variable, shard, first) : first;
      initial->push_back(g.AddNode(access->is_reference ? "Assign" : "AssignVariableOp",
                                   {access->handles.back(), value}, {}, named + "_assign"));
    }
  }
  Output MakeQueue(Graph& g, const Type& element, const std::string& name, bool is_reference) {
    const host::Attrs attrs = {{"component_types", std::vector<DType>{element.dtype}},
                               {"shapes", std::vector<Shape>{Shape(element.dims)}},
                               {"capacity", -1},
                               {"shared_name", name}};
    return g.Op(is_reference ? "FIFOQueue" : "FIFOQueueV2", {}, attrs, name);
  }
  static host::Attrs Spec(const Type& element, host::Attrs more = {}) {
    more.push_back({"output_types", std::vector<DType>{element.dtype}});
    more.push_back({"output_shapes", std::vector<Shape>{Shape(element.dims)}});
    return more;
  }
  // The elements that an iterator goes over, of rows: one way or another.
  Output Dataset(Graph& g, int number, const Output& rows, const Output& each) {
    const Variable& variable = program_.variables[static_cast<size_t>(number)];
    const int64_t count = variable.source[0];
    const Type row = TensorType(variable.dtype, {variable.source.begin() + 1, variable.source.end()});
    Type made = variable.element();
    if (variable.batches) made.dims.erase(made.dims.begin());
    const auto whole = [&g](int64_t value) { return g.Const(value); };
    // The map, of which there is one in the graph.
    const std::string name = "map" + std::to_string(number);
    const std::vector<Type> given{row, TensorType(variable.dtype, {})};
    const Function map =
        host::FindFunction(g, name).ok() ? Function{name} : DefinePart(g, name, *variable.map, given, {});
    Output dataset;
    std::vector<Output> more{each};
    Function f = map;
    if (number % 2 == 0) {
      dataset = g.Op(
          "TensorSliceDataset", {rows},
          {{"Toutput_types", std::vector<DType>{row.dtype}}, {"output_shapes", std::vector<Shape>{Shape(row.dims)}}});
    } else {
      dataset = g.Op("RangeDataset", {whole(0), whole(count), whole(1)}, Spec(TensorType(DType::kInt64, {})));
      const std::vector<Argument> arguments{
          {DType::kInt64, Shape()}, {row.dtype, Shape(variable.source)}, {row.dtype, Shape()}};
      f = host::FindFunction(g, name + "_of").ok()
              ? Function{name + "_of"}
              : Define(
                    g, name + "_of",
                    [&](Graph& body, const std::vector<Output>& v) {
                      return body.Call(map, {body.Op("GatherV2", {v[1], v[0], body.Const(0)}), v[2]}).output(0);
                    },
                    arguments);
      more = {rows, each};
    }
    const host::Attrs attrs = Spec(made, {{"f", f}, {"Targuments", std::vector<DType>(more.size(), row.dtype)}});
    std::vector<Output> inputs{dataset};
    inputs.insert(inputs.end(), more.begin(), more.end());
    const bool ahead = random_() % 2 == 0;
    if (ahead) inputs.push_back(whole(2));
    dataset = g.Op(ahead ? "ParallelMapDatasetV2" : "MapDataset", inputs, attrs);
    if (variable.repeats) dataset = g.Op("RepeatDataset", {dataset, whole(-1)}, Spec(made));
    if (variable.batches)
      dataset = g.Op("BatchDatasetV2", {dataset, whole(2), g.Const(true)}, Spec(variable.element()));
    return ahead ? g.Op("PrefetchDataset", {dataset, whole(2)}, Spec(variable.element())) : dataset;
  }

  // ---- Shards ----
  static constexpr int64_t kShards = 2;
  // The rows of the table that stand in a shard, in order.
  static std::vector<int32_t> RowsOf(const Variable& variable, int64_t shard) {
    std::vector<int32_t> rows;
    for (int64_t row = shard; row < variable.dims[0]; row += kShards) rows.push_back(static_cast<int32_t>(row));
    return rows;
  }
  static Output Indices(Graph& g, const std::vector<int32_t>& rows) {
    return g.Const(rows, Shape{static_cast<int64_t>(rows.size())});
  }
  static Output RowsOf(Graph& g, const Variable& variable, int64_t shard, const Output& table) {
    return g.Op("GatherV2", {table, Indices(g, RowsOf(variable, shard)), g.Const(0)});
  }
  static Output Stitched(Graph& g, std::vector<Output> indices, const std::vector<Output>& rows) {
    indices.insert(indices.end(), rows.begin(), rows.end());
    return g.Op("DynamicStitch", indices, {{"N", static_cast<int64_t>(rows.size())}});
  }
  static Output Whole(Graph& g, const Variable& variable, const std::vector<Output>& shards) {
    std::vector<Output> indices;
    for (int64_t shard = 0; shard < kShards; ++shard) indices.push_back(Indices(g, RowsOf(variable, shard)));
    return Stitched(g, indices, shards);
  }
  // x's rows, each with the shard that its row of the table, `which`, stands in.
  static std::vector<Output> Parted(Graph& g, const Output& x, const Output& which) {
    const Output shard = g.Op("FloorMod", {which, g.Const(static_cast<int32_t>(kShards))});
    return g.AddNode("DynamicPartition", {x, shard}, {{"num_partitions", kShards}}).outputs();
  }
  static Output InShard(Graph& g, const Output& which) {
    return g.Op("FloorDiv", {which, g.Const(static_cast<int32_t>(kShards))});
  }

  // A read that nothing orders.
  Output Plain(Graph& g, const Access& access, int variable) {
    if (access.value.valid()) return access.value;
    const Variable& of = program_.variables[static_cast<size_t>(variable)];
    if (access.is_reference) {
      // What a reference is read as may share its memory; the sum does not.
      return g.Op("AddV2", {g.Op("Identity", {access.handle()}), calculation_.Scalar(g, of.dtype, 0)});
    }
    std::vector<Output> reads;
    for (const Output& handle : access.handles) {
      const Output read = g.Op("ReadVariableOp", {handle}, {{"dtype", of.dtype}});
      const bool none = IsFloating(of.dtype) && (Has("handle") || (Has("handle_in_loop") && loops_ > 0));
      reads.push_back(none ? g.Op("StopGradient", {read}) : read);
    }
    return access.is_parted() ? Whole(g, of, reads) : reads[0];
  }
  // What a later step sees of it: a tensor, all of a queue, whether an iterator has more.
  Output Last(Graph& g, const Access& access, int variable) {
    const Variable& of = program_.variables[static_cast<size_t>(variable)];
    const std::string version = access.is_reference ? "" : "V2";
    switch (of.holder) {
      case Variable::Holder::kTensor: return Plain(g, access, variable);
      case Variable::Holder::kQueue: {
        const Output size = g.Op("QueueSize" + version, {access.handle()});
        return g.Op("QueueDequeueMany" + version, {access.handle(), size},
                    {{"component_types", std::vector<DType>{of.dtype}}});
      }
      case Variable::Holder::kIterator:
        return g.Op("OptionalHasValue", {g.Op("IteratorGetNextAsOptional", {access.handle()}, Spec(of.element()))});
    }
    return {};
  }
  Output Read(Place& place, int variable) {
    const Access& access = place.variables.at(variable);
    if (access.value.valid()) return access.value;
    const auto order = place.g.ControlDependencies(place.Before(variable, false));
    const Output value = Plain(place.g, access, variable);
    place.Note(variable, false, value);
    return value;
  }
  Output ReadRows(Place& place, int variable, const Output& rows) {
    const Access& access = place.variables.at(variable);
    Graph& g = place.g;
    if (access.value.valid() || access.is_reference) return g.Op("GatherV2", {Read(place, variable), rows, g.Const(0)});
    const auto order = g.ControlDependencies(place.Before(variable, false));
    const auto gather = [&](const Output& handle, const Output& which) {
      return g.Op("ResourceGather", {handle, which},
                  {{"dtype", program_.variables[static_cast<size_t>(variable)].dtype}});
    };
    Output value;
    if (access.is_parted()) {
      const std::vector<Output> within = Parted(g, InShard(g, rows), rows),
                                where = Parted(g, g.Op("Range", {g.Const(0), g.Op("Size", {rows}), g.Const(1)}), rows);
      std::vector<Output> found;
      for (size_t shard = 0; shard < access.handles.size(); ++shard)
        found.push_back(
            gather(access.handles[Has("shard") ? access.handles.size() - 1 - shard : shard], within[shard]));
      value = Stitched(g, where, found);
    } else {
      value = gather(access.handle(), rows);
    }
    place.Note(variable, false, value);
    return value;
  }
  void Write(Place& place, int variable, Do what, const std::vector<Value>& in) {
    const Access& access = place.variables.at(variable);
    Graph& g = place.g;
    const auto order = g.ControlDependencies(Has("order") ? std::vector<Operation>{} : place.Before(variable, true));
    const bool ref = access.is_reference;
    std::string op;
    switch (what) {
      case Do::k_assign: op = ref ? "Assign" : "AssignVariableOp"; break;
      case Do::k_assign_sub: op = ref ? "AssignSub" : "AssignSubVariableOp"; break;
      case Do::k_add_rows: op = ref ? "ScatterAdd" : "ResourceScatterAdd"; break;
      case Do::k_set_row: op = ref ? "ScatterUpdate" : "ResourceScatterUpdate"; break;
      default: op = ref ? "AssignAdd" : "AssignAddVariableOp";
    }
    std::vector<Output> inputs;
    for (const Value& value : in) inputs.push_back(value[0]);
    if (access.is_parted()) return place.Note(variable, true, WriteParted(g, access, variable, what, op, inputs));
    if (Has("duplicates") && what == Do::k_add_rows && !ref) {
      inputs[1] = g.Op(
          "AddV2", {g.Op("ResourceGather", {access.handle(), inputs[0]}, {{"dtype", inputs[1].dtype()}}), inputs[1]});
      op = "ResourceScatterUpdate";
    }
    inputs.insert(inputs.begin(), access.handle());
    place.Note(variable, true, g.AddNode(op, inputs));
    if (Has("repeat") && branches_ > 0 && what == Do::k_assign_add) {
      const auto after = g.ControlDependencies(place.Before(variable, true));
      place.Note(variable, true, g.AddNode(op, inputs));
    }
  }
  Operation WriteParted(Graph& g, const Access& access, int variable, Do what, const std::string& op,
                        std::vector<Output> inputs) {
    const bool row = what == Do::k_set_row, by_rows = row || what == Do::k_add_rows;
    if (row)
      for (Output& input : inputs) input = g.Op("ExpandDims", {input, g.Const(0)});
    std::vector<Output> which, rows;
    if (by_rows) which = Parted(g, InShard(g, inputs[0]), inputs[0]), rows = Parted(g, inputs[1], inputs[0]);
    std::vector<Operation> all;
    for (size_t shard = 0; shard < access.handles.size(); ++shard) {
      const Output& handle = access.handles[shard];
      if (by_rows) all.push_back(g.AddNode(op, {handle, which[shard], rows[shard]}));
      else
        all.push_back(g.AddNode(op, {handle, RowsOf(g, program_.variables[static_cast<size_t>(variable)],
                                                    static_cast<int64_t>(shard), inputs[0])}));
    }
    const auto after = g.ControlDependencies(all);
    return g.AddNode("NoOp", {});
  }
  // A read that stands before an addition and is used behind it: of a reference, the sum.
  Output LateRead(Place& place, int variable, const Value& added) {
    const Access access = place.variables.at(variable);
    Graph& g = place.g;
    if (!access.is_reference) {
      const Output value = Has("late") ? Read(place, variable) : Output();
      Write(place, variable, Do::k_assign_add, {added});
      return value.valid() ? value : Read(place, variable);
    }
    Output before;
    {
      const auto order = g.ControlDependencies(place.Before(variable, false));
      before = g.Op("Identity", {access.handle()});
      place.Note(variable, false, before);
    }
    Write(place, variable, Do::k_assign_add, {added});
    const auto order = g.ControlDependencies(place.Before(variable, false));
    const Output after =
        g.Op("AddV2", {before, calculation_.Scalar(g, program_.variables[static_cast<size_t>(variable)].dtype, 0)});
    place.Note(variable, false, after);
    return after;
  }

  // ---- Regions ----
  std::vector<Value> Build(Place& place, const Region& region, const std::vector<Value>& parameters) {
    std::vector<Value> values = parameters;
    for (const Step& step : region.steps) {
      std::vector<Value> in;
      std::vector<Type> types;
      for (const int value : step.in) types.push_back(region.type(value));
      for (size_t i = 0; i < step.in.size(); ++i)
        in.push_back(place.is_main ? Used(place.g, types[i], values[static_cast<size_t>(step.in[i])])
                                   : values[static_cast<size_t>(step.in[i])]);
      const bool placed = place.is_main && form_.placer;
      std::vector<Value> out;
      if (placed) {
        const auto device = place.g.Device(form_.placer(static_cast<uint32_t>(placing_())));
        out = BuildStep(place, step, types, in);
      } else {
        out = BuildStep(place, step, types, in);
      }
      if (!place.g.status().ok()) {
        values.resize(region.types.size(), Value(2));
        return values;
      }
      values.insert(values.end(), out.begin(), out.end());
      if (Has("alias") && step.what == Do::k_put_row) values[static_cast<size_t>(step.in[0])] = out[0];
      if (place.is_main && form_.after_step) form_.after_step(to_.graph);
    }
    return values;
  }

  // ---- Faults on purpose ----
  bool Has(const char* plant) const { return form_.plant == plant; }
  // What a plant makes of a calculation's inputs, or gives in its place.
  std::optional<std::vector<Value>> Planted(Graph& g, const Step& step, const std::vector<Type>& types,
                                            std::vector<Value> in) const {
    if (form_.plant.empty()) return std::nullopt;
    const auto make = [&] { return calculation_.Make(g, step, types, in); };
    const auto first_rows = [&](const Output& x, int64_t rows) {
      std::vector<int32_t> which{0};
      for (int32_t row = 0; row + 1 < rows; ++row) which.push_back(row);
      return g.Op("GatherV2", {x, Indices(g, which), g.Const(0)});
    };
    const DType dtype = step.out.empty() ? DType::kFloat : step.out[0].dtype;
    if (Has("stop") && step.what == Do::k_stop) return std::vector<Value>{{g.Op("Identity", {in[0][0]})}};
    if (Has("element") && step.what == Do::k_list_get) in[1] = {g.Const(0)};
    else if (Has("fold") && step.what == Do::k_list_of && types[0].dims[0] > 0)
      in[0] = {first_rows(in[0][0], types[0].dims[0])};
    else if (Has("pop") && step.what == Do::k_list_pop) {
      std::vector<Value> out = make();
      out[1] = {g.Op("TensorListGetItem",
                     {in[0][0], g.Const(0), Indices(g, {step.out[1].dims.begin(), step.out[1].dims.end()})},
                     {{"element_dtype", dtype}})};
      return out;
    } else if (Has("float") && step.what == Do::k_tanh && dtype == DType::kDouble) {
      return std::vector<Value>{
          {g.Op("Cast", {g.Op("Tanh", {g.Op("Cast", {in[0][0]}, {{"DstT", DType::kFloat}})})}, {{"DstT", dtype}})}};
    } else if (Has("truncated") && step.what == Do::k_cast && IsFloating(types[0].dtype) && !IsFloating(dtype)) {
      in[0] = {g.Op("AddV2", {in[0][0], calculation_.Scalar(g, types[0].dtype, 0.5)})};
    } else if (Has("seed") && step.what == Do::k_dice) {
      Step same = step;
      same.number = 1;
      return calculation_.Make(g, same, types, in);
    } else if (Has("sparse") && step.what == Do::k_to_sparse) {
      std::vector<Value> out = make();
      out[0][1] = g.Op("ReverseV2", {out[0][1], g.Const({0})});
      return out;
    } else if (Has("ragged") && step.what == Do::k_to_ragged) {
      std::vector<Value> out = make(), other;
      in[1] = {g.Op("ReverseV2", {in[1][0], g.Const({0})})};
      other = make();
      out[0][1] = other[0][1];
      return out;
    } else if (Has("text") && step.what == Do::k_join_text) {
      std::swap(in[0], in[1]);
    } else {
      return std::nullopt;
    }
    return make();
  }
  // Uses of a value behind its first are no way for a gradient.
  Value Used(Graph& g, const Type& type, const Value& value) {
    if (!Has("once") || type.kind != Kind::kTensor || !IsFloating(type.dtype)) return value;
    if (used_.insert({value[0].node(), value[0].index()}).second) return value;
    return {g.Op("StopGradient", {value[0]})};
  }

  std::vector<Value> BuildStep(Place& place, const Step& step, const std::vector<Type>& types,
                               const std::vector<Value>& in) {
    if (auto planted = Planted(place.g, step, types, in)) return *std::move(planted);
    switch (step.what) {
      case Do::k_read: return {{Read(place, step.variable)}};
      case Do::k_read_rows: return {{ReadRows(place, step.variable, in[0][0])}};
      case Do::k_late_read: return {{LateRead(place, step.variable, in[0])}};
      case Do::k_assign: case Do::k_assign_add: case Do::k_assign_sub: case Do::k_add_rows: case Do::k_set_row:
        Write(place, step.variable, step.what, in);
        return {};
      case Do::k_queue: return Queue(place, step, in);
      case Do::k_enqueue:
      case Do::k_exchange:
      case Do::k_dequeue:
      case Do::k_queue_size:
      case Do::k_begin:
      case Do::k_next:
      case Do::k_next_or_none: return Held(place, step, in);
      case Do::k_dequeue_or: return DequeueOr(place, step, in);
      case Do::k_value_or: return {{ValueOr(place, step, in)}};
      case Do::k_conditional:
      case Do::k_choice:
      case Do::k_loop:
      case Do::k_elements:
      case Do::k_call: return Part(place, step, types, in);
      default: return calculation_.Make(place.g, step, types, in);
    }
  }

  std::vector<Value> Queue(Place& place, const Step& step, const std::vector<Value>& in) {
    Graph& g = place.g;
    const std::string name = "queue" + std::to_string(names_++);
    const std::vector<DType> types{step.out[0].dtype};
    const Output queue = MakeQueue(g, step.out[0], name, false);
    Operation last;
    const auto after = [&](const char* op, std::vector<Output> inputs, const host::Attrs& attrs) {
      inputs.insert(inputs.begin(), queue);
      const auto order = g.ControlDependencies(last.valid() ? std::vector<Operation>{last} : std::vector<Operation>{});
      last = g.AddNode(op, inputs, attrs);
      return last;
    };
    after("QueueEnqueueV2", {in[0][0]}, {});
    after("QueueEnqueueV2", {in[1][0]}, {});
    const Output taken = after("QueueDequeueV2", {}, {{"component_types", types}});
    const Output size = after("QueueSizeV2", {}, {});
    after("QueueDequeueV2", {}, {{"component_types", types}});
    effects_.push_back(last);
    return {{taken}, {size}};
  }

  // What changes a queue or an iterator, in order, beside it.
  std::vector<Value> Held(Place& place, const Step& step, const std::vector<Value>& in) {
    Graph& g = place.g;
    const Access& access = place.variables.at(step.variable);
    const Variable& variable = program_.variables[static_cast<size_t>(step.variable)];
    const auto device = g.Device(&g == &to_.graph ? DeviceOfHolder() : std::string());
    const auto change = [&](std::string op, std::vector<Output> inputs, const host::Attrs& attrs) {
      if (op.starts_with("Queue") && !access.is_reference) op += "V2";
      const auto order =
          g.ControlDependencies(Has("order") ? std::vector<Operation>{} : place.Before(step.variable, true));
      const Operation made = g.AddNode(op, inputs, attrs);
      place.Note(step.variable, true, made);
      return made;
    };
    const host::Attrs types = {{"component_types", std::vector<DType>{variable.dtype}}};
    switch (step.what) {
      case Do::k_exchange: case Do::k_enqueue:
        if (Has("queue") && step.what == Do::k_exchange) return {in[0]};
        change("QueueEnqueue", {access.handle(), in[0][0]}, {});
        if (step.what == Do::k_enqueue) return {};
        [[fallthrough]];
      case Do::k_dequeue: return {{change("QueueDequeue", {access.handle()}, types).output(0)}};
      case Do::k_queue_size: return {{change("QueueSize", {access.handle()}, {}).output(0)}};
      case Do::k_begin:
        if (Has("stale")) return {};
        change("MakeIterator", {Dataset(g, step.variable, in[0][0], in[1][0]), access.handle()}, {});
        return {};
      default:
        return {{change(step.what == Do::k_next ? "IteratorGetNext" : "IteratorGetNextAsOptional", {access.handle()},
                        Spec(variable.element()))
                     .output(0)}};
    }
  }
  // A branch that takes from a queue that is not empty.
  std::vector<Value> DequeueOr(Place& place, const Step& step, const std::vector<Value>& in) {
    Step size;
    size.what = Do::k_queue_size;
    size.variable = step.variable;
    const Output asked = place.g.Op("Less", {place.g.Const(0), Held(place, size, {})[0][0]});
    const Type& type = step.out[0];
    Step dequeue;
    dequeue.what = Do::k_dequeue;
    dequeue.variable = step.variable;
    dequeue.out = {type};
    dequeue.first = 1;
    auto yes = std::make_shared<Region>(), no = std::make_shared<Region>();
    yes->AddParameter(type);
    *no = *yes;
    no->results = {0};
    yes->steps = {dequeue};
    yes->types.push_back(type);
    yes->results = {1};
    Step branch;
    branch.what = Do::k_conditional;
    branch.out = {type};
    branch.parts = {yes, no};
    return Part(place, branch, {TensorType(DType::kBool, {}), type}, {{asked}, in[0]});
  }

  // ---- Parts ----
  bool IsFunctional() {
    return form_.control == Form::Control::kFunctions || (form_.control == Form::Control::kMixed && random_() % 2 == 0);
  }
  std::string NewName(const char* what) { return what + std::to_string(names_++); }

  // What a part needs of the variables: values or handles, as more of its arguments; references go in by themselves.
  struct Captured {
    std::vector<int> variables;
    std::vector<Access> accesses;   // outside
    std::vector<Output> arguments;  // of those that are no references
    Touched touched;
  };
  Captured Capture(Place& place, const Step& step) {
    Captured captured;
    captured.touched = TouchedBy(program_, step);
    std::set<int> all = captured.touched.read;
    all.insert(captured.touched.written.begin(), captured.touched.written.end());
    for (const int variable : all) {
      Access access = place.variables.at(variable);
      if (form_.by_value && !captured.touched.written.contains(variable)) access.value = Read(place, variable);
      captured.variables.push_back(variable);
      captured.accesses.push_back(access);
      for (const Output& argument : access.arguments()) captured.arguments.push_back(argument);
    }
    return captured;
  }
  // arguments: those of the variables, inside. reference: what a reference outside is inside.
  Place Inside(Graph& g, const Captured& captured, const std::vector<Output>& arguments,
               const std::function<Output(const Output&)>& reference) {
    Place inside{g, {}, {}, {}, false};
    auto given = arguments.begin();
    for (size_t i = 0; i < captured.variables.size(); ++i)
      inside.variables[captured.variables[i]] = captured.accesses[i].Inside(&given, reference);
    return inside;
  }

  std::vector<Value> Part(Place& place, const Step& step, const std::vector<Type>& types,
                          const std::vector<Value>& in) {
    const Captured captured = Capture(place, step);
    std::vector<Operation> before;
    for (size_t i = 0; i < captured.variables.size(); ++i) {
      if (captured.accesses[i].value.valid()) continue;
      const auto more = place.Before(captured.variables[i], captured.touched.written.contains(captured.variables[i]));
      before.insert(before.end(), more.begin(), more.end());
    }
    const int64_t first = place.g.node_count();
    std::vector<Output> out;
    {
      const auto order = place.g.ControlDependencies(before);
      out = step.what == Do::k_call ? Call(place, step, in, captured)
            : IsFunctional()        ? Functional(place, step, types, in, captured)
                                    : Framed(place, step, types, in, captured);
    }
    if (place.is_main && step.what != Do::k_call) parts_.push_back({first, place.g.node_count(), step.what});
    if (!place.g.status().ok()) return {};
    for (size_t i = 0; i < captured.variables.size(); ++i)
      if (!captured.accesses[i].value.valid())
        place.Note(captured.variables[i], captured.touched.written.contains(captured.variables[i]), out[0]);
    return Unflatten(step.out, out);
  }

  std::vector<Output> Results(Place& inside, const Region& part, const std::vector<Value>& parameters) {
    const std::vector<Value> all = Build(inside, part, parameters);
    std::vector<Value> results;
    for (const int result : part.results) results.push_back(all[static_cast<size_t>(result)]);
    return Flatten(results);
  }
  // In frames the first result waits for all effects.
  void Wait(Place& inside, std::vector<Output>* results) {
    const std::vector<Operation> effects = inside.Effects();
    if (effects.empty() || results->empty()) return;
    const auto order = inside.g.ControlDependencies(effects);
    (*results)[0] = inside.g.Op("Identity", {(*results)[0]});
  }
  std::vector<Output> Results(Graph& g, const Region& part, const std::vector<Type>& types,
                              const std::vector<Output>& flat, const Captured& captured,
                              const std::function<Output(const Output&)>& reference, std::vector<Operation>* effects) {
    const size_t count = flat.size() - captured.arguments.size();
    Place inside = Inside(g, captured, {flat.begin() + static_cast<ptrdiff_t>(count), flat.end()}, reference);
    std::vector<Output> results =
        Results(inside, part, Unflatten(types, {flat.begin(), flat.begin() + static_cast<ptrdiff_t>(count)}));
    if (effects != nullptr) *effects = inside.Effects();
    else Wait(inside, &results);
    return results;
  }
  static Output Same(const Output& reference) { return reference; }

  // stacked: the types of the last results, of which a stack without elements must know the shape.
  Function DefinePart(Graph& g, const std::string& name, const Region& part, const std::vector<Type>& types,
                      const Captured& captured, bool keeps = false, const std::vector<Type>& stacked = {}) {
    std::vector<Argument> arguments;
    for (const Type& type : types)
      for (size_t k = 0; k < PartsOf(type); ++k) arguments.push_back(calculation_.ArgumentOf(type, k));
    for (const Output& output : captured.arguments)
      arguments.emplace_back(output.dtype(), output.dtype() == DType::kResource ? Shape() : output.shape());
    return Define(g, name, [&](Graph& body, const std::vector<Output>& v) {
      std::vector<Operation> effects;
      std::vector<Output> results = Results(body, part, types, v, captured, Same, &effects);
      if (Has("lost") && !keeps) effects.clear();
      for (size_t k = 0; k < stacked.size(); ++k) {
        Output& result = results[results.size() - stacked.size() + k];
        result = body.Op("EnsureShape", {result}, {{"shape", Shape(stacked[k].dims)}});
      }
      // A loop gives its invariants back.
      if (keeps) results.insert(results.end(), v.begin() + static_cast<ptrdiff_t>(results.size()), v.end());
      return FunctionResults(results, effects);
    }, arguments);
  }

  std::vector<Output> Call(Place& place, const Step& step, const std::vector<Value>& in, const Captured& captured) {
    const Region& function = *program_.functions[static_cast<size_t>(step.function)];
    std::vector<Output> inputs = Flatten(in);
    inputs.insert(inputs.end(), captured.arguments.begin(), captured.arguments.end());
    if (!function.recurs) return Call(place, step, function, inputs, captured, "");
    // How often it may call itself yet, at most: each depth is a function of its own.
    const auto at = depths_.find(step.function);
    const int before = at == depths_.end() ? -1 : at->second,
              depth = at == depths_.end() ? (Has("depth") ? kMostDepth - 1 : kMostDepth) : before - 1;
    if (depth < 0) return Blank(place.g, step.out);  // never taken
    depths_[step.function] = depth;
    const std::vector<Output> out = Call(place, step, function, inputs, captured, "_d" + std::to_string(depth));
    if (before < 0) depths_.erase(step.function);
    else depths_[step.function] = before;
    return out;
  }
  std::vector<Output> Blank(Graph& g, const std::vector<Type>& types) {
    std::vector<Output> out;
    for (const Type& type : types) {
      Step constant;
      constant.out = {type};
      out.push_back(calculation_.Make(g, constant, {}, {})[0][0]);
    }
    return out;
  }
  std::vector<Output> Call(Place& place, const Step& step, const Region& function, const std::vector<Output>& inputs,
                           const Captured& captured, const std::string& depth) {
    if (form_.inlined) return Results(place.g, function, function.parameters, inputs, captured, Same, nullptr);
    // A function has one form for each of how its variables come, which is the same in all of one graph.
    std::string name = "function" + std::to_string(step.function);
    for (const Access& access : captured.accesses) name += access.value.valid() ? "v" : "h";
    name += depth;
    const auto found = host::FindFunction(place.g, name);
    const Function made =
        found.ok() ? Function{name} : DefinePart(place.g, name, function, function.parameters, captured);
    if (random_() % 2 == 0) return place.g.Call(made, inputs).outputs();
    return place.g
        .AddNode("StatefulPartitionedCall", inputs, {{"f", made}, {"Tout", host::internal::ResultTypes(place.g, made)}})
        .outputs();
  }

  std::vector<Output> Functional(Place& place, const Step& step, const std::vector<Type>& types,
                                 const std::vector<Value>& in, const Captured& captured) {
    Graph& g = place.g;
    std::vector<Output> inputs = Flatten(in);
    if (step.what == Do::k_elements) return Elements(g, step, types, in, captured);
    inputs.insert(inputs.end(), captured.arguments.begin(), captured.arguments.end());
    if (step.what == Do::k_loop) {
      const std::string name = NewName("loop");
      if (Has("invariant")) TakeStatesForInvariants(step, types, &inputs);
      if (Has("more") || Has("less"))
        inputs[FlatIndex(types, step.states)] =
            g.Op(Has("more") ? "AddV2" : "Sub", {in[static_cast<size_t>(step.states)][0], g.Const(1)});
      ++loops_;
      const Function question = DefinePart(g, name + "_question", *step.parts[0], types, captured);
      const Function body = DefinePart(g, name + "_body", *step.parts[1], types, captured, true);
      --loops_;
      std::vector<Output> last = While(g, inputs, question, body, {name, step.parallel});
      size_t count = 0;
      for (const Type& type : step.out) count += PartsOf(type);
      last.resize(std::min(last.size(), count));
      if (Has("states"))
        for (size_t i = 1; i + 1 < last.size(); ++i)
          if (last[i].dtype() == last[i + 1].dtype() && last[i].shape() == last[i + 1].shape())
            std::swap(last[i], last[i + 1]);
      return last;
    }
    const std::vector<Type> given(types.begin() + 1, types.end());
    const std::string name = NewName(step.what == Do::k_choice ? "choice" : "conditional");
    std::vector<Function> sides;
    ++branches_;
    for (const auto& part : step.parts)
      sides.push_back(DefinePart(g, name + "_side" + std::to_string(sides.size()), *part, given, captured));
    --branches_;
    inputs.erase(inputs.begin());
    if (Has("dead") && step.what == Do::k_conditional &&
        std::all_of(step.out.begin(), step.out.end(), [](const Type& type) { return type.kind == Kind::kTensor; }))
      return Both(g, in[0][0], inputs, sides);
    if (Has("sides") && branches_ > 0 && step.what == Do::k_conditional) std::swap(sides[0], sides[1]);
    if (step.what == Do::k_choice)
      return Case(g, Has("branch") ? g.Op("FloorMod", {in[0][0], g.Const(3)}) : in[0][0], sides, inputs, name);
    return Cond(g, in[0][0], inputs, sides[0], sides[1], name);
  }

  // Faults: what both sides do, and a value of one; states where invariants are wanted.
  std::vector<Output> Both(Graph& g, const Output& predicate, const std::vector<Output>& inputs,
                           const std::vector<Function>& sides) const {
    const std::vector<Output> yes = g.Call(sides[0], inputs).outputs(), no = g.Call(sides[1], inputs).outputs();
    std::vector<Output> out;
    for (size_t i = 0; i < yes.size(); ++i) out.push_back(g.Op("SelectV2", {predicate, yes[i], no[i]}));
    return out;
  }
  static size_t FlatIndex(const std::vector<Type>& types, int value) {
    size_t index = 0;
    for (int i = 0; i < value; ++i) index += PartsOf(types[static_cast<size_t>(i)]);
    return index;
  }
  static void TakeStatesForInvariants(const Step& step, const std::vector<Type>& types, std::vector<Output>* inputs) {
    for (int invariant = step.states + 1; invariant < static_cast<int>(types.size()); ++invariant)
      for (int state = 1; state < step.states; ++state)
        if (types[static_cast<size_t>(state)] == types[static_cast<size_t>(invariant)] &&
            PartsOf(types[static_cast<size_t>(state)]) == 1)
          (*inputs)[FlatIndex(types, invariant)] = (*inputs)[FlatIndex(types, state)];
  }

  // The host's own maps, folds and scans, of functions.
  std::vector<Output> Elements(Graph& g, const Step& step, const std::vector<Type>& types, const std::vector<Value>& in,
                               const Captured& captured) {
    const auto states = static_cast<ptrdiff_t>(step.states), xs = static_cast<ptrdiff_t>(step.xs);
    std::vector<Type> given(types.begin(), types.end());
    for (ptrdiff_t i = states; i < states + xs; ++i)
      given[static_cast<size_t>(i)].dims.erase(given[static_cast<size_t>(i)].dims.begin());
    const std::string name = NewName("elements");
    std::vector<Type> stacked(step.out.begin() + step.states, step.out.end());
    for (Type& type : stacked) type.dims.erase(type.dims.begin());
    const Function element = DefinePart(g, name + "_element", *step.parts[0], given, captured, false, stacked);
    host::ElementOptions options;
    options.name = name;
    options.parallel_iterations = step.parallel;
    options.reverse = step.number != 0 && !Has("direction");
    options.invariants = Flatten({in.begin() + states + xs, in.end()});
    options.invariants.insert(options.invariants.end(), captured.arguments.begin(), captured.arguments.end());
    const host::MappedWithState found = MapWithState(g, element, Flatten({in.begin(), in.begin() + states}),
                                                     Flatten({in.begin() + states, in.begin() + states + xs}), options);
    std::vector<Output> out = found.states;
    out.insert(out.end(), found.results.begin(), found.results.end());
    return out;
  }

  std::vector<Output> Framed(Place& place, const Step& step, const std::vector<Type>& types,
                             const std::vector<Value>& in, const Captured& captured) {
    Graph& g = place.g;
    switch (step.what) {
      case Do::k_loop: {
        const std::string name = NewName("loop");
        std::vector<Output> variables = Flatten({in.begin(), in.begin() + step.states}),
                            invariants = Flatten({in.begin() + step.states, in.end()});
        invariants.insert(invariants.end(), captured.arguments.begin(), captured.arguments.end());
        const auto enter = Entering(g, name, step.parallel);
        return While(
            g, variables, invariants,
            [&](const std::vector<Output>& v) {
              return Results(g, *step.parts[0], types, v, captured, enter, nullptr)[0];
            },
            [&](const std::vector<Output>& v) {
              return Results(g, *step.parts[1], types, v, captured, enter, nullptr);
            },
            {name, step.parallel});
      }
      case Do::k_elements: return FramedElements(g, step, types, in, captured);
      default: break;
    }
    std::vector<Output> inputs = Flatten({in.begin() + 1, in.end()});
    inputs.insert(inputs.end(), captured.arguments.begin(), captured.arguments.end());
    const std::vector<Type> given(types.begin() + 1, types.end());
    if (step.what == Do::k_conditional)
      return Branch(g, in[0][0], given, inputs, captured, *step.parts[0], *step.parts[1]);
    return Branch(g, g.Op("Equal", {in[0][0], g.Const(0)}), given, inputs, captured, *step.parts[0], *step.parts[1],
                  step.parts[2].get(), in[0][0]);
  }
  std::function<Output(const Output&)> Entering(Graph& g, const std::string& name, int64_t parallel) {
    const auto scope = g.Scope(name);
    const std::string frame = g.FrameName();
    return [&g, frame, parallel](const Output& reference) {
      const auto alone = g.OnlyControlDependencies({});
      return g.Op("RefEnter", {reference},
                  {{"frame_name", frame}, {"is_constant", true}, {"parallel_iterations", parallel}});
    };
  }
  // last: a third branch; index says which of the two others it is then.
  std::vector<Output> Branch(Graph& g, const Output& predicate, const std::vector<Type>& types,
                             const std::vector<Output>& inputs, const Captured& captured, const Region& yes,
                             const Region& no, const Region* last = nullptr, const Output& index = {}) {
    std::map<std::pair<int64_t, int32_t>, Operation> gates;
    for (const Access& access : captured.accesses)
      if (access.is_reference && !access.value.valid())
        gates[{access.handle().node(), access.handle().index()}] = g.AddNode("RefSwitch", {access.handle(), predicate});
    const auto side = [&](int which) {
      return [&gates, which](const Output& reference) {
        return gates.at({reference.node(), reference.index()}).output(which);
      };
    };
    std::vector<Output> given = inputs;
    if (last != nullptr) given.push_back(index);
    const auto without = [&](std::vector<Output> v) {
      if (last != nullptr) v.pop_back();
      return v;
    };
    return Cond(
        g, predicate, given,
        [&](const std::vector<Output>& v) { return Results(g, yes, types, without(v), captured, side(1), nullptr); },
        [&](const std::vector<Output>& v) {
          if (last == nullptr) return Results(g, no, types, v, captured, side(0), nullptr);
          Captured inner = captured;  // as it is in this branch
          auto at = v.begin() + static_cast<ptrdiff_t>(inputs.size() - captured.arguments.size());
          inner.arguments.assign(at, v.begin() + static_cast<ptrdiff_t>(inputs.size()));
          for (Access& access : inner.accesses) access = access.Inside(&at, side(0));
          return Branch(g, g.Op("Equal", {v.back(), g.Const(1)}), types, without(v), inner, no, *last);
        },
        NewName("conditional"));
  }

  // A loop over TensorArrays.
  std::vector<Output> FramedElements(Graph& g, const Step& step, const std::vector<Type>& types,
                                     const std::vector<Value>& in, const Captured& captured) {
    const std::string name = NewName("elements");
    const auto states = static_cast<size_t>(step.states), xs = static_cast<size_t>(step.xs);
    std::vector<Type> given(types.begin(), types.end());
    const auto rows = static_cast<int32_t>(types[states].dims[0]);
    const auto array = [&](DType dtype, const Dims& dims) {
      return g.AddNode("TensorArrayV3", {g.Const(rows)},
                       {{"dtype", dtype},
                        {"element_shape", Shape(dims)},
                        {"clear_after_read", false},
                        {"identical_element_shapes", true}});
    };
    std::vector<int32_t> places;
    for (int32_t i = 0; i < rows; ++i) places.push_back(i);
    const auto every = [&] { return g.Const(places, Shape{rows}); };
    std::vector<Output> handles, flows;
    for (size_t i = states; i < states + xs; ++i) {
      given[i].dims.erase(given[i].dims.begin());
      const Operation made = array(given[i].dtype, given[i].dims);
      handles.push_back(made.output(0));
      flows.push_back(g.Op("TensorArrayScatterV3", {made.output(0), every(), in[i][0], made.output(1)}));
    }
    std::vector<Output> results, variables{g.Const(0)};
    std::vector<Type> stacked(step.out.begin() + step.states, step.out.end());
    for (Type& type : stacked) {
      type.dims.erase(type.dims.begin());
      const Operation made = array(type.dtype, type.dims);
      results.push_back(made.output(0));
      variables.push_back(made.output(1));
    }
    const std::vector<Output> first = Flatten({in.begin(), in.begin() + step.states});
    variables.insert(variables.end(), first.begin(), first.end());
    std::vector<Output> invariants = handles;
    for (const auto& more :
         {flows, results, Flatten({in.begin() + static_cast<ptrdiff_t>(states + xs), in.end()}), captured.arguments})
      invariants.insert(invariants.end(), more.begin(), more.end());
    const auto enter = Entering(g, name, step.parallel);
    const std::vector<Output> last = While(
        g, variables, invariants,
        [&](const std::vector<Output>& v) {
          return g.Op("Less", {v[0], g.Const(rows)});
        },
        [&](const std::vector<Output>& v) {
          const Output place = step.number == 0 ? v[0] : g.Op("Sub", {g.Const(rows - 1), v[0]});
          const auto from = v.begin() + static_cast<ptrdiff_t>(variables.size());
          std::vector<Output> flat(v.begin() + 1 + static_cast<ptrdiff_t>(results.size()), from);
          for (size_t i = 0; i < xs; ++i) {
            const auto at = static_cast<ptrdiff_t>(i), of = static_cast<ptrdiff_t>(xs);
            const Output read =
                Has("array") ? g.Op("FloorMod", {g.Op("AddV2", {place, g.Const(1)}), g.Const(rows)}) : place;
            flat.push_back(
                g.Op("TensorArrayReadV3", {from[at], read, from[of + at]}, {{"dtype", given[states + i].dtype}}));
            flat.back() = g.Op("EnsureShape", {flat.back()}, {{"shape", Shape(given[states + i].dims)}});
          }
          flat.insert(flat.end(), from + static_cast<ptrdiff_t>(2 * xs + results.size()), v.end());
          std::vector<Output> made = Results(g, *step.parts[0], given, flat, captured, enter, nullptr);
          std::vector<Output> next;
          const size_t carried = made.size() - results.size();
          // The counter waits for what the turn has done, which its first result says.
          {
            const auto order = g.ControlDependencies({Operation(made[0])});
            next.push_back(g.Op("AddV2", {v[0], g.Const(1)}));
          }
          for (size_t k = 0; k < results.size(); ++k)
            next.push_back(g.Op("TensorArrayWriteV3",
                                {from[static_cast<ptrdiff_t>(2 * xs + k)], place, made[carried + k], v[1 + k]}));
          next.insert(next.end(), made.begin(), made.begin() + static_cast<ptrdiff_t>(carried));
          return next;
        },
        {name, step.parallel});
    if (!g.status().ok()) return {};
    std::vector<Output> out(last.begin() + 1 + static_cast<ptrdiff_t>(results.size()), last.end());
    for (size_t k = 0; k < results.size(); ++k)
      out.push_back(g.Op("TensorArrayGatherV3", {results[k], every(), last[1 + k]},
                         {{"dtype", stacked[k].dtype}, {"element_shape", Shape(stacked[k].dims)}}));
    // Who waits for the first of the outputs waits for the last turn.
    const auto order = g.ControlDependencies({Operation(last[0])});
    out[0] = g.Op("Identity", {out[0]});
    return out;
  }

  Output ValueOr(Place& place, const Step& step, const std::vector<Value>& in) {
    Graph& g = place.g;
    Output has = g.Op("OptionalHasValue", {in[0][0]});
    if (Has("has") && Operation(in[0][0]).op() != "OptionalFromValue") has = g.Op("LogicalAnd", {has, g.Const(false)});
    const Type& type = step.out[0];
    const auto get = [&type](Graph& body, const std::vector<Output>& v) {
      return body.Op(
          "OptionalGetValue", {v[0]},
          {{"output_types", std::vector<DType>{type.dtype}}, {"output_shapes", std::vector<Shape>{Shape(type.dims)}}});
    };
    const int64_t first = g.node_count();
    const std::string name = NewName("value_or");
    const std::vector<Output> inputs{in[0][0], in[1][0]};
    std::vector<Output> out;
    if (IsFunctional()) {
      const std::vector<Argument> arguments{DType::kVariant, {type.dtype, Shape(type.dims)}};
      const Function yes = Define(g, name + "_yes", get, arguments);
      const Function no = Define(
          g, name + "_no", [](Graph& body, const std::vector<Output>& v) { return body.Op("Identity", {v[1]}); },
          arguments);
      out = Cond(g, has, inputs, yes, no, name);
    } else {
      out = Cond(
          g, has, inputs, [&](const std::vector<Output>& v) { return std::vector<Output>{get(g, v)}; },
          [&](const std::vector<Output>& v) { return std::vector<Output>{v[1]}; }, name);
    }
    if (place.is_main) parts_.push_back({first, g.node_count(), Do::k_conditional});
    return out.empty() ? Output() : out[0];
  }

  // ---- What is asked of it ----
  void AddResult(int number, const Value& value) {
    const Type& type = program_.main.type(number);
    const std::string label = "v" + std::to_string(number);
    const std::vector<Output> seen = calculation_.Seen(to_.graph, type, value);
    for (size_t k = 0; k < seen.size(); ++k) {
      to_.fetches.push_back(seen[k].name());
      to_.labels.push_back(seen.size() == 1 ? label : label + "." + std::to_string(k));
    }
  }
  void AddEffect(const Operation& operation) {
    const std::vector<Output> outputs = operation.outputs();
    if (!form_.fetched || outputs.empty() || !IsPlain(outputs[0].dtype())) return AddTarget(operation);
    to_.fetches.push_back(outputs[0].name());
    to_.labels.push_back("effect " + std::to_string(to_.fetches.size()));
  }
  void AddTarget(const Operation& operation) {
    const std::string name = operation.name();
    if (std::find(to_.targets.begin(), to_.targets.end(), name) == to_.targets.end()) to_.targets.push_back(name);
  }

  Output Dense(const host::Gradient& gradient, const Output& like) {
    Graph& g = to_.graph;
    if (gradient.kind == host::Gradient::Kind::kDense) return gradient.dense;
    if (gradient.kind == host::Gradient::Kind::kNone) return g.Op("ZerosLike", {like});
    const Output rows = g.Op("StridedSlice", {gradient.dense_shape, g.Const({0}), g.Const({1}), g.Const({1})},
                             {{"shrink_axis_mask", 1}});
    return g.Op("UnsortedSegmentSum", {gradient.dense, gradient.indices, rows});
  }
  // What a gradient is taken by: a parameter, or a variable, of which each shard has one.
  struct By {
    std::vector<Output> xs, likes;  // likes: what a gradient that is none is zeros of
    const Variable* parted = nullptr;
  };
  By ByVariable(Place* place, int variable) {
    const Access& access = place->variables.at(variable);
    if (!access.is_parted()) return {access.handles, {Read(*place, variable)}, nullptr};
    const Variable& of = program_.variables[static_cast<size_t>(variable)];
    By by{access.handles, {}, &of};
    for (const Output& handle : access.handles)
      by.likes.push_back(to_.graph.Op("ReadVariableOp", {handle}, {{"dtype", of.dtype}}));
    return by;
  }
  std::vector<Output> GradientsOf(const std::string& what, const Output& y, const std::vector<By>& by) {
    Graph& g = to_.graph;
    std::vector<Output> xs, gradients;
    for (const By& each : by) xs.insert(xs.end(), each.xs.begin(), each.xs.end());
    const std::vector<host::Gradient> found = g.Gradients({y}, xs);
    auto at = found.begin();
    for (const By& each : by) {
      std::vector<Output> parts;
      for (size_t i = 0; i < each.xs.size() && g.status().ok(); ++i) parts.push_back(Dense(*at++, each.likes[i]));
      if (g.status().ok()) gradients.push_back(each.parted != nullptr ? Whole(g, *each.parted, parts) : parts[0]);
    }
    if (g.status().ok()) return gradients;
    to_.refused.emplace_back(what, g.TakeStatus());
    return {};
  }
  void AddGradients(Place* place, const std::vector<Value>& parameters, const std::vector<Value>& all) {
    if (program_.losses.empty()) return;
    Graph& g = to_.graph;
    std::vector<Output> sums;
    std::vector<By> by;
    for (const int loss : program_.losses)
      sums.push_back(calculation_.Total(g, all[static_cast<size_t>(loss)][0], program_.main.type(loss).dims));
    const Output loss = sums.size() == 1 ? sums[0] : g.Op("AddN", sums);
    for (size_t i = 0; i < parameters.size(); ++i)
      if (program_.main.parameters[i].dtype == loss.dtype()) {
        by.push_back({{parameters[i][0]}, {parameters[i][0]}, nullptr});
        to_.by.push_back(i);
      }
    std::vector<int> weights;
    for (size_t i = 0; i < program_.variables.size(); ++i)
      if (program_.variables[i].weight && program_.variables[i].dtype == loss.dtype()) {
        weights.push_back(static_cast<int>(i));
        by.push_back(ByVariable(place, static_cast<int>(i)));
        to_.by.push_back(parameters.size() + i);
      }
    if (by.empty() || !g.status().ok()) return;
    to_.loss = to_.fetches.size();
    to_.gradients = by.size();
    to_.fetches.push_back(loss.name());
    to_.labels.push_back("loss");
    const std::vector<Output> first = GradientsOf("first gradient", loss, by);
    if (first.empty()) return;
    to_.first = to_.fetches.size();
    for (size_t i = 0; i < first.size(); ++i) {
      to_.fetches.push_back(first[i].name());
      to_.labels.push_back("first gradient by feed " + std::to_string(to_.by[i]));
    }
    std::vector<Operation> taken;
    for (const Output& output : first) taken.emplace_back(output);
    if (program_.order > 1) AddSecond(first, by, &taken);
    if (!program_.trains) return;
    for (size_t i = 0; i < weights.size(); ++i) {
      const auto after = g.ControlDependencies(taken);
      const Output& gradient = first[first.size() - weights.size() + i];
      Write(*place, weights[i], Do::k_assign_sub,
            {{g.Op("Mul", {gradient, calculation_.Scalar(g, loss.dtype(), 0.25)})}});
    }
  }
  void AddSecond(const std::vector<Output>& first, const std::vector<By>& by, std::vector<Operation>* taken) {
    Graph& g = to_.graph;
    std::vector<Output> sums;
    for (size_t i = 0; i < first.size(); ++i) {
      const auto feed = to_.by[i];
      const Dims& dims = feed < program_.main.parameters.size()
                             ? program_.main.parameters[feed].dims
                             : program_.variables[feed - program_.main.parameters.size()].dims;
      sums.push_back(calculation_.Total(g, first[i], dims));
    }
    std::vector<Output> second = GradientsOf("second gradient", sums.size() == 1 ? sums[0] : g.Op("AddN", sums), by);
    if (second.empty()) return;
    if (Has("second"))
      for (Output& output : second) output = g.Op("Mul", {output, calculation_.Scalar(g, output.dtype(), 0.5)});
    to_.second = to_.fetches.size();
    for (size_t i = 0; i < second.size(); ++i) {
      to_.fetches.push_back(second[i].name());
      to_.labels.push_back("second gradient by feed " + std::to_string(to_.by[i]));
      taken->emplace_back(second[i]);
    }
  }

  // ---- Edges ----
  struct Part_ {
    int64_t first, end;
    Do what;
  };
  void ListEdges(const std::vector<Value>& all) {
    std::set<int64_t> ordered;  // what control edges hang on, or what changes state
    for (int64_t node = 0; node < to_.graph.node_count(); ++node)
      for (const Operation& waited : Operation(to_.graph.get(), node).control_inputs()) ordered.insert(waited.node());
    const auto part = [&](int64_t node) {
      for (const Part_& each : parts_)
        if (node >= each.first && node < each.end) return &each;
      return static_cast<const Part_*>(nullptr);
    };
    const auto add = [&](const Output& edge) {
      const Operation node(edge);
      if (!IsPlain(edge.dtype()) || node.op() == "Placeholder") return;
      const bool stateful =
          node.op().find("Variable") != std::string::npos || node.op().find("Queue") != std::string::npos ||
          node.op().find("Iterator") != std::string::npos || node.op().find("Random") != std::string::npos ||
          node.op().find("Assign") != std::string::npos || node.op().find("Scatter") == 0;
      to_.inner.push_back(edge.name());
      if (!ordered.contains(edge.node()) && !stateful) to_.free.push_back(edge.name());
    };
    for (int64_t node = begin_; node < to_.graph.node_count(); ++node) {
      const Operation operation(to_.graph.get(), node);
      const std::string name = operation.name();
      if (name.starts_with("last/") || name.starts_with("gradients")) continue;
      const Part_* within = part(node);
      for (const Output& edge : operation.outputs()) {
        if (within == nullptr) add(edge);
        else if ((within->what == Do::k_loop || within->what == Do::k_elements) && IsPlain(edge.dtype()) &&
                 operation.op() != "Exit" && name.find('/') != std::string::npos)
          to_.inside.push_back(edge.name());
      }
    }
    for (size_t value = program_.main.parameters.size(); value < all.size(); ++value)
      for (const Output& edge : all[value])
        if (edge.valid() && part(edge.node()) != nullptr) add(edge);
    for (auto* edges : {&to_.inner, &to_.free, &to_.inside}) {
      std::sort(edges->begin(), edges->end());
      edges->erase(std::unique(edges->begin(), edges->end()), edges->end());
    }
  }

  // Of a call that is inlined the value is one of its function's; an index has a bound; and effects, or a step's
  // constants, hang on no value.
  bool CanBeOther(const Step& step) const {
    if (step.out.empty() || !IsNumber(step.out[0].dtype) || TouchedBy(program_, step).any()) return false;
    switch (step.what) {
      case Do::k_constant: case Do::k_remainder: case Do::k_dice: case Do::k_queue: case Do::k_call: return false;
      default: return true;
    }
  }
  void ListValues(const std::vector<Value>& all) {
    for (const Step& step : program_.main.steps) {
      if (!CanBeOther(step)) continue;
      for (int value = step.first; value < step.first + static_cast<int>(step.out.size()); ++value) {
        const Value& edges = all[static_cast<size_t>(value)];
        const Type& type = program_.main.type(value);
        if (type.kind == Kind::kTensor && IsNumber(type.dtype))
          to_.values.emplace_back("v" + std::to_string(value), edges[0].name());
      }
    }
  }

  Lowered& to_;
  const Program& program_;
  const Form& form_;
  const std::vector<host::Tensor>& values_;
  const Calculation calculation_;
  std::mt19937 random_, placing_;  // placing_: apart, so that nodes have the same names wherever they are
  std::vector<Operation> effects_;
  std::vector<Part_> parts_;
  int loops_ = 0, branches_ = 0;  // that what is being built lies in
  std::set<std::pair<int64_t, int32_t>> used_;  // edges
  std::map<int, int> depths_;  // of functions that recur and are being built
  int64_t begin_ = 0;          // the first node behind those that make variables
  int names_ = 0;
};

}  // namespace

std::string Form::name() const {
  std::string text = control == Control::kFrames ? "frames" : control == Control::kFunctions ? "functions" : "mixed";
  text += references ? ", references" : ", resources";
  text += by_value ? " by value" : " by handle";
  if (inlined) text += ", inlined";
  if (constants) text += ", constants";
  if (blind) text += ", blind";
  if (shards) text += ", in shards";
  if (fetched) text += ", effects fetched";
  return text;
}

std::unique_ptr<Lowered> Lower(const host::Runtime& runtime, const Program& program, const Form& form,
                               const std::vector<host::Tensor>& values) {
  auto lowered = std::make_unique<Lowered>(runtime);
  Lowering(lowered.get(), program, form, values).Run();
  return lowered;
}

}  // namespace tenon::crossings
