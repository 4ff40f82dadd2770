// SPDX-License-Identifier: Apache-2.0
// `tenon train GRAPH`: what TensorFlow exported is trained here with TensorFlow's losses
// (tests/golden/make_trained.py), killed and resumed with the very same, and exported so that others go on from there;
// and what it says where something is wrong. Covers R2, R8.
#include <gtest/gtest.h>

#include <csignal>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sdk/app/cli/program.h"
#include "tenon/data/npy.h"
#include "tenon/data/npz.h"
#include "tenon/model/checkpoint.h"
#include "tests/fakes/temporary_folder.h"
#include "tests/train/child.h"
#include "tests/train/losses.h"

namespace tenon::train {
namespace {

using cli::Outcome;
using cli::RunTenon;
using Json = nlohmann::json;

const std::string kGoldens = TENON_TEST_SOURCE_DIR "/tests/golden/trained";
// Of a loss, besides as much absolutely: rounding of float32 over twenty steps in which each builds on the one before.
// The largest that was seen is 2e-7.
constexpr float kTolerance = 1e-5f;

const Json& Goldens() {
  static const Json goldens = Json::parse(std::ifstream(kGoldens + "/losses.json"));
  return goldens;
}
std::vector<float> GoldenLosses(const std::string& name) { return Goldens()[name]["losses"].get<std::vector<float>>(); }

// A folder with the goldens in it, which is that of the process too: what they read has relative names.
class GraphTraining : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fakes::TemporaryFolder("graph_training");
    std::filesystem::copy(kGoldens, folder_, std::filesystem::copy_options::recursive);
    std::filesystem::current_path(folder_);
  }
  Outcome Tenon(const std::string& arguments) { return RunTenon(folder_, arguments); }
  std::string Works(const std::string& arguments) {
    const Outcome outcome = Tenon(arguments);
    EXPECT_EQ(outcome.code, 0) << arguments << "\n" << outcome.err;
    return outcome.out;
  }
  // Trained with folder `run`; the losses of all steps, as the event files have them.
  std::vector<float> Losses(const std::string& run) {
    std::vector<float> losses;
    for (const auto& [step, loss] : ValuesOfEvents(folder_ + "/" + run + "/events")) {
      losses.push_back(loss);
      EXPECT_EQ(step, static_cast<int64_t>(losses.size())) << run;
    }
    return losses;
  }
  static void ExpectNear(const std::vector<float>& found, const std::vector<float>& wanted, const std::string& what) {
    ASSERT_EQ(found.size(), wanted.size()) << what;
    float largest = 0;
    for (size_t i = 0; i < wanted.size(); ++i) {
      const float distance = std::abs(found[i] - wanted[i]) / (1 + std::abs(wanted[i]));
      largest = std::max(largest, distance);
      EXPECT_LE(distance, kTolerance) << what << ", step " << i + 1 << ": " << found[i] << ", TensorFlow " << wanted[i];
    }
    std::printf("%s: at most %.1e from TensorFlow's losses\n", what.c_str(), static_cast<double>(largest));
  }
  // The bytes of a checkpoint's variables. What it has of the input may differ: how much of it was made ahead.
  std::map<std::string, std::string> Weights(const std::string& run, int64_t step) {
    std::map<std::string, std::string> weights;
    const auto index =
        model::CheckpointIndex::Read(folder_ + "/" + run + "/checkpoints/model.ckpt-" + std::to_string(step));
    EXPECT_TRUE(index.ok()) << index.status();
    if (!index.ok()) return weights;
    static const Runtime runtime = *Runtime::Create();
    for (const model::CheckpointTensor& tensor : index->tensors) {
      if (tensor.name.find("/input/") != std::string::npos) continue;
      const auto value = model::ReadCheckpointTensor(runtime, *index, tensor);
      EXPECT_TRUE(value.ok()) << value.status();
      if (value.ok()) weights[tensor.name] = std::string(value->bytes().begin(), value->bytes().end());
    }
    EXPECT_FALSE(weights.empty());
    return weights;
  }

  std::string folder_;
};

const std::string kPoints = " --data x=x.npy --data y=y.npy --batch 8";

// What is trained, and by which words.
struct Case {
  const char* golden;
  std::string words;
};
const std::vector<Case>& Cases() {
  static const std::vector<Case> cases = {
      {"keras", "keras --data keras.npz --batch 8"},       // Keras 3, with its optimizer in the graph
      {"module", "module --data x=x.npy --data y=y.npy"},  // the batch is the signature's; the loss is called
                                                           // otherwise; `rate` has a default
      {"v1", "v1.meta --loss loss" + kPoints},             // TensorFlow 1's collections
      {"resources", "resources.meta --target Momentum --loss loss:0" + kPoints},
      {"dataset", "dataset.meta --loss loss"},  // a pipeline of tf.data
      {"records", "records.meta --loss loss"},  // the same over a file; it ends
      {"queues", "queues.meta --loss loss"},    // queues and their runners; they end
  };
  return cases;
}

