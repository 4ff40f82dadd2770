// SPDX-License-Identifier: Apache-2.0
// The names by which a user calls a model's tensors: keys of a signature, and tensors and nodes of the graph.
//
// A name that is none of them ends the command (WrongFlag): the message has the near miss, and what there is.
#ifndef TENON_CLI_TENSOR_NAMES_H_
#define TENON_CLI_TENSOR_NAMES_H_

#include <string>
#include <string_view>

#include "tenon/model/graph_index.h"
#include "tenon/model/model_file.h"
#include "tenon/tenon.h"

namespace tenon::cli {

class TensorNames {
 public:
  // signature: whose keys are names; nullptr: none was chosen. Both outlive this.
  static host::Result<TensorNames> Of(const model::ModelFile& file, const model::Signature* signature);

  const data::GraphView& graph() const { return index_.graph(); }

  const model::GraphIndex& index() const { return index_; }

  // The graph's name of what --feed or --fetch, or another flag of this meaning, names.
  host::Result<std::string> Feed(const std::string& name, const char* flag = "--feed") const;
  host::Result<std::string> Fetch(const std::string& name, const char* flag = "--fetch") const;
  // Of --target and --init, which name nodes.
  void CheckNode(const std::string& flag, const std::string& name) const;

  // Whether a value may be fed, by the signature's input or else by what the graph's placeholder says. given: as the
  // user wrote it.
  host::Status CheckFeed(const std::string& given, const std::string& tensor, const host::Tensor& value,
                         const std::string& file) const;
  // The same of an array of which rows are fed: its first dimension may be anything.
  host::Status CheckRows(const std::string& given, const std::string& tensor, const host::Tensor& value,
                         const std::string& file) const;
  // The shape that a feed must have, as far as it is known; "float32[?,3]" of it.
  host::Shape ShapeOf(const std::string& given, const std::string& tensor) const {
    return ExpectedOf(given, tensor).shape;
  }
  std::string TypeOf(const std::string& given, const std::string& tensor) const;

  // " (Placeholder)": the op of a tensor's node; "" of none.
  std::string OpOf(std::string_view tensor) const;
  // "choose one of its signatures with --signature NAME: ..." where the model has several and none was chosen, else "".
  std::string Choice() const;

 private:
  struct Expected {
    host::DType dtype = host::DType::kInvalid;
    host::Shape shape = host::Shape::Unknown();
    std::string what;  // "input 'x' of signature 'serving_default'"
  };
  TensorNames(const model::ModelFile& file, const model::Signature* signature, model::GraphIndex index)
      : file_(&file), signature_(signature), index_(std::move(index)) {}
  bool HasNode(std::string_view tensor) const { return index_.FindNode(data::NodeOfInput(tensor)) != nullptr; }
  host::Result<std::string> Find(const char* flag, const std::string& name,
                                 const std::vector<model::TensorInfo>* infos) const;
  [[noreturn]] void Refuse(const std::string& flag, const std::string& name,
                           const std::vector<model::TensorInfo>* infos) const;
  std::string Known(const std::string& flag, const std::vector<model::TensorInfo>* infos) const;
  std::string Placeholders() const;
  host::Status Misfit(const Expected& expected, const host::Tensor& value, const std::string& file) const;
  Expected ExpectedOf(const std::string& given, const std::string& tensor) const;
  Expected ExpectedOf(const data::NodeView& node) const;

  const model::ModelFile* file_;
  const model::Signature* signature_;
  model::GraphIndex index_;
};

}  // namespace tenon::cli

#endif  // TENON_CLI_TENSOR_NAMES_H_
