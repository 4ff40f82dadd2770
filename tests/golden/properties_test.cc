// SPDX-License-Identifier: Apache-2.0
// What ops say of themselves ("Properties" in tenon/op.h), against what their kernels do: each op that says something
// is run on the inputs of its cases, and again on inputs that are changed where the property says that it does not
// matter, or as the property says how it does. Of each op and dtype a few cases; all of them where the whole is asked
// for.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tenon/testing/property_trial.h"
#include "tests/fakes/whole.h"
#include "tests/golden/case_graph.h"
#include "tests/golden/replay.h"

namespace tenon::golden::properties_test {
namespace {

using host::DType;
using host::Feed;
using host::Name;
using host::Result;
using host::Runtime;
using host::Session;
using host::Shape;
using host::Tensor;

using Tensors = std::vector<Tensor>;

// A node of one op, fed with whatever is wanted.
class Op {
 public:
  Op(const Runtime& runtime, const Json& one) {
    auto made = MakeCaseGraph(runtime, one, InputsAs::kBlindFeeds);
    if (!made.ok() || !made->graph.status().ok() || !made->readers.empty()) return;
    made_.emplace(*std::move(made));
    auto session = Session::Create(runtime, made_->graph, {});
    if (session.ok()) session_.emplace(*std::move(session));
  }
  bool ok() const { return session_.has_value(); }
  const Tensors& inputs() const { return made_->values; }
  // Which input a feed is; constants of the case cannot be changed.
  bool IsFed(size_t input) const {
    const std::string name = "input" + std::to_string(input);
    return std::ranges::any_of(made_->feeds, [&](const Feed& feed) { return feed.name.text() == name; });
  }
  std::optional<Tensors> Run(const Tensors& inputs) const {
    std::vector<Feed> feeds;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (IsFed(i)) feeds.push_back({"input" + std::to_string(i), inputs[i]});
    const auto outputs = made_->node.outputs();
    auto values = session_->Run(feeds, std::vector<Name>(outputs.begin(), outputs.end()));
    if (!values.ok()) return std::nullopt;
    return *std::move(values);
  }

