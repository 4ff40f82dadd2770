// SPDX-License-Identifier: Apache-2.0
// The digit classifier trains unchanged on the CPU, on one simulated TPU, and on the CPU and two TPUs placed by the engine:
// the losses agree. In bfloat16 it still learns. Covers G3, R9, E1.
#include <gtest/gtest.h>

#include <cmath>

#include "tenon/tenon.h"
#include "tenon/train/digits.h"
#include "tenon/train/trainer.h"
#include "tests/device/gpu.h"

namespace tenon::train {
namespace {

constexpr const char* kData = TENON_TEST_SOURCE_DIR "/sdk/train/data/digits.npy";

struct Outcome {
  std::vector<float> losses;
  double accuracy = 0;
  std::string explanation;
};

struct Setting {
  std::string devices;  // how many simulated ones
  std::string device;   // where everything goes; "": as the engine places it
  OptimizerOptions::Kind optimizer = OptimizerOptions::Kind::kGradientDescent;
  float learning_rate = 0.05f;
  int64_t steps = 200;
  host::Precision precision = host::Precision::kStrict;
  int64_t replicas = 1;
};

Outcome Train(const Setting& setting) {
  Outcome outcome;
  const auto fail = [&](const host::Status& status) {
    ADD_FAILURE() << status.message();
    return outcome;
  };
  Result<DigitData> data = DigitData::Load(kData);
  if (!data.ok()) return fail(data.status());
  host::RuntimeOptions runtime_options;
  if (setting.device == "GPU") runtime_options = device_test::GpuOptions();
  runtime_options.plugin_options.push_back({"tenon.tpu_sim", "devices", setting.devices});
  Result<host::Runtime> runtime = host::Runtime::Create(runtime_options);
  if (!runtime.ok()) return fail(runtime.status());
  DigitOptions options;
  options.steps = setting.steps;
  options.learning_rate = setting.learning_rate;
  options.optimizer.kind = setting.optimizer;
  options.replicas = setting.replicas;
  Graph graph(*runtime);
  DigitNetwork network(graph, *data, options);
  TrainingOptions training;
  training.steps = setting.steps;
  Trainer trainer(network.model(), network.Step(), training);
  trainer.on_step = [&](const StepReport& report) { outcome.losses.push_back(report.loss); };
  host::SessionOptions session_options;
  session_options.seed = 1;
  session_options.device = setting.device;
  session_options.precision = setting.precision;
  Result<Session> session = Session::Create(*runtime, session_options);
  if (!session.ok()) return fail(session.status());
  if (Status status = trainer.Begin(*session); !status.ok()) return fail(status);
  if (Result<TrainingReport> report = trainer.Run(); !report.ok()) return fail(report.status());
  outcome.explanation = *trainer.callable().Explain();
  Result<Tensor> images = data->held_out.ImageTensor();
  auto values = session->Run({{DigitNetwork::kImages, *images}}, {DigitNetwork::kAnswers});
  if (!values.ok()) return fail(values.status());
  const auto answers = (*values)[0].data<int64_t>();
  for (size_t i = 0; i < answers.size(); ++i) outcome.accuracy += answers[i] == data->held_out.labels[i];
  outcome.accuracy /= static_cast<double>(answers.size());
  return outcome;
}

void ExpectAgree(const Outcome& a, const Outcome& b) {
  ASSERT_EQ(a.losses.size(), b.losses.size());
  ASSERT_GE(a.losses.size(), 30u);
  for (size_t step = 0; step < a.losses.size(); ++step) {
    const double difference = std::fabs(a.losses[step] - b.losses[step]) / std::fabs(a.losses[step]);
    // Later a sum within rounding of a rectifier's kink may fall on either side of it.
    ASSERT_LE(difference, step < 20 ? 1e-5 : 1e-2) << "step " << step << ": " << a.losses[step] << " and " << b.losses[step];
  }
}

int Count(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(TrainingOnDevices, GivesTheLossesOfTheCpu) {
  const Outcome cpu = Train({"0", ""});
  const Outcome one = Train({"1", "TPU"});
  EXPECT_GE(Count(one.explanation, "\"kernel_plugin\":\"tenon.tpu_sim\""), 40) << "nodes of a step on the TPU";
  ExpectAgree(cpu, one);
  const Outcome placed = Train({"2", ""});
  EXPECT_GE(Count(placed.explanation, "\"kernel_plugin\":\"tenon.tpu_sim\""), 1);
  ExpectAgree(cpu, placed);
}

// With chains compiled, and the same work of all steps captured.
TEST(TrainingOnDevices, GivesTheLossesOfTheCpuOnAGpu) {
  Setting setting{"0", ""};
  setting.steps = 30;
  const Outcome cpu = Train(setting);
  setting.device = "GPU";
  const Outcome gpu = Train(setting);
  EXPECT_GE(Count(gpu.explanation, "\"kernel_plugin\":\"" + device_test::GpuPlugin() + "\""), 40) << "nodes of a step on the GPU";
  ExpectAgree(cpu, gpu);
}

TEST(TrainingOnDevices, ReplicasGiveTheLossesOfTheWholeBatch) {
  Setting setting{"0", ""};
  const Outcome whole = Train(setting);
  for (const int64_t replicas : {2, 4}) {
    setting.replicas = replicas;
    ExpectAgree(whole, Train(setting));
  }
}

TEST(TrainingOnDevices, LearnsInBfloat16) {
  const Outcome outcome = Train({"1", "TPU", OptimizerOptions::Kind::kAdam, 0.002f, 1200, host::Precision::kAllowBfloat16});
  EXPECT_GE(outcome.accuracy, 0.98);
}

}  // namespace
}  // namespace tenon::train
