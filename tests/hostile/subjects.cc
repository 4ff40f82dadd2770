// SPDX-License-Identifier: Apache-2.0
#include "tests/hostile/subjects.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "core/graph/graphdef/graph.pb.h"
#include "tenon/model/model_file.h"
#include "tenon/train/digits.h"
#include "tests/golden/case_graph.h"

namespace tenon::hostile {

using golden::Json;
using host::DType;
using host::Feed;
using host::Graph;
using host::Output;
using host::Shape;
using host::Tensor;

namespace {

const std::string kTests = TENON_TEST_SOURCE_DIR "/tests";

// The subjects are the repository's own: one that cannot be read is a mistake of this program's build, and nothing goes
// on.
[[noreturn]] void Broken(const std::string& what, const host::Status& status) {
  throw std::runtime_error(what + ": " + status.message());
}
template <typename T>
T Need(host::Result<T> result, const std::string& what) {
  if (!result.ok()) Broken(what, result.status());
  return *std::move(result);
}

std::string ReadWhole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(path + ": cannot be read");
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> Texts(const Json& list) {
  std::vector<std::string> texts;
  for (const Json& one : list) texts.push_back(one.get<std::string>());
  return texts;
}
std::string NodeOf(const std::string& tensor) { return tensor.substr(0, tensor.find(':')); }

// A case that is a graph.
void ReadGraphCase(const Json& one, Subject* subject) {
  subject->bytes = golden::FromBase64(one["graph"].get<std::string>());
  for (const Json& run : one["runs"]) {
    Ask& ask = subject->asks.emplace_back();
    for (const auto& [name, value] : run["feeds"].items())
      ask.feeds.push_back({name, value == "folder" ? *host::Tensor::String("memory://mutated")
                                                   : Need(golden::TensorFrom(value), subject->name)});
    ask.fetches = Texts(run["fetch"]);
    ask.targets = Texts(run["targets"]);
  }
  if (!one.contains("gradients")) return;
  for (const Json& y : one["gradients"]["ys"]) subject->ys.push_back(NodeOf(y.get<std::string>()));
  for (const Json& x : one["gradients"]["xs"]) subject->xs.push_back(NodeOf(x.get<std::string>()));
}

// A case of one op, with its inputs as constants, feeds or feeds of unknown shape.
void MakeOpCase(const host::Runtime& runtime, const Json& one, Dice& dice, Subject* subject) {
  static constexpr golden::InputsAs ways[] = {golden::InputsAs::kWritten, golden::InputsAs::kConstants,
                                              golden::InputsAs::kFeeds, golden::InputsAs::kBlindFeeds};
  golden::CaseGraph made = Need(golden::MakeCaseGraph(runtime, one, dice.AnyOf(ways)), subject->name);
  const auto exported = made.graph.Export();
  if (!exported.ok()) {  // a case that is refused as it is built: what was built before it will do
    subject->bytes.clear();
    return;
  }
  subject->bytes = *exported;
  if (!made.initializers.empty()) {
    Ask& ask = subject->asks.emplace_back();
    for (const host::Name& name : made.initializers) ask.targets.push_back(name.text());
  }
  Ask& ask = subject->asks.emplace_back();
  ask.feeds = made.feeds;
  for (const Output& output : made.node.outputs()) ask.fetches.push_back(output.name());
  if (ask.fetches.empty()) ask.targets.push_back("node");
  Ask& after = subject->asks.emplace_back();
  for (const Output& reader : made.readers) after.fetches.push_back(reader.name());
  if (after.fetches.empty()) subject->asks.pop_back();
  if (!one.contains("dx")) return;
  subject->ys = {"node"};
  for (const Json& input : one["asked"]) subject->xs.push_back("input" + std::to_string(input.get<size_t>()));
}

Tensor Doubles(const Json& values, const Shape& shape) {
  return Need(Tensor::From(values.get<std::vector<double>>(), shape), "a feed");
}

// Zeros of a signature's input; two where a size is unknown.
Tensor Zeros(DType dtype, const Shape& shape) {
  std::vector<int64_t> dims;
  if (shape.rank() > 0)
    for (const int64_t dim : shape.dims()) dims.push_back(dim < 0 ? 2 : dim);
  if (dtype == DType::kString)
    return Need(
        Tensor::Strings(std::vector<std::string>(static_cast<size_t>(Shape(dims).element_count()), "a"), Shape(dims)),
        "a feed");
  return Need(Tensor::Zeros(dtype, Shape(dims)), "a feed");
}

// Variables get small numbers: their checkpoints are files.
void AddInitializers(std::string* bytes, std::vector<std::string>* targets) {
  tensorflow::GraphDef graph;
  graph.ParsePartialFromString(*bytes);
  const int count = graph.node_size();
  for (int i = 0; i < count; ++i) {
    const tensorflow::NodeDef variable = graph.node(i);
    const bool is_reference = variable.op() == "VariableV2";
    if ((variable.op() != "VarHandleOp" && !is_reference) || !variable.attr().count("shape")) continue;
    tensorflow::NodeDef* value = graph.add_node();
    value->set_name("value_" + std::to_string(i));
    value->set_op("Const");
    (*value->mutable_attr())["dtype"] = variable.attr().at("dtype");
    auto* tensor = (*value->mutable_attr())["value"].mutable_tensor();
    tensor->set_dtype(variable.attr().at("dtype").type());
    *tensor->mutable_tensor_shape() = variable.attr().at("shape").shape();
    tensorflow::NodeDef* assign = graph.add_node();
    assign->set_name("assign_" + std::to_string(i));
    assign->set_op(is_reference ? "Assign" : "AssignVariableOp");
    assign->add_input(variable.name());
    assign->add_input(value->name());
    (*assign->mutable_attr())[is_reference ? "T" : "dtype"] = variable.attr().at("dtype");
    targets->push_back(assign->name());
  }
  *bytes = graph.SerializePartialAsString();
}

}  // namespace

Subjects::Subjects(const host::Runtime& runtime) : runtime_(runtime) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(kTests + "/golden/cases")) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const std::string& file : files) ReadLines(file, nullptr);
  ReadLines(kTests + "/models/small.jsonl", &networks_);
  AddGraphs();
  AddModels();
  AddDigits();
}

