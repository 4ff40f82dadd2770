// SPDX-License-Identifier: Apache-2.0
// Command lines that are wrong: what was typed, the exit code, and what it says now.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sdk/app/cli/program.h"
#include "tests/fakes/temporary_folder.h"

namespace tenon::cli::wrong_lines_test {
namespace {

using Json = nlohmann::json;

struct Line {
  const char* typed;
  int code;
  const char* says;
};

class WrongLines : public testing::Test {
 protected:
  static void SetUpTestSuite() { folder_ = fakes::TemporaryFolder("wrong_lines"); }

  // Nothing on stdout, one line on stderr.
  static std::string Says(const Line& line) {
    const Outcome outcome = RunTenon(folder_, line.typed);
    EXPECT_EQ(outcome.code, line.code) << line.typed << "\n" << outcome.err;
    EXPECT_EQ(outcome.out, "") << line.typed;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    return outcome.err;
  }
  static void Check(const Line& line) {
    const std::string err = Says(line);
    EXPECT_NE(err.find(line.says), std::string::npos) << line.typed << "\nsays: " << err << "and not: " << line.says;
  }

  static inline std::string folder_;
};

TEST_F(WrongLines, Commands) {
  for (const Line& line : std::initializer_list<Line>{
           {"", 2, "tenon: a command is missing; there are: run, train, inspect"},
           {"rnu", 2, "tenon: no command 'rnu'; did you mean 'run'? `tenon --help` shows what it takes"},
           {"inspct g.pb", 2, "no command 'inspct'; did you mean 'inspect'?"},
           {"serve", 2, "no command 'serve'; there are: run, train,"},
           {"''", 2, "no command ''; there are: "},
           {"train", 2, "tenon train: a command is missing; there are: digits, images"},
           {"train mnist", 2, "tenon train: no command 'mnist'; there are: digits"},
           {"train digit", 2, "did you mean 'digits'?"},
           {"cluster down", 2, "tenon cluster: no command 'down'; there are: up"},
           {"help environmen", 2, "there is no help on 'environmen'; did you mean 'environment'?"},
           {"help rnu", 2, "did you mean 'run'?"},
           {"help train digit", 2, "there is no help on 'digit'"},
           {"help $(printf '\\033[31mred')", 2, "there is no help on '\\x1b[31mred'"},
           {"$(head -c 100000 /dev/zero | tr '\\0' x)", 2, "xxx...' (100000 bytes)"},
       })
    Check(line);
}

TEST_F(WrongLines, Flags) {
  for (const Line& line : std::initializer_list<Line>{
           {"--jsno", 2, "tenon: no flag '--jsno'"},
           {"run g --fetsch y", 2, "tenon run: no flag '--fetsch'; did you mean '--fetch'?"},
           {"run --fetsch=y", 2, "tenon run: no flag '--fetsch'; did you mean '--fetch'?"},
           {"run g --fetch y --tim", 2, "no flag '--tim'; did you mean '--time'?"},
           {"run g h", 2, "'h' is one word too many"},
           {"run", 2, "GRAPH is required"},
           {"run g --feed", 2, "--feed: 1 required NAME=FILE missing"},
           {"run g --repeat 0", 2, "--repeat"},
           {"run g --threads x", 2, "--threads = x"},
           {"run g --precision fp16", 2,
            "--precision: there are strict, tf32, bfloat16, float16 and int8, found 'fp16'"},
           {"run g --log verbose", 2, "--log: 'verbose': there are debug, info, warning and error"},
           {"run g --deadline soon", 2, "--deadline: 'soon' is no time"},
           {"run g --memory-limit banana", 2, "--memory-limit: 'banana' is no size"},
           {"run g --devices tpu_sim", 2, "--devices: 'tpu_sim' is not of the form NAME:COUNT"},
           {"run g --devices ''", 2, "--devices: '' is not of the form NAME:COUNT"},
           {"run g --devices tpu_sim:two", 2, "--devices: 'tpu_sim:two' is not of the form NAME:COUNT"},
           {"devices --devices nowhere:1", 2,
            "--devices nowhere:1: option 'tenon.nowhere.devices': there is no package 'tenon.nowhere'"},
           {"run '' --fetch y", 2, "GRAPH: the name of the file is empty"},
           {"ops MatMull", 2, "NAME: no loaded plugin has the op 'MatMull'; did you mean 'MatMul'?"},
           {"ops --generate-cpp o.h --from tenon.ops.mth", 2, "--from: no op is loaded from 'tenon.ops.mth'"},
           {"train digits --optimizer adm", 2, "--optimizer: there is no optimizer 'adm'"},
           {"train digits --recover banana", 2, "--recover: 'banana' is no time"},
           {"train digits --mode sync", 2,
            "--mode sync: it shares variables on a cluster; give --cluster FILE or --master ADDRESS"},
           {"train digits --mode async --master grpc://[::1]:1 --backups 2", 2,
            "--backups: it means something with --mode sync alone"},
           {"worker", 2, "--cluster: which cluster? Give --cluster FILE, or set TF_CONFIG"},
           {"worker --cluster $(echo '{\"worker\": [\"loopback://wrong_lines\"]}' >c.json; echo c.json) --job worker "
            "--task 0 --metrics nonsense",
            2, "--metrics: 'nonsense': it must be HOST:PORT, such as 127.0.0.1:9100"},
           {"worker --cluster c.json --job worker --task 0 --metrics 1.2.3.4:9100", 2,
            "--metrics: '1.2.3.4:9100': other hosts could read the metrics"},
           {"worker --memory-limit banana", 2, "--memory-limit: 'banana' is no size"},
           {"worker --max-message banana", 2, "--max-message: 'banana' is no size"},
           {"worker --patience soon", 2, "--patience: 'soon' is no time"},
           {"cluster up --workers 0", 2, "--workers: a cluster has at least one task"},
           {"run g --option foo", 2, "--option: 'foo' is not of the form PLUGIN.KEY=VALUE"},
           {"run g --option ''", 2, "--option: '' is not of the form"},
       })
    Check(line);
}

// The plugin is not left out in silence, whatever the command.
TEST_F(WrongLines, OptionsOfPlugins) {
  for (const char* command : {"plugins", "devices", "ops", "run g", "place g", "inspect g"})
    Check({(std::string(command) + " --option tenon.cpu.device=1").c_str(), 2,
           "it has no option 'device'; known options: devices; did you mean 'devices'?"});
  Check({"plugins --option tenon.cpi.devices=1", 2,
         "there is no package 'tenon.cpi'; did you mean 'tenon.cpu'? (found: "});
  Check({"plugins --option tenon.cpu.devices=some", 2, "option 'devices' is 'some', not a whole number"});
  Check({"plugins --option tenon.fles=.", 2, "the engine's own options are: files"});
}

TEST_F(WrongLines, AsJson) {
  const Json error = Json::parse(Says({"run --json g --fetsch y", 2, ""}))["error"];
  EXPECT_EQ(error["command"], "tenon run");
  EXPECT_EQ(error["code"], "INVALID_ARGUMENT");
  EXPECT_EQ(error["exit_code"], 2);
  EXPECT_NE(error["message"].get<std::string>().find("'--fetsch'"), std::string::npos);
  EXPECT_EQ(Json::parse(Says({"inspect nowhere.pb --json", 1, ""}))["error"]["exit_code"], 1);
  EXPECT_TRUE(Says({"run g -- --json", 2, ""}).starts_with("tenon run: ")) << "it is a word there, and no flag";
  EXPECT_TRUE(Json::accept(Says({"run --json $(printf '\\377\\033')", 1, ""}))) << "what is no UTF-8 is replaced";
}

TEST_F(WrongLines, HelpAndVersions) {
  const Outcome version = RunTenon(folder_, "-V");
  EXPECT_EQ(version.code, 0);
  for (const char* part : {"tenon ", "\nworkers: protocol ", "\nplugins: ABI "})
    EXPECT_NE(version.out.find(part), std::string::npos) << version.out;
  EXPECT_EQ(RunTenon(folder_, "--version").out, version.out);
  for (const char* topic :
       {"", "commands", "environment", "exit-codes", "plugins", "files", "json", "run", "train digits"}) {
    const Outcome help = RunTenon(folder_, std::string("help ") + topic);
    EXPECT_EQ(help.code, 0) << topic << help.err;
    EXPECT_GT(help.out.size(), 200u) << topic;
  }
  EXPECT_NE(RunTenon(folder_, "help train digits").out.find("Usage: tenon train digits"), std::string::npos);
  EXPECT_EQ(RunTenon(folder_, "help run").out, RunTenon(folder_, "run --help").out);
}

}  // namespace
}  // namespace tenon::cli::wrong_lines_test