 private:
  std::optional<CaseGraph> made_;
  std::optional<Session> session_;
};

// ---- Values, as the trial has them ----

bool IsPlain(const Tensor& tensor) {
  return tensor && tensor.dtype() != DType::kString && tensor.dtype() != DType::kVariant &&
         tensor.dtype() != DType::kResource;
}
testing::Tensor ToTrial(const Tensor& tensor) {
  if (!IsPlain(tensor)) return testing::Tensor(TENON_DT_STRING, {0});
  const tenon_tensor_view& view = *tensor.view();
  return {static_cast<uint32_t>(tensor.dtype()), tensor.shape().dims(),
          testing::Bytes::From(static_cast<const char*>(view.dl.data) + view.dl.byte_offset, view.byte_size)};
}
Tensor FromTrial(const testing::Tensor& tensor) {
  return *Tensor::FromBytes(static_cast<DType>(tensor.dtype), Shape(tensor.dims), tensor.bytes.data(),
                            tensor.bytes.size());
}

testing::PropertyTrial::Run RunOf(std::shared_ptr<const Op> op) {
  return [op](const std::vector<testing::Tensor>& in) -> std::optional<std::vector<testing::Tensor>> {
    Tensors inputs = op->inputs();
    for (size_t i = 0; i < inputs.size(); ++i)
      if (IsPlain(inputs[i])) inputs[i] = FromTrial(in[i]);
    const auto outputs = op->Run(inputs);
    if (!outputs) return std::nullopt;
    std::vector<testing::Tensor> out;
    for (const Tensor& output : *outputs) out.push_back(ToTrial(output));
    return out;
  };
}

// The case in bfloat16: of a normalisation the inputs that it is of, and of others all floats. Its values are fed.
Json InHalf(Json one, const std::vector<size_t>& elements) {
  for (size_t i = 0; i < one["in"].size(); ++i) {
    Json& input = one["in"][i];
    const bool is_element = elements.empty() || std::ranges::find(elements, i) != elements.end();
    if (!input.is_array() || input[0] != "float" || !is_element) continue;
    input[0] = "bfloat16";
    if (input[2] != "") input[2] = "AAA=";  // one 0 for all
  }
  for (auto& [name, attr] : one["attrs"].items())
    if (attr.contains("type") && attr["type"] == "float" && (elements.empty() || name == "T"))
      attr["type"] = "bfloat16";
  one.erase("dy");
  one.erase("dx");
  return one;
}

// One case of an op, put to the test; empty, or what is not as the op says.
std::string Try(const Runtime& runtime, const tenon_op_info& info, const Json& one, uint64_t seed,
                std::set<std::string>* tried) {
  const auto op = std::make_shared<const Op>(runtime, one);
  if (!op->ok()) return "";
  std::vector<testing::Tensor> inputs;
  std::set<size_t> fixed;
  for (size_t i = 0; i < op->inputs().size(); ++i) {
    inputs.push_back(ToTrial(op->inputs()[i]));
    if (!op->IsFed(i)) fixed.insert(i);
  }
  const std::string properties(host::Text(info.properties)), arguments(host::Text(info.inputs));
  const auto terms = testing::PropertyTerms(properties);
  std::shared_ptr<const Op> half;
  if (terms.contains("fits_half")) {
    std::vector<size_t> elements;
    if (const auto found = terms.find("normalizes"); found != terms.end())
      for (size_t i = 0; i < found->second.size(); ++i) elements.push_back(i);  // which stand first
    half = std::make_shared<const Op>(runtime, InHalf(one, elements));
    if (!half->ok()) half = nullptr;
  }
  const testing::PropertyOp asked = {arguments, properties, [&one](const std::string& name) -> std::optional<double> {
                                       if (!one["attrs"].contains(name)) return std::nullopt;
                                       const Json& attr = one["attrs"][name];
                                       for (const char* kind : {"int", "float"})
                                         if (attr.contains(kind)) return attr[kind].get<double>();
                                       if (attr.contains("bool")) return attr["bool"].get<bool>() ? 1 : 0;
                                       return std::nullopt;
                                     }};
  testing::PropertyTrial trial(asked, inputs, RunOf(op), fixed, half ? RunOf(half) : testing::PropertyTrial::Run(),
                               seed);
  return trial.Try(tried);
}

// Cases of one op whose inputs are of the same types.
std::string KindOf(const Json& one) {
  std::string kind = one["op"].get<std::string>();
  for (const Json& input : one["in"]) kind += input.is_array() ? " " + input[0].get<std::string>() : " ?";
  return kind;
}

TEST(Properties, AreThoseOfTheKernels) {
  auto runtime = MakeRuntime(Kernels::kAll);
  ASSERT_TRUE(runtime.ok()) << runtime.status();
  runtime->OpenAll();
  std::map<std::string, tenon_op_info, std::less<>> ops;
  for (const tenon_op_info& op : runtime->Ops())
    if (op.properties.size > 0) ops.emplace(host::Text(op.name), op);
  const size_t most = fakes::IsWhole() ? 1000 : 8;
  std::map<std::string, size_t> of_kind;
  std::map<std::string, std::set<std::string>> tried;  // by op
  size_t trials = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TENON_TEST_SOURCE_DIR "/tests/golden/cases")) {
    std::ifstream text(entry.path());
    for (std::string line; std::getline(text, line);) {
      const Json one = Json::parse(line);
      if (one.contains("graph") || one.contains("error") || one.contains("before") || one.contains("vars")) continue;
      const auto op = ops.find(one["op"].get<std::string>());
      if (op == ops.end() || of_kind[KindOf(one)]++ >= most) continue;
      const std::string wrong = Try(*runtime, op->second, one, ++trials, &tried[op->first]);
      EXPECT_EQ(wrong, "") << op->first << " says " << host::Text(op->second.properties) << ", in "
                           << entry.path().stem() << ": " << Describe(one);
    }
  }
  // Nearly all that is said has been put to the test.
  size_t said = 0, held = 0;
  std::string untried;
  for (const auto& [name, op] : ops) {
    for (const auto& [term, names] : testing::PropertyTerms(host::Text(op.properties))) {
      if (!testing::PropertyTrial::Tried().contains(term)) continue;
      ++said;
      if (tried[name].contains(term)) ++held;
      else untried += " " + name + ":" + term;
    }
  }
  std::printf("%zu of %zu properties of %zu ops tried; not:%s\n", held, said, ops.size(), untried.c_str());
  EXPECT_GE(held * 10, said * 9);
}

}  // namespace
}  // namespace tenon::golden::properties_test
