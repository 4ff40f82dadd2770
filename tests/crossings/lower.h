// SPDX-License-Identifier: Apache-2.0
// Programs as graphs. One program has many forms, which mean the same.
#ifndef TENON_TESTS_CROSSINGS_LOWER_H_
#define TENON_TESTS_CROSSINGS_LOWER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/crossings/program.h"

namespace tenon::crossings {

// How a program is written.
struct Form {
  enum class Control {
    kFrames,
    kFunctions,
    kMixed
  };  // Enter, Switch, Merge and TensorArrays; While, If, Case and lists; each part by a die
  Control control = Control::kFrames;
  bool references = false;  // variables are VariableV2 where no function takes them; else resources
  bool by_value = false;    // a part that only reads a variable gets its value; else its handle
  bool inlined = false;     // calls are the nodes of what they call
  bool constants = false;   // what would be fed is constant
  bool shards = false;      // a variable that is no reference and has rows is parted: row r is row r / 2 of shard r % 2
  bool blind = false;       // placeholders have no known shape
  bool fetched = false;  // effects are had by what parts and calls give, where that is a tensor, instead of by targets
  std::string plant;        // a fault that this form has on purpose (kPlants); "": none
  std::function<std::string(uint32_t draw)> placer;  // a device for each step of main, and each variable; nullptr: none
  std::function<void(host::Graph& graph)> after_step;      // called when a step of main stands in the graph

  std::string name() const;
  // Whether graphs of both have the same nodes.
  bool IsLike(const Form& other) const {
    return control == other.control && references == other.references && by_value == other.by_value &&
           inlined == other.inlined && constants == other.constants && shards == other.shards &&
           fetched == other.fetched;
  }
};

// A fault that the machine must find, of a kind that an engine has had. `crossings --plants all` says by which program
// each is found first.
struct Plant {
  std::string_view name, what;
  uint32_t seed;                                     // of a program that finds it
  std::string_view manner = "functions, dynamic";    // that has it
};
inline constexpr Plant kPlants[] = {
    {"handle", "a gradient goes by no read by handle", 3},
    {"handle_in_loop", "a gradient goes by no read by handle in a loop's body", 519},
    {"second", "half of a second gradient", 11},
    {"once", "the gradient of a value that is used twice is that of one use", 11},
    {"stop", "a gradient that goes through StopGradient", 101},
    {"late", "a read that is used behind a change gives the value before", 18},
    {"order", "effects that nothing waits for", 18},
    {"lost", "an update that a branch makes is lost", 14},
    {"repeat", "an update that a branch makes is made twice", 15},
    {"dead", "what both sides of a branch do is done", 59},
    {"sides", "a branch in a branch is the other one", 22},
    {"branch", "a branch beyond the last is the first", 5},
    {"states", "states of a loop in each other's places", 92},
    {"more", "a loop makes a turn too many", 4},
    {"less", "a loop makes a turn too few", 12},
    {"invariant", "a loop's invariant is a state that has its type", 283},
    {"direction", "a backward scan goes forward", 463},
    {"array", "a TensorArray is read one place further", 20, "plain"},
    {"element", "a list's element is its first", 149},
    {"fold", "a list that is made of a tensor has the first row twice", 14},
    {"pop", "what is taken off a list's end is its first element", 312},
    {"alias", "a row is put in a value that others still use", 1152},
    {"float", "doubles calculated as floats", 17},
    {"truncated", "a cast to whole numbers of the value and a half", 1},
    {"seed", "random ops of one seed", 4},
    {"has", "an optional that comes out of a branch or a loop is empty", 44},
    {"sparse", "values of a sparse tensor in another order than its indices", 89},
    {"ragged", "rows of a ragged tensor of each other's lengths", 89},
    {"text", "strings are joined the other way round", 1796},
    {"duplicates", "of rows that are added to one row the last alone is", 151},
    {"shard", "rows are looked up in the other shard", 9, "shards, dynamic, functions"},
    {"shared", "two variables of a type are one", 9},
    {"stale", "an iterator that is begun anew goes on", 15},
    {"queue", "a queue gives the last first", 29},
    {"depth", "a function that calls itself does it once less", 22},
    {"fed", "what an edge in the middle is fed with is passed over", 1, "others fed"},
};

struct Lowered {
  explicit Lowered(const host::Runtime& runtime) : graph(runtime) {}
  host::Graph graph;
  std::vector<std::string>
      feeds;  // placeholders of main's parameters, then of the variables' first values; "" where it is a constant
  std::string initial;                   // the target that gives the variables their first values
  std::vector<std::string> fetches;      // results, then the loss and its gradients
  std::vector<std::string> labels;       // of the fetches
  size_t loss = SIZE_MAX, first = SIZE_MAX,
         second = SIZE_MAX;              // where in the fetches these begin; SIZE_MAX: there are none
  size_t gradients = 0;                  // how many of each order
  std::vector<size_t> by;                // of each gradient: which of the feeds it is taken by
  std::vector<std::string> targets;      // what has effects
  std::vector<std::string> variables;    // reads of them, for later steps
  std::vector<std::string> inner;        // edges outside of loops and branches whose values can be fetched
  std::vector<std::string> free;         // those of them that nothing but values hangs on: they can be fed
  std::vector<std::string> inside;       // edges within loops' frames
  std::vector<std::pair<std::string, std::string>>
      values;  // main's numbers that can be fed with others, which mean the same in all forms: "v7", and the edge
  std::vector<std::pair<std::string, host::Status>> refused;  // "first gradient", and why there is none
};

// A graph whose status() says what is wrong with it where it could not be built.
std::unique_ptr<Lowered> Lower(const host::Runtime& runtime, const Program& program, const Form& form,
                               const std::vector<host::Tensor>& values);

}  // namespace tenon::crossings

#endif  // TENON_TESTS_CROSSINGS_LOWER_H_
