// SPDX-License-Identifier: Apache-2.0
#include "testing/harness.h"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

#include "device.h"

// The plugin's own stands in plugin.cc, which is not linked here.
const tenon_host* tenon_plugin_host = nullptr;

namespace tenon::cpu::testing {

// ---- The fake host ----

namespace {

tenon_status* StatusNew(uint32_t code, tenon_span message) {
  return new tenon_status{code, std::string(message.data, message.size)};
}
const tenon_host* FakeHost() {
  static const tenon_host host = [] {
    tenon_host h = {};
    h.struct_size = sizeof(h);
    h.status_new = StatusNew;
    h.status_code = [](const tenon_status* s) { return s->code; };
    h.status_message = [](const tenon_status* s) { return sdk::ToSpan(s->message); };
    h.status_release = [](tenon_status* s) { delete s; };
    h.log = [](uint32_t, tenon_span) {};
    h.buffer_retain = [](tenon_buffer*) {};
    h.buffer_release = [](tenon_buffer*) {};
    h.get_extension = [](tenon_span) -> const void* { return nullptr; };
    return h;
  }();
  return &host;
}
[[maybe_unused]] const bool kHostSet = [] {
  tenon_plugin_host = FakeHost();
  return true;
}();

constexpr size_t kGuard = 64;
constexpr char kGuardByte = static_cast<char>(0xA5);

size_t SizeOf(uint32_t dtype) {
  if (dtype == TENON_DT_STRING) return sizeof(tenon_string_cell);
  if (dtype == TENON_DT_RESOURCE || dtype >= TENON_DT_REF) return sizeof(void*);
  return sdk::ElementSize(dtype);
}

}  // namespace

Memory::Memory(size_t size) : size_(size) {
  data_ = static_cast<char*>(std::aligned_alloc(64, (size + kGuard + 63) / 64 * 64));
  std::memset(data_, 0x5A, size);
  std::memset(data_ + size, kGuardByte, kGuard);
}
Memory::~Memory() { std::free(data_); }
Memory::Memory(const Memory& other) : Memory(other.size_) { std::memcpy(data_, other.data_, size_); }
Memory& Memory::operator=(const Memory& other) {
  Memory copy(other);
  std::swap(data_, copy.data_);
  std::swap(size_, copy.size_);
  return *this;
}
bool Memory::intact() const {
  return std::all_of(data_ + size_, data_ + size_ + kGuard, [](char c) { return c == kGuardByte; });
}

Tensor Strings(std::vector<int64_t> dims, const std::vector<std::string>& values) {
  size_t bytes = values.size() * sizeof(tenon_string_cell);
  for (const std::string& v : values) bytes += v.size();
  Tensor t{TENON_DT_STRING, std::move(dims), Memory(bytes)};
  auto* cells = reinterpret_cast<tenon_string_cell*>(t.memory.data());
  size_t at = values.size() * sizeof(tenon_string_cell);
  for (size_t i = 0; i < values.size(); ++i) {
    cells[i] = {at, values[i].size()};
    std::memcpy(t.memory.data() + at, values[i].data(), values[i].size());
    at += values[i].size();
  }
  return t;
}
std::vector<std::string> Texts(const Tensor& t) {
  std::vector<std::string> out;
  const auto* cells = reinterpret_cast<const tenon_string_cell*>(t.memory.data());
  for (int64_t i = 0; i < t.count(); ++i) {
    if (cells[i].offset + cells[i].size > t.memory.size()) throw std::runtime_error("a string cell points outside");
    out.emplace_back(t.memory.data() + cells[i].offset, cells[i].size);
  }
  return out;
}

Tensor Handle(Variable* variable) {
  Tensor t{TENON_DT_RESOURCE, {}, Memory(sizeof(void*))};
  std::memcpy(t.memory.data(), &variable, sizeof(void*));
  return t;
}
Tensor Reference(Variable* variable, uint32_t base_dtype) {
  Tensor t = Handle(variable);
  t.dtype = base_dtype + TENON_DT_REF;
  return t;
}

// ---- One kernel ----

struct Kernel::State {
  std::string op;
  uint32_t dtype = 0;
  const tenon_kernel_package* package = &kKernelPackage;
  std::map<std::string, AttrValue> attrs;
  uint32_t threads = 1;
  std::vector<int> constants;
  int in_place = -1;
  bool given_up = false;
  const tenon_kernel_registration* registration = nullptr;
  tenon_kernel* kernel = nullptr;
  std::map<std::string, std::unique_ptr<Variable>> resources;  // by container/name

