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
  enum class Control { kFrames, kFunctions, kMixed };  // Enter, Switch, Merge and TensorArrays; While, If, Case and lists; each part by a die
  Control control = Control::kFrames;
  bool references = false;  // variables are VariableV2 where no function takes them; else resources
  bool by_value = false;    // a part that only reads a variable gets its value; else its handle
  bool inlined = false;     // calls are the nodes of what they call
  bool constants = false;   // what would be fed is constant
  bool shards = false;      // a variable that is no reference and has rows is parted: row r is row r / 2 of shard r % 2
  bool blind = false;       // placeholders have no known shape
  std::string plant;        // a fault that this form has on purpose (kPlants); "": none
  std::function<std::string(uint32_t draw)> placer;        // a device for each step of main, and each variable; nullptr: none
  std::function<void(host::Graph& graph)> after_step;      // called when a step of main stands in the graph

  std::string name() const;
  // Whether graphs of both have the same nodes.
  bool IsLike(const Form& other) const {
    return control == other.control && references == other.references && by_value == other.by_value && inlined == other.inlined && constants == other.constants &&
           shards == other.shards;
  }
};

// Faults that the machine must find, each a kind that an engine has had: a gradient without reads by handle; half of a second gradient; a read that is used behind a
// change and gives the value before; effects that nothing waits for; states of a loop in each other's places; a branch beyond the last that is the first; a
// backward scan that goes forward; an update that is lost where a branch makes it; a list's element that is its first.
inline constexpr const char* kPlants[] = {"handle", "second", "late", "order", "states", "branch", "direction", "lost", "element"};

struct Lowered {
  explicit Lowered(const host::Runtime& runtime) : graph(runtime) {}
  host::Graph graph;
  std::vector<std::string> feeds;        // placeholders of main's parameters, then of the variables' first values; "" where it is a constant
  std::string initial;                   // the target that gives the variables their first values
  std::vector<std::string> fetches;      // results, then the loss and its gradients
  std::vector<std::string> labels;       // of the fetches
  size_t loss = SIZE_MAX, first = SIZE_MAX, second = SIZE_MAX;  // where in the fetches these begin; SIZE_MAX: there are none
  size_t gradients = 0;                  // how many of each order
  std::vector<size_t> by;                // of each gradient: which of the feeds it is taken by
  std::vector<std::string> targets;      // what has effects
  std::vector<std::string> variables;    // reads of them, for later steps
  std::vector<std::string> inner;        // edges outside of loops and branches whose values can be fetched
  std::vector<std::string> free;         // those of them that nothing but values hangs on: they can be fed
  std::vector<std::string> inside;       // edges within loops' frames
  std::vector<std::pair<std::string, host::Status>> refused;  // "first gradient", and why there is none
};

// A graph whose status() says what is wrong with it where it could not be built.
std::unique_ptr<Lowered> Lower(const host::Runtime& runtime, const Program& program, const Form& form, const std::vector<host::Tensor>& values);

}  // namespace tenon::crossings

#endif  // TENON_TESTS_CROSSINGS_LOWER_H_
