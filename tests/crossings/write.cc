// SPDX-License-Identifier: Apache-2.0
#include "tests/crossings/write.h"

#include <cstdio>
#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

namespace tenon::crossings {
namespace {

using nlohmann::json;

json ToJson(const host::Tensor& tensor) {
  json values = json::array();
  for (int64_t i = 0; i < tensor.element_count(); ++i) {
    const auto at = static_cast<size_t>(i);
    switch (tensor.dtype()) {
      case DType::kFloat: values.push_back(tensor.data<float>()[at]); break;
      case DType::kDouble: values.push_back(tensor.data<double>()[at]); break;
      case DType::kInt32: values.push_back(tensor.data<int32_t>()[at]); break;
      case DType::kInt64: values.push_back(tensor.data<int64_t>()[at]); break;
      case DType::kBool: values.push_back(tensor.bytes()[at] != 0); break;
      default: values.push_back(std::string(tensor.string(at)));
    }
  }
  return {{"dtype", host::DTypeName(tensor.dtype())}, {"dims", tensor.shape().dims()}, {"values", values}};
}

}  // namespace

bool WriteProgram(World& world, const Program& program, const Manner& manner, const std::string& folder,
                  const std::string& text) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  std::ofstream(folder + "/program.txt") << "seed " << program.seed << ", " << manner.name << " (" << manner.form.name()
                                         << ")\n"
                                         << text << "\n\n"
                                         << Describe(program);
  const std::vector<host::Tensor> feeds[] = {FeedsOf(program, 0), FeedsOf(program, 1)};
  world.BeginProgram();
  const auto lowered = world.GraphOf(world.RuntimeOf(Where::kHere), program, manner.form, feeds[0]);
  const auto bytes = lowered->graph.Export();
  if (!bytes.ok()) {
    std::ofstream(folder + "/program.txt", std::ios::app) << "\nno graph: " << bytes.status().message() << "\n";
    return false;
  }
  std::ofstream(folder + "/graph.pb", std::ios::binary) << *bytes;
  Manner steps{manner.name, manner.form, {}};
  const Outcome outcome = Run(world, steps, program);
  json one = {{"smooth", program.smooth},  {"initial", lowered->initial}, {"fetches", lowered->fetches},
              {"labels", lowered->labels}, {"targets", lowered->targets}, {"variables", lowered->variables}};
  one["first_feeds"] = json::object();
  for (size_t i = program.main.parameters.size(); i < lowered->feeds.size(); ++i)
    one["first_feeds"][lowered->feeds[i]] = ToJson(feeds[0][i]);
  for (const size_t feeding : {0, 1}) {
    json& named = one[feeding == 0 ? "feeds" : "later_feeds"] = json::object();
    for (size_t i = 0; i < program.main.parameters.size(); ++i)
      if (!lowered->feeds[i].empty()) named[lowered->feeds[i]] = ToJson(feeds[feeding][i]);
  }
  one["refused"] = outcome.status.ok() ? "" : outcome.stage + ": " + outcome.status.ToString();
  one["items"] = json::array();
  for (const Item& item : outcome.items) {
    json value = ToJson(item.value);
    value["label"] = item.label;
    one["items"].push_back(value);
  }
  std::ofstream file(folder + "/case.json");
  file << one.dump(1, ' ', false, json::error_handler_t::replace) << "\n";
  return static_cast<bool>(file);
}

}  // namespace tenon::crossings
