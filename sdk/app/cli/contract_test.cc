// SPDX-License-Identifier: Apache-2.0
// The contract of bin/tenon that scripts rely on, tested through the program itself. Covers R3, R6.
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <vector>

#include "sdk/app/cli/program.h"
#include "tenon/data/file.h"
#include "tenon/data/npy.h"
#include "tenon/data/npz.h"
#include "tenon/bytes/wire.h"
#include "tenon/tenon.h"
#include "tenon/train/folder_lock.h"
#include "tests/fakes/temporary_folder.h"

namespace tenon::cli::contract_test {
namespace {

using host::DType;
using host::Graph;
using host::Output;
using host::Result;
using host::Runtime;
using host::Status;
using host::Tensor;
using Json = nlohmann::json;

class Contract : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = fakes::TemporaryFolder("contract");
    Result<Runtime> runtime = Runtime::Create();
    ASSERT_TRUE(runtime.ok()) << runtime.status();
    WriteGraphs(*runtime);
    const std::vector<float> values = {-1, 2, 3, -4};
    ASSERT_TRUE(data::WriteNpy(At("x.npy"), *Tensor::From(std::span<const float>(values), {2, 2})).ok());
  }

  static void Write(Graph& graph, const std::string& name) {
    Result<std::string> bytes = graph.Export();
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    ASSERT_TRUE(data::ReplaceFile(At(name), {*bytes}).ok());
  }

  static void WriteGraphs(const Runtime& runtime) {
    {
      Graph graph(runtime);  // y = relu(x), z = 2 x, and a product that only fits x of three columns
      Output x = graph.Placeholder("x", DType::kFloat);
      graph.Op("Relu", {x}, {}, "y");
      graph.Op("Mul", {x, graph.Const(2.0f)}, {}, "z");
      graph.Op("MatMul", {x, graph.Const(std::vector<float>(9, 1), {3, 3})}, {}, "bad_product");
      Write(graph, "graph.pb");
    }
    {
      Graph graph(runtime);  // a counter: init sets it to 10, add raises it, value reads it after that
      Output counter = graph.Op("VarHandleOp", {}, {{"dtype", DType::kInt64}, {"shape", host::Shape()}}, "counter");
      graph.AddNode("AssignVariableOp", {counter, graph.Const(int64_t{10})}, {{"dtype", DType::kInt64}}, "init");
      host::Operation add =
          graph.AddNode("AssignAddVariableOp", {counter, graph.Const(int64_t{1})}, {{"dtype", DType::kInt64}}, "add");
      auto after = graph.ControlDependencies({add});
      graph.Op("ReadVariableOp", {counter}, {{"dtype", DType::kInt64}}, "value");
      Write(graph, "counter.pb");
    }
    {
      Graph graph(runtime);  // never ends
      Output i = graph.Const(0), one = graph.Const(1), limit = graph.Const(-1);
      std::vector<Output> last = host::While(
          graph, {i}, {one, limit},
          [&](const std::vector<Output>& v) {
            return graph.Op("NotEqual", {v[0], v[2]});
          },
          [&](const std::vector<Output>& v) {
            return std::vector<Output>{graph.Op("Mul", {v[0], v[1]})};
          });
      graph.Op("Identity", {last[0]}, {}, "end");
      Write(graph, "endless.pb");
    }
    {
      Graph graph(runtime);  // as large as its feed says; random numbers; strings
      Output dims = graph.Placeholder("dims", DType::kInt32, {1});
      graph.Op("Fill", {dims, graph.Const(1.0f)}, {}, "filled");
      graph.Op("RandomUniform", {graph.Const({3})}, {{"dtype", DType::kFloat}}, "random");
      Output text = graph.Placeholder("text", DType::kString, {-1});
      graph.Op("Identity", {text}, {}, "same_text");
      Write(graph, "various.pb");
    }
    {
      Graph graph(runtime);  // a convolution that nothing follows, and one with its bias
      const host::Attrs window = {{"strides", {1, 1, 1, 1}}, {"padding", "SAME"}};
      Output image = graph.Placeholder("image", DType::kFloat, {1, 8, 8, 4});
      const auto filter = [&graph](float value) {
        return graph.Const(std::vector<float>(3 * 3 * 4 * 4, value), {3, 3, 4, 4});
      };
      graph.Op("Conv2D", {image, filter(1)}, window, "alone");
      Output led = graph.Op("Conv2D", {image, filter(2)}, window, "led");
      graph.Op("BiasAdd", {led, graph.Const(std::vector<float>(4, 1), {4})}, {}, "followed");
      Write(graph, "convolutions.pb");
    }
    const int32_t dims = 1 << 30;
    ASSERT_TRUE(data::WriteNpy(At("dims.npy"), *Tensor::From(std::span<const int32_t>(&dims, 1), {1})).ok());
    ASSERT_TRUE(data::WriteNpy(At("text.npy"), *Tensor::Strings({"one", "three"})).ok());
    ASSERT_TRUE(data::ReplaceFile(At("garbage.pb"), {"this is no graph at all"}).ok());
  }

  static std::string At(const std::string& name) { return folder_ + "/" + name; }

  static Outcome Tenon(const std::string& arguments, const std::string& before = "") {
    return RunTenon(folder_, arguments, before);
  }
  // It fails as the contract says: a code from 1 to 125, nothing on stdout, one line on stderr.
  static Outcome Fails(const std::string& arguments, const std::string& before = "") {
    Outcome outcome = Tenon(arguments, before);
    EXPECT_GE(outcome.code, 1) << arguments;
    EXPECT_LE(outcome.code, 125) << arguments;
    EXPECT_EQ("", outcome.out) << arguments;
    EXPECT_EQ(1, std::count(outcome.err.begin(), outcome.err.end(), '\n')) << outcome.err;
    return outcome;
  }
  static Outcome Works(const std::string& arguments) {
    Outcome outcome = Tenon(arguments);
    EXPECT_EQ(0, outcome.code) << arguments << "\n" << outcome.err;
    EXPECT_EQ("", outcome.err) << arguments;
    return outcome;
  }
  static void ExpectHas(const std::string& text, const std::string& part) {
    EXPECT_NE(std::string::npos, text.find(part)) << "'" << part << "' is not in: " << text;
  }

  static inline std::string folder_;
};

TEST_F(Contract, FetchesIntoAFile) {
  Works("run graph.pb --feed x=x.npy --fetch y=y.npy --fetch z:0=z.npy");
  Result<Tensor> y = data::ReadNpy(At("y.npy")), z = data::ReadNpy(At("z.npy"));
  ASSERT_TRUE(y.ok() && z.ok());
  EXPECT_EQ((std::vector<float>{0, 2, 3, 0}), std::vector<float>(y->data<float>().begin(), y->data<float>().end()));
  EXPECT_EQ((std::vector<float>{-2, 4, 6, -8}), std::vector<float>(z->data<float>().begin(), z->data<float>().end()));
}

