// SPDX-License-Identifier: Apache-2.0
// What tests of checkpoints share: a runtime with the build's plugins, and a model whose variables tell their step.
#ifndef TENON_TESTS_FAKES_COUNTING_MODEL_H_
#define TENON_TESTS_FAKES_COUNTING_MODEL_H_

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tenon/train/saver.h"
#include "tests/fakes/temporary_folder.h"

namespace tenon::train {

inline std::string TemporaryFolder() { return fakes::TemporaryFolder("train"); }

inline Runtime& SharedRuntime() {
  static Runtime* runtime = [] {
    Result<Runtime> created = Runtime::Create();
    EXPECT_TRUE(created.ok()) << created.status();
    return new Runtime(*std::move(created));
  }();
  return *runtime;
}

inline Session NewSession(host::SessionOptions options = {}) {
  options.seed = 1;
  Result<Session> session = Session::Create(SharedRuntime(), options);
  EXPECT_TRUE(session.ok()) << session.status();
  return *std::move(session);
}

inline std::vector<float> Floats(const Tensor& tensor) {
  return std::vector<float>(tensor.data<float>().begin(), tensor.data<float>().end());
}

inline SaverOptions Keeping(int keep) {
  SaverOptions options;
  options.keep = keep;
  return options;
}

// One float variable of so many elements on each device: value, value1, ...; what reads them.
inline std::vector<Output> AddCountingVariables(Model& model, const std::vector<std::string>& devices, int64_t size) {
  std::vector<Output> made;
  for (size_t i = 0; i < devices.size(); ++i) {
    const std::string name = i == 0 ? "value" : "value" + std::to_string(i);
    made.push_back(model.State(name, {size}, 0, devices[i]).value);
  }
  return made;
}

// A step that raises all variables made so far by one, each on its device.
inline Operation AddCountingStep(Model& model) {
  Graph& graph = model.graph();
  std::vector<Operation> adds;
  for (const Variable& variable : model.variables()) {
    const auto on = graph.Device(variable.device);
    const Output one =
        variable.dtype == DType::kInt64
            ? graph.Const(int64_t{1})
            : graph.Const(std::vector<float>(static_cast<size_t>(variable.shape.element_count()), 1), variable.shape);
    adds.push_back(graph.AddNode("AssignAddVariableOp", {variable.handle, one}, {{"dtype", variable.dtype}}));
  }
  return Group(graph, adds, "add");
}

// The variables, and `global_step` on the first device where it is wished, all of which each step of `add` raises by
// one.
struct CountingOptions {
  SaverOptions saver = Keeping(3);
  int64_t size = 4;  // elements of each
  std::vector<std::string> devices = {""};
  bool global_step = false;
  host::SessionOptions session;
};

class Counting {
 public:
  explicit Counting(const std::string& folder, const CountingOptions& options = {})
      : graph(SharedRuntime()),
        model(graph),
        values(MakeVariables(options)),
        saver(model, folder, options.saver),
        session(NewSession(options.session)) {
    add = AddCountingStep(model);
    init = model.InitializeAll();
    Status extended = session.Extend(graph);
    EXPECT_TRUE(extended.ok()) << extended;
    Run(init);
  }
  Counting(const std::string& folder, int keep, int64_t size = 4) : Counting(folder, WithSize(keep, size)) {}

  void Run(const Operation& node) {
    Status status = session.RunTargets({node});
    EXPECT_TRUE(status.ok()) << status;
  }
  void Save(int64_t step, std::optional<double> metric = {}) {
    Result<std::string> saved = saver.Save(session, step, metric);
    EXPECT_TRUE(saved.ok()) << saved.status();
  }
  Restored Restore() {
    Result<Restored> restored = saver.RestoreNewest(session);
    EXPECT_TRUE(restored.ok()) << restored.status();
    return restored.ok() ? *restored : Restored();
  }
  // The elements of all variables, read in one step.
  std::vector<float> Value() const {
    Result<std::vector<Tensor>> read = session.Run({}, std::vector<Name>(values.begin(), values.end()));
    EXPECT_TRUE(read.ok()) << read.status();
    std::vector<float> all;
    for (size_t i = 0; read.ok() && i < read->size(); ++i) {
      const std::vector<float> one = Floats((*read)[i]);
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  }
  // The step that all variables tell; -1 when they do not tell the same.
  int64_t Step() const {
    const std::vector<float> all = Value();
    for (float one : all) {
      if (one != all[0]) return -1;
    }
    return all.empty() ? -1 : static_cast<int64_t>(all[0]);
  }

  Graph graph;
  Model model;
  std::vector<Output> values;
  Saver saver;
  Session session;
  Operation add, init;

 private:
  static CountingOptions WithSize(int keep, int64_t size) {
    CountingOptions options;
    options.saver.keep = keep;
    options.size = size;
    return options;
  }
  std::vector<Output> MakeVariables(const CountingOptions& options) {
    std::vector<Output> made = AddCountingVariables(model, options.devices, options.size);
    if (options.global_step) {
      model.set_variable_devices({options.devices[0]});
      model.Counter("global_step");
    }
    return made;
  }
};

}  // namespace tenon::train

#endif  // TENON_TESTS_FAKES_COUNTING_MODEL_H_
