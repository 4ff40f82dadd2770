// SPDX-License-Identifier: Apache-2.0
#include "region/region.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "emit/row_plan.h"
#include "region/node_formula.h"
#include "tenon/sdk/kernel/element.h"
#include "tenon/sdk/kernel/half.h"

namespace tenon::cpu_codegen {
namespace {

class Reader {
 public:
  Reader(const tenon_compile_args& args, Level level) : args_(args), cursor_(*args.cursor), level_(level) {}

  Region Read(int64_t least) {
    if (args_.output_count > kMostOutputs || args_.node_count > kMostNodes)
      sdk::Fail(TENON_UNIMPLEMENTED, "a region of ", args_.node_count, " nodes and ", args_.output_count, " outputs");
    FindUpdate();
    if (args_.output_count == 0 && update_ < 0) sdk::Fail(TENON_UNIMPLEMENTED, "a region that nobody reads");
    FindShape();
    if (region_.total() < least) sdk::Fail(TENON_UNIMPLEMENTED, "so few elements are not worth it");
    region_.program.level = level_;
    AddInputs();
    CollectNodes();
    for (size_t k = 0; k < args_.output_count; ++k) AddOutput(args_.outputs[k], static_cast<int32_t>(k));
    if (region_.program.outputs.empty() && update_ < 0)
      sdk::Fail(TENON_UNIMPLEMENTED, "a region that only moves elements");
    region_.program.outputs.insert(region_.program.outputs.end(), news_.begin(), news_.end());
    if (region_.program.outputs.size() > kMostOutputs) sdk::Fail(TENON_UNIMPLEMENTED, "a region of so many outputs");
    return std::move(region_);
  }

 private:
  // What may be done with a value inside of the region.
  enum class Kind : uint8_t { kElements, kOfRow, kFinal, kColumn };
  struct Source {
    int64_t id;
    std::vector<tenon_output> inputs;
  };

  const tenon_tensor_view& ViewOf(const tenon_output& output) const {
    const tenon_tensor_view* view = nullptr;
    sdk::Check(args_.edge(args_.context, output, &view));
    return *view;
  }
  std::vector<int64_t> DimsOf(const tenon_output& output) const {
    const sdk::Dims dims = sdk::DimsOf(ViewOf(output));
    return {dims.begin(), dims.end()};
  }
  std::string_view OpOf(int64_t id) const {
    return sdk::ToText(cursor_.node_services->op(cursor_.node(cursor_.graph, id)));
  }
  tenon_output InputOf(int64_t id, int32_t index) const {
    tenon_output source = {-1, 0, 0};
    sdk::Check(cursor_.input(cursor_.graph, id, index, &source));
    return source;
  }
  // Of the nodes that move elements at the region's edge.
  EdgeOp EdgeOpAt(int64_t id) const { return EdgeOpOf(OpOf(id)); }
  bool HasEdges() const {
    return std::any_of(args_.nodes, args_.nodes + args_.node_count,
                       [&](int64_t id) { return EdgeOpAt(id) != EdgeOp::kNone; });
  }
  bool IsAxes(const tenon_output& edge) const {
    return std::find_if(axes_.begin(), axes_.end(), [&](const tenon_output& each) {
             return each.node == edge.node && each.index == edge.index;
           }) != axes_.end();
  }

