// SPDX-License-Identifier: Apache-2.0
// Random programs: what they are, how they are made from a seed, and how they read as text.
//
// A program is a region: parameters, then steps, each of which uses values made before it. A step is a calculation, a
// conditional, a loop, or a choice of three (switches whose dead sides meet in one merge); the parts of the latter are
// regions of their own, which see what they are given alone. random_program_run.h gives a program its meaning twice: as
// a graph of the engine, and by direct calculation.
//
// Rules. Floating values stay within [-1, 1] and whole ones within (-1009, 1009), so that nothing overflows. An exact
// program uses calculations that IEEE defines to the last bit; a smooth one also tanh and the like, and never asks a
// question.
#ifndef TENON_TESTS_ENGINE_RANDOM_PROGRAM_H_
#define TENON_TESTS_ENGINE_RANDOM_PROGRAM_H_

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/engine/engine.h"

namespace tenon::engine {

// These four broadcast against each other in every pair.
enum class Form { kScalar, kRow, kColumn, kMatrix };
inline Shape ShapeOf(Form form) {
  static const Shape shapes[] = {{}, {3}, {2, 1}, {2, 3}};
  return shapes[static_cast<int>(form)];
}

struct Type {
  DType dtype = DType::kFloat;
  Form form = Form::kScalar;
  friend bool operator==(const Type&, const Type&) = default;
};
inline bool IsFloating(DType dtype) { return dtype == DType::kFloat || dtype == DType::kDouble; }
constexpr double kModulus = 1009;

enum class Do {
  kConstant,
  kAverage,
  kHalfDifference,
  kProduct,
  kMaximum,
  kMinimum,
  kNegate,
  kAbsolute,
  kSquare,
  kIdentity,
  kCast,
  kSpread,
  kLargest,
  kLargestOfRows,
  kAddN,
  kChoose,
  kLess,
  kBoth,
  kBackwards,
  kRowOf,
  kStack,
  kUnstack,
  kTanh,
  kSigmoid,
  kRemainder,
  kPlusOne,
  kGrow,
  kConditional,
  kThreeWay,
  kLoop,
};

struct Region;

struct Step {
  Do what = Do::kConstant;
  std::vector<int> in;       // values of the region
  std::vector<int> waits;    // values whose nodes it waits for
  std::vector<Type> out;
  double number = 0;         // of a constant, a modulus, a row
  int first = 0;             // the number of its first value in the region
  // Conditional: in[0] asks; parts are what is done if so, and if not. Three-way: in[0] and in[1] ask. Loop: in are the
  // variables, then the invariants; parts are the question and the body.
  std::vector<std::unique_ptr<Region>> parts;
  int variables = 0;
  int64_t parallel = 10;
};

struct Region {
  std::vector<Type> parameters;
  std::vector<Step> steps;
  std::vector<Type> types;   // of all values: parameters, then what the steps give
  std::vector<int> results;
};

// How many graph nodes' worth of steps, how deep, and whether anything is asked.
struct ProgramOptions {
  int steps = 12;
  int depth = 0;       // of loops and conditionals
  bool smooth = false;
};

class ProgramMaker {
 public:
  ProgramMaker(uint32_t seed, const ProgramOptions& options) : random_(seed), options_(options) {}

  Region Make() {
    Region region;
    static const Type parameters[] = {{DType::kFloat, Form::kRow}, {DType::kDouble, Form::kScalar},
                                      {DType::kInt32, Form::kScalar}, {DType::kInt64, Form::kMatrix},
                                      {DType::kFloat, Form::kMatrix}, {DType::kDouble, Form::kColumn}};
    static const Type floating[] = {{DType::kFloat, Form::kRow}, {DType::kDouble, Form::kScalar},
                                    {DType::kFloat, Form::kMatrix}, {DType::kDouble, Form::kColumn}};
    const size_t count = 2 + Under(3);
    for (size_t i = 0; i < count; ++i)
      AddParameter(region, options_.smooth ? floating[Under(4)] : parameters[Under(6)]);
    Fill(region, options_.steps, options_.depth);
    // The last value, and others that no branch hides.
    region.results.push_back(static_cast<int>(region.types.size()) - 1);
    for (int i = 0; i < 3; ++i) region.results.push_back(Any(region));
    return region;
  }

