// SPDX-License-Identifier: Apache-2.0
// What a random program means: as a graph of the engine (BuildProgram), and by direct calculation (Calculate).
//
// The two share nothing but the program, so that what they agree on is not merely an engine that agrees with itself.
#ifndef TENON_TESTS_ENGINE_RANDOM_PROGRAM_RUN_H_
#define TENON_TESTS_ENGINE_RANDOM_PROGRAM_RUN_H_

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "tests/engine/random_program.h"

namespace tenon::engine {

// ---- As a graph ----

class ProgramBuilder {
 public:
  // placer: a device for the nodes of each step, by a number drawn from the seed.
  explicit ProgramBuilder(Graph& graph, std::function<std::string(uint32_t)> placer = nullptr, uint32_t seed = 0)
      : g_(graph), placer_(std::move(placer)), random_(seed) {}

  // All values of the region.
  std::vector<Output> Build(const Region& region, const std::vector<Output>& parameters) {
    std::vector<Output> values = parameters;
    for (const Step& step : region.steps) {
      std::vector<Operation> waits;
      for (int wait : step.waits) waits.push_back(Operation(values[static_cast<size_t>(wait)]));
      const auto order = g_.ControlDependencies(waits);
      const auto device = g_.Device(placer_ ? placer_(static_cast<uint32_t>(random_())) : std::string());
      std::vector<Output> in;
      for (int value : step.in) in.push_back(values[static_cast<size_t>(value)]);
      const std::vector<Output> out = BuildStep(region, step, in);
      values.insert(values.end(), out.begin(), out.end());
    }
    return values;
  }

 private:
  Output Number(DType dtype, double number) {
    if (dtype == DType::kFloat) return g_.Const(static_cast<float>(number));
    if (dtype == DType::kDouble) return g_.Const(number);
    if (dtype == DType::kInt32) return g_.Const(static_cast<int32_t>(number));
    return g_.Const(static_cast<int64_t>(number));
  }
  Output Two(const char* op, const std::vector<Output>& in) { return g_.Op(op, {in[0], in[1]}); }
  // Back into bounds.
  Output Halved(DType dtype, const Output& sum) {
    return IsFloating(dtype) ? g_.Op("Mul", {sum, Number(dtype, 0.5)})
                             : g_.Op("FloorMod", {sum, Number(dtype, kModulus)});
  }
  Output Bounded(DType dtype, const Output& product) {
    return IsFloating(dtype) ? product : g_.Op("FloorMod", {product, Number(dtype, kModulus)});
  }
  Output Cast(DType from, DType to, const Output& x) {
    if (from == DType::kBool || IsFloating(from) == IsFloating(to)) return g_.Op("Cast", {x}, {{"DstT", to}});
    if (IsFloating(from)) return g_.Op("Cast", {g_.Op("Mul", {x, Number(from, 16)})}, {{"DstT", to}});
    return g_.Op("Mul", {g_.Op("Cast", {x}, {{"DstT", to}}), Number(to, 1.0 / 1024)});
  }
  Output Filled(Type type, double number) {
    const Output scalar = Number(type.dtype, number);
    if (type.form == Form::kScalar) return scalar;
    const std::vector<int64_t> dims = ShapeOf(type.form).dims();
    return g_.Op("Fill", {g_.Const(dims, {static_cast<int64_t>(dims.size())}), scalar});
  }
  Output Largest(Form form, const Output& x) {
    std::vector<int32_t> axes;
    for (size_t i = 0; i < ShapeOf(form).dims().size(); ++i) axes.push_back(static_cast<int32_t>(i));
    return g_.Op("Max", {x, g_.Const(axes, {static_cast<int64_t>(axes.size())})});
  }