TEST_F(GraphTraining, LossesAreTensorFlows) {
  for (const Case& each : Cases()) {
    const std::string said = Works("train " + each.words + " --folder run_" + each.golden + " --steps 20");
    const std::vector<float> wanted = GoldenLosses(each.golden);
    ExpectNear(Losses("run_" + std::string(each.golden)), wanted, each.golden);
    const bool ends = wanted.size() < 20;
    EXPECT_EQ(said.find("The input ended after step " + std::to_string(wanted.size())) != std::string::npos, ends)
        << said;
  }
}

TEST_F(GraphTraining, OptimizersAreTensorFlows) {
  const std::pair<std::string, std::string> kRates[] = {{"sgd", "0.1"},     {"momentum", "0.05"}, {"adam", "0.02"},
                                                        {"adagrad", "0.1"}, {"rmsprop", "0.01"},  {"adadelta", "1"}};
  for (const std::string graph :
       {"loss_only.pb", "loss_only.pbtxt"}) {  // reference variables of a GraphDef, resource variables of a MetaGraph
    for (const auto& [optimizer, rate] : kRates) {
      const std::string run = graph + "_" + optimizer;
      Works("train " + graph + " --minimize loss --optimizer " + optimizer + " --learning-rate " + rate + kPoints +
            " --folder " + run + " --steps 20");
      ExpectNear(Losses(run), Goldens()["loss_only"]["by_optimizer"][optimizer].get<std::vector<float>>(), run);
    }
  }
}

// Through the functions of a SavedModel, of which some variables are trained and others stay.
TEST_F(GraphTraining, ALossOfASignatureIsMinimised) {
  Works(
      "train keras --signature evaluate --minimize loss --optimizer sgd --learning-rate 0.05 --variables "
      "sequential/conv2d,sequential/dense --data keras.npz --batch 8 --steps 20 --folder run");
  ExpectNear(Losses("run"), Goldens()["keras"]["minimized"].get<std::vector<float>>(), "keras, minimised");
}

TEST_F(GraphTraining, GoesOnWhereItEndedWithTheVerySameSteps) {
  for (const Case& each : Cases()) {
    const std::string run = "whole_" + std::string(each.golden), parts = "parts_" + std::string(each.golden);
    const auto last = static_cast<int64_t>(GoldenLosses(each.golden).size());
    Works("train " + each.words + " --threads 1 --folder " + run + " --steps " + std::to_string(last));
    Works("train " + each.words + " --threads 1 --folder " + parts + " --steps 3");
    Works("train " + each.words + " --threads 1 --folder " + parts + " --steps 7");
    const std::string said =
        Works("train " + each.words + " --threads 1 --folder " + parts + " --steps " + std::to_string(last));
    EXPECT_NE(said.find("resumed from " + parts + "/checkpoints/model.ckpt-7"), std::string::npos) << said;
    EXPECT_EQ(said.find("warning"), std::string::npos) << said;
    EXPECT_EQ(Losses(parts), Losses(run)) << each.golden;
    EXPECT_TRUE(Weights(parts, last) == Weights(run, last)) << each.golden << ": the weights differ";
  }
}

// SIGKILL at moments that the output tells, of which some fall into the writing of a checkpoint.
TEST_F(GraphTraining, KilledItResumesWithTheVerySameSteps) {
  const std::pair<std::string, std::string> kRuns[] = {{"module", "module --data x=x.npy --data y=y.npy --shuffle 3"},
                                                       {"v1", "v1.meta --loss loss --shuffle 4" + kPoints},
                                                       {"dataset", "dataset.meta --loss loss"}};
  for (const auto& [name, words] : kRuns) {
    const auto arguments = [&](const std::string& run) {
      std::vector<std::string> all;
      std::istringstream in(words + " --threads 1 --steps 400 --checkpoint-steps 10 --folder " + name + run);
      for (std::string word; in >> word;) all.push_back(word);
      return all;
    };
    int kills = 0;
    for (const char* moment : {"step 40/", "step 160/", "step 320/"}) {
      Child child(arguments("_killed"));
      if (child.ReadUntil(moment)) child.Kill();
      if (child.Wait() == 0) break;  // it was done before it could be killed
      ++kills;
    }
    EXPECT_GE(kills, 1) << name;
    Child last(arguments("_killed"));
    ASSERT_EQ(last.Wait(), 0) << last.output();
    Child whole(arguments("_whole"));
    ASSERT_EQ(whole.Wait(), 0) << whole.output();
    EXPECT_EQ(Losses(name + "_killed"), Losses(name + "_whole")) << name;
    EXPECT_TRUE(Weights(name + "_killed", 400) == Weights(name + "_whole", 400)) << name << ": the weights differ";
  }
}