 private:
  size_t Under(size_t limit) { return random_() % limit; }
  bool OneIn(size_t count) { return Under(count) == 0; }
  int Any(const Region& region) { return static_cast<int>(Under(region.types.size())); }

  static void AddParameter(Region& region, Type type) {
    region.parameters.push_back(type);
    region.types.push_back(type);
  }
  // Gives the number of the step's first value.
  int Add(Region& region, Step step) {
    step.first = static_cast<int>(region.types.size());
    if (OneIn(6) && !region.types.empty()) step.waits.push_back(Any(region));
    region.types.insert(region.types.end(), step.out.begin(), step.out.end());
    region.steps.push_back(std::move(step));
    return region.steps.back().first;
  }
  int Add(Region& region, Do what, std::vector<int> in, Type out, double number = 0) {
    Step step;
    step.what = what;
    step.in = std::move(in);
    step.out = {out};
    step.number = number;
    return Add(region, std::move(step));
  }

  // A value of this type, made from a random one.
  int Need(Region& region, Type type) { return As(region, Any(region), type); }
  int As(Region& region, int value, Type type) {
    if (region.types[static_cast<size_t>(value)].dtype == DType::kBool)
      value = Add(region, Do::kCast, {value}, {type.dtype, region.types[static_cast<size_t>(value)].form});
    Type now = region.types[static_cast<size_t>(value)];
    if (now.form != type.form && now.form != Form::kScalar)
      value = Add(region, Do::kLargest, {value}, now = {now.dtype, Form::kScalar});
    if (now.dtype != type.dtype) value = Add(region, Do::kCast, {value}, now = {type.dtype, now.form});
    if (now.form != type.form) value = Add(region, Do::kSpread, {value}, type);
    return value;
  }
  // A question that the data answer.
  int Question(Region& region) {
    const Type type = {OneIn(2) ? DType::kInt32 : DType::kDouble, Form::kScalar};
    const int a = Need(region, type), b = Need(region, type);
    return Add(region, Do::kLess, {a, b}, {DType::kBool, Form::kScalar});
  }
  static Form Together(Form a, Form b) {
    if (a == b || b == Form::kScalar) return a;
    return a == Form::kScalar ? b : Form::kMatrix;
  }
  // A random value that is a number.
  int Number(Region& region) {
    for (int tries = 0; tries < 8; ++tries)
      if (const int value = Any(region); region.types[static_cast<size_t>(value)].dtype != DType::kBool) return value;
    return Need(region, {DType::kFloat, Form::kScalar});
  }
  // Another number of the same element type.
  int Partner(Region& region, int value) {
    const DType dtype = region.types[static_cast<size_t>(value)].dtype;
    for (int tries = 0; tries < 6; ++tries)
      if (const int other = Any(region); region.types[static_cast<size_t>(other)].dtype == dtype) return other;
    static const Form forms[] = {Form::kScalar, Form::kRow, Form::kColumn, Form::kMatrix};
    return Need(region, {dtype, forms[Under(4)]});
  }

  void Fill(Region& region, int steps, int depth) {
    for (int i = 0; i < steps; ++i) {
      if (depth > 0 && OneIn(4)) {
        switch (Under(5)) {
          case 0: AddConditional(region, depth); break;
          case 1: AddConditional(region, depth); break;
          case 2: AddThreeWay(region); break;
          default: AddLoop(region, depth); break;
        }
      } else {
        AddCalculation(region);
      }
    }
  }

