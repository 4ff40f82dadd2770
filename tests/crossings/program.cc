// SPDX-License-Identifier: Apache-2.0
#include "tests/crossings/program.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace tenon::crossings {
namespace {

using host::Tensor;

class Touching {
 public:
  Touching(const Program& program, Touched* touched) : program_(program), touched_(*touched) {}
  void Add(const Step& step) {
    if (step.variable >= 0) (HasEffect(step.what) ? touched_.written : touched_.read).insert(step.variable);
    for (const auto& part : step.parts) Add(*part);
    if (step.function >= 0 && called_.insert(step.function).second)
      Add(*program_.functions[static_cast<size_t>(step.function)]);
  }
  void Add(const Region& region) {
    for (const Step& step : region.steps) Add(step);
  }

 private:
  const Program& program_;
  Touched& touched_;
  std::set<int> called_;
};

bool IsNeededAnyhow(const Program& program, const Step& step) {
  return HasEffect(step.what) || step.what == Do::k_queue || !TouchedBy(program, step).written.empty();
}

// Keeps the steps that `wanted` values or effects need; gives the new numbers of values, -1 of those that are gone.
std::vector<int> Prune(const Program& program, Region* region, const std::vector<int>& wanted) {
  std::vector<bool> needed(region->types.size(), false);
  for (const int value : wanted) needed[static_cast<size_t>(value)] = true;
  std::vector<bool> kept(region->steps.size(), false);
  for (size_t i = region->steps.size(); i-- > 0;) {
    const Step& step = region->steps[i];
    bool used = IsNeededAnyhow(program, step);
    for (size_t k = 0; k < step.out.size(); ++k) used = used || needed[static_cast<size_t>(step.first) + k];
    kept[i] = used;
    if (used)
      for (const int in : step.in) needed[static_cast<size_t>(in)] = true;
  }
  std::vector<int> numbers(region->types.size(), -1);
  std::vector<Type> types(region->types.begin(),
                          region->types.begin() + static_cast<ptrdiff_t>(region->parameters.size()));
  for (size_t i = 0; i < types.size(); ++i) numbers[i] = static_cast<int>(i);
  std::vector<Step> steps;
  for (size_t i = 0; i < region->steps.size(); ++i) {
    if (!kept[i]) continue;
    Step step = region->steps[i];
    for (size_t k = 0; k < step.out.size(); ++k)
      numbers[static_cast<size_t>(step.first) + k] = static_cast<int>(types.size() + k);
    step.first = static_cast<int>(types.size());
    for (int& in : step.in) in = numbers[static_cast<size_t>(in)];
    types.insert(types.end(), step.out.begin(), step.out.end());
    steps.push_back(std::move(step));
  }
  region->steps = std::move(steps);
  region->types = std::move(types);
  for (int& result : region->results) result = numbers[static_cast<size_t>(result)];
  for (Step& step : region->steps)
    for (const auto& part : step.parts) Prune(program, part.get(), part->results);
  return numbers;
}

int CountIn(const Region& region) {
  int count = 0;
  for (const Step& step : region.steps) {
    ++count;
    for (const auto& part : step.parts) count += CountIn(*part);
  }
  return count;
}

bool ContainsIn(const Region& region, std::initializer_list<Do> these) {
  return std::any_of(region.steps.begin(), region.steps.end(), [&](const Step& step) {
    return std::find(these.begin(), these.end(), step.what) != these.end() ||
           std::any_of(step.parts.begin(), step.parts.end(),
                       [&](const auto& part) { return ContainsIn(*part, these); });
  });
}

std::shared_ptr<Region> CopyOf(const Region& region) {
  auto copy = std::make_shared<Region>(region);
  for (Step& step : copy->steps)
    for (auto& part : step.parts) part = CopyOf(*part);
  return copy;
}

void DescribeRegion(const Region& region, const std::string& indent, std::string* text) {
  for (size_t i = 0; i < region.parameters.size(); ++i)
    *text += indent + "v" + std::to_string(i) + ": " + Describe(region.parameters[i]) + "\n";
  for (const Step& step : region.steps) {
    *text += indent;
    for (size_t k = 0; k < step.out.size(); ++k) {
      *text += "v" + std::to_string(step.first + static_cast<int>(k)) + ": " + Describe(step.out[k]);
      *text += k + 1 < step.out.size() ? ", " : " = ";
    }
    *text += NameOf(step.what);
    if (step.variable >= 0) *text += " variable" + std::to_string(step.variable);
    if (step.function >= 0) *text += " function" + std::to_string(step.function);
    for (const int in : step.in) *text += " v" + std::to_string(in);
    if (step.number != 0) *text += " number " + std::to_string(static_cast<int64_t>(step.number));
    if (step.what == Do::k_loop || step.what == Do::k_elements)
      *text += " (" + std::to_string(step.states) + " states, " + std::to_string(step.xs) + " xs)";
    *text += "\n";
    for (const auto& part : step.parts) {
      *text += indent + "{\n";
      DescribeRegion(*part, indent + "  ", text);
      *text += indent + "}\n";
    }
  }
  *text += indent + "give";
  for (const int result : region.results) *text += " v" + std::to_string(result);
  *text += "\n";
}

void DescribeVariable(const Variable& variable, size_t i, std::string* text) {
  *text += "variable" + std::to_string(i) + ": " + Describe(variable.element());
  if (variable.holder == Variable::Holder::kQueue) *text += ", a queue";
  if (variable.weight) *text += ", a weight";
  if (variable.holder == Variable::Holder::kIterator) {
    *text += ", an iterator over rows of " + Describe(variable.first()) +
             (variable.repeats ? ", again and again" : "") + (variable.batches ? ", two of" : ", of") + "\n  {\n";
    DescribeRegion(*variable.map, "    ", text);
    *text += "  }";
  }
  *text += "\n";
}

Tensor RandomTensor(std::mt19937& random, const Type& type, bool smooth) {
  const auto count = static_cast<size_t>(CountOf(type.dims));
  if (type.dtype == DType::kString) {
    static const char* const words[] = {"", "a", "Bc", "def", "12", "xyzzy"};
    std::vector<std::string> strings;
    for (size_t i = 0; i < count; ++i) strings.emplace_back(words[random() % 6]);
    return *Tensor::Strings(strings, host::Shape(type.dims));
  }
  std::vector<double> values;
  for (size_t i = 0; i < count; ++i) {
    if (type.dtype == DType::kBool) values.push_back(static_cast<double>(random() % 2));
    else if (IsFloating(type.dtype) && smooth) values.push_back((static_cast<double>(random() % 255) - 127) / 128);
    else values.push_back(static_cast<double>(random() % 17) - 8);
  }
  return TensorOf(type.dtype, type.dims, values);
}

}  // namespace

