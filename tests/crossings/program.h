// SPDX-License-Identifier: Apache-2.0
// Programs that cross features: what they are, and how they read as text.
//
// A program is a region: parameters, then steps, each of which uses values made before it. A step is a calculation, a
// change of a variable, or holds regions of its own (loops, branches, calls), which see what they are given, and
// variables. What a program means is no matter of how it is written as a graph (lower.h) or run (manner.h): statements
// have the order in which they stand, as far as the variables that they share can tell.
//
// Values are tensors, lists of tensors, optionals, sparse tensors (indices, values) and ragged ones (values, splits).
// In an exact program numbers are whole and small, in floats too, so that no manner of running rounds. A smooth one
// calculates with floats within [-1, 1], has losses, and asks no float.
#ifndef TENON_TESTS_CROSSINGS_PROGRAM_H_
#define TENON_TESTS_CROSSINGS_PROGRAM_H_

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tenon/tenon.h"

namespace tenon::crossings {

constexpr int kModulus = 97;  // whole numbers stay below it

using host::DType;
using Dims = std::vector<int64_t>;

enum class Kind { kTensor, kList, kOptional, kSparse, kRagged };

struct Type {
  Kind kind = Kind::kTensor;
  DType dtype = DType::kFloat;
  Dims dims = {};   // of a tensor, of an element of a list or an optional; sparse and ragged values are of [2,3]
  int length = 0;   // of a list
  friend bool operator==(const Type&, const Type&) = default;
};
inline Type TensorType(DType dtype, Dims dims) { return {Kind::kTensor, dtype, std::move(dims), 0}; }
constexpr int kMostDepth = 3;  // so often a function calls itself
inline bool IsFloating(DType dtype) { return dtype == DType::kFloat || dtype == DType::kDouble; }
inline bool IsNumber(DType dtype) { return IsFloating(dtype) || dtype == DType::kInt32 || dtype == DType::kInt64; }
inline int64_t CountOf(const Dims& dims) {
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  return count;
}

// X(name): what a step does. Comments say what stands in `in`, and what `number` is.
#define TENON_CROSSINGS_STEPS(X)                                                                                       \
  X(constant) /* number: of the pattern of its elements */                                                             \
  X(add)                                                                                                               \
  X(subtract) X(multiply) X(maximum) X(minimum) X(negate) X(absolute) X(square) X(identity) X(cast) X(add_n)           \
      X(select) /* bool, a, b */                                                                                       \
      X(less) X(equal) X(both) X(either) X(opposite) X(tanh) X(sigmoid) X(sine) X(bell) X(relu) X(stop)                \
          X(remainder) /* number: the modulus */                                                                       \
      X(spread) X(sum) X(sum_rows) X(greatest) X(cumulate) X(transpose) X(reshape) X(backwards)                        \
          X(join) /* number: the first row kept */                                                                     \
      X(matmul) X(take) /* x, which row */ X(take_rows) /* x, vector */ X(put_row) /* x, which, row */ X(add_row)      \
          X(pack) X(unpack) X(segments) /* x, vector */ X(arg_max) X(sort) X(one_hot) X(size)                          \
              X(random) /* number: the seed */ X(dice) /* number: the seed */                                          \
      X(text_of) X(join_text) X(text_length) X(upper) X(hash) X(number_of) X(list_of) X(list_blank)                    \
          X(list_get) /* list, which */ X(list_set) /* list, which, element */ X(list_push) X(list_pop) X(list_stack)  \
              X(list_length) X(list_join) X(list_split) X(some) X(nothing) X(has)                                      \
                  X(value_or) /* optional, otherwise */                                                                \
      X(to_sparse) X(sparse_dense) X(sparse_scale) X(sparse_matmul) X(to_ragged) /* matrix, lengths */ X(ragged_dense) \
          X(ragged_square) X(read) X(assign) X(assign_add) X(assign_sub)                                               \
              X(read_rows) /* vector */ X(add_rows) /* which, rows */ X(set_row) X(late_read) X(queue) X(enqueue)      \
                  X(exchange) /* one in, the first out */ X(dequeue) X(dequeue_or) /* otherwise */ X(queue_size)       \
                      X(begin) /* tensor, number for the map */ X(next) X(next_or_none) X(conditional) X(choice)       \
                          X(loop) X(elements) X(call)

enum class Do {
#define TENON_CROSSINGS_ENUM(name) k_##name,
  TENON_CROSSINGS_STEPS(TENON_CROSSINGS_ENUM)
#undef TENON_CROSSINGS_ENUM
};
const char* NameOf(Do what);

struct Region;

struct Step {
  Do what = Do::k_constant;
  std::vector<int> in;    // values of the region
  std::vector<Type> out;
  double number = 0;
  int first = 0;          // the number of its first value in the region
  int variable = -1;      // of those that read or change one
  int function = -1;      // of a call
  // Conditional: in[0] asks; parts are what is done if so, and if not. Choice: in[0] is the index; parts the branches.
  // Loop: in are the variables (the first counts), then the invariants (the first is the limit); parts are the question
  // and the body. Elements: in are states, xs, then invariants; the part takes a state each, an element of each x and
  // the invariants, and gives the next states, then results that are stacked.
  std::vector<std::shared_ptr<Region>> parts;
  int states = 0, xs = 0;
  int64_t parallel = 10;
};

struct Region {
  std::vector<Type> parameters;
  std::vector<Step> steps;
  std::vector<Type> types;  // of all values: parameters, then what the steps give
  std::vector<int> results;
  bool recurs =
      false;  // of a function: it calls itself in a branch, as its first parameter, a whole number, says how often yet