  // The node that changes variables: one at most.
  void FindUpdate() {
    for (uint64_t n = 0; n < args_.node_count; ++n) {
      const int64_t id = args_.nodes[n];
      const UpdateOp* const op = UpdateOpOf(OpOf(id));
      if (op == nullptr) continue;
      const tenon_node* const node = cursor_.node(cursor_.graph, id);
      if (update_ >= 0 || !IsGeneratedUpdate(*op, *cursor_.node_services, node, level_))
        sdk::Fail(TENON_UNIMPLEMENTED, "a region of other updates than one that is generated");
      update_ = id;
      region_.update.emplace(*op, *cursor_.node_services, node);
      for (size_t k = 0; k < op->variables; ++k)
        region_.update->handles.push_back(NumberOf(InputOf(id, static_cast<int32_t>(k))));
      for (const int32_t scalar : op->scalars) {
        region_.update->scalars.push_back(NumberOf(InputOf(id, scalar)));
        if (!DimsOf(InputOf(id, scalar)).empty()) sdk::Fail(TENON_UNIMPLEMENTED, "an update whose scalars are none");
      }
    }
  }
  // Among the frame's inputs.
  int32_t NumberOf(const tenon_output& edge) const {
    const auto* const end = args_.inputs + args_.input_count;
    const auto* const found = std::find_if(args_.inputs, end, [&](const tenon_output& each) {
      return each.node == edge.node && each.index == edge.index;
    });
    if (found == end) sdk::Fail(TENON_UNIMPLEMENTED, "what is no element is made in its region");
    return static_cast<int32_t>(found - args_.inputs);
  }
  // Whether elements of the edge are read, and not by the update as a scalar alone, or by what takes parts.
  bool IsOfElements(const tenon_output& edge) const {
    for (uint64_t n = 0; n < args_.node_count; ++n) {
      const int64_t id = args_.nodes[n];
      const EdgeOp op = EdgeOpAt(id);
      if (IsPartOp(op)) continue;
      const int32_t count =
          cursor_.node_services->input_count(cursor_.node(cursor_.graph, id)) - (op == EdgeOp::kConcat ? 1 : 0);
      for (int32_t i = 0; i < count; ++i) {
        const tenon_output input = InputOf(id, i);
        if ((id != update_ || i == region_.update->op().gradient) && input.node == edge.node &&
            input.index == edge.index)
          return true;
      }
    }
    return false;
  }

  // A value that is computed.
  tenon_output SomeElements() const {
    for (uint64_t k = 0; k < args_.output_count; ++k) {
      const EdgeOp op = EdgeOpAt(args_.outputs[k].node);
      if (!IsPartOp(op)) return op == EdgeOp::kConcat ? InputOf(args_.outputs[k].node, 0) : args_.outputs[k];
    }
    sdk::Fail(TENON_UNIMPLEMENTED, "a region that only moves elements");
  }
  // That of the values which are reduced, or of all.
  void FindShape() {
    region_.shape = DimsOf(update_ < 0 ? SomeElements() : InputOf(update_, region_.update->op().gradient));
    bool is_found = false;
    for (uint64_t n = 0; n < args_.node_count; ++n) {
      const std::string_view op = OpOf(args_.nodes[n]);
      const bool reduces = ReductionOf(op) != Function::kUnknown;
      if (!reduces && !IsSoftmax(op)) continue;
      const std::vector<int64_t> shape = DimsOf(InputOf(args_.nodes[n], 0));
      if (is_found && shape != region_.shape)
        sdk::Fail(TENON_UNIMPLEMENTED, "a region that reduces shapes ", sdk::Dims(shape), " and ",
                  sdk::Dims(region_.shape));
      is_found = true;
      region_.shape = shape;
      if (!reduces) has_softmax_ = true;
      AddDims(reduces ? DimsReducedBy(op, args_.nodes[n]) : ReducedDims{1, 0});
    }
    if (!is_found) return;
    const size_t rank = region_.shape.size();
    region_.is_whole = !has_softmax_ && region_.reduced == rank;
    if (region_.is_whole && region_.total() < 2) sdk::Fail(TENON_UNIMPLEMENTED, "one element, which is its own sum");
    if (!region_.is_whole && region_.reduced > 0 && (region_.row() < kLeastReduced || region_.row() > kMostReduced))
      sdk::Fail(TENON_UNIMPLEMENTED, "rows of ", region_.row(), " elements");
    if (region_.leading > 0 && region_.reduced > 0 && region_.leading + region_.reduced != rank)
      sdk::Fail(TENON_UNIMPLEMENTED, "a region that reduces various dims");
    row_shape_ = region_.shape;
    std::fill(row_shape_.end() - static_cast<int64_t>(region_.reduced), row_shape_.end(), 1);
  }
  void AddDims(const ReducedDims& dims) {
    const auto add = [](size_t* all, size_t own) {
      if (own != 0 && *all != 0 && *all != own) sdk::Fail(TENON_UNIMPLEMENTED, "a region that reduces various dims");
      *all = std::max(*all, own);
    };
    if (dims.trailing > region_.shape.size()) sdk::Fail(TENON_UNIMPLEMENTED, "a softmax of one element");
    add(&region_.reduced, dims.trailing);
    add(&region_.leading, dims.leading);
  }
  ReducedDims DimsReducedBy(std::string_view op, int64_t id) {
    const size_t rank = region_.shape.size();
    if (IsBiasGradient(op)) {
      if (rank < 2) sdk::Fail(TENON_UNIMPLEMENTED, "a value that its kernel refuses");
      return {0, rank - 1};
    }
    const tenon_output axes = InputOf(id, 1);
    const tenon_tensor_view& view = ViewOf(axes);
    if (view.dl.data == nullptr) sdk::Fail(TENON_UNIMPLEMENTED, "axes that are not known");
    if (!IsAxes(axes)) axes_.push_back(axes);
    const ReducedDims found = DimsOfAxes(view, rank);
    if (found.trailing + found.leading == 0)
      sdk::Fail(TENON_UNIMPLEMENTED, "axes that are neither the first nor the last ones");
    return found;
  }