const char* NameOf(Do what) {
  static const char* const names[] = {
#define TENON_CROSSINGS_NAME(name) #name,
      TENON_CROSSINGS_STEPS(TENON_CROSSINGS_NAME)
#undef TENON_CROSSINGS_NAME
  };
  return names[static_cast<int>(what)];
}

bool HasEffect(Do what) {
  switch (what) {
    case Do::k_assign:
    case Do::k_assign_add:
    case Do::k_assign_sub:
    case Do::k_add_rows:
    case Do::k_set_row:
    case Do::k_late_read:
    case Do::k_enqueue:
    case Do::k_exchange:
    case Do::k_dequeue:
    case Do::k_dequeue_or:
    case Do::k_queue_size:
    case Do::k_begin:
    case Do::k_next:
    case Do::k_next_or_none: return true;
    default: return false;
  }
}

Touched TouchedBy(const Program& program, const Region& region) {
  Touched touched;
  Touching(program, &touched).Add(region);
  return touched;
}
Touched TouchedBy(const Program& program, const Step& step) {
  Touched touched;
  Touching(program, &touched).Add(step);
  return touched;
}

bool Contains(const Program& program, std::initializer_list<Do> these) {
  return ContainsIn(program.main, these) ||
         std::any_of(program.functions.begin(), program.functions.end(),
                     [&](const auto& function) { return ContainsIn(*function, these); });
}