  const Type& type(int value) const { return types[static_cast<size_t>(value)]; }
  void AddParameter(const Type& type) {
    parameters.push_back(type);
    types.push_back(type);
  }
};

// What keeps something from step to step: a tensor, a queue of them, or an iterator.
struct Variable {
  enum class Holder { kTensor, kQueue, kIterator };
  DType dtype = DType::kFloat;
  Dims dims;
  bool weight = false;  // of a smooth program: read alone, and a gradient is taken by it
  Holder holder = Holder::kTensor;
  // Of an iterator: it goes over a tensor's rows, of each of which the map makes an element or, where it batches, one
  // of its two rows.
  Dims source = {};
  std::shared_ptr<Region> map = nullptr;  // takes a row, and a number that each pass has; has no state
  bool repeats = false, batches = false;  // one that does not repeat is asked with next_or_none

  Type element() const { return TensorType(dtype, dims); }
  Type first() const { return TensorType(dtype, holder == Holder::kIterator ? source : dims); }  // what it begins with
};

struct Program {
  uint32_t seed = 0;
  bool smooth = false;
  std::vector<Variable> variables;
  std::vector<std::shared_ptr<Region>> functions;  // each calls those before it, and itself where it recurs
  Region main;
  std::vector<int> losses;  // values of main, floats
  int order = 0;            // of derivatives: 0, 1, 2
  bool trains = false;      // weights are changed by their gradients
};

// Whether a step changes state, or must run whatever is read of it.
bool HasEffect(Do what);

// Variables that a region reads or changes, in parts and calls too.
struct Touched {
  std::set<int> read, written;
  bool any() const { return !read.empty() || !written.empty(); }
};
Touched TouchedBy(const Program& program, const Region& region);
Touched TouchedBy(const Program& program, const Step& step);

// Whether one of the steps of all regions is one of these.
bool Contains(const Program& program, std::initializer_list<Do> these);
// Steps of all regions.
int CountSteps(const Program& program);

Program Copy(const Program& program);

// Takes out what no result, loss or effect needs; numbers of values change.
void RemoveUnused(Program* program);

std::string Describe(const Type& type);
std::string Describe(const Program& program);

// What the program is fed with: main's parameters, then the variables' first values. Differs with `feeding`.
std::vector<host::Tensor> FeedsOf(const Program& program, uint32_t feeding);
// Element i of the pattern of a constant.
double PatternOf(double number, int64_t i, bool smooth, DType dtype);
host::Tensor TensorOf(DType dtype, const Dims& dims, const std::vector<double>& values);

}  // namespace tenon::crossings

#endif  // TENON_TESTS_CROSSINGS_PROGRAM_H_
