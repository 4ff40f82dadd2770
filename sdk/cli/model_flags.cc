// SPDX-License-Identifier: Apache-2.0
#include "sdk/cli/model_flags.h"

#include <CLI/CLI.hpp>

#include "sdk/cli/signature.h"
#include "tenon/model/load.h"

namespace tenon::cli {

using host::Code;
using host::Result;
using host::Status;

void ModelFlags::AddTo(CLI::App& command) {
  command.add_option("GRAPH", graph, "A GraphDef or MetaGraphDef file, binary or text, or a SavedModel folder")->required()->type_name("");
  command.add_option("--tags", tags, "Which graph of a SavedModel: the one with these tags, separated by commas (default: serve)")->type_name("TAGS");
  command.add_option("--signature", signature, "Which signature; names may then be its inputs and outputs (default: serving_default, or the only one)")
      ->type_name("NAME");
}

Result<model::ModelFile> ModelFlags::Open(uint64_t most_bytes) const {
  model::OpenOptions options;
  options.most_bytes = most_bytes;
  if (!tags.empty()) options.tags.clear();
  for (const std::string& tag : SplitOutside(tags, ',')) {
    if (!Trim(tag).empty()) options.tags.emplace_back(Trim(tag));
  }
  return model::ModelFile::Open(graph, options);
}

Result<const model::Signature*> ModelFlags::Choose(const model::ModelFile& file) const {
  const model::MetaGraph& meta = file.meta();
  if (!signature.empty()) {
    if (file.form() == model::Form::kGraphDef) {
      return Status(Code::kInvalidArgument, "--signature names a part of a SavedModel or MetaGraph, and '" + graph + "' is a GraphDef, which has none");
    }
    return model::FindSignature(meta, signature);
  }
  if (const model::Signature* usual = meta.FindSignature(model::kDefaultSignature)) return usual;
  return meta.signatures.size() == 1 ? &meta.signatures[0] : nullptr;
}

Result<std::string> FeedName(const model::Signature* signature, const std::string& name) {
  const model::TensorInfo* info = signature == nullptr ? nullptr : signature->FindInput(name);
  return info == nullptr ? Result<std::string>(name) : model::TensorOf(*signature, *info);
}

Result<std::string> FetchName(const model::Signature* signature, const std::string& name) {
  const model::TensorInfo* info = signature == nullptr ? nullptr : signature->FindOutput(name);
  return info == nullptr ? Result<std::string>(name) : model::TensorOf(*signature, *info);
}

}  // namespace tenon::cli