TEST_F(GraphTraining, AnInterruptEndsItAfterTheStepThatRuns) {
  Child child({"module", "--data", "x=x.npy", "--data", "y=y.npy", "--steps", "100000000", "--folder", "run",
               "--export", "exported"});
  ASSERT_TRUE(child.ReadUntil("step 1/")) << child.output();
  child.Interrupt();
  EXPECT_EQ(child.Wait(), 1);
  EXPECT_NE(child.output().find("CANCELLED: stopped after step "), std::string::npos) << child.output();
  EXPECT_GT(NewestStep(folder_ + "/run"), 0);
  EXPECT_FALSE(data::FileExists(folder_ + "/exported"));
}

TEST_F(GraphTraining, PassesAndShuffles) {
  // Five steps a pass, the last of them smaller where it may be.
  const Json passes = Json::parse(
      Works("train v1.meta --loss loss --data x=x.npy --data y=y.npy --batch 16 --passes 3 --folder three --json"));
  EXPECT_EQ(passes["last_step"], 9);
  EXPECT_EQ(
      Json::parse(Works("train v1.meta --loss loss --data x=x.npy --data y=y.npy --folder one --json"))["last_step"], 2)
      << "one pass of 32 and 8";
  EXPECT_EQ(Json::parse(Works("train v1.meta --loss loss" + kPoints +
                              " --passes 3 --steps 4 --folder four --json"))["last_step"],
            4)
      << "what ends first";
  // The graph's own input, begun again.
  const std::string records = Works("train records.meta --loss loss --passes 2 --folder twice");
  EXPECT_NE(records.find("The input ended after step 20"), std::string::npos) << records;
  Works("train records.meta --loss loss --passes 2 --steps 13 --folder parts");
  Works("train records.meta --loss loss --passes 2 --folder parts");
  EXPECT_EQ(Losses("parts"), Losses("twice")) << "run forward over the end of a pass";
  // Another order, and the same again.
  for (const char* run : {"mixed", "again", "other"})
    Works("train v1.meta --loss loss" + kPoints + " --steps 8 --shuffle " +
          std::string(run == std::string("other") ? "2" : "1") + " --folder " + run);
  EXPECT_EQ(Losses("mixed"), Losses("again"));
  EXPECT_NE(Losses("mixed"), Losses("other"));
}

TEST_F(GraphTraining, WhatIsExportedIsTrainedOnAndServes) {
  // The checkpoint of a Keras model has a copy of each variable for TensorFlow's objects: TensorFlow reads both as the
  // graph does.
  Works("train keras --data keras.npz --batch 8 --steps 20 --folder k --export keras_trained");
  const auto npz = data::ReadNpz("keras.npz");
  ASSERT_TRUE(npz.ok()) << npz.status();
  for (const auto& [name, value] : *npz) {
    if (name != "images") continue;
    std::vector<int64_t> two = value.shape().dims();
    two[0] = 2;
    const Shape shape(two);
    const auto images = Tensor::From(value.data<float>().subspan(0, static_cast<size_t>(shape.element_count())), shape);
    ASSERT_TRUE(data::WriteNpy("two.npy", *images).ok());
  }
  Works("run keras_trained --feed images=two.npy --fetch output_0=served.npy");
  const auto served = data::ReadNpy("served.npy");
  ASSERT_TRUE(served.ok()) << served.status();
  const auto wanted = Goldens()["keras"]["served_after"].get<std::vector<float>>();
  const auto found = served->data<float>();
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(found[i], wanted[i], 1e-4);
  EXPECT_EQ(*data::ReadFile("keras/saved_model.pb"), *data::ReadFile("keras_trained/saved_model.pb"));

  // Ten steps, exported, and ten more of what was exported: a whole number of passes, so the rows are those of an
  // unbroken run.
  const std::pair<std::string, std::string> kModels[] = {
      {"module", "--data x=x.npy --data y=y.npy"},
      {"v1.meta", "--loss loss" + kPoints},         // its own saver
      {"resources.meta", "--loss loss" + kPoints},  // none: one is added
      {"loss_only.pb", "--minimize loss --optimizer sgd --learning-rate 0.1" + kPoints}};
  for (const auto& [model, words] : kModels) {
    const std::string name = model.substr(0, model.find('.'));
    Works("train " + model + " " + words + " --steps 10 --folder first_" + name + " --export " + name + "_ten");
    const bool folder = data::FileExists(name + "_ten/saved_model.pb");
    Works("train " + name + "_ten" + (folder ? " " : "/model.meta ") + words + " --steps 10 --folder second_" + name);
    std::vector<float> losses = Losses("first_" + name);
    const std::vector<float> more = Losses("second_" + name);
    losses.insert(losses.end(), more.begin(), more.end());
    ExpectNear(losses, GoldenLosses(name), name + ", exported in between");
  }
  const Outcome own = Tenon("train module --data x=x.npy --data y=y.npy --steps 1 --folder own --export module");
  EXPECT_EQ(own.code, 1);
  EXPECT_NE(own.err.find("it is the model's own folder"), std::string::npos) << own.err;
  Works("train module --data x=x.npy --data y=y.npy --steps 2 --folder own --export module_ten");  // replaced
}