  void AddInputs() {
    const bool are_all_elements = update_ < 0 && !HasEdges();
    for (uint64_t i = 0; i < args_.input_count; ++i) {
      const tenon_output& input = args_.inputs[i];
      if (IsAxes(input) || (!are_all_elements && !IsOfElements(input))) continue;
      const tenon_tensor_view& view = ViewOf(input);
      region_.shapes.push_back(DimsOf(input));
      values_[{input.node, input.index}] = static_cast<int>(region_.program.inputs.size());
      region_.program.inputs.push_back({view.dtype, false});
      region_.sources.push_back(static_cast<int32_t>(i));
    }
    for (uint64_t n = 0; n < args_.node_count; ++n)
      if (IsPartOp(EdgeOpAt(args_.nodes[n]))) AddParts(args_.nodes[n]);
    if (update_ >= 0) AddInputsOfUpdate();
    if (region_.program.inputs.size() > kMostInputs)
      sdk::Fail(TENON_UNIMPLEMENTED, "a region of ", region_.program.inputs.size(), " inputs");
  }

  // Those outputs of the node that somebody reads, and that are not fed.
  void AddParts(int64_t id) {
    const tenon_node_services& services = *cursor_.node_services;
    const tenon_node* const node = cursor_.node(cursor_.graph, id);
    std::vector<const tenon_tensor_view*> inputs;
    std::vector<sdk::Dims> outputs;
    for (int32_t i = 0, count = services.input_count(node); i < count; ++i) inputs.push_back(&ViewOf(InputOf(id, i)));
    for (int32_t k = 0, count = services.output_count(node); k < count; ++k)
      outputs.push_back(sdk::DimsOf(ViewOf({id, k, 0})));
    const EdgeOp op = EdgeOpAt(id);
    for (int32_t k = 0; k < static_cast<int32_t>(outputs.size()); ++k) {
      const tenon_output own{id, k, 0};
      if (values_.contains({id, k}) || (!IsOfElements(own) && !IsFetched(own))) continue;
      Part part = PartOf(op, services, node, k, inputs, outputs);
      if (part.row < kLeastEdgeRow) sdk::Fail(TENON_UNIMPLEMENTED, "parts of rows of ", part.row, " elements");
      part.input = static_cast<int32_t>(region_.program.inputs.size());
      if (part.gather) {
        part.gather->table = NumberOf(InputOf(id, 0));
        part.gather->indices = NumberOf(InputOf(id, 1));
      }
      region_.sources.push_back(NumberOf(InputOf(id, ValueOf(op))));
      region_.shapes.emplace_back(outputs[static_cast<size_t>(k)].begin(), outputs[static_cast<size_t>(k)].end());
      region_.program.inputs.push_back({services.output_dtype(node, k), false});
      region_.parts.push_back(std::move(part));
      values_[{id, k}] = region_.parts.back().input;
    }
  }
  bool IsFetched(const tenon_output& edge) const {
    return std::any_of(args_.outputs, args_.outputs + args_.output_count,
                       [&](const tenon_output& each) { return each.node == edge.node && each.index == edge.index; });
  }

