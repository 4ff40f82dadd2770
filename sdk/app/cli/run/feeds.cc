// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/cli/run/feeds.h"

#include <algorithm>

#include "sdk/app/cli/describe.h"
#include "sdk/app/cli/flags.h"
#include "sdk/app/cli/line/slips.h"
#include "sdk/app/cli/line/wrong_flag.h"
#include "tenon/data/npy.h"
#include "tenon/data/npz.h"
#include "tenon/model/load.h"

namespace tenon::cli {
namespace {

using host::Code;
using host::Result;
using host::Status;
using host::Tensor;

// The array for NAME in an .npz file: the one of this name, or the only one. The others are not unpacked.
Result<Tensor> Pick(const std::string& file, const std::string& name, data::ReadLimit& limit) {
  TENON_TRY_ASSIGN(const data::NpzArchive archive, data::NpzArchive::Open(file, limit));
  for (size_t i = 0; i < archive.size(); ++i) {
    if (ShortTensor(archive.name(i)) == ShortTensor(name)) return archive.Read(i, limit);
  }
  if (archive.size() == 1) return archive.Read(0, limit);
  std::string keys;
  for (size_t i = 0; i < archive.size(); ++i) keys += (keys.empty() ? "" : ", ") + std::string(archive.name(i));
  return Status(Code::kNotFound, "'" + file + "' has no array '" + name + "'; it has: " + keys);
}

Status ReadArchive(const std::string& file, std::vector<Feed>& feeds, data::ReadLimit& limit) {
  TENON_TRY_ASSIGN(const data::NpzArchive archive, data::NpzArchive::Open(file, limit));
  TENON_TRY_ASSIGN(data::NamedTensors tensors, archive.ReadAll(limit));
  for (auto& [key, tensor] : tensors) feeds.push_back({key, tensor, file, ""});
  return Status();
}

Status ReadFeed(const std::string& name, const std::string& file, std::vector<Feed>& feeds, data::ReadLimit& limit) {
  if (file.empty()) return ReadArchive(name, feeds, limit);
  TENON_TRY_ASSIGN(Tensor tensor, file.ends_with(".npz") ? Pick(file, name, limit) : data::ReadNpy(file, limit));
  feeds.push_back({name, std::move(tensor), file, ""});
  return Status();
}

// Before the file is read: its name may be what was mistyped.
Status ReadNamed(const char* flag, const std::string& text, const TensorNames& names, std::vector<Feed>& feeds,
                 data::ReadLimit& limit) {
  const auto [name, file] = SplitAssignment(text);
  if (name.empty() || (file.empty() && !name.ends_with(".npz")))
    WrongFlag(flag, Quoted(text) + " is not of the form NAME=FILE.npy, NAME=FILE.npz or FILE.npz");
  std::string op;
  if (!file.empty()) {
    TENON_TRY_ASSIGN(const std::string tensor, names.Feed(name, flag));
    op = names.OpOf(tensor);
  }
  return ReadFeed(name, file, feeds, limit).Annotate("feed '" + name + "'" + op);
}

}  // namespace

Result<std::vector<Feed>> ReadArrays(const char* flag, const std::vector<std::string>& texts, const TensorNames& names,
                                     data::ReadLimit& limit) {
  std::vector<Feed> feeds;
  for (const std::string& text : texts) TENON_TRY(ReadNamed(flag, text, names, feeds, limit));
  for (Feed& feed : feeds) {
    TENON_TRY_ASSIGN(feed.tensor, names.Feed(feed.name, flag));
  }
  return feeds;
}

Result<std::vector<Feed>> ReadFeeds(const std::vector<std::string>& texts, const TensorNames& names,
                                    data::ReadLimit& limit) {
  TENON_TRY_ASSIGN(std::vector<Feed> feeds, ReadArrays("--feed", texts, names, limit));
  for (const Feed& feed : feeds) TENON_TRY(names.CheckFeed(feed.name, feed.tensor, feed.value, feed.file));
  return feeds;
}

std::string_view ShortTensor(std::string_view name) {
  return name.ends_with(":0") ? name.substr(0, name.size() - 2) : name;
}

namespace {

bool IsFed(const model::TensorInfo& input, const std::vector<Feed>& feeds) {
  return std::any_of(feeds.begin(), feeds.end(), [&](const Feed& feed) { return feed.tensor == input.tensor; });
}

}  // namespace

void CheckInputs(const std::string& graph, const model::Signature& signature, const std::vector<Feed>& feeds) {
  for (const model::TensorInfo& input : signature.inputs) {
    if (IsFed(input, feeds) || input.kind != model::TensorInfo::Kind::kDense || !input.default_value.empty()) continue;
    const std::string all = signature.inputs.size() > 1 ? "; its inputs: " + InfosText(signature.inputs) : "";
    WrongFlag("--feed", "graph '" + graph + "': signature '" + signature.name + "' wants '" + input.key + "', " +
                            TensorText(input.dtype, input.shape) + "; give --feed " + input.key + "=FILE.npy" + all);
  }
}

Status AddDefaults(const host::Runtime& runtime, const model::Signature& signature, std::vector<Feed>* feeds) {
  for (const model::TensorInfo& input : signature.inputs) {
    if (input.default_value.empty() || IsFed(input, *feeds)) continue;
    TENON_TRY_ASSIGN(Tensor value, model::DefaultOf(runtime, signature, input));
    feeds->push_back({input.key, std::move(value), "", input.tensor});
  }
  return Status();
}

Status CheckFiles(const host::Runtime& runtime, const model::ModelFile& model, const model::Signature* signature,
                  const std::vector<Feed>& feeds, const std::vector<std::string>& runs) {
  std::vector<std::string> fed, chosen;
  for (const Feed& feed : feeds) {
    fed.push_back(feed.tensor);
    const auto is_it = [&](const model::TensorInfo& input) {
      return ShortTensor(input.tensor) == ShortTensor(feed.tensor);
    };
    if (signature == nullptr || std::none_of(signature->inputs.begin(), signature->inputs.end(), is_it))
      chosen.push_back(feed.tensor);
  }
  return model::CheckRun(runtime, model, fed, chosen, runs);
}

}  // namespace tenon::cli