TEST_F(GraphTraining, RecordsNumbersAndTheGraphsOwnSummaries) {
  Works("train keras --data keras.npz --batch 8 --steps 4 --folder k");
  EXPECT_EQ(ValuesOfEvents("k/events", "iterations"), (std::map<int64_t, float>{{1, 1}, {2, 2}, {3, 3}, {4, 4}}));
  EXPECT_EQ(ValuesOfEvents("k/events", "accuracy").size(), 4u);
  Works("train v1.meta --loss loss" + kPoints + " --steps 6 --summary-steps 3 --folder v");
  const std::map<int64_t, float> rates =
      ValuesOfEvents("v/events", "rate");  // of the merged summary that the collection names
  ASSERT_EQ(rates.size(), 2u);
  EXPECT_TRUE(rates.contains(3) && rates.contains(6));
  Works("train v1.meta --loss loss" + kPoints + " --steps 2 --summary rate --summary-steps 1 --folder w");
  EXPECT_EQ(ValuesOfEvents("w/events", "rate").size(), 2u);
}

TEST_F(GraphTraining, SaysWhatAResumeDoesNotRepeat) {
  const std::string first = Works("train unseeded.meta --loss loss --steps 2 --folder run");
  EXPECT_EQ(first.find("warning"), std::string::npos) << first;
  const Outcome second = Tenon("train unseeded.meta --loss loss --steps 4 --folder run --json");
  EXPECT_EQ(second.code, 0) << second.err;
  EXPECT_NE(
      second.err.find("warning: the step draws random numbers ('dropout/random_uniform/RandomUniform', RandomUniform)"),
      std::string::npos)
      << second.err;
  EXPECT_EQ(second.err.find("is shuffled without a seed"), std::string::npos)
      << "the order it had goes on: " << second.err;
}

// ---- Where the input stands ----

// A graph whose loss in a step is the number of the example that it got: elements of this pipeline, which `nodes` makes
// of "range", come from the node "last".
std::string NumbersOfExamples(const std::string& nodes) {
  const auto node = [](const std::string& name, const std::string& op, const std::string& rest) {
    return "node { name: '" + name + "' op: '" + op + "' " + rest + " }\n";
  };
  const auto number = [&](const std::string& name, int64_t value) {
    return node(name, "Const",
                "attr { key: 'dtype' value { type: DT_INT64 } } attr { key: 'value' value { tensor { dtype: DT_INT64 "
                "tensor_shape { } int64_val: " +
                    std::to_string(value) + " } } }");
  };
  const std::string types =
      "attr { key: 'output_types' value { list { type: DT_INT64 } } } attr { key: 'output_shapes' value { list { shape "
      "{ } } } }";
  const std::string floats = "attr { key: 'T' value { type: DT_FLOAT } }";
  return number("zero", 0) + number("one", 1) + number("five", 5) + number("twenty", 20) +
         node("range", "RangeDataset", "input: 'zero' input: 'twenty' input: 'one' " + types) + nodes +
         node("iterator", "IteratorV2",
              "attr { key: 'shared_name' value { s: '' } } attr { key: 'container' value { s: '' } } " + types) +
         node("make", "MakeIterator", "input: 'last' input: 'iterator'") +
         node("next", "IteratorGetNext", "input: 'iterator' " + types) +
         node("example", "Cast",
              "input: 'next' attr { key: 'SrcT' value { type: DT_INT64 } } attr { key: 'DstT' value { type: DT_FLOAT } "
              "}") +
         node("first", "Const",
              "attr { key: 'dtype' value { type: DT_FLOAT } } attr { key: 'value' value { tensor { dtype: DT_FLOAT "
              "tensor_shape { } float_val: 1 } } }") +
         node("w", "VariableV2",
              "attr { key: 'dtype' value { type: DT_FLOAT } } attr { key: 'shape' value { shape { } } }") +
         node("w/Assign", "Assign", "input: 'w' input: 'first' " + floats) +
         node("w/read", "Identity", "input: 'w' " + floats) +
         node("loss", "Mul", "input: 'example' input: 'w/read' " + floats);
}
// A dataset over `from`.
std::string DatasetNode(const std::string& name, const std::string& op, const std::string& inputs,
                        const std::string& attrs = "") {
  return "node { name: '" + name + "' op: '" + op + "' " + inputs +
         " attr { key: 'output_types' value { list { type: DT_INT64 } } } attr { key: 'output_shapes' value { list { "
         "shape { } } } } " +
         attrs + " }\n";
}
const std::string kShuffled =
    DatasetNode("last", "ShuffleDataset", "input: 'range' input: 'twenty' input: 'zero' input: 'zero'");