  std::vector<Output> BuildStep(const Region& region, const Step& step, const std::vector<Output>& in) {
    const Type type = step.out[0];
    const Type from = step.in.empty() ? type : region.types[static_cast<size_t>(step.in[0])];
    switch (step.what) {
      case Do::kConstant: return {Filled(type, step.number)};
      case Do::kAverage: return {Halved(type.dtype, Two("AddV2", in))};
      case Do::kHalfDifference: return {Halved(type.dtype, Two("Sub", in))};
      case Do::kProduct: return {Bounded(type.dtype, Two("Mul", in))};
      case Do::kMaximum: return {Two("Maximum", in)};
      case Do::kMinimum: return {Two("Minimum", in)};
      case Do::kNegate: return {g_.Op("Neg", in)};
      case Do::kAbsolute: return {g_.Op("Abs", in)};
      case Do::kSquare: return {Bounded(type.dtype, g_.Op("Square", in))};
      case Do::kIdentity: return {g_.Op("Identity", in)};
      case Do::kCast: return {Cast(from.dtype, type.dtype, in[0])};
      case Do::kSpread: {
        const std::vector<int64_t> dims = ShapeOf(type.form).dims();
        return {g_.Op("BroadcastTo", {in[0], g_.Const(dims, {static_cast<int64_t>(dims.size())})})};
      }
      case Do::kLargest: return {Largest(from.form, in[0])};
      case Do::kLargestOfRows: return {g_.Op("Max", {in[0], g_.Const(1)}, {{"keep_dims", true}})};
      case Do::kAddN: return {Halved(type.dtype, g_.Op("AddN", in))};
      case Do::kChoose: return {g_.Op("SelectV2", in)};
      case Do::kLess: return {Two("Less", in)};
      case Do::kBoth: return {Two("LogicalAnd", in)};
      case Do::kBackwards: return {g_.Op("ReverseV2", {in[0], g_.Const({1})})};
      case Do::kRowOf: return {g_.Op("GatherV2", {in[0], g_.Const(static_cast<int32_t>(step.number)), g_.Const(0)})};
      case Do::kStack: return {g_.Op("Pack", in)};
      case Do::kUnstack: return g_.AddNode("Unpack", in, {{"num", 2}}).outputs();
      case Do::kTanh: return {g_.Op("Tanh", in)};
      case Do::kSigmoid: return {g_.Op("Sigmoid", in)};
      case Do::kRemainder: return {g_.Op("FloorMod", {in[0], Number(type.dtype, step.number)})};
      case Do::kPlusOne: return {g_.Op("AddV2", {in[0], Number(type.dtype, 1)})};
      case Do::kGrow: return {Grow(step, in)};
      case Do::kConditional: return Conditional(step, in);
      case Do::kThreeWay: return ThreeWay(in);
      case Do::kLoop: return Loop(step, in);
    }
    return {};
  }

  std::vector<Output> Results(const Region& part, const std::vector<Output>& parameters) {
    const std::vector<Output> values = Build(part, parameters);
    std::vector<Output> results;
    for (int result : part.results) results.push_back(values[static_cast<size_t>(result)]);
    return results;
  }
  std::vector<Output> Conditional(const Step& step, const std::vector<Output>& in) {
    return Cond(g_, in[0], {in.begin() + 1, in.end()}, [&](const auto& v) { return Results(*step.parts[0], v); },
                [&](const auto& v) { return Results(*step.parts[1], v); }, "conditional" + std::to_string(names_++));
  }
  // Not p: -x. p and not q: |x|. Both: x. Two of the merge's three inputs are dead.
  std::vector<Output> ThreeWay(const std::vector<Output>& in) {
    const Operation by_p = g_.AddNode("Switch", {in[2], in[0]});
    const Operation q = g_.AddNode("Switch", {in[1], in[0]});
    const Operation by_q = g_.AddNode("Switch", {by_p.output(1), q.output(1)});
    const Output sides[] = {g_.Op("Neg", {by_p.output(0)}), g_.Op("Abs", {by_q.output(0)}),
                            g_.Op("Identity", {by_q.output(1)})};
    return g_.AddNode("Merge", {sides[0], sides[1], sides[2]}).outputs();
  }
  LoopOptions OptionsOf(const Step& step) {
    LoopOptions options;
    options.name = "loop" + std::to_string(names_++);
    options.parallel_iterations = step.parallel;
    return options;
  }
  std::vector<Output> Loop(const Step& step, const std::vector<Output>& in) {
    const auto invariants = in.begin() + step.variables;
    return While(g_, {in.begin(), invariants}, {invariants, in.end()},
                 [&](const auto& v) { return Results(*step.parts[0], v)[0]; },
                 [&](const auto& v) { return Results(*step.parts[1], v); }, OptionsOf(step));
  }
  // v = [v, -v], `limit` times.
  Output Grow(const Step& step, const std::vector<Output>& in) {
    const std::vector<Output> last =
        While(g_, {g_.Const(0), in[0]}, {in[1]}, [&](const auto& v) { return g_.Op("Less", {v[0], v[2]}); },
              [&](const auto& v) {
                return std::vector<Output>{g_.Op("AddV2", {v[0], g_.Const(1)}),
                                           g_.Op("ConcatV2", {v[1], g_.Op("Neg", {v[1]}), g_.Const(0)})};
              }, OptionsOf(step));
    return g_.Op("Max", {last[1], g_.Const({0})});
  }