  // Values that leave the region: computed ones, parts of others, or computed ones side by side.
  void AddOutput(const tenon_output& output, int32_t number) {
    if (EdgeOpAt(output.node) == EdgeOp::kConcat) return AddConcatenation(output.node, number);
    const int value = values_.at({output.node, output.index});
    const auto part = std::find_if(region_.parts.begin(), region_.parts.end(),
                                   [value](const Part& each) { return each.input == value; });
    if (part != region_.parts.end()) {
      region_.copies.emplace_back(static_cast<int32_t>(part - region_.parts.begin()), number);
      return;
    }
    AddProgramOutput(value, {number, 0, 0, 0});
  }
  void AddConcatenation(int64_t id, int32_t number) {
    const int32_t count = cursor_.node_services->input_count(cursor_.node(cursor_.graph, id)) - 1;
    const tenon_tensor_view& axis_view = ViewOf(InputOf(id, count));
    if (axis_view.dl.data == nullptr || sdk::Count(axis_view) != 1)
      sdk::Fail(TENON_UNIMPLEMENTED, "an axis that is not known");
    const auto rank = static_cast<int64_t>(region_.shape.size());
    int64_t axis = sdk::IndexAt(sdk::Data<const void>(axis_view), axis_view.dtype, 0);
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank) sdk::Fail(TENON_UNIMPLEMENTED, "an axis that its kernel refuses");
    const int64_t row = sdk::Count(sdk::Dims(region_.shape).subspan(static_cast<size_t>(axis)));
    if (row < kLeastEdgeRow) sdk::Fail(TENON_UNIMPLEMENTED, "a concatenation of rows of ", row, " elements");
    for (int32_t i = 0; i < count; ++i) {
      const int value = Operand(InputOf(id, i));
      if (IsInput(value) || KindOf(value) != Kind::kElements)
        sdk::Fail(TENON_UNIMPLEMENTED, "a concatenation of other values than a region's");
      const auto bytes = row * static_cast<int64_t>(sdk::ElementSize(region_.program.DtypeOf(value)));
      AddProgramOutput(value, {number, row, count * bytes, i * bytes});
    }
  }
  void AddProgramOutput(int value, const Target& target) {
    if (IsInput(value)) sdk::Fail(TENON_UNIMPLEMENTED, "a value of a region comes from outside of it");
    std::vector<int>& outputs = region_.program.outputs;
    if (std::find(outputs.begin(), outputs.end(), value) != outputs.end())
      sdk::Fail(TENON_UNIMPLEMENTED, "a value that is to lie in two places");
    outputs.push_back(value);
    region_.targets.push_back(target);
  }

  void AddInputsOfUpdate() {
    const RegionUpdate& update = *region_.update;
    const auto add = [&](uint32_t dtype, std::vector<int64_t> shape) {
      region_.program.inputs.push_back({dtype, false});
      region_.shapes.push_back(std::move(shape));
      return static_cast<int>(region_.program.inputs.size()) - 1;
    };
    for (size_t i = 0; i < update.scalar_count(); ++i) scalars_.push_back(add(update.wide(), {}));
    for (size_t k = 0; k < update.op().variables; ++k) olds_.push_back(add(update.dtype(), region_.shape));
  }