TEST_F(Contract, PrintsAFetchWithoutAFile) {
  EXPECT_EQ("y: float32[2,2]\n[[0, 2],\n [3, 0]]\n", Works("run graph.pb --feed x:0=x.npy --fetch y").out);
}

TEST_F(Contract, FeedsAnyEdge) {
  EXPECT_EQ("z: float32[2,2]\n[[-2, 4],\n [6, -8]]\n", Works("run graph.pb --feed x=x.npy --fetch z").out);
  EXPECT_EQ("z: float32[2,2]\n[[-1, 2],\n [3, -4]]\n", Works("run graph.pb --feed z=x.npy --fetch z").out);
}

TEST_F(Contract, RunsInitOnceAndTargetsInEachStep) {
  EXPECT_EQ("value: int64[]\n11\n", Works("run counter.pb --init init --fetch value").out);
  EXPECT_EQ("value: int64[]\n17\n", Works("run counter.pb --init init --target add --fetch value --repeat 7").out);
  EXPECT_EQ("", Works("run counter.pb --init init --target add").out);
}

TEST_F(Contract, PrintsTheTimesOfTheSteps) {
  const Outcome outcome = Works("run counter.pb --init init --target add --repeat 50 --time");
  EXPECT_TRUE(
      std::regex_match(outcome.out, std::regex("step: min [0-9]+\\.[0-9] us, median [0-9]+\\.[0-9] us, 50 steps\n")))
      << outcome.out;
}

TEST_F(Contract, KeepsSeveralArraysInAnNpz) {
  Works("run graph.pb --feed x=x.npy --fetch y=both.npz --fetch z=both.npz");
  Result<data::NamedTensors> both = data::ReadNpz(At("both.npz"));
  ASSERT_TRUE(both.ok()) << both.status();
  ASSERT_EQ(2u, both->size());
  EXPECT_EQ("y", (*both)[0].first);
  EXPECT_EQ(-8.0f, (*both)[1].second.data<float>()[3]);
}

TEST_F(Contract, FeedsFromAnNpz) {
  Works("run graph.pb --feed x=x.npy --fetch y=feeds.npz");
  // The file holds one array, y, which any name may take; by its own name, y is the feed.
  EXPECT_EQ("z: float32[2,2]\n[[0, 4],\n [6, 0]]\n", Works("run graph.pb --feed x=feeds.npz --fetch z").out);
  EXPECT_EQ("y: float32[2,2]\n[[0, 2],\n [3, 0]]\n", Works("run graph.pb --feed feeds.npz --fetch y").out);
}

TEST_F(Contract, CarriesStrings) {
  Works("run various.pb --feed text=text.npy --fetch same_text=text_out.npy");
  Result<Tensor> text = data::ReadNpy(At("text_out.npy"));
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ("three", text->string(1));
}

TEST_F(Contract, PrintsJson) {
  const Json json = Json::parse(Works("run graph.pb --feed x=x.npy --fetch y --json --time --repeat 3").out);
  EXPECT_EQ(Json({{0, 2}, {3, 0}}), json["fetches"]["y"]["value"]);
  EXPECT_EQ("float32", json["fetches"]["y"]["dtype"]);
  EXPECT_EQ(3, json["step"]["steps"]);
}

TEST_F(Contract, RepeatsRandomNumbersWithASeed) {
  const std::string first = Works("run various.pb --fetch random --seed 7").out;
  EXPECT_EQ(first, Works("run various.pb --fetch random --seed 7").out);
  EXPECT_NE(first, Works("run various.pb --fetch random --seed 8").out);
}

TEST_F(Contract, EndsAtItsDeadline) {
  ExpectHas(Fails("run endless.pb --fetch end --deadline 200ms").err, "DEADLINE_EXCEEDED: graph 'endless.pb'");
}

TEST_F(Contract, EndsAtItsMemoryLimit) {
  const std::string err = Fails("run various.pb --feed dims=dims.npy --fetch filled=big.npy --memory-limit 64M").err;
  ExpectHas(err, "RESOURCE_EXHAUSTED: graph 'various.pb'");
}

TEST_F(Contract, NamesTheFileThatIsMissing) {
  ExpectHas(Fails("run nowhere.pb --fetch y").err, "nowhere.pb");
  const std::string err = Fails("run graph.pb --feed x=nowhere.npy --fetch y").err;
  ExpectHas(err, "feed 'x' (Placeholder)");
  ExpectHas(err, "nowhere.npy");
  ExpectHas(Fails("run graph.pb --feed x=x.npy --fetch y=/proc/no/y.npy").err, "fetch 'y' (Relu)");
}

TEST_F(Contract, NamesTheNodeItsOpAndTheFile) {
  const std::string err = Fails("run graph.pb --feed x=x.npy --fetch bad_product").err;
  for (const char* part : {"graph.pb", "bad_product", "MatMul"}) ExpectHas(err, part);
}

TEST_F(Contract, NamesTheFeedThatDoesNotFit) {
  const std::string err = Fails("run graph.pb --feed x=text.npy --fetch y").err;
  for (const char* part : {"graph.pb", "'x'", "Placeholder", "string", "float"}) ExpectHas(err, part);
}

TEST_F(Contract, NamesANodeThatIsNotThere) {
  const std::string err = Fails("run graph.pb --feed x=x.npy --fetch yy").err;
  for (const char* part : {"graph.pb", "'yy'"}) ExpectHas(err, part);
  ExpectHas(Fails("run graph.pb --fetch y").err, "x");  // what is not fed
}

TEST_F(Contract, RefusesWhatIsNoGraph) {
  ExpectHas(Fails("run garbage.pb --fetch y").err, "garbage.pb");
  ExpectHas(Fails("inspect garbage.pb").err, "garbage.pb");
  ExpectHas(Fails("run . --fetch y").err, "SavedModel");
}

TEST_F(Contract, RefusesAWrongCommandLine) {
  EXPECT_EQ(2, Fails("").code);
  EXPECT_EQ(2, Fails("fly").code);
  EXPECT_EQ(2, Fails("run").code);
  EXPECT_EQ(2, Fails("run graph.pb --fetsch y").code);
  EXPECT_EQ(2, Fails("run graph.pb --repeat 0 --fetch y").code);
  ExpectHas(Fails("run graph.pb").err, "--fetch");
  ExpectHas(Fails("run graph.pb --fetch y --deadline soon").err, "soon");
  ExpectHas(Fails("run graph.pb --fetch y --placement none.txt").err, "none.txt");
  ExpectHas(Fails("run graph.pb --fetch y --plugin x.npy").err, "x.npy");
  ExpectHas(Fails("run graph.pb --fetch y --option no.such.key=1").err, "no.such");
}

