// SPDX-License-Identifier: Apache-2.0
// Manners: the ways in which one program can be written, run and asked, all of which must give the same.
#ifndef TENON_TESTS_CROSSINGS_MANNER_H_
#define TENON_TESTS_CROSSINGS_MANNER_H_

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/crossings/lower.h"
#include "tests/engine/engine.h"

namespace tenon::engine {
class LocalCluster;
class Processes;
}  // namespace tenon::engine

namespace tenon::crossings {

// Something that a manner found out: a value, or that there is none.
struct Item {
  std::string label;  // "step 1: v7"; manners have the same things under the same labels
  std::string note;   // for people: how it was asked
  host::Tensor value;
  host::Status refusal;  // not OK: in place of the value
};

struct Outcome {
  std::string stage;    // "building", "step 1"; of the refusal
  host::Status status;  // not OK: the manner gave up there, and what is below is what it had by then
  std::vector<Item> items;
  std::vector<std::pair<std::string, host::Status>> refused;  // gradients
};

// Where steps run.
enum class Where { kHere, kOneThread, kFourThreads, kTpus, kOneTask, kTwoTasks, kThreeTasks, kShm, kGrpc };

// What is done with the graph.
enum class How {
  kSteps,     // two steps with the same feeds, what variables are then, and a step with others
  kPartial,   // a step in several calls, each with one more feed
  kPieces,    // the graph comes to the session bit by bit
  kBytes,     // as a GraphDef
  kImported,  // as a GraphDef that becomes a graph again
  kFrozen,    // variables are constants
  kSaved,     // as a SavedModel
  kAlone,     // each fetch by itself, after others
  kInner,     // edges in the middle are fetched too
  kFed,       // edges in the middle are fed with what they were
  kOther,     // values in the middle are fed with others
  kSelf,  // functions that recur call themselves, which is refused: a function of its own for each depth is what can be
          // run
  kInside,  // edges within loops are fetched: all manners refuse alike
};

struct Manner {
  std::string name;
  Form form;
  host::SessionOptions options;
  Where where = Where::kHere;
  How how = How::kSteps;
  std::string against = "plain";  // the manner that it is held against
};

// In the order of `against`: a manner comes after the one that it is held against.
const std::vector<Manner>& AllManners();

const Manner& ByName(const std::string& name);

// Runtimes and clusters, made when they are first needed.
class World {
 public:
  World();
  ~World();
  const host::Runtime& RuntimeOf(Where where);
  std::string MasterOf(Where where);
  std::vector<std::string> DevicesOf(Where where) const;
  // The program's graph in this form, without devices: made once for all manners that have it, until the next program.
  std::shared_ptr<const Lowered> GraphOf(const host::Runtime& runtime, const Program& program, const Form& form,
                                         const std::vector<host::Tensor>& values);
  void BeginProgram() { graphs_.clear(); }

 private:
  std::map<Where, std::unique_ptr<host::Runtime>> runtimes_;
  std::map<Where, std::unique_ptr<engine::LocalCluster>> clusters_;
  std::map<Where, std::unique_ptr<engine::Processes>> processes_;
  std::map<std::pair<const host::Runtime*, std::string>, std::shared_ptr<const Lowered>> graphs_;
};

// Of each step, in all manners.
void SetDeadline(std::chrono::milliseconds deadline);

// Whether the manner can run such programs: a frozen session writes no variable.
bool Fits(const Manner& manner, const Program& program);

Outcome Run(World& world, const Manner& manner, const Program& program);

// Losses by differences of float64 against the gradients: an empty text, or what differs. Of smooth programs of doubles
// alone.
std::string CheckDifferences(World& world, const Manner& manner, const Program& program);

}  // namespace tenon::crossings

#endif  // TENON_TESTS_CROSSINGS_MANNER_H_