// In an order that nobody knows, so that no running forward could find it again.
TEST_F(GraphTraining, NoExampleIsLostOrComesTwiceWhereARunGoesOn) {
  const std::string prefetched =
      DatasetNode("shuffled", "ShuffleDataset", "input: 'range' input: 'five' input: 'zero' input: 'zero'") +
      DatasetNode("last", "PrefetchDataset", "input: 'shuffled' input: 'five'");
  for (const auto& [name, nodes] :
       {std::pair<std::string, std::string>{"shuffled", kShuffled}, {"prefetched", prefetched}}) {
    std::ofstream(name + ".pbtxt") << NumbersOfExamples(nodes);
    const std::string words =
        "train " + name + ".pbtxt --minimize loss --optimizer sgd --learning-rate 0 --passes 2 --folder " + name;
    Works(words + " --steps 7");
    Works(words + " --steps 12");
    EXPECT_NE(Works(words + " --steps 26").find("the graph's own input goes on where the checkpoint was taken"),
              std::string::npos);
    Works(words + " --steps 40");
    const std::vector<float> losses = Losses(name);
    ASSERT_EQ(losses.size(), 40u);
    for (const auto pass : {0, 20}) {
      std::vector<float> seen(losses.begin() + pass, losses.begin() + pass + 20);
      std::sort(seen.begin(), seen.end());
      for (int i = 0; i < 20; ++i)
        EXPECT_EQ(seen[static_cast<size_t>(i)], static_cast<float>(i)) << name << ", pass of " << pass;
    }
  }
}

// Random numbers of a function come again where they are drawn again, and not out of the iterator's state.
TEST_F(GraphTraining, WhereAFunctionOfTheInputDrawsNumbersItIsRunForward) {
  const std::string mapped =
      DatasetNode("last", "MapDataset", "input: 'range'",
                  "attr { key: 'f' value { func { name: 'noisy' } } } attr { key: 'Targuments' value { list { } } }");
  const std::string library =
      "library { function { signature { name: 'noisy' input_arg { name: 'x' type: DT_INT64 } output_arg { name: 'y' "
      "type: DT_INT64 } }\n"
      "node_def { name: 'dims' op: 'Const' attr { key: 'dtype' value { type: DT_INT32 } } attr { key: 'value' value { "
      "tensor { dtype: DT_INT32 tensor_shape { dim { size: 0 } } } } } }\n"
      "node_def { name: 'most' op: 'Const' attr { key: 'dtype' value { type: DT_INT64 } } attr { key: 'value' value { "
      "tensor { dtype: DT_INT64 tensor_shape { } int64_val: 1000 } } } }\n"
      "node_def { name: 'none' op: 'Const' attr { key: 'dtype' value { type: DT_INT64 } } attr { key: 'value' value { "
      "tensor { dtype: DT_INT64 tensor_shape { } int64_val: 0 } } } }\n"
      "node_def { name: 'noise' op: 'RandomUniformInt' input: 'dims:output:0' input: 'none:output:0' input: "
      "'most:output:0' attr { key: 'T' value { type: DT_INT32 } } "
      "attr { key: 'Tout' value { type: DT_INT64 } } attr { key: 'seed' value { i: 3 } } attr { key: 'seed2' value { "
      "i: 4 } } }\n"
      "node_def { name: 'sum' op: 'AddV2' input: 'x' input: 'noise:output:0' attr { key: 'T' value { type: DT_INT64 } "
      "} }\n"
      "ret { key: 'y' value: 'sum:z:0' } } }\n";
  std::ofstream("noisy.pbtxt") << NumbersOfExamples(mapped) << library;
  Works("train noisy.pbtxt --minimize loss --optimizer sgd --learning-rate 0 --threads 1 --folder whole --steps 20");
  Works("train noisy.pbtxt --minimize loss --optimizer sgd --learning-rate 0 --threads 1 --folder parts --steps 8");
  const std::string said = Works(
      "train noisy.pbtxt --minimize loss --optimizer sgd --learning-rate 0 --threads 1 --folder parts --steps 20");
  EXPECT_NE(said.find("run forward over what 8 steps took; its own state would not do: a function of it has another, "
                      "in 'noise' (RandomUniformInt)"),
            std::string::npos)
      << said;
  EXPECT_EQ(Losses("parts"), Losses("whole"));
}