TEST_F(Contract, EveryCommandHasHelp) {
  for (const char* command : {"", "run", "train", "train digits", "plugins", "ops", "devices", "inspect", "place"}) {
    const Outcome outcome = Works(std::string(command) + " --help");
    ExpectHas(outcome.out, "Usage:");
  }
  ExpectHas(Works("--version").out, "tenon ");
}

TEST_F(Contract, PlacesAGraphAndSaysWhy) {
  const std::string devices = " --option tenon.cpu.devices=2";
  ExpectHas(Works("place graph.pb --fetch y").out, "only device");
  ExpectHas(Works("place graph.pb --explain" + devices).out, "the step is shortest so");
  ExpectHas(Works("place graph.pb --fetch y --fetch z" + devices).out, "predicted step: ");
  const Json json =
      Json::parse(Works("place graph.pb --fetch y --json --svg line.svg --write all.place" + devices).out);
  EXPECT_EQ(json["devices"].size(), 2u);
  EXPECT_EQ(json["nodes"].size(), 2u) << "x and y";
  for (const Json& node : json["nodes"]) EXPECT_EQ(node["alternatives"].size(), 2u);
  ExpectHas(*data::ReadFile(At("line.svg")), "</svg>");
  ExpectHas(*data::ReadFile(At("all.place")), "y\t/job:localhost/replica:0/task:0/device:CPU:");
  Works("run graph.pb --feed x=x.npy --fetch y --placement all.place" + devices);
}

// The predicted and the measured step are drawn alike.
TEST_F(Contract, DrawsSteps) {
  Works("place graph.pb --fetch y --svg predicted.svg");
  Works("run graph.pb --feed x=x.npy --fetch y=y.npy --svg measured.svg");
  for (const char* name : {"predicted", "measured"}) {
    const std::string svg = *data::ReadFile(At(std::string(name) + ".svg"));
    ExpectHas(svg, std::string(name) + " step: ");
    ExpectHas(svg, "<title>y (Relu): ");
    EXPECT_TRUE(svg.ends_with("</svg>\n")) << svg;
  }
}

TEST_F(Contract, SaysWhatCompilersRefuse) {
  if (access(TENON_TEST_BUILD_DIR "/lib/tenon/plugins/tenon_cpu_onednn.so", R_OK) != 0)
    GTEST_SKIP() << "devices/cpu_onednn is left out of this build";
  const std::string place = "place convolutions.pb --explain";
  const std::string told = Works(place).out;
  const size_t at = told.find("NOT COMPILED");
  ASSERT_NE(at, std::string::npos) << told;
  EXPECT_TRUE(std::regex_search(told.substr(at),
                                std::regex("\nalone +tenon\\.cpu_onednn +nothing that it could take along follows")))
      << told;
  EXPECT_EQ(told.find("led ", at), std::string::npos) << "it was taken: " << told;
  const Json refusals = Json::parse(Works(place + " --json").out)["refusals"];
  ASSERT_EQ(refusals.size(), 1u);
  EXPECT_EQ(refusals[0]["node"], "alone");
  EXPECT_EQ(refusals[0]["plugin"], "tenon.cpu_onednn");
  for (const std::string& nothing :
       {place + " --no-compile", place + " --fetch followed", std::string("place graph.pb --explain")})
    EXPECT_EQ(Works(nothing).out.find("NOT COMPILED"), std::string::npos) << nothing;
}

TEST_F(Contract, FollowsAPlacementFile) {
  const std::string command =
      "place graph.pb --fetch y --fetch z --json --option tenon.cpu.devices=3 --placement p.place";
  ASSERT_TRUE(data::ReplaceFile(At("p.place"), {"* /cpu:1\ny /device:CPU:2  # apart\n"}).ok());
  for (const Json& node : Json::parse(Works(command).out)["nodes"])
    EXPECT_TRUE(node["device"].get<std::string>().ends_with(node["name"] == "y" ? "CPU:2" : "CPU:1")) << node;
  ASSERT_TRUE(data::ReplaceFile(At("p.place"), {"y /cpu:1\nyy /cpu:2\n"}).ok());
  ExpectHas(Fails(command).err, "p.place:2: ");
  ASSERT_TRUE(data::ReplaceFile(At("p.place"), {"y /cpu:7\n"}).ok());
  ExpectHas(Works(command).out, "no device is named so");
  ExpectHas(Fails(command + " --hard-placement").err, "node 'y' (Relu) wants /cpu:7");
}

TEST_F(Contract, MeasuredCostsAreKeptAndShown) {
  Works("run graph.pb --feed x=x.npy --fetch y --costs costs.txt");
  ExpectHas(*data::ReadFile(At("costs.txt")), "\ty\tRelu\tCPU\t[2,2]\n");
  Works("run graph.pb --feed x=x.npy --fetch y --costs costs.txt");
  ExpectHas(*data::ReadFile(At("costs.txt")), "\t2\ty\tRelu\tCPU\t[2,2]\n");
  const Json json = Json::parse(Works("place graph.pb --fetch y --json --costs costs.txt").out);
  EXPECT_EQ(json["costs"].back()["op"], "Relu");
  ASSERT_TRUE(data::ReplaceFile(At("bad.txt"), {"no costs\n"}).ok());
  ExpectHas(Fails("place graph.pb --fetch y --costs bad.txt").err, "bad.txt:1: not a file of measured costs");
}

TEST_F(Contract, ListsWhatIsLoaded) {
  const Json plugins = Json::parse(Works("plugins --json").out);
  ASSERT_GT(plugins.size(), 3u);
  bool has_cpu = false;
  for (const Json& plugin : plugins) has_cpu |= plugin["id"] == "tenon.cpu" && plugin["outcome"] == "loaded";
  EXPECT_TRUE(has_cpu);
  // Each op's signature stands in one form: every argument's type is said by a dtype or by attributes that there are,
  // and all types are NumPy's.
  const Json ops = Json::parse(Works("ops --json").out);
  EXPECT_GT(ops.size(), 100u);
  for (const Json& op : ops) {
    std::map<std::string, Json> attrs;
    for (const Json& attr : op["signature"]["attrs"]) attrs[attr["name"]] = attr;
    for (const char* side : {"inputs", "outputs"})
      for (const Json& argument : op["signature"][side]) {
        EXPECT_EQ(1, (argument["dtype"].is_null() ? 0 : 1) + (argument["type_attr"].is_null() ? 0 : 1) +
                         (argument["type_list_attr"].is_null() ? 0 : 1))
            << op["name"] << argument;
        if (!argument["type_attr"].is_null()) {
          EXPECT_EQ("type", attrs.at(argument["type_attr"])["type"]) << op["name"];
        }
        if (!argument["type_list_attr"].is_null()) {
          EXPECT_TRUE(attrs.at(argument["type_list_attr"])["is_list"].get<bool>()) << op["name"];
        }
        if (!argument["number_attr"].is_null()) {
          EXPECT_EQ("int", attrs.at(argument["number_attr"])["type"]) << op["name"];
        }
        if (!argument["dtype"].is_null()) {
          EXPECT_TRUE(argument["dtype"] != "float" && argument["dtype"] != "double" && argument["dtype"] != "half")
              << op["name"];
        }
      }
  }
  const Json product = Json::parse(Works("ops MatMul --json").out);
  EXPECT_EQ("MatMul", product["name"]);
  EXPECT_EQ("T", product["signature"]["inputs"][0]["type_attr"]);
  EXPECT_EQ("float32", product["kernels"][0]["dtypes"]["T"][0]);
  ExpectHas(Works("devices").out, "CPU:0");
  ExpectHas(Fails("ops MatMull").err, "MatMul");
}