  const tenon_kernel_registration* Find() const {
    for (uint64_t i = 0; i < package->count; ++i) {
      const tenon_kernel_registration* r = package->registrations[i];
      if (sdk::ToText(r->op) != op) continue;
      bool fits = dtype == 0 || r->constraint_count == 0;
      for (uint64_t k = 0; k < r->constraint_count; ++k) {
        const auto& c = r->constraints[k];
        fits |= std::find(c.dtypes, c.dtypes + c.count, dtype) != c.dtypes + c.count;
      }
      if (fits) return r;
    }
    throw std::runtime_error("no registration of " + op);
  }
};

namespace {

struct Node {
  const std::string* op;
  const std::map<std::string, AttrValue>* attrs;
};
const Node* AsNode(const tenon_node* node) { return reinterpret_cast<const Node*>(node); }

tenon_status* NodeAttr(const tenon_node* node, tenon_span name, tenon_attr_value* out) {
  const auto found = AsNode(node)->attrs->find(std::string(sdk::ToText(name)));
  if (found == AsNode(node)->attrs->end()) {
    return sdk::Failure(TENON_NOT_FOUND, "no attribute '", name, "'");
  }
  static thread_local tenon_span text;
  static thread_local uint8_t boolean;
  *out = {};
  out->count = 1;
  const AttrValue& value = found->second;
  if (const auto* i = std::get_if<int64_t>(&value)) {
    out->kind = TENON_ATTR_INT, out->data = i;
  } else if (const auto* f = std::get_if<float>(&value)) {
    out->kind = TENON_ATTR_FLOAT, out->data = f;
  } else if (const auto* b = std::get_if<bool>(&value)) {
    boolean = *b;
    out->kind = TENON_ATTR_BOOL, out->data = &boolean;
  } else if (const auto* s = std::get_if<std::string>(&value)) {
    text = sdk::ToSpan(*s);
    out->kind = TENON_ATTR_STRING, out->data = &text;
  } else if (const auto* t = std::get_if<uint32_t>(&value)) {
    out->kind = TENON_ATTR_TYPE, out->data = t;
  } else {
    const auto& list = std::get<std::vector<int64_t>>(value);
    out->kind = TENON_ATTR_INT | TENON_ATTR_LIST, out->count = list.size(), out->data = list.data();
  }
  return nullptr;
}

tenon_node_services NodeServices() {
  tenon_node_services s = {};
  s.struct_size = sizeof(s);
  s.name = [](const tenon_node*) { return sdk::ToSpan("node"); };
  s.op = [](const tenon_node* node) { return sdk::ToSpan(*AsNode(node)->op); };
  s.attr = NodeAttr;
  return s;
}

tenon_status* ResourceHandle(tenon_create_context* context, tenon_span container, tenon_span name, tenon_span,
                             uint32_t, tenon_resource** out) {
  auto* state = reinterpret_cast<Kernel::State*>(context);
  auto& slot = state->resources[std::string(sdk::ToText(container)) + "/" + std::string(sdk::ToText(name))];
  if (!slot) slot = std::make_unique<Variable>();
  *out = reinterpret_cast<tenon_resource*>(slot.get());
  return nullptr;
}

tenon_tensor_view ViewOf(const Tensor& t) {
  tenon_tensor_view view = {};
  view.dl.data = t.memory.data();
  view.dl.device_type = 1;
  view.dl.ndim = static_cast<int32_t>(t.dims.size());
  view.dl.shape = const_cast<int64_t*>(t.dims.data());
  view.dtype = t.dtype;
  view.byte_size = static_cast<uint64_t>(t.count()) * SizeOf(t.dtype);
  view.flags = TENON_VIEW_HOST_VISIBLE | TENON_VIEW_ALIGNED64;
  return view;
}

// The fake frame; the frame's context points to it.
struct Run {
  std::vector<Tensor>* inputs;
  std::vector<Tensor> outputs;
  std::vector<tenon_tensor_view> output_views;
  std::map<Variable*, Tensor> updates;  // new values of the variables being updated
  uint32_t threads;
  bool given_up = false;
  bool bad_guard = false;
};
Run& RunOf(tenon_frame* frame) { return *reinterpret_cast<Run*>(frame->context); }
Variable* AsVariable(tenon_resource* handle) { return reinterpret_cast<Variable*>(handle); }

tenon_status* AllocOutput(tenon_frame* frame, int32_t index, tenon_shape shape, uint64_t extra) {
  Run& run = RunOf(frame);
  Tensor& t = run.outputs[static_cast<size_t>(index)];
  t.dims.assign(shape.dims, shape.dims + shape.rank);
  t.memory = Memory(static_cast<size_t>(t.count()) * SizeOf(t.dtype) + extra);
  run.output_views[static_cast<size_t>(index)] = ViewOf(t);
  return nullptr;
}
tenon_status* SetOutput(tenon_frame* frame, int32_t index, const tenon_tensor_view* view) {
  if (view->buffer == nullptr) return sdk::Failure(TENON_INTERNAL, "set_output without a buffer");
  if (tenon_status* s = AllocOutput(frame, index, {view->dl.shape, view->dl.ndim, 0}, 0)) return s;
  Tensor& t = RunOf(frame).outputs[static_cast<size_t>(index)];
  std::memcpy(t.memory.data(), sdk::Data<char>(*view), view->byte_size);
  return nullptr;
}
void ParallelFor(tenon_frame* frame, int64_t total, double, tenon_range_function function, void* argument) {
  const int64_t first = total / 3 + (RunOf(frame).threads > 1 ? 1 : 0);
  const int64_t second = std::min(total, first + total / 2 + 1);
  for (const auto& [begin, end] : {std::pair{second, total}, {int64_t{0}, std::min(first, total)}, {std::min(first, total), second}}) {
    if (begin < end) function(argument, begin, end);
  }
}
tenon_status* InputResource(tenon_frame* frame, int32_t index, tenon_resource** out) {
  std::memcpy(out, sdk::Data<char>(*frame->inputs[index]), sizeof(void*));
  return nullptr;
}
tenon_status* VariableRead(tenon_frame*, tenon_resource* handle, tenon_tensor_view* out) {
  Variable* v = AsVariable(handle);
  if (!v->initialized) return sdk::Failure(TENON_FAILED_PRECONDITION, "the variable has no value");
  *out = ViewOf(v->value);
  out->buffer = reinterpret_cast<tenon_buffer*>(v);
  return nullptr;
}
tenon_status* BeginUpdate(tenon_frame* frame, tenon_resource* handle, uint32_t flags, uint32_t dtype, tenon_shape shape,
                          uint64_t extra, tenon_tensor_view* out_old, tenon_tensor_view* out_new) {
  Variable* v = AsVariable(handle);
  v->last_flags = flags;
  const std::vector<int64_t> dims =
      shape.rank < 0 ? v->value.dims : std::vector<int64_t>(shape.dims, shape.dims + shape.rank);
  *out_old = {};
  if ((flags & TENON_UPDATE_INITIALIZE) == 0) {
    if (!v->initialized) return sdk::Failure(TENON_FAILED_PRECONDITION, "the variable has no value");
    if (v->value.dtype != dtype || v->value.dims != dims) {
      return sdk::Failure(TENON_INVALID_ARGUMENT, "the variable has another shape or dtype");
    }
  }
  if (v->initialized) *out_old = ViewOf(v->value);
  if (v->in_place && v->initialized && v->value.dims == dims) {
    *out_new = ViewOf(v->value);
    return nullptr;
  }
  Run& run = RunOf(frame);
  Tensor& update = run.updates[v];
  update = Tensor{dtype, dims, Memory(0)};
  update.memory = Memory(static_cast<size_t>(update.count()) * SizeOf(dtype) + extra);
  if ((flags & TENON_UPDATE_PRESERVE) != 0) {
    std::memcpy(update.memory.data(), v->value.memory.data(), v->value.memory.size());
  }
  *out_new = ViewOf(update);
  return nullptr;
}
void EndUpdate(tenon_frame* frame, tenon_resource* handle, uint32_t outcome) {
  Variable* v = AsVariable(handle);
  Run& run = RunOf(frame);
  const auto found = run.updates.find(v);
  if (found == run.updates.end()) return;  // in place
  if (outcome == TENON_UPDATE_COMMIT) {
    run.bad_guard |= !found->second.memory.intact();
    v->value = found->second;
    v->initialized = true;
  }
  run.updates.erase(found);
}

tenon_frame_services FrameServices() {
  tenon_frame_services s = {};
  s.struct_size = sizeof(s);
  s.alloc_output = AllocOutput;
  s.set_output = SetOutput;
  s.parallel_for = ParallelFor;
  s.is_cancelled = [](tenon_frame* frame) { return RunOf(frame).given_up ? 1u : 0u; };
  s.input_resource = InputResource;
  s.resource_destroy = [](tenon_frame*, tenon_resource* handle) -> tenon_status* {
    if (!AsVariable(handle)->initialized) return sdk::Failure(TENON_NOT_FOUND, "the resource does not exist");
    AsVariable(handle)->initialized = false;
    return nullptr;
  };
  s.variable_read = VariableRead;
  s.variable_is_initialized = [](tenon_frame*, tenon_resource* h) { return AsVariable(h)->initialized ? 1u : 0u; };
  s.variable_begin_update = BeginUpdate;
  s.variable_end_update = EndUpdate;
  return s;
}

}  // namespace

Kernel::Kernel(std::string op, uint32_t dtype) : state_(std::make_unique<State>()) {
  state_->op = std::move(op);
  state_->dtype = dtype;
}
Kernel::~Kernel() {
  if (state_ && state_->kernel != nullptr) state_->registration->destroy(state_->kernel);
}
Kernel::Kernel(Kernel&&) noexcept = default;
Kernel& Kernel::Attr(const std::string& name, AttrValue value) {
  state_->attrs[name] = std::move(value);
  return *this;
}
Kernel& Kernel::Threads(uint32_t threads) {
  state_->threads = threads;
  return *this;
}
Kernel& Kernel::Constant(int input) {
  state_->constants.push_back(input);
  return *this;
}
Kernel& Kernel::InPlace(int input) {
  state_->in_place = input;
  return *this;
}
Kernel& Kernel::GivenUp() {
  state_->given_up = true;
  return *this;
}
Kernel& Kernel::OnDevice(const tenon_kernel_package& package) {
  state_->package = &package;
  return *this;
}

Result Kernel::Run(std::vector<Tensor> inputs, const std::vector<OutSpec>& outputs) {
  Result result;
  const auto failed = [&](tenon_status* status) {
    if (status == nullptr) return false;
    result.code = status->code;
    result.message = status->message;
    delete status;
    return true;
  };
  if (state_->registration == nullptr) state_->registration = state_->Find();
  const tenon_kernel_registration& r = *state_->registration;

  if (r.create != nullptr && state_->kernel == nullptr) {
    const Node node{&state_->op, &state_->attrs};
    const tenon_node_services node_services = NodeServices();
    tenon_create_services services = {};
    services.struct_size = sizeof(services);
    services.resource_handle = ResourceHandle;
    services.random_seed = [](tenon_create_context*, uint64_t seed[2]) -> tenon_status* {
      seed[0] = 123, seed[1] = 456;
      return nullptr;
    };
    tenon_create_args args = {};
    args.struct_size = sizeof(args);
    args.node_services = &node_services;
    args.node = reinterpret_cast<const tenon_node*>(&node);
    args.services = &services;
    args.context = reinterpret_cast<tenon_create_context*>(state_.get());
    if (failed(r.create(&args, &state_->kernel))) return result;
  }

  struct Run run = {};
  run.inputs = &inputs;
  run.threads = state_->threads;
  run.given_up = state_->given_up;
  for (size_t i = 0; i < outputs.size(); ++i) {
    Tensor t{outputs[i].dtype, outputs[i].dims, Memory(0)};
    t.memory = Memory(static_cast<size_t>(t.count()) * SizeOf(t.dtype));
    run.outputs.push_back(t);
  }
  if (state_->in_place >= 0) run.outputs[0].memory = inputs[static_cast<size_t>(state_->in_place)].memory;
  std::vector<tenon_tensor_view> input_views;
  for (const Tensor& t : inputs) input_views.push_back(ViewOf(t));
  for (const Tensor& t : run.outputs) run.output_views.push_back(ViewOf(t));
  if (state_->in_place >= 0) {
    input_views[static_cast<size_t>(state_->in_place)].dl.data = run.output_views[0].dl.data;
  }
  std::vector<const tenon_tensor_view*> in;
  std::vector<tenon_tensor_view*> out;
  for (auto& view : input_views) in.push_back(&view);
  for (auto& view : run.output_views) out.push_back(&view);

  tenon_prepared* prepared = nullptr;
  uint64_t workspace_bytes = 0;
  if (r.prepare != nullptr) {
    std::vector<tenon_tensor_view> shapes = input_views;
    for (size_t i = 0; i < shapes.size(); ++i) {
      const auto& c = state_->constants;
      if (std::find(c.begin(), c.end(), static_cast<int>(i)) == c.end()) shapes[i].dl.data = nullptr;
    }
    std::vector<const tenon_tensor_view*> shape_pointers;
    for (auto& view : shapes) shape_pointers.push_back(&view);
    std::vector<const tenon_tensor_view*> out_pointers(out.begin(), out.end());
    tenon_prepare_args args = {};
    args.struct_size = sizeof(args);
    args.inputs = shape_pointers.data();
    args.outputs = out_pointers.data();
    args.input_count = static_cast<int32_t>(in.size());
    args.output_count = static_cast<int32_t>(out.size());
    args.threads = state_->threads;
    if (failed(r.prepare(state_->kernel, &args))) return result;
    prepared = args.out_prepared;
    workspace_bytes = args.out_workspace_bytes;
  }
  {
    Memory workspace(workspace_bytes);
    const tenon_frame_services services = FrameServices();
    tenon_frame frame = {};
    frame.struct_size = sizeof(frame);
    frame.inputs = in.data();
    frame.outputs = out.data();
    frame.input_count = static_cast<int32_t>(in.size());
    frame.output_count = static_cast<int32_t>(out.size());
    frame.workspace = workspace.data();
    frame.workspace_bytes = workspace_bytes;
    frame.services = &services;
    frame.context = reinterpret_cast<tenon_frame_context*>(&run);
    failed(r.run(state_->kernel, prepared, &frame));
    run.bad_guard |= !workspace.intact();
  }
  if (r.destroy_prepared != nullptr && prepared != nullptr) r.destroy_prepared(prepared);
  for (const Tensor& t : run.outputs) run.bad_guard |= !t.memory.intact();
  if (run.bad_guard) throw std::runtime_error(state_->op + " wrote behind its output or workspace");
  result.outputs = std::move(run.outputs);
  return result;
}

}  // namespace tenon::cpu::testing
