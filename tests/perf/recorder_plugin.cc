// SPDX-License-Identifier: Apache-2.0
// Every kernel of the plugins TENON_PERF_WRAPPED once more, with a priority above them, so that a step runs through
// here.
//
// A kernel here is the wrapped one plus its registration. While recording, each run is noted: function, kernel,
// prepared object, and a frame of its own with the views as they were. Made again in the same order, those calls are
// the step without an engine: the bound of what the engine may cost over its kernels. Variables are written in place;
// the frames' services are as little as kernels need.
#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "recorder.h"
#include "tenon/plugin.h"
#include "tests/fakes/plugin_capability.h"

namespace {

constexpr size_t kMostKernels = 1024;

struct Wrapped {
  const tenon_kernel_registration* registration;
  tenon_kernel* kernel;
};

// A variable of a kernel, and its memory.
struct Variable {
  tenon_resource* handle;
  tenon_tensor_view value;
};

// A call with everything that it points at.
struct Recorded {
  std::vector<tenon_tensor_view> views;  // inputs, then outputs
  std::vector<const tenon_tensor_view*> inputs;
  std::vector<tenon_tensor_view*> outputs;
  std::vector<Variable> variables;
  tenon_frame frame;
};

struct Recording {
  bool running = false;
  std::string problem;
  std::vector<std::unique_ptr<Recorded>> recorded;
  std::vector<tenon_perf_call> calls;
  std::vector<Variable> variables;  // of all kernels, as first seen
  const tenon_frame_services* engine = nullptr;
};
Recording recording;

tenon_tensor_view& MemoryOf(tenon_resource* handle, const tenon_tensor_view& seen) {
  for (Variable& variable : recording.variables) {
    if (variable.handle == handle) return variable.value;
  }
  recording.variables.push_back({handle, seen});
  recording.variables.back().value.buffer = nullptr;
  return recording.variables.back().value;
}

// ---- Services while a call is made again: frame->context is the Recorded ----

const Recorded& Of(const tenon_frame* frame) { return *reinterpret_cast<const Recorded*>(frame->context); }

const tenon_tensor_view& Value(const tenon_frame* frame, const tenon_resource* handle) {
  const std::vector<Variable>& variables = Of(frame).variables;
  size_t i = 0;
  while (variables[i].handle != handle) ++i;
  return variables[i].value;
}

tenon_frame_services ReplayServices() {
  tenon_frame_services s = {};
  s.struct_size = sizeof(s);
  s.set_output = [](tenon_frame*, int32_t, const tenon_tensor_view*) -> tenon_status* {
    return nullptr;
  };  // as recorded
  s.parallel_for = [](tenon_frame*, int64_t total, double, tenon_range_function function, void* argument) {
    function(argument, 0, total);
  };
  s.is_cancelled = [](tenon_frame*) -> uint32_t { return 0; };
  s.input_resource = [](tenon_frame* frame, int32_t index, tenon_resource** out) -> tenon_status* {
    *out = *static_cast<tenon_resource**>(frame->inputs[index]->dl.data);
    return nullptr;
  };
  s.variable_read = [](tenon_frame* frame, tenon_resource* handle, tenon_tensor_view* out) -> tenon_status* {
    *out = Value(frame, handle);
    return nullptr;
  };
  s.variable_begin_update = [](tenon_frame* frame, tenon_resource* handle, uint32_t, uint32_t, tenon_shape, uint64_t,
                               tenon_tensor_view* out_old, tenon_tensor_view* out_new) -> tenon_status* {
    *out_old = *out_new = Value(frame, handle);
    return nullptr;
  };
  s.variable_end_update = [](tenon_frame*, tenon_resource*, uint32_t) {};
  return s;
}
const tenon_frame_services kReplay = ReplayServices();

// ---- Services while recording: the engine's, and notes ----

tenon_status* Refuse(const char* what) {
  recording.problem = std::string("a kernel needs the service ") + what;
  return nullptr;
}

tenon_frame_services RecordingServices() {
  tenon_frame_services s = *recording.engine;
  s.variable_read = [](tenon_frame* frame, tenon_resource* handle, tenon_tensor_view* out) -> tenon_status* {
    tenon_status* status = recording.engine->variable_read(frame, handle, out);
    if (status == nullptr) recording.recorded.back()->variables.push_back({handle, MemoryOf(handle, *out)});
    return status;
  };
  s.variable_begin_update = [](tenon_frame* frame, tenon_resource* handle, uint32_t flags, uint32_t dtype,
                               tenon_shape shape, uint64_t extra, tenon_tensor_view* out_old,
                               tenon_tensor_view* out_new) -> tenon_status* {
    tenon_status* status =
        recording.engine->variable_begin_update(frame, handle, flags, dtype, shape, extra, out_old, out_new);
    if (status == nullptr) recording.recorded.back()->variables.push_back({handle, MemoryOf(handle, *out_new)});
    return status;
  };
  s.alloc_output = [](tenon_frame* frame, int32_t index, tenon_shape shape, uint64_t extra) -> tenon_status* {
    Refuse("alloc_output");
    return recording.engine->alloc_output(frame, index, shape, extra);
  };
  s.retain_input = [](tenon_frame* frame, int32_t index, tenon_tensor_view* out) -> tenon_status* {
    Refuse("retain_input");
    return recording.engine->retain_input(frame, index, out);
  };
  return s;
}

tenon_status* Record(const Wrapped& wrapped, const tenon_prepared* prepared, tenon_frame* frame) {
  recording.engine = frame->services;
  const tenon_frame_services services = RecordingServices();
  Recorded& note = *recording.recorded.emplace_back(std::make_unique<Recorded>());
  for (int32_t i = 0; i < frame->input_count; ++i) note.views.push_back(*frame->inputs[i]);
  tenon_frame passed = *frame;
  passed.services = &services;
  tenon_status* status = wrapped.registration->run(wrapped.kernel, prepared, &passed);
  for (int32_t i = 0; i < frame->output_count; ++i) note.views.push_back(*frame->outputs[i]);
  for (tenon_tensor_view& view : note.views) {
    view.dl.data = static_cast<char*>(view.dl.data) + view.dl.byte_offset;
    view.dl.byte_offset = 0;
    view.buffer = nullptr;
  }
  const auto inputs = static_cast<size_t>(frame->input_count);
  for (size_t i = 0; i < note.views.size(); ++i) {
    if (i < inputs)
      note.inputs.push_back(&note.views[i]);
    else
      note.outputs.push_back(&note.views[i]);
  }
  note.frame = *frame;
  note.frame.inputs = note.inputs.data();
  note.frame.outputs = note.outputs.data();
  note.frame.services = &kReplay;
  note.frame.context = reinterpret_cast<tenon_frame_context*>(&note);
  recording.calls.push_back(
      {wrapped.registration->run, wrapped.kernel, prepared, &note.frame, wrapped.registration->op});
  return status;
}

// ---- Wrapped kernels ----

std::vector<const tenon_kernel_registration*> originals;
std::vector<tenon_kernel_registration> copies;
std::vector<const tenon_kernel_registration*> copy_list;

Wrapped* Of(tenon_kernel* kernel) { return reinterpret_cast<Wrapped*>(kernel); }

tenon_status* CreateAt(size_t index, const tenon_create_args* args, tenon_kernel** out_kernel) {
  auto wrapped = std::make_unique<Wrapped>(Wrapped{originals[index], nullptr});
  if (wrapped->registration->create != nullptr) {
    if (tenon_status* status = wrapped->registration->create(args, &wrapped->kernel)) return status;
  }
  *out_kernel = reinterpret_cast<tenon_kernel*>(wrapped.release());
  return nullptr;
}
// create() is not told which registration it belongs to, so that each has a function of its own.
template <size_t... kIndices>
constexpr auto Creates(std::index_sequence<kIndices...>) {
  using Function = tenon_status* (*)(const tenon_create_args*, tenon_kernel**);
  return std::array<Function, sizeof...(kIndices)>{
      [](const tenon_create_args* args, tenon_kernel** out) { return CreateAt(kIndices, args, out); }...};
}
constexpr auto kCreates = Creates(std::make_index_sequence<kMostKernels>());

void Destroy(tenon_kernel* kernel) {
  const std::unique_ptr<Wrapped> wrapped(Of(kernel));
  if (wrapped->registration->create != nullptr && wrapped->registration->destroy != nullptr) {
    wrapped->registration->destroy(wrapped->kernel);
  }
}
tenon_status* Prepare(tenon_kernel* kernel, tenon_prepare_args* args) {
  return Of(kernel)->registration->prepare(Of(kernel)->kernel, args);
}
tenon_status* Run(tenon_kernel* kernel, const tenon_prepared* prepared, tenon_frame* frame) {
  if (recording.running) return Record(*Of(kernel), prepared, frame);
  return Of(kernel)->registration->run(Of(kernel)->kernel, prepared, frame);
}

// Calls function(descriptor) for each wrapped plugin.
template <class Function>
void EachPlugin(Function&& function) {
  std::string_view rest = TENON_PERF_WRAPPED;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(':'), rest.size());
    if (const tenon_plugin* plugin = tenon::fakes::PluginOf(std::string(rest.substr(0, end)), 0)) function(*plugin);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

tenon_kernel_package MakePackage() {
  EachPlugin([](const tenon_plugin& plugin) {
    for (uint64_t i = 0; i < plugin.capability_count; ++i) {
      const tenon_capability& capability = plugin.capabilities[i];
      if (std::string_view(capability.id.data, capability.id.size) != TENON_CAPABILITY_KERNELS) continue;
      const auto& package = *static_cast<const tenon_kernel_package*>(capability.table);
      originals.insert(originals.end(), package.registrations, package.registrations + package.count);
    }
  });
  if (originals.size() > kMostKernels) originals.resize(kMostKernels);
  for (size_t i = 0; i < originals.size(); ++i) {
    tenon_kernel_registration& copy = copies.emplace_back(*originals[i]);
    copy.priority += 1000;
    copy.create = kCreates[i];
    copy.destroy = Destroy;
    if (copy.prepare != nullptr) copy.prepare = Prepare;
    if (copy.run != nullptr) copy.run = Run;
  }
  for (const tenon_kernel_registration& copy : copies) copy_list.push_back(&copy);
  return {TENON_HEAD(tenon_kernel_package), copy_list.data(), copy_list.size()};
}
const tenon_kernel_package kPackage = MakePackage();

// The wrapped libraries may not have been opened by the host yet: they get its table.
tenon_status* OnLoad(const tenon_load_args* args, tenon_plugin_self**) {
  tenon_status* failure = nullptr;
  EachPlugin([&](const tenon_plugin& plugin) {
    tenon_load_args plain = *args;
    plain.options = nullptr;
    plain.option_count = 0;
    tenon_plugin_self* self = nullptr;
    if (failure == nullptr) failure = plugin.load(&plain, &self);
  });
  return failure;
}

const tenon_perf_recorder kRecorder = {[] {
                                         recording = Recording();
                                         recording.running = true;
                                       },
                                       []() -> const char* {
                                         recording.running = false;
                                         return recording.problem.empty() ? nullptr : recording.problem.c_str();
                                       },
                                       [](uint64_t* out_count) -> const tenon_perf_call* {
                                         *out_count = recording.calls.size();
                                         return recording.calls.data();
                                       }};

const tenon_capability kCapabilities[] = {TENON_PROVIDES(KERNELS, &kPackage),
                                          {TENON_SPAN(TENON_PERF_RECORDER), &kRecorder, 0}};

}  // namespace

TENON_PLUGIN_WITH("tenon.perf.recorder", "0.1.0", "Records the kernel calls of a step, for benchmarks.", kCapabilities,
                  NULL, 0, OnLoad, NULL)