  // Those that outputs hang on, in order, and what changes variables.
  void CollectNodes() {
    std::map<int64_t, bool> needed;
    for (uint64_t k = 0; k < args_.output_count; ++k) needed[args_.outputs[k].node] = true;
    if (update_ >= 0) needed[update_] = true;
    std::vector<Source> sources(args_.node_count);
    for (uint64_t n = args_.node_count; n-- > 0;) {
      const int64_t id = args_.nodes[n];
      sources[n].id = id;
      const int32_t count = cursor_.node_services->input_count(cursor_.node(cursor_.graph, id));
      for (int32_t i = 0; i < count; ++i) {
        const tenon_output source = InputOf(id, i);
        sources[n].inputs.push_back(source);
        if (needed.contains(id) && !values_.contains({source.node, source.index})) needed[source.node] = true;
      }
    }
    for (const Source& source : sources)
      if (needed.contains(source.id)) AddNode(source);
    if (region_.program.nodes.size() > kMostNodes)
      sdk::Fail(TENON_UNIMPLEMENTED, "a region of ", region_.program.nodes.size(), " nodes");
    const auto columns = static_cast<int64_t>(region_.columns.size());
    const auto reductions = std::count_if(region_.program.nodes.begin(), region_.program.nodes.end(),
                                          [](const Node& node) { return IsReduction(node.function); }) -
                            columns;
    if (columns == 0) region_.leading = 0;
    if (reductions > kMostReductions) sdk::Fail(TENON_UNIMPLEMENTED, "a region of ", reductions, " reductions");
    if (reductions > 0) return;
    region_.reduced = 0;  // nobody asked for them
    if (std::find(region_.of_row.begin(), region_.of_row.end(), true) != region_.of_row.end())
      sdk::Fail(TENON_UNIMPLEMENTED, "a region of two shapes");
  }

  void AddNode(const Source& source) {
    const std::string_view op = OpOf(source.id);
    if (EdgeOpOf(op) != EdgeOp::kNone) return;  // an edge of the region
    if (source.id == update_) return AddUpdate(op, source);
    if (ReductionOf(op) != Function::kUnknown) return AddReduction(op, source);
    if (IsSoftmax(op)) return AddSoftmax(op, source);
    const NodeFormula formula(*cursor_.node_services, cursor_.node(cursor_.graph, source.id), level_);
    if (formula.is_power()) return AddPower(source);
    if (!formula.is_said() || !formula.is_generated())
      sdk::Fail(TENON_UNIMPLEMENTED, formula.is_said() ? formula.why() : sdk::Concat(op, " is not generated"));
    const std::vector<int64_t> shape = DimsOf({source.id, 0, 0});
    const Kind kind = KindOfShape(shape);
    std::vector<int> values;  // as the formula numbers them
    for (size_t i = 0; i < source.inputs.size(); ++i) {
      values.push_back(OperandOf(op, source.inputs[i], kind));
      if (!formula.Fits(i, ShapeOf(values[i]), shape))
        sdk::Fail(TENON_UNIMPLEMENTED, "shapes of ", op, " that its kernel looks at");
    }
    for (Node node : formula.nodes()) {
      for (int& operand : node.operands) operand = values[static_cast<size_t>(operand)];
      values.push_back(Append(std::move(node), kind));
    }
    values_.emplace(std::pair(source.id, 0), values.back());  // unless it is fed
  }
  Kind KindOfShape(const std::vector<int64_t>& shape) const {
    if (shape == region_.shape) return Kind::kElements;
    if (region_.reduced == 0 || region_.is_whole || shape != row_shape_)
      sdk::Fail(TENON_UNIMPLEMENTED, "a region of shapes ", sdk::Dims(region_.shape), " and ", sdk::Dims(shape));
    return Kind::kOfRow;
  }
  int OperandOf(std::string_view op, const tenon_output& input, Kind kind) const {
    const int operand = Operand(input);
    const bool fits = IsInput(operand) || KindOf(operand) == Kind::kOfRow ||
                      (KindOf(operand) == Kind::kElements && kind == Kind::kElements);
    if (!fits) sdk::Fail(TENON_UNIMPLEMENTED, op, " of a value that is reduced in the same region");
    return operand;
  }

