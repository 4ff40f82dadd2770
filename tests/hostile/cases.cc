// SPDX-License-Identifier: Apache-2.0
#include "tests/hostile/cases.h"

#include <chrono>
#include <fstream>
#include <utility>

#include "tenon/model/text_format.h"
#include "tests/golden/case_graph.h"
#include "tests/golden/compare.h"

namespace tenon::hostile {

using golden::Json;
using host::Feed;
using host::Name;
using host::Output;
using host::Result;
using host::Runtime;
using host::Session;
using host::SessionOptions;
using host::Status;
using host::Tensor;

namespace {

constexpr uint64_t kMemoryLimit = 256 << 20;
constexpr std::chrono::seconds kDeadline{10};

SessionOptions OptionsFor(bool dynamic) {
  SessionOptions options;
  options.memory_limit = kMemoryLimit;
  if (dynamic) options.executor = TENON_EXECUTOR_DYNAMIC;
  return options;
}
// A case that shall never end says how long it is waited for.
host::RunOptions PatienceOf(const Json& one) {
  host::RunOptions run;
  run.timeout = one.contains("deadline_ms") ? std::chrono::milliseconds(one["deadline_ms"].get<int>())
                                            : std::chrono::milliseconds(kDeadline);
  return run;
}

Result<std::vector<Tensor>> RunOp(const Runtime& runtime, const Json& one, golden::InputsAs how, bool dynamic) {
  TENON_TRY_ASSIGN(const golden::CaseGraph made, golden::MakeCaseGraph(runtime, one, how));
  TENON_TRY_ASSIGN(const Session session, Session::Create(runtime, made.graph, OptionsFor(dynamic)));
  if (!made.initializers.empty()) TENON_TRY(session.RunTargets(made.initializers));
  std::vector<Name> fetches, targets;
  for (const Output& output : made.node.outputs())
    if (output.dtype() != host::DType::kResource) fetches.emplace_back(output);
  if (fetches.empty()) targets.emplace_back(made.node);
  return session.Run(made.feeds, fetches, targets, PatienceOf(one));
}

Result<std::vector<Tensor>> RunText(const Runtime& runtime, const Json& one, bool dynamic) {
  std::string text;
  for (const Json& line : one["graph_text"]) text += line.get<std::string>() + "\n";
  TENON_TRY_ASSIGN(const model::WireMessage graph, model::TextToWire(text, "GraphDef"));
  TENON_TRY_ASSIGN(Session session, Session::Create(runtime, OptionsFor(dynamic)));
  TENON_TRY(session.Extend(graph.bytes));
  std::vector<Feed> feeds;
  const Json nothing = Json::object();
  for (const auto& [name, value] : (one.contains("feeds") ? one["feeds"] : nothing).items()) {
    TENON_TRY_ASSIGN(Tensor tensor, golden::TensorFrom(value));
    feeds.push_back({name, std::move(tensor)});
  }
  return session.Run(feeds, {one["fetch"].get<std::string>()}, {}, PatienceOf(one));
}

Answer AnswerOf(std::string way, Result<std::vector<Tensor>> result) {
  Status status = result.status();
  std::vector<Tensor> values;
  if (result.ok()) values = *std::move(result);
  return {std::move(way), std::move(status), std::move(values)};
}

}  // namespace

std::vector<Answer> AnswersOf(const Runtime& runtime, const Json& one) {
  static constexpr std::pair<golden::InputsAs, const char*> ways[] = {
      {golden::InputsAs::kConstants, "constants"},
      {golden::InputsAs::kFeeds, "feeds"},
      {golden::InputsAs::kBlindFeeds, "feeds of unknown shape"}};
  std::vector<Answer> answers;
  for (const bool dynamic : {false, true}) {
    const std::string executor = dynamic ? ", dynamic executor" : "";
    if (one.contains("graph_text")) {
      answers.push_back(AnswerOf("graph" + executor, RunText(runtime, one, dynamic)));
      continue;
    }
    for (const auto& [how, name] : ways)
      answers.push_back(AnswerOf(name + executor, RunOp(runtime, one, how, dynamic)));
  }
  return answers;
}

std::string JudgeOf(const Json& one, const Answer& answer) {
  if (one.contains("out")) {
    if (!answer.status.ok()) return "refused: " + answer.status.message();
    const auto want = golden::TensorsFrom(one["out"]);
    if (!want.ok()) return "the case is broken: " + want.status().message();
    if (want->size() != answer.values.size()) return std::to_string(answer.values.size()) + " values";
    for (size_t i = 0; i < want->size(); ++i)
      if (std::string difference = golden::Compare((*want)[i], answer.values[i], {}); !difference.empty())
        return "value " + std::to_string(i) + ": " + difference;
    return "";
  }
  if (answer.status.ok()) return "accepted";
  if (one["says"].empty()) return "the case does not say what is said: " + answer.status.message();
  for (const Json& piece : one["says"])
    if (answer.status.message().find(piece.get<std::string>()) == std::string::npos)
      return "says '" + answer.status.message() + "', and nothing of '" + piece.get<std::string>() + "'";
  return "";
}

std::string NameOf(const Json& one) {
  return one["kind"].get<std::string>() + ", " + one["op"].get<std::string>() +
         (one.contains("about") ? ": " + one["about"].get<std::string>() : "");
}

std::vector<Json> ReadCases(const std::string& path) {
  std::vector<Json> cases;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) cases.push_back(Json::parse(line));
  return cases;
}

}  // namespace tenon::hostile