// Elements that are datasets, whose elements are not in memory.
TEST_F(GraphTraining, WhereAPassCannotBeKeptTheCheckpointSaysSoAndItIsRunForward) {
  const std::string variants =
                        " attr { key: 'output_types' value { list { type: DT_VARIANT } } } attr { key: 'output_shapes' "
                        "value { list { shape { } } } }",
                    no_arguments = " attr { key: 'Targuments' value { list { } } }";
  const std::string nodes =
      "node { name: 'datasets' op: 'MapDataset' input: 'range' attr { key: 'f' value { func { name: 'one_alone' } } }" +
      no_arguments + variants + " }\n" +
      "node { name: 'shuffled' op: 'ShuffleDataset' input: 'datasets' input: 'five' input: 'one' input: 'five'" +
      variants + " }\n" +
      DatasetNode("last", "FlatMapDataset", "input: 'shuffled'",
                  "attr { key: 'f' value { func { name: 'same' } } }" + no_arguments);
  const std::string library =
      "library { function { signature { name: 'one_alone' input_arg { name: 'x' type: DT_INT64 } output_arg { name: "
      "'y' type: DT_VARIANT } }\n"
      "node_def { name: 'one' op: 'Const' attr { key: 'dtype' value { type: DT_INT64 } } attr { key: 'value' value { "
      "tensor { dtype: DT_INT64 tensor_shape { } int64_val: 1 } } } }\n"
      "node_def { name: 'end' op: 'AddV2' input: 'x' input: 'one:output:0' attr { key: 'T' value { type: DT_INT64 } } "
      "}\n"
      "node_def { name: 'made' op: 'RangeDataset' input: 'x' input: 'end:z:0' input: 'one:output:0' attr { key: "
      "'output_types' value { list { type: DT_INT64 } } } "
      "attr { key: 'output_shapes' value { list { shape { } } } } }\n"
      "ret { key: 'y' value: 'made:handle:0' } }\n"
      "function { signature { name: 'same' input_arg { name: 'x' type: DT_VARIANT } output_arg { name: 'y' type: "
      "DT_VARIANT } }\n"
      "node_def { name: 'it' op: 'Identity' input: 'x' attr { key: 'T' value { type: DT_VARIANT } } } ret { key: 'y' "
      "value: 'it:output:0' } } }\n";
  std::ofstream("nested.pbtxt") << NumbersOfExamples(nodes) << library;
  const std::string words = "train nested.pbtxt --minimize loss --optimizer sgd --learning-rate 0 --folder ";
  Works(words + "whole --steps 20");
  const std::string first = Works(words + "parts --steps 8 --checkpoint-steps 2");
  const size_t said = first.find("the checkpoint has no state of the input, over which a resume runs forward: ");
  ASSERT_NE(said, std::string::npos) << first;
  EXPECT_EQ(first.find("the checkpoint has no state", said + 1), std::string::npos) << "once is enough: " << first;
  const std::string second = Works(words + "parts --steps 20");
  EXPECT_NE(second.find("the graph's own input was run forward over what 8 steps took"), std::string::npos) << second;
  EXPECT_EQ(Losses("parts"), Losses("whole"));
}

// What cannot be kept is said, and run forward.
TEST_F(GraphTraining, WhereTheInputsStateCannotBeKeptItIsRunForward) {
  std::ofstream("kept.pbtxt") << NumbersOfExamples(
      DatasetNode("last", "ShuffleDataset", "input: 'range' input: 'twenty' input: 'one' input: 'five'"));
  Works("train kept.pbtxt --minimize loss --optimizer sgd --learning-rate 0 --folder whole --steps 20");
  Works("train kept.pbtxt --minimize loss --optimizer sgd --learning-rate 0 --folder parts --steps 7");
  // Another pipeline's state, and a checkpoint without one.
  std::ofstream("other.pbtxt") << NumbersOfExamples(
      DatasetNode("last", "TakeDataset", "input: 'range' input: 'twenty'"));
  const std::string other =
      Works("train other.pbtxt --minimize loss --optimizer sgd --learning-rate 0 --folder parts --steps 9");
  EXPECT_NE(other.find("the state of the input in the checkpoint does not fit, so that the input is run forward"),
            std::string::npos)
      << other;
  EXPECT_NE(other.find("the graph's own input was run forward over what 7 steps took"), std::string::npos) << other;
  EXPECT_EQ(Losses("parts")[7], 7.0f);
}

