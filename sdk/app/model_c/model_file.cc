// SPDX-License-Identifier: Apache-2.0
// The files and signatures of model.h.
#include "sdk/app/model_c/objects.h"
#include "tenon/model.h"

using namespace tenon;           // NOLINT: this file implements C functions of the global namespace
using namespace tenon::model_c;  // NOLINT

namespace {

Status ReadOpenOptions(const tenon_model_open_options* given, model::OpenOptions* out) {
  tenon_model_open_options options;
  TENON_TRY(ReadStruct(given, false, "options", &options));
  if (options.tags != nullptr) out->tags = Copies(options.tags, options.tag_count);
  if (options.most_bytes != 0) out->most_bytes = options.most_bytes;
  return Status();
}

Result<const model::Signature*> SignatureAt(const tenon_model_file* file, uint64_t index) {
  TENON_CHECK(file);
  TENON_TRY(CheckIndex(index, file->file.meta().signatures.size(), "signature"));
  return &file->file.meta().signatures[index];
}

Result<const model::TensorInfo*> TensorAt(const tenon_model_file* file, uint64_t signature, uint32_t which,
                                          uint64_t index) {
  TENON_TRY_ASSIGN(const model::Signature* found, SignatureAt(file, signature));
  if (which > TENON_SIGNATURE_OUTPUT)
    return Status(Code::kInvalidArgument,
                  "'which' is " + std::to_string(which) + "; give TENON_SIGNATURE_INPUT or TENON_SIGNATURE_OUTPUT");
  const bool input = which == TENON_SIGNATURE_INPUT;
  const std::vector<model::TensorInfo>& tensors = input ? found->inputs : found->outputs;
  TENON_TRY(CheckIndex(index, tensors.size(), input ? "input" : "output"));
  return &tensors[index];
}

uint32_t KindOf(model::TensorInfo::Kind kind) {
  switch (kind) {
    case model::TensorInfo::Kind::kDense:
      return TENON_SIGNATURE_DENSE;
    case model::TensorInfo::Kind::kSparse:
      return TENON_SIGNATURE_SPARSE;
    case model::TensorInfo::Kind::kComposite:
      return TENON_SIGNATURE_COMPOSITE;
  }
  return TENON_SIGNATURE_COMPOSITE;
}

uint32_t FormOf(model::Form form) {
  switch (form) {
    case model::Form::kGraphDef:
      return TENON_MODEL_GRAPH_DEF;
    case model::Form::kMetaGraph:
      return TENON_MODEL_META_GRAPH;
    case model::Form::kSavedModel:
      return TENON_MODEL_SAVED_MODEL;
  }
  return TENON_MODEL_GRAPH_DEF;
}

}  // namespace

extern "C" {

tenon_status* tenon_model_file_open(tenon_span path, const tenon_model_open_options* given,
                                    tenon_model_file** out_file) {
  return Guard([&]() -> Status {
    TENON_CHECK(path, out_file);
    model::OpenOptions options;
    TENON_TRY(ReadOpenOptions(given, &options));
    TENON_TRY_ASSIGN(model::ModelFile file, model::ModelFile::Open(Copy(path), options));
    *out_file = new tenon_model_file{std::move(file)};
    return Status();
  });
}

void tenon_model_file_release(tenon_model_file* file) { delete file; }

tenon_status* tenon_model_file_get_info(const tenon_model_file* file, tenon_model_file_info* out_info) {
  return Guard([&]() -> Status {
    TENON_CHECK(file, out_info);
    const model::ModelFile& f = file->file;
    return WriteStruct(tenon_model_file_info{sizeof(tenon_model_file_info), 0, FormOf(f.form()), f.is_text() ? 1u : 0u,
                                             Span(f.graph_def()), Span(f.checkpoint()), Span(f.folder()),
                                             Span(f.meta().tensorflow_version), f.meta().tags.size(),
                                             f.meta().signatures.size(), f.notes().size()},
                       out_info);
  });
}

tenon_status* tenon_model_file_tag(const tenon_model_file* file, uint64_t index, tenon_span* out_tag) {
  return Guard([&]() -> Status {
    TENON_CHECK(file, out_tag);
    TENON_TRY(CheckIndex(index, file->file.meta().tags.size(), "tag"));
    *out_tag = Span(file->file.meta().tags[index]);
    return Status();
  });
}

tenon_status* tenon_model_file_note(const tenon_model_file* file, uint64_t index, tenon_span* out_note) {
  return Guard([&]() -> Status {
    TENON_CHECK(file, out_note);
    TENON_TRY(CheckIndex(index, file->file.notes().size(), "note"));
    *out_note = Span(file->file.notes()[index]);
    return Status();
  });
}

tenon_status* tenon_model_file_signature(const tenon_model_file* file, uint64_t index, tenon_signature_info* out_info) {
  return Guard([&]() -> Status {
    TENON_CHECK(out_info);
    TENON_TRY_ASSIGN(const model::Signature* signature, SignatureAt(file, index));
    return WriteStruct(
        tenon_signature_info{sizeof(tenon_signature_info), 0, Span(signature->name), Span(signature->method),
                             signature->inputs.size(), signature->outputs.size()},
        out_info);
  });
}

tenon_status* tenon_model_file_find_signature(const tenon_model_file* file, tenon_span name, uint64_t* out_index) {
  return Guard([&]() -> Status {
    TENON_CHECK(file, name, out_index);
    TENON_TRY_ASSIGN(const model::Signature* signature, model::FindSignature(file->file.meta(), Text(name)));
    *out_index = static_cast<uint64_t>(signature - file->file.meta().signatures.data());
    return Status();
  });
}

tenon_status* tenon_model_file_signature_tensor(const tenon_model_file* file, uint64_t signature, uint32_t which,
                                                uint64_t index, tenon_signature_tensor* out_tensor) {
  return Guard([&]() -> Status {
    TENON_CHECK(out_tensor);
    TENON_TRY_ASSIGN(const model::TensorInfo* info, TensorAt(file, signature, which, index));
    tenon_signature_tensor tensor = {};
    tensor.struct_size = sizeof(tensor);
    tensor.key = Span(info->key);
    tensor.tensor = Span(info->tensor);
    tensor.shape = info->shape.c_shape();
    tensor.dtype = static_cast<uint32_t>(info->dtype);
    tensor.kind = KindOf(info->kind);
    tensor.has_default = info->default_value.empty() ? 0 : 1;
    tensor.part_count = info->parts.size();
    return WriteStruct(tensor, out_tensor);
  });
}

tenon_status* tenon_model_file_signature_part(const tenon_model_file* file, uint64_t signature, uint32_t which,
                                              uint64_t index, uint64_t part, tenon_span* out_tensor) {
  return Guard([&]() -> Status {
    TENON_CHECK(out_tensor);
    TENON_TRY_ASSIGN(const model::TensorInfo* info, TensorAt(file, signature, which, index));
    TENON_TRY(CheckIndex(part, info->parts.size(), "part"));
    *out_tensor = Span(info->parts[part]);
    return Status();
  });
}

}  // extern "C"