  void AddCalculation(Region& region) {
    const int a = Number(region);
    const Type t = region.types[static_cast<size_t>(a)];
    const bool asks = !options_.smooth;
    switch (Under(asks ? 18 : 13)) {
      case 0: case 1: AddTwo(region, Do::kAverage, a); break;
      case 2: AddTwo(region, Do::kHalfDifference, a); break;
      case 3: AddTwo(region, Do::kProduct, a); break;
      case 4: AddTwo(region, Do::kMaximum, a); break;
      case 5: AddTwo(region, Do::kMinimum, a); break;
      case 6: Add(region, OneIn(2) ? Do::kNegate : Do::kAbsolute, {a}, t); break;
      case 7: Add(region, OneIn(2) ? Do::kSquare : Do::kIdentity, {a}, t); break;
      case 8: AddPicture(region); break;
      case 9: AddConstant(region, t.dtype); break;
      case 10: Add(region, Do::kAddN, {a, As(region, Partner(region, a), t)}, t); break;
      case 11:
        if (options_.smooth && IsFloating(t.dtype)) Add(region, OneIn(2) ? Do::kTanh : Do::kSigmoid, {a}, t);
        else AddTwo(region, Do::kMaximum, a);
        break;
      case 12: {
        static const Form forms[] = {Form::kScalar, Form::kRow, Form::kColumn, Form::kMatrix};
        As(region, a, {t.dtype, forms[Under(4)]});
        break;
      }
      case 13: case 14: {  // to another element type; a smooth program would lose its last bits in a whole number
        static const DType dtypes[] = {DType::kFloat, DType::kDouble, DType::kInt32, DType::kInt64};
        const DType dtype = dtypes[Under(4)];
        if (dtype != t.dtype) Add(region, Do::kCast, {a}, {dtype, t.form});
        else Add(region, Do::kNegate, {a}, t);
        break;
      }
      case 15: AddTwo(region, Do::kLess, a, true); break;
      default: {
        const int b = Partner(region, a);
        const int less = Add(region, Do::kLess, {a, b}, {DType::kBool, Together(t.form, FormOf(region, b))});
        Add(region, Do::kChoose, {less, b, a}, {t.dtype, Together(t.form, FormOf(region, b))});
      }
    }
  }
  static Form FormOf(const Region& region, int value) { return region.types[static_cast<size_t>(value)].form; }
  void AddTwo(Region& region, Do what, int a, bool asks = false) {
    const int b = Partner(region, a);
    const Type t = region.types[static_cast<size_t>(a)];
    Add(region, what, {a, b}, {asks ? DType::kBool : t.dtype, Together(t.form, FormOf(region, b))});
  }
  void AddConstant(Region& region, DType dtype) {
    static const Form forms[] = {Form::kScalar, Form::kRow, Form::kMatrix};
    const double number =
        IsFloating(dtype) ? static_cast<double>(Under(65)) / 32 - 1 : static_cast<double>(Under(41)) - 20;
    Add(region, Do::kConstant, {}, {dtype, forms[Under(3)]}, number);
  }
  // What moves elements without changing them.
  void AddPicture(Region& region) {
    const DType dtype = OneIn(2) ? DType::kFloat : options_.smooth ? DType::kDouble : DType::kInt64;
    switch (Under(5)) {
      case 0: Add(region, Do::kBackwards, {Need(region, {dtype, Form::kMatrix})}, {dtype, Form::kMatrix}); break;
      case 1:
        Add(region, Do::kRowOf, {Need(region, {dtype, Form::kMatrix})}, {dtype, Form::kRow},
            static_cast<double>(Under(2)));
        break;
      case 2: {
        const int a = Need(region, {dtype, Form::kRow}), b = Need(region, {dtype, Form::kRow});
        Add(region, Do::kStack, {a, b}, {dtype, Form::kMatrix});
        break;
      }
      case 3: {
        Step step;
        step.what = Do::kUnstack;
        step.in = {Need(region, {dtype, Form::kMatrix})};
        step.out = {{dtype, Form::kRow}, {dtype, Form::kRow}};
        Add(region, std::move(step));
        break;
      }
      default: Add(region, Do::kLargestOfRows, {Need(region, {dtype, Form::kMatrix})}, {dtype, Form::kColumn});
    }
  }