// What `tenon` shows on a terminal of so many columns, and how it ends. Once it shows `sign`, somebody presses Ctrl-C.
Outcome OnTerminal(const std::string& folder, const std::string& arguments, uint16_t columns,
                   const std::string& sign = "") {
  const winsize size = {40, columns, 0, 0};
  int terminal = -1;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
  if (child == 0) {
    setenv("TERM", "xterm", 1);
    setenv("NO_COLOR", "1", 1);
    signal(SIGINT, SIG_DFL);  // whatever the test's own shell has
    const std::string command = "cd '" + folder + "' && exec '" TENON_TEST_BUILD_DIR "/bin/tenon' " + arguments;
    execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    _exit(127);
  }
  EXPECT_GT(child, 0);
  if (child <= 0) return {};
  std::string shown;
  char piece[4096];
  bool pressed = sign.empty();
  for (ssize_t got = 0; (got = read(terminal, piece, sizeof(piece))) > 0;) {
    shown.append(piece, static_cast<size_t>(got));
    if (pressed || shown.find(sign) == std::string::npos) continue;
    EXPECT_EQ(write(terminal, "\x03", 1), 1);
    pressed = true;
  }
  int status = -1;
  waitpid(child, &status, 0);
  close(terminal);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, std::regex_replace(shown, std::regex("\r"), ""), ""};
}

size_t WidestLine(const std::string& text) {
  size_t widest = 0, width = 0;
  for (const char c : text) {
    width = c == '\n' ? 0 : width + ((c & 0xc0) == 0x80 ? 0 : 1);
    widest = std::max(widest, width);
  }
  return widest;
}

TEST_F(Contract, TablesFitATerminalOfEightyColumns) {
  const auto [code, devices, none] = OnTerminal(folder_, "devices --devices tpu_sim:12", 80);
  EXPECT_EQ(code, 0);
  EXPECT_LE(WidestLine(devices), 80u) << devices;
  for (const char* whole :
       {"TPU:0 ", "TPU:11 ", "CPU:0 ", "tenon.tpu_sim ", "1 compute,", "2 copy", "device,", "staging", "accelerator"})
    ExpectHas(devices, whole);
  const std::string placed =
      OnTerminal(folder_, "place graph.pb --fetch y --fetch z --explain --devices tpu_sim:2", 80).out;
  EXPECT_LE(WidestLine(placed), 80u) << placed;
  ExpectHas(Works("devices --devices tpu_sim:12").out,
            "/job:localhost/replica:0/task:0/device:TPU:11 ");  // no terminal: as it is
}

TEST_F(Contract, CtrlCEndsTheRepeatingWithTheTimesSoFar) {
  const Outcome outcome = OnTerminal(folder_, "run counter.pb --init init --target add --repeat 30000000", 80, "step ");
  EXPECT_EQ(outcome.code, 1) << outcome.out;
  EXPECT_TRUE(std::regex_search(outcome.out, std::regex("step: min [0-9.]+ us, median [0-9.]+ us, [0-9]+ steps\n")))
      << outcome.out;
  EXPECT_TRUE(std::regex_search(outcome.out, std::regex("interrupted after step [0-9]+ of 30000000"))) << outcome.out;
}

TEST_F(Contract, InspectsAGraph) {
  const Json graph = Json::parse(Works("inspect graph.pb --json").out);
  EXPECT_EQ("x", graph["inputs"][0]["name"]);
  EXPECT_EQ(3u, graph["outputs"].size());
  EXPECT_EQ(1, graph["ops"]["Relu"]);
  EXPECT_EQ(10, graph["parameters"]["constants"]);
  EXPECT_TRUE(graph["unknown_ops"].empty());
}

// A SavedModel that TensorFlow wrote; its x is float32[?, 3], its y float32[?, 2].
const std::string kModel = TENON_TEST_SOURCE_DIR "/tests/golden/models/v1";

TEST_F(Contract, RunsASignatureByItsOwnNames) {
  const std::vector<float> values = {1, 2, -1, 0.5f, 0, 4};
  ASSERT_TRUE(data::WriteNpy(At("rows.npy"), *Tensor::From(std::span<const float>(values), {2, 3})).ok());
  ExpectHas(Works("run " + kModel + " --feed x=rows.npy").out, "y: float32[2,2]");
  Works("run " + kModel + " --signature serving_default --feed x=rows.npy --fetch y=named.npy --fetch y:0=graph.npy");
  EXPECT_EQ(*data::ReadFile(At("named.npy")), *data::ReadFile(At("graph.npy")));
  ExpectHas(Works("run " + kModel + " --signature asset").out, "assets/vocabulary.txt");
  EXPECT_EQ(Json::parse(Works("run " + kModel + " --signature asset --json").out)["signature"], "asset");
  ExpectHas(Fails("run " + kModel).err, "signature 'serving_default' wants 'x', float32[?,3]; give --feed x=FILE.npy");
  ExpectHas(
      Fails("run " + kModel + " --signature predict").err,
      "has no signature 'predict'; its signatures: asset (none) -> (path string[]); serving_default (x float32[?,3])");
  ExpectHas(Fails("run " + kModel + " --tags train").err, "it has: {serve}, {serve, tpu}");
  ExpectHas(Fails("run graph.pb --signature a --fetch y").err, "'graph.pb' is a GraphDef, which has none");
}

