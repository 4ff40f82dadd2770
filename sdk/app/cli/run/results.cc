// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/cli/run/results.h"

#include <fmt/format.h>

#include <algorithm>

#include "sdk/app/cli/describe.h"
#include "sdk/app/cli/flags.h"
#include "sdk/app/cli/line/printable.h"
#include "sdk/app/cli/line/slips.h"
#include "sdk/app/cli/line/wrong_flag.h"
#include "sdk/app/cli/print_tensor.h"
#include "tenon/data/npy.h"
#include "tenon/data/npz.h"
#include "tenon/model/load.h"

namespace tenon::cli {

using host::Result;
using host::Status;
using host::Tensor;

namespace {

// Fetches that name the same .npz file share it.
class Archives {
 public:
  void Add(const std::string& file, const std::string& name, const Tensor& value) {
    auto found = std::find_if(archives_.begin(), archives_.end(), [&](const auto& each) { return each.first == file; });
    if (found == archives_.end()) found = archives_.insert(archives_.end(), {file, {}});
    found->second.emplace_back(name, value);
  }
  Status Write() const {
    for (const auto& [file, tensors] : archives_) TENON_TRY(data::WriteNpz(file, tensors));
    return Status();
  }

 private:
  std::vector<std::pair<std::string, data::NamedTensors>> archives_;
};

}  // namespace

Result<std::vector<Fetch>> ReadFetches(const std::vector<std::string>& texts, const TensorNames& names) {
  std::vector<Fetch> fetches;
  for (const std::string& text : texts) {
    auto [name, file] = SplitAssignment(text);
    if (name.empty())
      WrongFlag("--fetch", Quoted(text) + " names no tensor; it is of the form NAME, NAME=FILE.npy or NAME=FILE.npz");
    TENON_TRY_ASSIGN(std::string tensor, names.Fetch(name));
    fetches.push_back({std::move(name), std::move(file), std::move(tensor)});
  }
  return fetches;
}

Result<std::vector<Fetch>> FetchesOf(const model::Signature& signature) {
  std::vector<Fetch> fetches;
  for (const model::TensorInfo& output : signature.outputs) {
    TENON_TRY_ASSIGN(std::string tensor, model::TensorOf(signature, output));
    fetches.push_back({output.key, "", std::move(tensor)});
  }
  return fetches;
}

Status WriteFiles(const std::vector<Fetch>& fetches, const std::vector<Tensor>& values, const TensorNames& names) {
  Archives archives;
  for (size_t i = 0; i < fetches.size(); ++i) {
    const Fetch& fetch = fetches[i];
    if (fetch.file.empty()) continue;
    if (fetch.file.ends_with(".npz"))
      archives.Add(fetch.file, fetch.name, values[i]);
    else
      TENON_TRY(
          data::WriteNpy(fetch.file, values[i]).Annotate("fetch '" + fetch.name + "'" + names.OpOf(fetch.tensor)));
  }
  return archives.Write();
}

void PrintValues(const std::vector<Fetch>& fetches, const std::vector<Tensor>& values) {
  for (size_t i = 0; i < fetches.size(); ++i) {
    if (!fetches[i].file.empty()) continue;
    fmt::print("{}: {}\n{}\n", Printable(fetches[i].name), TensorText(values[i].dtype(), values[i].shape()),
               FormatTensor(values[i]));
  }
}

Json ValuesJson(const std::vector<Fetch>& fetches, const std::vector<Tensor>& values) {
  Json json = Json::object();
  for (size_t i = 0; i < fetches.size(); ++i) {
    const Json file = {
        {"dtype", DTypeText(values[i].dtype())}, {"shape", ShapeJson(values[i].shape())}, {"file", fetches[i].file}};
    json[fetches[i].name] = fetches[i].file.empty() ? TensorJson(values[i]) : file;
  }
  return json;
}

}  // namespace tenon::cli