int CountSteps(const Program& program) {
  int count = CountIn(program.main);
  for (const auto& function : program.functions) count += CountIn(*function);
  for (const Variable& variable : program.variables)
    if (variable.map != nullptr) count += CountIn(*variable.map);
  return count;
}

Program Copy(const Program& program) {
  Program copy = program;
  copy.main = *CopyOf(program.main);
  for (auto& function : copy.functions) function = CopyOf(*function);
  for (Variable& variable : copy.variables)
    if (variable.map != nullptr) variable.map = CopyOf(*variable.map);
  return copy;
}

void RemoveUnused(Program* program) {
  for (const auto& function : program->functions) Prune(*program, function.get(), function->results);
  for (const Variable& variable : program->variables)
    if (variable.map != nullptr) Prune(*program, variable.map.get(), variable.map->results);
  std::vector<int> wanted = program->main.results;
  wanted.insert(wanted.end(), program->losses.begin(), program->losses.end());
  const std::vector<int> numbers = Prune(*program, &program->main, wanted);
  for (int& loss : program->losses) loss = numbers[static_cast<size_t>(loss)];
}

std::string Describe(const Type& type) {
  std::string text = host::DTypeName(type.dtype) + host::Shape(type.dims).ToString();
  switch (type.kind) {
    case Kind::kTensor: return text;
    case Kind::kList: return "list of " + std::to_string(type.length) + " " + text;
    case Kind::kOptional: return "optional " + text;
    case Kind::kSparse: return "sparse " + text;
    case Kind::kRagged: return "ragged " + text;
  }
  return text;
}

std::string Describe(const Program& program) {
  std::string text = program.smooth ? "smooth program\n" : "exact program\n";
  for (size_t i = 0; i < program.variables.size(); ++i) DescribeVariable(program.variables[i], i, &text);
  std::set<int> called;
  const auto find = [&](const Region& region, const auto& again) -> void {
    for (const Step& step : region.steps) {
      if (step.function >= 0 && called.insert(step.function).second)
        again(*program.functions[static_cast<size_t>(step.function)], again);
      for (const auto& part : step.parts) again(*part, again);
    }
  };
  find(program.main, find);
  for (const int function : called) {
    text += "function" + std::to_string(function) + " {\n";
    DescribeRegion(*program.functions[static_cast<size_t>(function)], "  ", &text);
    text += "}\n";
  }
  DescribeRegion(program.main, "  ", &text);
  if (program.order > 0) {
    text += "  gradients to order " + std::to_string(program.order) + " of the sum of";
    for (const int loss : program.losses) text += " v" + std::to_string(loss);
    text += program.trains ? ", by which the weights are changed\n" : "\n";
  }
  return text;
}

double PatternOf(double number, int64_t i, bool smooth, DType dtype) {
  const int64_t whole = (static_cast<int64_t>(number) + 5 * i) % 13 - 6;
  if (dtype == DType::kBool) return static_cast<double>(whole & 1);
  return smooth && IsFloating(dtype) ? static_cast<double>(whole) / 8 : static_cast<double>(whole);
}

Tensor TensorOf(DType dtype, const Dims& dims, const std::vector<double>& values) {
  const auto as = [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> converted;
    for (const double value : values) converted.push_back(static_cast<T>(value));
    return *Tensor::FromBytes(dtype, host::Shape(dims), converted.data(), converted.size() * sizeof(T));
  };
  switch (dtype) {
    case DType::kFloat: return as(0.0f);
    case DType::kInt32: return as(int32_t{0});
    case DType::kInt64: return as(int64_t{0});
    case DType::kBool: return as(uint8_t{0});
    default: return as(0.0);
  }
}

std::vector<Tensor> FeedsOf(const Program& program, uint32_t feeding) {
  std::mt19937 random(program.seed * 7 + feeding);
  std::vector<Tensor> feeds;
  for (const Type& type : program.main.parameters) feeds.push_back(RandomTensor(random, type, program.smooth));
  for (const Variable& variable : program.variables)
    feeds.push_back(RandomTensor(random, variable.first(), program.smooth));
  return feeds;
}

}  // namespace tenon::crossings