TEST_F(Contract, FeedsTheDefaultsOfASignature) {
  const std::string model = TENON_TEST_SOURCE_DIR "/tests/golden/models/defaults";
  const std::vector<float> values = {1, 2, 4}, line = {3, 0.5f};
  ASSERT_TRUE(data::WriteNpy(At("three.npy"), *Tensor::From(std::span<const float>(values), {3})).ok());
  ASSERT_TRUE(data::WriteNpy(At("line.npy"), *Tensor::From(std::span<const float>(line), {2})).ok());
  ExpectHas(Works("run " + model + " --feed x=three.npy").out, "[1.5, 4, 9]");
  ExpectHas(Works("run " + model + " --feed x=three.npy --feed line=line.npy").out, "[3.5, 6.5, 12.5]");
  ExpectHas(Works("inspect " + model).out, "in  line  float32[2]  (has a default)");
}

TEST_F(Contract, PlacesAndInspectsASavedModel) {
  ExpectHas(Works("place " + kModel).out, "MatMul");
  const Json model = Json::parse(Works("inspect " + kModel + " --json").out);
  EXPECT_EQ(model["form"], "SavedModel");
  EXPECT_EQ(model["tags"], Json({"serve"}));
  EXPECT_EQ(model["signatures"]["serving_default"]["inputs"][0]["name"], "x");
  EXPECT_EQ(model["signatures"]["serving_default"]["outputs"][0]["shape"], Json({-1, 2}));
  EXPECT_EQ(model["assets"], Json({"vocabulary.txt"}));
  EXPECT_EQ(model["memory"]["variables"], (3 * 2 + 2 + 1) * 4);
  EXPECT_EQ(model["memory"]["variables_in_graph"], (3 * 2 + 2 + 1) * 4 + 16)
      << "and the cell of a string, for the other signature";
  EXPECT_GT(model["memory"]["step_peak"], 0);
  ExpectHas(Works("inspect " + kModel).out, "in  x  float32[?,3]");
}