  // A part that sees `inputs` and gives values of the types.
  std::unique_ptr<Region> Part(const Region& region, const std::vector<int>& inputs, const std::vector<Type>& results,
                               int depth) {
    auto part = std::make_unique<Region>();
    for (int input : inputs) AddParameter(*part, region.types[static_cast<size_t>(input)]);
    Fill(*part, 1 + static_cast<int>(Under(4)), depth - 1);
    for (Type type : results) part->results.push_back(Need(*part, type));
    return part;
  }
  std::vector<int> Some(Region& region, size_t least) {
    std::vector<int> values;
    const size_t count = least + Under(3);
    for (size_t i = 0; i < count; ++i) values.push_back(Any(region));
    return values;
  }
  std::vector<Type> SomeTypes(const Region& region, size_t least) {
    std::vector<Type> types;
    const size_t count = least + Under(2);
    for (size_t i = 0; i < count; ++i) types.push_back(region.types[Under(region.types.size())]);
    return types;
  }

  void AddConditional(Region& region, int depth) {
    Step step;
    step.what = Do::kConditional;
    const int question = Question(region);
    const std::vector<int> inputs = Some(region, 1);
    step.out = SomeTypes(region, 1);
    for (Type& type : step.out)
      if (type.dtype == DType::kBool) type.dtype = DType::kDouble;
    for (int side = 0; side < 2; ++side) step.parts.push_back(Part(region, inputs, step.out, depth));
    step.in = {question};
    step.in.insert(step.in.end(), inputs.begin(), inputs.end());
    Add(region, std::move(step));
  }

  void AddThreeWay(Region& region) {
    Step step;
    step.what = Do::kThreeWay;
    const int p = Question(region), q = Question(region), value = Number(region);
    step.in = {p, q, value};
    step.out = {region.types[static_cast<size_t>(value)], {DType::kInt32, Form::kScalar}};  // and which one it was
    Add(region, std::move(step));
  }

  void AddLoop(Region& region, int depth) {
    Step step;
    step.what = Do::kLoop;
    step.parallel = 1 + static_cast<int64_t>(Under(10));
    // The counter, its limit (found in the data, 0 to 3), variables, then invariants.
    const Type whole = {DType::kInt32, Form::kScalar};
    const int start = Add(region, Do::kConstant, {}, whole, 0);
    const int limit = Add(region, Do::kRemainder, {Need(region, whole)}, whole, 4);
    std::vector<int> variables = Some(region, 1), invariants = Some(region, 0);
    for (int& variable : variables)
      if (region.types[static_cast<size_t>(variable)].dtype == DType::kBool) variable = Number(region);
    step.in = {start};
    step.in.insert(step.in.end(), variables.begin(), variables.end());
    step.variables = static_cast<int>(step.in.size());
    step.in.push_back(limit);
    step.in.insert(step.in.end(), invariants.begin(), invariants.end());
    for (int i = 0; i < step.variables; ++i)
      step.out.push_back(region.types[static_cast<size_t>(step.in[static_cast<size_t>(i)])]);

    auto question = std::make_unique<Region>();
    for (int input : step.in) AddParameter(*question, region.types[static_cast<size_t>(input)]);
    int answer = Add(*question, Do::kLess, {0, step.variables}, {DType::kBool, Form::kScalar});
    if (OneIn(3)) {  // a second reason to stop
      const int other = Question(*question);
      answer = Add(*question, Do::kBoth, {answer, other}, {DType::kBool, Form::kScalar});
    }
    question->results = {answer};

    std::vector<Type> next(step.out.begin() + 1, step.out.end());
    auto body = Part(region, step.in, next, depth);
    body->results.insert(body->results.begin(), Add(*body, Do::kPlusOne, {0}, whole));
    // Now and then variables change places.
    for (size_t i = 1; i + 1 < body->results.size(); ++i)
      if (step.out[i] == step.out[i + 1] && OneIn(2)) {
        body->results[i] = static_cast<int>(i) + 1;
        body->results[i + 1] = static_cast<int>(i);
      }
    step.parts.push_back(std::move(question));
    step.parts.push_back(std::move(body));
    Add(region, std::move(step));
    if (OneIn(4)) AddGrowth(region, limit);
  }
  // A loop whose variable becomes longer with each turn; what it gives is the largest element.
  void AddGrowth(Region& region, int limit) {
    Step step;
    step.what = Do::kGrow;
    step.in = {Need(region, {DType::kDouble, Form::kRow}), limit};
    step.out = {{DType::kDouble, Form::kScalar}};
    step.parallel = 1 + static_cast<int64_t>(Under(10));
    Add(region, std::move(step));
  }

