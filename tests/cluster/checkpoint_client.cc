// SPDX-License-Identifier: Apache-2.0
// Trains on a cluster with a checkpoint at each step, for ever: counts in a variable on each task.
//
// usage: checkpoint_client MASTER FOLDER TASK...
// Prints what the Trainer says, and "step N" when step N is done and step N-1 is saved. Ends with 1 and the reason when
// a step fails.
#include <cstdio>

#include "tenon/train/trainer.h"
#include "tests/fakes/counting_model.h"

namespace tenon::train {
namespace {

void Say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

Status Train(const std::string& master, const std::string& folder, const std::vector<std::string>& tasks) {
  TENON_TRY_ASSIGN(const Runtime runtime, Runtime::Create());
  Graph graph(runtime);
  Model model(graph);
  AddCountingVariables(model, tasks, 64);
  model.set_variable_devices({tasks[0]});
  TrainingStep step;
  step.update = AddCountingStep(model);
  step.loss = graph.Op("Identity", {graph.Const(0.0f)});
  TrainingOptions options;
  options.steps = INT64_MAX;
  options.checkpoint_folder = folder;
  options.checkpoint_steps = 1;
  options.keep = 3;
  Trainer trainer(model, std::move(step), options);
  trainer.on_message = Say;
  trainer.on_step = [](const StepReport& report) { Say("step " + std::to_string(report.step)); };
  host::SessionOptions session_options;
  session_options.master = master;
  TENON_TRY_ASSIGN(Session session, Session::Create(runtime, session_options));
  TENON_TRY(trainer.Begin(session));
  const Status trained = trainer.Run().status();
  trainer.Leave();
  return trained;
}

}  // namespace
}  // namespace tenon::train

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const tenon::train::Status status = tenon::train::Train(argv[1], argv[2], {argv + 3, argv + argc});
  tenon::train::Say("failed: " + status.ToString());
  return 1;
}