  Graph& g_;
  std::function<std::string(uint32_t)> placer_;
  std::mt19937 random_;
  int names_ = 0;
};

// ---- By direct calculation ----

// A value: elements as doubles, which hold every element type here exactly.
struct Plain {
  Type type;
  std::vector<double> elements;

  double at(int64_t row, int64_t column) const {
    switch (type.form) {
      case Form::kScalar: return elements[0];
      case Form::kRow: return elements[static_cast<size_t>(column)];
      case Form::kColumn: return elements[static_cast<size_t>(row)];
      default: return elements[static_cast<size_t>(row * 3 + column)];
    }
  }
};

namespace calculation {

// As the element type keeps it. A sum, difference or product of floats, made in double, is rounded as the float one is.
inline double Kept(DType dtype, double value) {
  return dtype == DType::kFloat ? static_cast<double>(static_cast<float>(value)) : value;
}
inline double FloorMod(double value, double modulus) { return value - std::floor(value / modulus) * modulus; }
inline double Halved(DType dtype, double sum) {
  return IsFloating(dtype) ? Kept(dtype, Kept(dtype, sum) * 0.5) : FloorMod(sum, kModulus);
}
inline double Bounded(DType dtype, double product) {
  return IsFloating(dtype) ? Kept(dtype, product) : FloorMod(product, kModulus);
}
inline double Cast(DType from, DType to, double value) {
  if (from == DType::kBool || IsFloating(from) == IsFloating(to)) return Kept(to, value);
  return IsFloating(from) ? std::trunc(value * 16) : value / 1024;
}

// Calls function(row, column) for each element of the form, in row-major order.
template <typename Function>
Plain Each(Type type, Function&& function) {
  Plain plain{type, {}};
  const int64_t rows = type.form == Form::kColumn || type.form == Form::kMatrix ? 2 : 1;
  const int64_t columns = type.form == Form::kRow || type.form == Form::kMatrix ? 3 : 1;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column) plain.elements.push_back(function(row, column));
  return plain;
}

inline double Largest(const std::vector<double>& elements) {
  return *std::max_element(elements.begin(), elements.end());
}

std::vector<Plain> All(const Region& region, std::vector<Plain> values);

inline std::vector<Plain> Results(const Region& part, const std::vector<Plain>& parameters) {
  const std::vector<Plain> values = All(part, parameters);
  std::vector<Plain> results;
  for (int result : part.results) results.push_back(values[static_cast<size_t>(result)]);
  return results;
}

inline std::vector<Plain> Loop(const Step& step, const std::vector<Plain>& in) {
  std::vector<Plain> now = in;
  while (Results(*step.parts[0], now)[0].elements[0] != 0) {
    std::vector<Plain> next = Results(*step.parts[1], now);
    std::move(next.begin(), next.end(), now.begin());
  }
  now.resize(static_cast<size_t>(step.variables));
  return now;
}

// An operation on elements.
inline double Element(const Step& step, const std::vector<Plain>& in, int64_t r, int64_t c) {
  const DType dtype = step.out[0].dtype;
  const auto a = [&] { return in[0].at(r, c); };
  const auto b = [&] { return in[1].at(r, c); };
  switch (step.what) {
    case Do::kConstant: return step.number;
    case Do::kAverage: case Do::kAddN: return Halved(dtype, a() + b());
    case Do::kHalfDifference: return Halved(dtype, a() - b());
    case Do::kProduct: return Bounded(dtype, a() * b());
    case Do::kMaximum: return std::max(a(), b());
    case Do::kMinimum: return std::min(a(), b());
    case Do::kNegate: return -a();
    case Do::kAbsolute: return std::fabs(a());
    case Do::kSquare: return Bounded(dtype, a() * a());
    case Do::kIdentity: case Do::kSpread: return a();
    case Do::kCast: return Cast(in[0].type.dtype, dtype, a());
    case Do::kChoose: return a() != 0 ? b() : in[2].at(r, c);
    case Do::kLess: return a() < b() ? 1 : 0;
    case Do::kBoth: return a() != 0 && b() != 0 ? 1 : 0;
    case Do::kTanh: return Kept(dtype, std::tanh(a()));
    case Do::kSigmoid: return Kept(dtype, 1 / (1 + std::exp(-a())));
    case Do::kRemainder: return FloorMod(a(), step.number);
    case Do::kPlusOne: return a() + 1;
    case Do::kLargest: return Largest(in[0].elements);
    case Do::kLargestOfRows: return std::max({in[0].at(r, 0), in[0].at(r, 1), in[0].at(r, 2)});
    case Do::kBackwards: return in[0].at(r, 2 - c);
    case Do::kRowOf: return in[0].at(static_cast<int64_t>(step.number), c);
    case Do::kStack: return in[static_cast<size_t>(r)].at(0, c);
    default: return 0;  // the others are below
  }
}

inline std::vector<Plain> OneStep(const Step& step, const std::vector<Plain>& in) {
  switch (step.what) {
    case Do::kUnstack: {
      std::vector<Plain> rows;
      for (int64_t row = 0; row < 2; ++row)
        rows.push_back(Each(step.out[0], [&](int64_t, int64_t c) { return in[0].at(row, c); }));
      return rows;
    }
    case Do::kGrow: {
      double largest = Largest(in[0].elements);
      if (in[1].elements[0] > 0)
        for (double element : in[0].elements) largest = std::max(largest, -element);
      return {{step.out[0], {largest}}};
    }
    case Do::kConditional: return Results(*step.parts[in[0].elements[0] != 0 ? 0 : 1], {in.begin() + 1, in.end()});
    case Do::kThreeWay: {
      const int side = in[0].elements[0] == 0 ? 0 : in[1].elements[0] == 0 ? 1 : 2;
      Plain value = in[2];
      for (double& element : value.elements) element = side == 0 ? -element : side == 1 ? std::fabs(element) : element;
      return {value, {step.out[1], {static_cast<double>(side)}}};
    }
    case Do::kLoop: return Loop(step, in);
    default: return {Each(step.out[0], [&](int64_t r, int64_t c) { return Element(step, in, r, c); })};
  }
}

inline std::vector<Plain> All(const Region& region, std::vector<Plain> values) {
  for (const Step& step : region.steps) {
    std::vector<Plain> in;
    for (int value : step.in) in.push_back(values[static_cast<size_t>(value)]);
    for (Plain& out : OneStep(step, in)) values.push_back(std::move(out));
  }
  return values;
}

}  // namespace calculation

// All values of the program.
inline std::vector<Plain> Calculate(const Region& program, const std::vector<Plain>& parameters) {
  return calculation::All(program, parameters);
}

// Values for the program's parameters.
inline std::vector<Plain> RandomParameters(const Region& program, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Plain> parameters;
  for (const Type& type : program.parameters)
    parameters.push_back(calculation::Each(type, [&](int64_t, int64_t) {
      return IsFloating(type.dtype)
                 ? calculation::Kept(type.dtype, std::uniform_real_distribution<double>(-1, 1)(random))
                 : static_cast<double>(static_cast<int>(random() % 2001) - 1000);
    }));
  return parameters;
}

}  // namespace tenon::engine

#endif  // TENON_TESTS_ENGINE_RANDOM_PROGRAM_RUN_H_