  std::mt19937 random_;
  ProgramOptions options_;
};

inline std::string Describe(Type type) {
  const char* name = type.dtype == DType::kFloat    ? "float"
                     : type.dtype == DType::kDouble ? "double"
                     : type.dtype == DType::kInt32  ? "int32"
                     : type.dtype == DType::kInt64  ? "int64"
                                                    : "bool";
  return name + ShapeOf(type.form).ToString();
}

// The steps that these values need, one a line.
inline std::string Describe(const Region& region, const std::vector<int>& wanted, const std::string& indent = "  ") {
  static const char* const names[] = {"constant",
                                      "average",
                                      "half difference",
                                      "product",
                                      "maximum",
                                      "minimum",
                                      "negate",
                                      "absolute",
                                      "square",
                                      "identity",
                                      "cast",
                                      "spread",
                                      "largest",
                                      "largest of rows",
                                      "add n",
                                      "choose",
                                      "less",
                                      "both",
                                      "backwards",
                                      "row of",
                                      "stack",
                                      "unstack",
                                      "tanh",
                                      "sigmoid",
                                      "remainder",
                                      "plus one",
                                      "grow",
                                      "conditional",
                                      "three-way",
                                      "loop"};
  std::vector<bool> needed(region.types.size(), false);
  for (int value : wanted) needed[static_cast<size_t>(value)] = true;
  std::vector<std::string> lines;
  for (auto step = region.steps.rbegin(); step != region.steps.rend(); ++step) {
    bool used = false;
    for (size_t i = 0; i < step->out.size(); ++i) used = used || needed[static_cast<size_t>(step->first) + i];
    if (!used) continue;
    std::string line = indent + "v" + std::to_string(step->first) + ": " + Describe(step->out[0]) + " = " +
                       names[static_cast<int>(step->what)];
    for (int in : step->in) line += " v" + std::to_string(in);
    if (step->what == Do::kConstant || step->what == Do::kRemainder || step->what == Do::kRowOf)
      line += " number " + std::to_string(step->number);
    for (int wait : step->waits) line += " after v" + std::to_string(wait);
    if (step->what == Do::kLoop)
      line += " (" + std::to_string(step->variables) + " variables, parallel " + std::to_string(step->parallel) + ")";
    line += "\n";
    for (const auto& part : step->parts) {
      line += indent + "{\n" + Describe(*part, part->results, indent + "  ") + indent + "  give";
      for (int result : part->results) line += " v" + std::to_string(result);
      line += "\n" + indent + "}\n";
    }
    lines.push_back(line);
    for (int in : step->in) needed[static_cast<size_t>(in)] = true;
    for (int wait : step->waits) needed[static_cast<size_t>(wait)] = true;
  }
  std::string text;
  for (size_t i = 0; i < region.parameters.size(); ++i)
    if (needed[i]) text += indent + "v" + std::to_string(i) + ": " + Describe(region.parameters[i]) + "\n";
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) text += *line;
  return text;
}

}  // namespace tenon::engine

#endif  // TENON_TESTS_ENGINE_RANDOM_PROGRAM_H_