  // x x, or x x x; of halves in floats.
  void AddPower(const Source& source) {
    const int power = PowerOf(ViewOf(source.inputs.at(1)));
    const Kind kind = KindOfShape(DimsOf({source.id, 0, 0}));
    const int operand = OperandOf("Pow", source.inputs[0], kind);
    const uint32_t dtype = region_.program.DtypeOf(operand),
                   wide = dtype == TENON_DT_DOUBLE ? TENON_DT_DOUBLE : TENON_DT_FLOAT;
    if (power == 0 || !IsGenerated(Function::kReciprocal, {dtype}, dtype, level_))
      sdk::Fail(TENON_UNIMPLEMENTED, "a power that products do not compute");
    const int x = dtype == wide ? operand : Append({Function::kCast, wide, {operand}}, kind);
    int result = Append({Function::kSquare, wide, {x}}, kind);
    if (power == 3) result = Append({Function::kMul, wide, {result, x}}, kind);
    if (dtype != wide) result = Append({Function::kCast, dtype, {result}}, kind);
    values_.emplace(std::pair(source.id, 0), result);
  }

  void AddUpdate(std::string_view op, const Source& source) {
    const RegionUpdate& update = *region_.update;
    const auto cast = [&](int value, uint32_t to) {
      return region_.program.DtypeOf(value) == to ? value : Append({Function::kCast, to, {value}}, Kind::kElements);
    };
    const int gradient =
        cast(WholeOperand(op, source.inputs.at(static_cast<size_t>(update.op().gradient))), update.wide());
    std::vector<int> olds;
    for (const int old : olds_) olds.push_back(cast(old, update.wide()));
    news_ = update.NewValues(gradient, scalars_.data(), olds.data(), [&](Function function, std::vector<int> operands) {
      return Append({function, update.wide(), std::move(operands)}, Kind::kElements);
    });
    for (int& each : news_) each = cast(each, update.dtype());
  }

  // Of values of all of the shape.
  int WholeOperand(std::string_view op, const tenon_output& input) const {
    const int operand = Operand(input);
    const bool fits = IsInput(operand) ? ShapeOf(operand) == region_.shape : KindOf(operand) == Kind::kElements;
    if (!fits) sdk::Fail(TENON_UNIMPLEMENTED, op, " of a value of another shape");
    return operand;
  }
  void AddReduction(std::string_view op, const Source& source) {
    const int operand = WholeOperand(op, source.inputs.at(0));
    const uint32_t dtype = region_.program.DtypeOf(operand);
    if (!IsGeneratedReduction(ReductionOf(op), dtype, level_)) sdk::Fail(TENON_UNIMPLEMENTED, op, " is not generated");
    if (IsBiasGradient(op) || DimsReducedBy(op, source.id).leading > 0) {
      region_.columns.push_back(region_.program.nodes.size());
      return Add(source.id, {ReductionOf(op), dtype, {operand}}, Kind::kColumn);
    }
    sdk::NodeContext context(cursor_.node_services, cursor_.node(cursor_.graph, source.id));
    const bool keeps = context.Bool("keep_dims");
    sdk::Check(context.Finish());
    Add(source.id, {ReductionOf(op), dtype, {operand}}, keeps && !region_.is_whole ? Kind::kOfRow : Kind::kFinal);
  }

  // Softmax: e^(x - max) over its sum. LogSoftmax: x - max less the sum's logarithm. Of halves all of it is of floats.
  void AddSoftmax(std::string_view op, const Source& source) {
    using enum Function;
    const int operand = WholeOperand(op, source.inputs.at(0));
    const uint32_t dtype = region_.program.DtypeOf(operand);
    if (!IsGenerated(kExp, {dtype}, dtype, level_)) sdk::Fail(TENON_UNIMPLEMENTED, op, " is not generated");
    const auto add = [&](Function function, std::vector<int> operands, Kind kind) {
      return Append({function, TENON_DT_FLOAT, std::move(operands)}, kind);
    };
    const int x = dtype == TENON_DT_FLOAT ? operand : add(kCast, {operand}, Kind::kElements);
    const int less = add(kSub, {x, add(kLargest, {x}, Kind::kOfRow)}, Kind::kElements),
              power = add(kExp, {less}, Kind::kElements), sum = add(kSum, {power}, Kind::kOfRow);
    int result = op == "Softmax" ? add(kMul, {power, add(kReciprocal, {sum}, Kind::kOfRow)}, Kind::kElements)
                                 : add(kSub, {less, add(kLog, {sum}, Kind::kOfRow)}, Kind::kElements);
    if (dtype != TENON_DT_FLOAT) result = Append({kCast, dtype, {result}}, Kind::kElements);
    values_.emplace(std::pair(source.id, 0), result);
  }

