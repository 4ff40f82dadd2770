// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/cli/model_flags.h"

#include <CLI/CLI.hpp>

#include "sdk/app/cli/describe.h"
#include "sdk/app/cli/line/slips.h"
#include "sdk/app/cli/line/wrong_flag.h"
#include "sdk/app/cli/signature.h"
#include "tenon/bytes/near_miss.h"

namespace tenon::cli {

using host::Result;

void ModelFlags::AddTo(CLI::App& command) {
  command.add_option("GRAPH", graph, "A GraphDef or MetaGraphDef file, binary or text, or a SavedModel folder")
      ->required()
      ->type_name("")
      ->check([](const std::string& path) { return std::string(path.empty() ? "the name of the file is empty" : ""); });
  command
      .add_option("--tags", tags,
                  "Which graph of a SavedModel: the one with these tags, separated by commas (default: serve)")
      ->type_name("TAGS");
  command
      .add_option(
          "--signature", signature,
          "Which signature; names may then be its inputs and outputs (default: serving_default, or the only one)")
      ->type_name("NAME");
}

Result<model::ModelFile> ModelFlags::Open(uint64_t most_bytes) const {
  model::OpenOptions options;
  options.most_bytes = most_bytes;
  if (!tags.empty()) options.tags.clear();
  for (const std::string& tag : SplitOutside(tags, ',')) {
    if (!Trim(tag).empty()) options.tags.emplace_back(Trim(tag));
  }
  TENON_TRY_ASSIGN(model::ModelFile file, model::ModelFile::Open(graph, options));
  if (!tags.empty() && file.form() != model::Form::kSavedModel)
    WrongFlag("--tags", "they choose a graph of a SavedModel, and '" + graph + "' is a " +
                            std::string(model::FormName(file.form())));
  return file;
}

void ModelFlags::Refuse(const model::MetaGraph& meta) const {
  sdk::NearMiss near(signature);
  for (const model::Signature& each : meta.signatures) near.Try(each.name);
  const std::string all =
      meta.signatures.empty() ? "it has none" : "its signatures: " + SignaturesText(meta.signatures);
  WrongFlag("--signature", Join("'" + graph + "' has no signature " + Quoted(signature) + near.Hint(), all));
}

Result<const model::Signature*> ModelFlags::Choose(const model::ModelFile& file) const {
  const model::MetaGraph& meta = file.meta();
  if (!signature.empty()) {
    if (file.form() == model::Form::kGraphDef) {
      WrongFlag("--signature",
                "it names a part of a SavedModel or MetaGraph, and '" + graph + "' is a GraphDef, which has none");
    }
    const model::Signature* found = meta.FindSignature(signature);
    if (found == nullptr) Refuse(meta);
    return found;
  }
  if (const model::Signature* usual = meta.FindSignature(model::kDefaultSignature)) return usual;
  return meta.signatures.size() == 1 ? &meta.signatures[0] : nullptr;
}

Result<model::GraphIndex> IndexOf(const model::ModelFile& file) {
  constexpr char kForms[] = "; give a GraphDef or MetaGraphDef file, binary or text, or a SavedModel's folder";
  Result<model::GraphIndex> index = model::GraphIndex::Build(file.graph_def());
  if (index.ok() && index->graph().nodes.empty() && index->functions().empty())
    return host::Status(host::Code::kInvalidArgument, "graph '" + file.path() + "': it has no node" + kForms);
  if (index.ok()) return index;
  return host::Status(index.status().code(), "graph '" + file.path() + "': " + index.status().message() + kForms);
}

}  // namespace tenon::cli
