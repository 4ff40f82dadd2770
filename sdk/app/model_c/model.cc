// SPDX-License-Identifier: Apache-2.0
// The models of model.h: loaded, run, written.
#include "tenon/model.h"

#include "sdk/app/model_c/objects.h"
#include "tenon/model/write_saved_model.h"

using namespace tenon;           // NOLINT: this file implements C functions of the global namespace
using namespace tenon::model_c;  // NOLINT

namespace {

Result<model::FileAccess> AccessOf(uint32_t files) {
  if (files == TENON_MODEL_FILES_NONE) return model::FileAccess::kNone;
  if (files == TENON_MODEL_FILES_ANY) return model::FileAccess::kAny;
  return Status(Code::kInvalidArgument,
                "'files' is " + std::to_string(files) + "; give TENON_MODEL_FILES_NONE or TENON_MODEL_FILES_ANY");
}

using Entries = std::vector<std::pair<std::string, std::string>>;
Entries ReadEntries(const tenon_signature_entry* entries, uint64_t count) {
  Entries out;
  for (uint64_t i = 0; i < count; ++i) out.emplace_back(Copy(entries[i].key), Copy(entries[i].tensor));
  return out;
}

Result<model::SignatureSpec> ReadSignature(const tenon_signature_spec* given) {
  tenon_signature_spec spec;
  TENON_TRY(ReadStruct(given, true, "signature", &spec));
  model::SignatureSpec out;
  if (spec.name.size != 0) out.name = Copy(spec.name);
  if (spec.method.size != 0) out.method = Copy(spec.method);
  out.inputs = ReadEntries(spec.inputs, spec.input_count);
  out.outputs = ReadEntries(spec.outputs, spec.output_count);
  return out;
}

Result<model::WriteOptions> ReadWriteOptions(const tenon_model_write_options* given) {
  tenon_model_write_options options;
  TENON_TRY(ReadStruct(given, true, "options", &options));
  model::WriteOptions out;
  for (uint64_t i = 0; i < options.signature_count; ++i) {
    TENON_TRY_ASSIGN(model::SignatureSpec signature, ReadSignature(options.signatures[i]));
    out.signatures.push_back(std::move(signature));
  }
  if (options.tags != nullptr) out.tags = Copies(options.tags, options.tag_count);
  out.replace = options.replace != 0;
  return out;
}

}  // namespace

extern "C" {

tenon_status* tenon_model_load(tenon_runtime* runtime, const tenon_model_file* file,
                               const tenon_model_load_options* given, tenon_model** out_model) {
  return Guard([&]() -> Status {
    TENON_CHECK(runtime, file, out_model);
    tenon_model_load_options options;
    TENON_TRY(ReadStruct(given, false, "options", &options));
    TENON_TRY_ASSIGN(const model::FileAccess access, AccessOf(options.files));
    tenon_session* session = nullptr;
    TENON_TRY(Status::Take(tenon_session_create(runtime, options.session, &session)));
    const host::Runtime borrowed = host::Runtime::Borrow(runtime);
    TENON_TRY_ASSIGN(model::Model model,
                     model::Model::LoadInto(borrowed, file->file, host::Session::Take(session), access));
    *out_model = new tenon_model{{file->file}, std::move(model)};
    return Status();
  });
}

void tenon_model_release(tenon_model* model) { delete model; }

const tenon_model_file* tenon_model_get_file(const tenon_model* model) {
  return model == nullptr ? nullptr : &model->file;
}
tenon_session* tenon_model_get_session(const tenon_model* model) {
  return model == nullptr ? nullptr : model->model.session().get();
}

tenon_status* tenon_model_run(const tenon_model* model, tenon_span signature, const tenon_run_options* given,
                              const tenon_span* input_names, const tenon_tensor_view* const* inputs,
                              uint64_t input_count, tenon_tensor** out_outputs, uint64_t output_count) {
  return Guard([&]() -> Status {
    TENON_CHECK(model, signature);
    TENON_CHECK(arguments::Array(out_outputs, output_count));
    TENON_TRY_ASSIGN(const model::Signature* found, model->model.FindSignature(Text(signature)));
    if (output_count != found->outputs.size())
      return Status(Code::kInvalidArgument, "signature '" + found->name + "' gives " +
                                                std::to_string(found->outputs.size()) + " outputs; there is room for " +
                                                std::to_string(output_count));
    RunOptions options;
    TENON_TRY(options.Read(given));
    TENON_TRY_ASSIGN(const NamedViews views, ReadViews(input_names, inputs, input_count, "input"));
    TENON_TRY_ASSIGN(const std::vector<Tensor> outputs, model->model.RunViews(Text(signature), views, options.get()));
    TENON_TRY(options.Finish());
    GiveTensors(outputs, out_outputs);
    return Status();
  });
}

tenon_status* tenon_model_prepare(const tenon_model* model, tenon_span signature, const tenon_callable_options* given,
                                  tenon_callable** out_callable) {
  return Guard([&]() -> Status {
    TENON_CHECK(model, signature, out_callable);
    tenon_callable_options options;
    TENON_TRY(ReadStruct(given, false, "options", &options));
    TENON_TRY_ASSIGN(const model::Signature* found, model->model.FindSignature(Text(signature)));
    std::vector<std::string> input_devices, output_devices;
    if (options.feed_devices != nullptr) TENON_CHECK(List(options.feed_devices, found->inputs.size()));
    if (options.fetch_devices != nullptr) TENON_CHECK(List(options.fetch_devices, found->outputs.size()));
    if (options.feed_devices != nullptr) input_devices = Copies(options.feed_devices, found->inputs.size());
    if (options.fetch_devices != nullptr) output_devices = Copies(options.fetch_devices, found->outputs.size());
    const tenon_run_options c_ends{
        sizeof(tenon_run_options), 0, options.timeout_ns, options.cancellation, nullptr, nullptr, nullptr};
    RunOptions ends;
    TENON_TRY(ends.Read(&c_ends));
    TENON_TRY_ASSIGN(host::Callable callable,
                     model->model.Prepare(found->name, input_devices, output_devices, ends.get()));
    *out_callable = callable.Give();
    return Status();
  });
}

tenon_status* tenon_model_write(tenon_runtime* runtime, tenon_session* session, tenon_span graph_def, tenon_span folder,
                                const tenon_model_write_options* given) {
  return Guard([&]() -> Status {
    TENON_CHECK(runtime, session, graph_def, folder);
    TENON_TRY_ASSIGN(const model::WriteOptions options, ReadWriteOptions(given));
    host::Session borrowed = host::Session::Borrow(session);
    return model::WriteSavedModel(host::Runtime::Borrow(runtime), borrowed, Text(graph_def), Copy(folder), options);
  });
}

}  // extern "C"