  int Operand(const tenon_output& input) const {
    const auto found = values_.find({input.node, input.index});
    if (found == values_.end()) sdk::Fail(TENON_UNIMPLEMENTED, "what a region reads does not come from outside of it");
    return found->second;
  }
  int Append(Node node, Kind kind) {
    region_.program.nodes.push_back(std::move(node));
    kinds_.push_back(kind);
    region_.of_row.push_back(kind == Kind::kOfRow || kind == Kind::kFinal);
    return static_cast<int>(region_.program.inputs.size() + region_.program.nodes.size()) - 1;
  }
  void Add(int64_t id, Node node, Kind kind) {
    const int value = Append(std::move(node), kind);
    values_.emplace(std::pair(id, 0), value);  // unless it is fed
  }

  bool IsInput(int value) const { return value < static_cast<int>(region_.program.inputs.size()); }
  Kind KindOf(int value) const { return kinds_[static_cast<size_t>(value) - region_.program.inputs.size()]; }
  const std::vector<int64_t>& ShapeOf(int value) const {
    return IsInput(value)                     ? region_.shapes[static_cast<size_t>(value)]
           : KindOf(value) == Kind::kElements ? region_.shape
                                              : row_shape_;
  }
  const tenon_compile_args& args_;
  const tenon_graph_cursor& cursor_;
  const Level level_;
  Region region_;
  std::vector<int64_t> row_shape_;
  bool has_softmax_ = false;
  int64_t update_ = -1;  // the node that changes variables; -1: none
  std::vector<int> scalars_, olds_, news_;  // its values
  std::vector<tenon_output> axes_;
  std::map<std::pair<int64_t, int32_t>, int> values_;
  std::vector<Kind> kinds_;  // of nodes
};

}  // namespace

Region ReadRegion(const tenon_compile_args& args, Level level, int64_t least) {
  return Reader(args, level).Read(least);
}

int PowerOf(const tenon_tensor_view& exponent) {
  if (exponent.dl.data == nullptr || sdk::Count(exponent) != 1) return 0;
  double value = 0;
  switch (exponent.dtype) {
    case TENON_DT_FLOAT: value = static_cast<double>(*sdk::Data<const float>(exponent)); break;
    case TENON_DT_DOUBLE: value = *sdk::Data<const double>(exponent); break;
    case TENON_DT_HALF: value = static_cast<double>(static_cast<float>(*sdk::Data<const sdk::Half>(exponent))); break;
    case TENON_DT_BFLOAT16:
      value = static_cast<double>(static_cast<float>(*sdk::Data<const sdk::Bfloat16>(exponent)));
      break;
    default: break;
  }
  return value == 2 ? 2 : value == 3 ? 3 : 0;
}

ReducedDims DimsOfAxes(const tenon_tensor_view& axes, size_t rank) {
  if (axes.dl.data == nullptr || (axes.dtype != TENON_DT_INT32 && axes.dtype != TENON_DT_INT64) ||
      rank > TENON_MAX_RANK)
    return {};
  const int64_t count = sdk::Count(axes), all = static_cast<int64_t>(rank);
  if (count < 1 || count > all) return {};
  std::vector<bool> is_chosen(rank, false);
  for (int64_t i = 0; i < count; ++i) {
    int64_t axis = sdk::IndexAt(sdk::Data<const void>(axes), axes.dtype, i);
    if (axis < 0) axis += all;
    if (axis < 0 || axis >= all || is_chosen[static_cast<size_t>(axis)]) return {};
    is_chosen[static_cast<size_t>(axis)] = true;
  }
  const auto chosen = static_cast<size_t>(count);
  if (std::all_of(is_chosen.end() - count, is_chosen.end(), std::identity())) return {chosen, 0};
  return std::all_of(is_chosen.begin(), is_chosen.begin() + count, std::identity()) ? ReducedDims{0, chosen}
                                                                                    : ReducedDims{};
}

}  // namespace tenon::cpu_codegen
