// SPDX-License-Identifier: Apache-2.0
// Subjects: good graphs to damage, with what can be asked of each.
//
// The committed ones of tests/golden (single ops of every package, graphs of queues, loops and tables, functions,
// SavedModels), the small networks of tests/models, and the network that `tenon train digits` teaches.
#ifndef TENON_TESTS_HOSTILE_SUBJECTS_H_
#define TENON_TESTS_HOSTILE_SUBJECTS_H_

#include <functional>
#include <string>
#include <vector>

#include "tenon/tenon.h"
#include "tests/hostile/dice.h"

namespace tenon::hostile {

// One step.
struct Ask {
  std::vector<host::Feed> feeds;
  std::vector<std::string> fetches, targets;
};

struct Subject {
  std::string name;
  std::string bytes;              // a GraphDef
  std::vector<Ask> asks;          // one after another in one session
  std::vector<std::string> ys, xs;  // nodes: gradients of these by those; none: there are none
};

class Subjects {
 public:
  explicit Subjects(const host::Runtime& runtime);
  // The texts and graphs are kept; a case becomes a graph when it is drawn.
  Subject Draw(Dice& dice) const;
  size_t count() const;
  // The `index`th of all; without a graph: a case that is refused as it is built.
  Subject At(size_t index, Dice& dice) const;

 private:
  struct Line {
    std::string file;
    size_t number;
    std::string text;
  };
  void ReadLines(const std::string& path, std::vector<Line>* lines);
  void AddGraphs();
  void AddModels();
  void AddDigits();
  Subject OfLine(const Line& line, Dice& dice) const;

  const host::Runtime& runtime_;
  std::vector<Line> ops_, graphs_, networks_;
  std::vector<Subject> whole_;  // graphs in files of their own
};

}  // namespace tenon::hostile

#endif  // TENON_TESTS_HOSTILE_SUBJECTS_H_