TEST_F(Contract, RunsTextGraphsAndWhatOfThemIsKnown) {
  ASSERT_TRUE(data::ReplaceFile(At("partly.pbtxt"), {R"(
    node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
    node { name: "odd" op: "Frobnicate" input: "x" }
    node { name: "after" op: "Relu" input: "odd" attr { key: "T" value { type: DT_FLOAT } } }
    node { name: "y" op: "Relu" input: "x" attr { key: "T" value { type: DT_FLOAT } } })"}).ok());
  ExpectHas(Works("run partly.pbtxt --feed x=x.npy --fetch y").out, "y: float32[2,2]");
  ExpectHas(Fails("run partly.pbtxt --feed x=x.npy --fetch after").err,
            "node 'odd': no loaded plugin has the op 'Frobnicate'");
  const Outcome all = Tenon("ops --coverage partly.pbtxt");
  EXPECT_EQ(all.code, 1);
  ExpectHas(all.out, "node 'odd'");
  ExpectHas(all.err, "1 of 3 ops are missing");
  ExpectHas(Works("ops --coverage partly.pbtxt --fetch y").out, "tenon.ops.nn");
  EXPECT_EQ(Json::parse(Works("ops --coverage " + kModel + " --json").out)[0]["missing"], false);
}

TEST_F(Contract, NamesThePackageThatHasAMissingOpAndWhyItCannotBeOpened) {
  ASSERT_TRUE(data::MakeFolder(At("far")).ok());
  // One that says nothing of itself: what does, says of which package it is.
  const std::string library = *data::ReadFile(TENON_TEST_BUILD_DIR "/lib/libtenon.so");
  ASSERT_TRUE(data::ReplaceFile(At("far/tenon_far.so"), {library}).ok());
  ASSERT_TRUE(data::ReplaceFile(At("far/tenon_far.so.json"), {R"({"tenon_manifest": 1, "id": "far.ops", "version": "1",
    "abi": {"major": 0, "minor": 0, "layout_hash": "7"}, "provides": {"ops": ["Frobnicate"]}})"}).ok());
  ASSERT_TRUE(data::ReplaceFile(At("far.pbtxt"), {R"(node { name: "odd" op: "Frobnicate" })"}).ok());
  setenv("TENON_PLUGIN_PATH", At("far").c_str(), 1);
  const std::string run = Fails("run far.pbtxt --fetch odd").err;
  unsetenv("TENON_PLUGIN_PATH");
  ExpectHas(run, "node 'odd': op 'Frobnicate' is not loaded; package 'far.ops' has it: plugin '" +
                     At("far/tenon_far.so") + "'");
  ExpectHas(run, "build the plugin again");
}

// ---- Files that are none, or others ----

// A pipe that nobody writes, wherever a file is read. Where it was waited for, `timeout` would say 124 and nothing.
TEST_F(Contract, WaitsForNoPipe) {
  ASSERT_EQ(0, mkfifo(At("pipe").c_str(), 0600));
  ASSERT_EQ(0, mkfifo(At("pipe.npy").c_str(), 0600));
  ASSERT_EQ(0, mkfifo(At("pipe.npz").c_str(), 0600));
  for (const char* arguments :
       {"run pipe --fetch y", "inspect pipe", "place pipe", "ops --coverage pipe",
        "run graph.pb --feed x=pipe.npy --fetch y", "run graph.pb --feed x=pipe.npz --fetch y",
        "run graph.pb --feed pipe.npz --fetch y", "run graph.pb --feed x=x.npy --fetch y --placement pipe",
        "run graph.pb --feed x=x.npy --fetch y --credentials pipe",
        "run graph.pb --feed x=x.npy --fetch y --costs pipe", "worker --cluster pipe --job a --task 0"}) {
    const Outcome outcome = Fails(arguments, "timeout 60");
    EXPECT_NE(outcome.code, 124) << arguments;
    EXPECT_NE(outcome.err.find("'pipe"), std::string::npos) << arguments << ": " << outcome.err;
  }
  ExpectHas(Fails("run pipe --fetch y").err, "it is a pipe, which is not read; give an ordinary file");
  ExpectHas(Fails("run graph.pb --feed x=x.npy --fetch y=pipe", "timeout 60").err,
            "'pipe': it is a pipe or a socket, and nobody reads it");
}

TEST_F(Contract, SaysWhatAFileIsThatIsNone) {
  ExpectHas(Fails("run graph.pb --feed x=/dev/zero --fetch y").err, "'/dev/zero': it is a device");
  ExpectHas(Fails("run graph.pb --feed x=. --fetch y").err, "'.': it is a folder");
  ASSERT_TRUE(data::ReplaceFile(At("empty.npy"), {}).ok());
  ExpectHas(Fails("run graph.pb --feed x=empty.npy --fetch y").err, "'empty.npy': not a usable .npy file: it is empty");
  const std::string array = *data::ReadFile(At("x.npy"));
  ASSERT_TRUE(data::ReplaceFile(At("short.npy"), {array.substr(0, array.size() - 1)}).ok());
  ExpectHas(Fails("run graph.pb --feed x=short.npy --fetch y").err, "needs 16 bytes, the file has 15");
  Works("run graph.pb --feed x=x.npy --fetch y=whole.npz");
  ASSERT_TRUE(data::ReplaceFile(At("archive.npy"), {*data::ReadFile(At("whole.npz"))}).ok());
  ExpectHas(Fails("run graph.pb --feed x=archive.npy --fetch y").err, "it is a ZIP archive, as .npz files are");
  ASSERT_TRUE(data::ReplaceFile(At("array.npz"), {array}).ok());
  ExpectHas(Fails("run graph.pb --feed x=array.npz --fetch y").err, "it is one array, as .npy files are");
  EXPECT_NE(0, Tenon("run graph.pb --feed x=x.npy --fetch y=/dev/full").code);
}

TEST_F(Contract, SaysWhatIsNoGraph) {
  const auto says = [&](const std::string& name, std::string_view bytes, const std::string& kind) {
    ASSERT_TRUE(data::ReplaceFile(At(name), {bytes}).ok());
    for (const char* command : {"inspect ", "place ", "run "})
      ExpectHas(Fails(command + name).err, "'" + name + "': it is " + kind);
  };
  says("empty.pb", "", "empty");
  says("m.onnx",
       std::string_view("\x08\x08\x12\x07pytorch\x1a\x03"
                        "2.1\x3a\x02\x12\x00\x42\x02\x10\x0f",
                        24),
       "an ONNX model");
  says("model.keras", "PK\x03\x04 and more", "a ZIP archive");
  says("model.h5", "\x89HDF\r\n\x1a\n and more", "an HDF5 file");
  says("m.tflite", std::string_view("\x1c\0\0\0TFL3 and more", 16), "a TensorFlow Lite model");
  says("array.pb", *data::ReadFile(At("x.npy")), "a NumPy array");
  const std::string index = *data::ReadFile(kModel + "/variables/variables.index");
  says("not_an.idx", index, "part of a checkpoint");
  ASSERT_TRUE(data::ReplaceFile(At("ckpt.index"), {index}).ok());
  ExpectHas(Fails("run ckpt").err, "'ckpt': it is the prefix of a checkpoint");
  ExpectHas(Fails("run ckpt.data-00000-of-00001").err, "it is part of a checkpoint");
  ASSERT_TRUE(data::MakeFolder(At("nothing")).ok());
  ExpectHas(Fails("inspect nothing").err, "'nothing' is a folder without saved_model.pb");
}

TEST_F(Contract, InspectsACheckpoint) {
  const std::string prefix = kModel + "/variables/variables";
  const Json whole = Json::parse(Works("inspect " + prefix + " --json").out);
  EXPECT_EQ(whole["form"], "checkpoint");
  const auto find = [&](const std::string& name) {
    for (const Json& tensor : whole["tensors"])
      if (tensor["name"] == name) return tensor;
    return Json();
  };
  EXPECT_EQ(find("w")["shape"], Json({3, 2}));
  EXPECT_EQ(find("w")["dtype"], "float32");
  EXPECT_EQ(find("w")["bytes"], 24);
  EXPECT_EQ(Works("inspect " + prefix).out, Works("inspect " + prefix + ".index").out);
  ExpectHas(Works("inspect " + prefix + " --values w").out, "w: float32[3,2]\n[[");
  EXPECT_EQ(Works("inspect " + kModel + " --values w").out, Works("inspect " + prefix + " --values w").out);
  ExpectHas(Fails("inspect " + prefix + " --values ww").err, "has no tensor 'ww'; did you mean 'w'?");
  ExpectHas(Fails("inspect graph.pb --values w").err, "'graph.pb' has no checkpoint beside it");
  ExpectHas(Fails("inspect " + prefix + " --signature x").err,
            "--signature: it chooses a part of a model, and '" + prefix + "' is a checkpoint");
}

TEST_F(Contract, ListsTheCheckpointsOfAFolder) {
  Works("train digits --steps 4 --checkpoint-steps 2 --folder digits");
  const Json json = Json::parse(Works("inspect digits/checkpoints --json").out);
  EXPECT_EQ(json["form"], "checkpoint folder");
  ASSERT_EQ(json["checkpoints"].size(), 2u);
  const std::string newest = json["checkpoints"][1]["prefix"];
  EXPECT_TRUE(newest.starts_with("digits/checkpoints/")) << newest;
  EXPECT_GT(json["checkpoints"][1]["tensors"], 8);
  const std::string text = Works("inspect digits/checkpoints").out;
  ExpectHas(text, "digits/checkpoints: a folder of 2 checkpoints, the newest last");
  EXPECT_EQ(text, Works("inspect digits/checkpoints/checkpoint").out);
  ExpectHas(Works("inspect " + newest).out, "global_step");
  std::filesystem::remove(At(newest + ".index"));
  ExpectHas(Works("inspect digits/checkpoints").out, ".index");
  ExpectHas(Fails("inspect digits/checkpoints --values global_step").err,
            "is a folder of checkpoints; name one of them");
  ExpectHas(Fails("inspect digits/checkpoints --tags serve").err, "--tags: it chooses a part of a model");
  for (const char* time : {"1e300", "-1e300", "nan", "inf", "1e12"}) {
    const std::string state =
        "model_checkpoint_path: \"x\"\nall_model_checkpoint_paths: \"x\"\nall_model_checkpoint_timestamps: ";
    ASSERT_TRUE(data::ReplaceFile(At("digits/checkpoints/checkpoint"), {state + time + "\n"}).ok());
    EXPECT_LT(Tenon("inspect digits/checkpoints --json").code, 2) << time;
  }
  ASSERT_TRUE(data::ReplaceFile(At("digits/checkpoints/checkpoint"), {"model_checkpoint_path: \"x"}).ok());
  ExpectHas(Fails("inspect digits/checkpoints").err, "'digits/checkpoints/checkpoint'");
}

// Keras writes each variable once for every function that it exports.
TEST_F(Contract, CountsTheParametersThatASignatureReaches) {
  const std::string model = TENON_TEST_SOURCE_DIR "/tests/golden/models/keras_dense";
  const Json json = Json::parse(Works("inspect " + model + " --json").out);
  EXPECT_EQ(json["parameters"]["variables"], 26);
  EXPECT_EQ(json["parameters"]["variables_in_graph"], 78);
  ExpectHas(Works("inspect " + model).out,
            "parameters: 26 in variables, 0 in constants; the whole graph has 78 in variables");
  const Json narrow = Json::parse(Works("inspect " + model + " --signature serve --json").out);
  EXPECT_EQ(narrow["parameters"]["variables"], 26);
  EXPECT_EQ(narrow["ops"]["VarHandleOp"], 4);
  EXPECT_GT(json["ops"]["VarHandleOp"], narrow["ops"]["VarHandleOp"]);
}

// What is wrong with the session is told without the graph.
TEST_F(Contract, NamesTheFlagAndNotTheGraph) {
  const std::string run = "run graph.pb --feed x=x.npy --fetch y ";
  for (const auto& [flags, says] : std::initializer_list<std::pair<std::string, std::string>>{
           {"--placement none.txt", "tenon run: NOT_FOUND: --placement: cannot read 'none.txt'"},
           {"--credentials none.json", "tenon run: NOT_FOUND: --credentials: cannot read 'none.json'"},
           {"--device TPU:7", "tenon run: NOT_FOUND: there is no device 'TPU:7'; there are: "},
           {"--master nowhere://x",
            "tenon run: NOT_FOUND: the cluster of nowhere://x: no plugin brings the transport 'nowhere'"},
           {"--trace /proc/none/t.json", "tenon run: NOT_FOUND: --trace: "},
           {"--tags serve", "tenon run: --tags: they choose a graph of a SavedModel, and 'graph.pb' is a GraphDef"}})
    ExpectHas(Fails(run + flags).err, says);
}

TEST_F(Contract, ChecksFeedsAtTheDoor) {
  ExpectHas(Fails("run various.pb --feed dims=x.npy --fetch filled").err,
            "feed 'dims' (Placeholder) is int32[1], 'x.npy' is float32[2,2]");
  ExpectHas(Fails("run various.pb --feed text=x.npy --fetch same_text").err,
            "feed 'text' (Placeholder) is string[?], 'x.npy' is float32[2,2]");
  const Outcome unknown = Fails("run graph.pb --feed xs=x.npy --fetch y");
  EXPECT_EQ(unknown.code, 2);
  ExpectHas(unknown.err,
            "--feed: 'xs': graph 'graph.pb' has no such node; did you mean 'x'? its placeholders: x float32");
  ExpectHas(Fails("run graph.pb --feed x=x.npy --fetch yy").err,
            "--fetch: 'yy': graph 'graph.pb' has no such node; did you mean 'y'?");
  ExpectHas(Fails("run graph.pb --feed x=x.npy --target yy").err,
            "--target: 'yy': graph 'graph.pb' has no such node; did you mean 'y'?");
  ExpectHas(Fails("run counter.pb --init inti --fetch value").err,
            "--init: 'inti': graph 'counter.pb' has no such node; did you mean 'init'?");
  ExpectHas(Fails("place graph.pb --fetch yy").err, "did you mean 'y'?");
  ExpectHas(Fails("run " + kModel + " --feed X=x.npy").err,
            "neither signature 'serving_default' nor graph '" + kModel + "' has it; its inputs: x float32[?,3]");
  ExpectHas(Fails("run " + kModel + " --signature asst").err,
            "has no signature 'asst'; did you mean 'asset'? its signatures: asset (none) -> (path string[])");
}

// Two signatures of which neither is the usual one, in a SavedModel without its variables.
TEST_F(Contract, ListsTheSignaturesWhereNoneIsChosen) {
  ASSERT_TRUE(data::MakeFolder(At("two")).ok());
  ASSERT_TRUE(data::ReplaceFile(At("two/saved_model.pbtxt"), {R"(
    saved_model_schema_version: 1
    meta_graphs {
      meta_info_def { tags: "serve" }
      graph_def {
        node { name: "a" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
        node { name: "v" op: "VarHandleOp" attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "shape" value { shape {} } } }
        node { name: "r" op: "ReadVariableOp" input: "v" attr { key: "dtype" value { type: DT_FLOAT } } }
        node { name: "twice" op: "AddV2" input: "a" input: "a" attr { key: "T" value { type: DT_FLOAT } } }
        node { name: "names" op: "Placeholder" attr { key: "dtype" value { type: DT_STRING } } }
        node { name: "restore" op: "NoOp" }
      }
      saver_def { filename_tensor_name: "names:0" save_tensor_name: "names:0" restore_op_name: "restore" }
      signature_def { key: "double" value { inputs { key: "x" value { name: "a:0" dtype: DT_FLOAT tensor_shape { dim { size: -1 } } } }
                                            outputs { key: "y" value { name: "twice:0" dtype: DT_FLOAT tensor_shape { dim { size: -1 } } } } } }
      signature_def { key: "weight" value { outputs { key: "w" value { name: "r:0" dtype: DT_FLOAT tensor_shape {} } } } }
    })"})
                  .ok());
  const std::string all =
      "choose one of its signatures with --signature NAME: double (x float32[?]) -> (y float32[?]); weight (none) -> "
      "(w float32[])";
  for (const char* line : {"run two", "run two --feed x=x.npy", "run two --feed a=x.npy --fetch y"}) {
    const Outcome outcome = Fails(line);
    EXPECT_EQ(outcome.code, 2) << line;
    ExpectHas(outcome.err, all);
  }
  ExpectHas(Fails("run two --signature double --feed x=x.npy").err,
            "input 'x' of signature 'double' is float32[?], 'x.npy' is float32[2,2]");
  const std::string gone = Fails("run two --signature weight").err;
  ExpectHas(gone,
            "the values of the model's variables are gone: there is no 'two/variables/variables.index'; copy the whole "
            "folder again");
  EXPECT_EQ(Json::parse(Works("inspect two --json").out)["parameters"]["variables"], 1);
  EXPECT_EQ(Json::parse(Works("inspect two --signature double --json").out)["parameters"]["variables"], 0);
}

// Names of a stranger's graph: an escape sequence, and what would be a line of its own.
TEST_F(Contract, ShowsNoNameToATerminalAsItIs) {
  ASSERT_TRUE(data::ReplaceFile(At("sly.pbtxt"), {R"(node { name: "a\033[31m" op: "No\nOp\377" })"}).ok());
  const Outcome shown = Works("inspect sly.pbtxt"), placed = Tenon("place sly.pbtxt"),
                missing = Tenon("ops --coverage sly.pbtxt");
  for (const Outcome* outcome : {&shown, &placed, &missing}) {
    for (const std::string& text : {outcome->out, outcome->err})
      EXPECT_EQ(text.find('\x1b'), std::string::npos) << text;
  }
  ExpectHas(shown.out, "No\\x0aOp\\xff");
}

TEST_F(Contract, FindsNothingAndSaysSoOnOtherFileSystems) {
  ExpectHas(Fails("run memory://g.pb --fetch y").err, "cannot read 'memory://g.pb': there is no such file");
  ExpectHas(Fails("inspect memory://g.pb").err, "there is no such file");
  ExpectHas(Fails("run graph.pb --feed x=memory://x.npy --fetch y").err,
            "cannot read 'memory://x.npy': there is no such file");
  ExpectHas(Fails("run pigeon://g.pb --fetch y").err, "no plugin brings the file system 'pigeon'");
}

TEST_F(Contract, ReadsNoFileBeyondTheMemoryLimit) {
  const std::vector<float> zeros(1 << 20);
  ASSERT_TRUE(data::WriteNpy(At("large.npy"), *Tensor::From(std::span<const float>(zeros), {1 << 20})).ok());
  const std::string large = Fails("run graph.pb --feed x=large.npy --fetch y --memory-limit 1M").err;
  ExpectHas(large, "RESOURCE_EXHAUSTED");
  ExpectHas(large, "'large.npy' takes 4194432 bytes of memory, and 1048576 are left of the limit");
  ExpectHas(Fails("run graph.pb --feed x=x.npy --fetch y --memory-limit 100").err, "'graph.pb' takes ");
  ExpectHas(Fails("place graph.pb --memory-limit 100").err, "'graph.pb' takes ");
}

TEST_F(Contract, NamesTheFileThatDoesNotFitASignature) {
  ExpectHas(Fails("run " + kModel + " --feed x=x.npy").err,
            "input 'x' of signature 'serving_default' is float32[?,3], 'x.npy' is float32[2,2]");
  ExpectHas(Fails("run " + kModel + " --feed x=text.npy").err, "is float32[?,3], 'text.npy' is string[2]");
}

TEST_F(Contract, AFileThatMayNotGrowIsAnError) {
  const int32_t count = 1 << 20;
  ASSERT_TRUE(data::WriteNpy(At("million.npy"), *Tensor::From(std::span<const int32_t>(&count, 1), {1})).ok());
  const Outcome outcome =
      Fails("run various.pb --feed dims=million.npy --fetch filled=million_ones.npy", "ulimit -f 8;");
  ExpectHas(outcome.err, "RESOURCE_EXHAUSTED");
  ExpectHas(outcome.err, "million_ones.npy");
  EXPECT_FALSE(data::FileExists(At("million_ones.npy")));
}

TEST_F(Contract, TrainsInNoFolderThatAnotherProcessHas) {
  const std::string folder = At("busy/checkpoints");
  ASSERT_TRUE(data::MakeFolder(folder).ok());
  const auto lock = train::FolderLock::Take(folder);
  ASSERT_TRUE(lock.ok()) << lock.status();
  const std::string begun = folder + "/model.ckpt-5.data-00000-of-00001.tmp";
  ASSERT_TRUE(data::ReplaceFile(begun, {"begun"}).ok());
  for (const char* how : {"", " --restart"}) {
    const Outcome outcome = Tenon(std::string("train digits --folder busy --steps 2") + how);
    EXPECT_EQ(outcome.code, 1);
    ExpectHas(outcome.err, "the folder 'busy/checkpoints' is in use: process " + std::to_string(getpid()));
    EXPECT_TRUE(data::FileExists(begun)) << "it is the other's";
  }
}

TEST_F(Contract, StopsWritingWhenTheReaderIsFull) {
  EXPECT_NE(0, std::system(("'" TENON_TEST_BUILD_DIR "/bin/tenon' ops >/dev/full 2>/dev/null")));
}

// ---- TensorFlow 1's input queues (tests/golden/make_input_queues.py) ----

TEST_F(Contract, RunsTheQueueRunnersOfAMetaGraphBesideTheSteps) {
  const std::string graph = TENON_TEST_SOURCE_DIR "/tests/golden/input_queues.meta";
  ASSERT_TRUE(data::ReplaceFile(At("a.txt"), {"1\n2\n3\n"}).ok());
  ASSERT_TRUE(data::ReplaceFile(At("b.txt"), {"4\n"}).ok());
  const std::string run = "run " + graph + " --init init --fetch out:0=batch.npy --deadline 20s ";
  Works(run + "--queue-runners --repeat 4");
  Result<Tensor> batch = data::ReadNpy(At("batch.npy"));
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ("6 8", std::to_string(static_cast<int>(batch->data<float>()[0])) + " " +
                       std::to_string(static_cast<int>(batch->data<float>()[1])));
  ExpectHas(Fails(run + "--queue-runners --repeat 5").err, "is closed");
  ASSERT_TRUE(data::ReplaceFile(At("b.txt"), {"no number\n"}).ok());
  const std::string wrong = Fails(run + "--queue-runners --repeat 4").err;
  ExpectHas(wrong, "queue runner of 'batch/fifo_queue'");
  ExpectHas(wrong, "no number");
  ExpectHas(Fails("run graph.pb --feed x=x.npy --fetch y --queue-runners").err, "names no queue runners");
}

// What a stranger's model calls closing a queue may be anything.
TEST_F(Contract, ARunnersNodesThatTouchFilesAreRefusedWhicheverTheyAre) {
  const Result<Runtime> runtime = Runtime::Create();
  ASSERT_TRUE(runtime.ok()) << runtime.status();
  Graph graph(*runtime);
  graph.Op("Identity", {graph.Const(1.0f)}, {}, "y");
  graph.AddNode("NoOp", {}, {}, "harmless");
  graph.AddNode("WriteFile", {graph.StringConst(At("written.txt")), graph.StringConst("text")}, {}, "harmful");
  const Result<std::string> graph_def = graph.Export();
  ASSERT_TRUE(graph_def.ok()) << graph_def.status();
  for (const uint32_t field : {2u, 3u, 4u}) {  // of QueueRunnerDef: enqueue_op_name, close_op_name, cancel_op_name
    sdk::WireWriter runner, list, collection, entry, info, meta, model;
    for (const uint32_t each : {2u, 3u, 4u}) runner.Bytes(each, each == field ? "harmful" : "harmless");
    list.Bytes(1, runner.bytes());
    collection.Bytes(2, list.bytes());
    entry.Bytes(1, "queue_runners");
    entry.Bytes(2, collection.bytes());
    info.Bytes(4, "serve");
    meta.Bytes(1, info.bytes());
    meta.Bytes(2, *graph_def);
    meta.Bytes(4, entry.bytes());
    model.Bytes(2, meta.bytes());
    const std::string folder = At("runner_" + std::to_string(field));
    ASSERT_TRUE(data::MakeFolder(folder).ok());
    ASSERT_TRUE(data::ReplaceFile(folder + "/saved_model.pb", {model.bytes()}).ok());
    ExpectHas(Fails("run " + folder + " --fetch y --queue-runners").err, "harmful");
    EXPECT_FALSE(data::FileExists(At("written.txt"))) << "field " << field;
  }
}

}  // namespace
}  // namespace tenon::cli::contract_test