size_t Subjects::count() const { return ops_.size() + graphs_.size() + networks_.size() + whole_.size(); }

Subject Subjects::At(size_t index, Dice& dice) const {
  for (const std::vector<Line>* lines : {&ops_, &graphs_, &networks_}) {
    if (index < lines->size()) return OfLine((*lines)[index], dice);
    index -= lines->size();
  }
  return whole_[index];
}

void Subjects::ReadLines(const std::string& path, std::vector<Line>* lines) {
  std::ifstream file(path);
  size_t number = 0;
  const std::string name = std::filesystem::path(path).filename();
  for (std::string text; std::getline(file, text);) {
    const bool is_graph = text.find("\"graph\":") != std::string::npos;
    (lines != nullptr ? *lines : is_graph ? graphs_ : ops_).push_back({name, ++number, std::move(text)});
  }
}

void Subjects::AddGraphs() {
  for (const char* name : {"control_flow", "tensor_array", "tensor_list"}) {
    const Json golden = Json::parse(ReadWhole(kTests + "/golden/" + name + ".json"));
    const std::string bytes = ReadWhole(kTests + "/golden/" + name + ".pb");
    const std::vector<Feed> feeds = {{"x:0", Doubles(golden["feeds"]["x"], Shape{3})},
                                     {"w:0", Doubles(golden["feeds"]["w"], Shape{3})},
                                     {"n:0", *Tensor::Scalar(int32_t{2})}};
    for (const auto& [part, found] : golden["steps"][0]["found"].items()) {
      Subject& subject = whole_.emplace_back();
      subject.name = std::string(name) + ".pb, " + part;
      subject.bytes = bytes;
      subject.asks.push_back({{}, {}, {golden["initialize"].get<std::string>()}});
      subject.asks.push_back({feeds, {"y_" + part + ":0"}, {}});
      subject.ys = {"y_" + part};
      subject.xs = {"x", "w"};
    }
  }
}

void Subjects::AddModels() {
  for (const char* name : {"keras_dense", "keras_lstm", "module", "partitioned", "v1", "vocabulary"}) {
    const model::ModelFile file = Need(model::ModelFile::Open(kTests + "/golden/models/" + name), name);
    Subject subject;
    subject.name = std::string("SavedModel ") + name;
    subject.bytes = file.graph_def();
    AddInitializers(&subject.bytes, &subject.asks.emplace_back().targets);
    if (subject.asks.back().targets.empty()) subject.asks.pop_back();
    for (const model::Signature& signature : file.meta().signatures) {
      Ask& ask = subject.asks.emplace_back();
      for (const model::TensorInfo& input : signature.inputs)
        ask.feeds.push_back({input.tensor, Zeros(input.dtype, input.shape)});
      for (const model::TensorInfo& output : signature.outputs) ask.fetches.push_back(output.tensor);
    }
    whole_.push_back(std::move(subject));
  }
}

void Subjects::AddDigits() {
  const auto data = Need(train::DigitData::Load(TENON_TEST_SOURCE_DIR "/sdk/app/train/data/digits.npy"), "the digits");
  Graph graph(runtime_);
  train::DigitNetwork network(graph, data, {});
  const host::Operation init = network.model().InitializeAll();
  Subject& subject = whole_.emplace_back();
  subject.name = "digits";
  subject.bytes = Need(graph.Export(), "digits");
  subject.asks.push_back({{}, {}, {init.name()}});
  subject.asks.push_back({{{train::DigitNetwork::kImages, Need(Tensor::Zeros(DType::kUint8, {2, 8, 8}), "digits")}},
                          {train::DigitNetwork::kAnswers},
                          {}});
}

Subject Subjects::OfLine(const Line& line, Dice& dice) const {
  Subject subject;
  subject.name = line.file + ", line " + std::to_string(line.number);
  const Json one = Json::parse(line.text);
  if (one.contains("graph")) ReadGraphCase(one, &subject);
  else MakeOpCase(runtime_, one, dice, &subject);
  return subject;
}

Subject Subjects::Draw(Dice& dice) const {
  for (;;) {
    const size_t which = dice.Under(32);
    Subject subject = which < 20   ? OfLine(dice.AnyOf(ops_), dice)
                      : which < 28 ? OfLine(dice.AnyOf(graphs_), dice)
                      : which < 31 ? dice.AnyOf(whole_)
                                   : OfLine(dice.AnyOf(networks_), dice);
    if (!subject.bytes.empty()) return subject;
  }
}

}  // namespace tenon::hostile