// ---- What is wrong ----

struct Wrong {
  std::string words;
  int code;
  const char* says;
};

TEST_F(GraphTraining, SaysWhatIsWrong) {
  const auto five = Tensor::From(std::vector<float>(40 * 5), {40, 5});
  const auto fewer = Tensor::From(std::vector<int64_t>(39), {39});
  const auto narrow = Tensor::From(std::vector<int32_t>(40), {40});
  const auto none = Tensor::From(std::vector<float>(), {0, 6});
  const auto nan = Tensor::From(std::vector<float>(40 * 6, NAN), {40, 6});
  const auto rate = Tensor::From(std::vector<float>{0.1f}, {1});
  ASSERT_TRUE(data::WriteNpy("five.npy", *five).ok() && data::WriteNpy("fewer.npy", *fewer).ok() &&
              data::WriteNpy("narrow.npy", *narrow).ok() && data::WriteNpy("none.npy", *none).ok() &&
              data::WriteNpy("nan.npy", *nan).ok() && data::WriteNpy("rate.npy", *rate).ok());
  std::ofstream("torn.npy") << "\x93NUMPY";
  std::filesystem::create_directory("empty");
  const std::string v1 = "v1.meta --loss loss";
  const Wrong wrongs[] = {
      {"keras --signature trian --data keras.npz", 2,
       "--signature: 'keras' has no signature 'trian'; did you mean 'train'? its signatures: "},
      {"keras --signature serve --data images=keras.npz", 2,
       "--loss: which output of signature 'serve' is the loss? None is called so, and none is one floating number; its "
       "outputs: output_0 float32[?,3]"},
      {"keras --signature serve --loss output_0 --data images=keras.npz", 1,
       "a step changes no variable, so it trains nothing"},
      {"keras --loss los --data keras.npz", 2, "did you mean 'loss'?"},
      {"keras", 2,
       "--data: graph 'keras': a step needs 'images', float32[?,6,6,2]; give --data images=FILE.npy (of which each "
       "step gets rows) or --feed images=FILE.npy (which it gets whole); its inputs: "},
      {"keras --data images=keras.npz", 2, "a step needs 'labels', int64[?]"},
      {"keras --data image=keras.npz", 2,
       "--data: 'image': neither signature 'train' nor graph 'keras' has it; did you mean 'images'?"},
      {v1 + " --data x=x.npy", 2, "a step needs 'y', int64[?]"},
      {v1 + " --data x=five.npy --data y=y.npy", 1,
       "feed 'x' (Placeholder) is float32[?,6], 'five.npy' is float32[40,5]"},
      {v1 + " --data x=x.npy --data y=narrow.npy", 1, "feed 'y' (Placeholder) is int64[?], 'narrow.npy' is int32[40]"},
      {v1 + " --data x=x.npy --data y=fewer.npy", 1,
       "'y' of 'fewer.npy' has 39 rows, 'x' of 'x.npy' has 40; row n of each is of example n"},
      {v1 + " --data x=none.npy --data y=y.npy", 1, "'y' of 'y.npy' has 40 rows, 'x' of 'none.npy' has 0"},
      {v1 + " --data x=torn.npy --data y=y.npy", 1, "torn.npy"},
      {v1 + " --data x=gone.npy --data y=y.npy", 1, "NOT_FOUND: feed 'x' (Placeholder): open 'gone.npy'"},
      {v1 + " --data x --data y=y.npy", 2, "--data: 'x' is not of the form NAME=FILE.npy"},
      {v1 + kPoints + " --data x=x.npy", 2, "--data: 'x' is given twice"},
      {v1 + " --data x=nan.npy --data y=y.npy", 1, "the loss 'loss' is nan at step 1"},
      {v1 + " --data x=x.npy --data y=y.npy --passes 9223372036854775807", 2, "--passes"},
      {v1 + kPoints + " --target Admm", 2, "--target: 'Admm': graph 'v1.meta' has no such node; did you mean 'Adam'?"},
      {v1 + kPoints + " --init init", 2, "--init: 'init': graph 'v1.meta' has no such node"},
      {v1 + kPoints + " --summary rat", 2, "did you mean 'rate'?"},
      {"v1.meta" + kPoints, 2, "--loss: which tensor is the loss?"},
      {"v1.meta --loss y" + kPoints, 1, "the loss 'y' is int64; a loss is a floating number"},
      {"v1.meta --loss x" + kPoints, 1, "the loss 'x' has the shape [?,6]; it must be one number"},
      {v1 + kPoints + " --optimizer sgd", 2, "--optimizer: it says how --minimize TENSOR is done"},
      {v1 + kPoints + " --learning-rate 1", 2, "--learning-rate: it is for --minimize TENSOR"},
      {"v1.meta --minimize loss --loss x" + kPoints, 2, "--loss: the loss is what --minimize names, 'loss'"},
      {"v1.meta --minimize x" + kPoints, 1, "the loss 'x'"},
      {"v1.meta --minimize rate" + kPoints, 1, "the loss 'rate' is string; a loss is a floating number"},
      {"v1.meta --minimize learning_rate" + kPoints, 2,
       "--minimize: 'learning_rate': graph 'v1.meta' has no such node"},
      {"v1.meta --minimize loss --variables hiden" + kPoints, 1,
       "no variable that the loss 'loss' depends on begins with 'hiden'; there are: 'hidden/w'"},
      {v1 + kPoints + " --variables hidden", 2, "--variables: it says what --minimize TENSOR changes"},
      {"loss_only.pb" + kPoints, 2,
       "--target: nothing says what a step of 'loss_only.pb' does: it has no signature 'train' (nor another one) and "
       "no collection 'train_op'"},
      {"loss_only.pb --minimize loss --optimizer adm" + kPoints, 2, "there is no optimizer 'adm'"},
      {"module --batch 4 --data x=x.npy --data y=y.npy", 2,
       "--batch: 'x' takes batches of 8 and no others: float32[8,6]"},
      {"module --data x=x.npy --data y=y.npy --data rate=rate.npy", 2,
       "--data: 'rate' is a single value in each step; give it whole with --feed rate=FILE"},
      {"dataset.meta --loss loss --shuffle 1", 2, "--shuffle: it mixes the rows of --data, and there are none"},
      {"dataset.meta --loss loss --batch 1", 2,
       "--batch: it says how many rows of --data a step gets, and there are none"},
      {"queues.meta --loss loss --passes 2", 1, "the input comes from queues, which cannot be begun again"},
      {"empty", 1, "'empty' is a folder without saved_model.pb"},
      {"gone.pb", 1, "NOT_FOUND"},
      {"x.npy", 1, "x.npy"},
      {"digit", 2, "tenon train: no command 'digit'; did you mean 'digits'?"},
      {"", 2, "tenon train: a command is missing; there are: digits, images; or give GRAPH"},
      {"--steps 5 digits", 2, "--steps: it stands before the job 'digits', which does not get it"},
      {"v1.meta digits", 2, "GRAPH: it stands before the job 'digits'"},
      {"v1.meta more.meta", 2, "'more.meta' is one word too many"},
      {"v1.meta --stpes 5", 2, "no flag '--stpes'; did you mean '--steps'?"},
  };
  for (const Wrong& wrong : wrongs) {
    const Outcome outcome = Tenon("train " + wrong.words);
    EXPECT_EQ(outcome.code, wrong.code) << wrong.words << "\n" << outcome.err;
    EXPECT_NE(outcome.err.find(wrong.says), std::string::npos)
        << wrong.words << "\nsays: " << outcome.err << "and not: " << wrong.says;
    std::filesystem::remove_all("trained_v1");
  }
}

TEST_F(GraphTraining, AQueueRunnersFailureIsTheReason) {
  std::filesystem::remove("points.csv");
  const Outcome gone = Tenon("train queues.meta --loss loss --folder gone");
  EXPECT_EQ(gone.code, 1);
  EXPECT_NE(gone.err.find("the queue runner of 'batch/fifo_queue'"), std::string::npos) << gone.err;
  EXPECT_NE(gone.err.find("points.csv"), std::string::npos) << gone.err;
}

TEST_F(GraphTraining, OneTrainingAtATimeInAFolder) {
  Child first({"module", "--data", "x=x.npy", "--data", "y=y.npy", "--steps", "100000000", "--folder", "run"});
  ASSERT_TRUE(first.ReadUntil("step 1/")) << first.output();
  const Outcome second = Tenon("train module --data x=x.npy --data y=y.npy --steps 5 --folder run");
  EXPECT_EQ(second.code, 1);
  EXPECT_NE(second.err.find("FAILED_PRECONDITION"), std::string::npos) << second.err;
  first.Kill();
  EXPECT_EQ(first.Wait(), -SIGKILL);
}

}  // namespace
}  // namespace tenon::train
