// SPDX-License-Identifier: Apache-2.0
// Runs kernels from their registrations: those of the tested plugin on a device, and the CPU's, which say what is right.
//
//   Case add = {"AddV2", {}, {Floats({2, 1}, {1, 2}), Floats({3}, {1, 2, 3})}, {{TENON_DT_FLOAT, {2, 3}}}};
//   Bench bench;
//   bench.OnDevice(add, &outputs);                 // "" or the failure; values come back from the device
//   EXPECT_EQ(Compare(bench, add, 1e-6), "");   // against the CPU's kernel
//
// Inputs in `host` stay in the host's memory, as the registration's host_memory_args say. Variables are inputs of type
// TENON_DT_RESOURCE: their values are kept by the bench, in device memory for the device's kernels. Outputs that kernels allocate
// get the shape that they say.
#ifndef TENON_TESTS_DEVICE_KERNEL_H_
#define TENON_TESTS_DEVICE_KERNEL_H_

#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tenon/dtype.h"
#include "tenon/graph.h"
#include "tenon/sdk/element.h"
#include "tests/device/plugin.h"

namespace tenon::device_test {

inline constexpr char kCpuPlugin[] = TENON_TEST_BUILD_DIR "/lib/tenon/plugins/tenon_cpu.so";
// What a bench loads the tested plugin with; each test program defines it.
extern const Settings kBenchSettings;

struct Type {
  uint32_t dtype;
};
using Attribute = std::variant<bool, int64_t, float, Type, std::string, std::vector<int64_t>>;
using Attributes = std::map<std::string, Attribute>;
using Dimensions = std::vector<int64_t>;

inline int64_t CountOf(const Dimensions& dims) {
  int64_t count = 1;
  for (int64_t dim : dims) count *= dim;
  return count;
}

// A tensor in the host's memory.
struct Value {
  uint32_t dtype = TENON_DT_FLOAT;
  Dimensions dims;
  std::vector<char> bytes = std::vector<char>(CountOf(dims) * sdk::ElementSize(dtype));

  template <class T>
  std::vector<T> As() const {
    std::vector<T> values(bytes.size() / sizeof(T));
    if (!values.empty()) std::memcpy(static_cast<void*>(values.data()), bytes.data(), bytes.size());
    return values;
  }
  // Of any number type.
  std::vector<double> Numbers() const {
    std::vector<double> out;
    const auto read = [&]<class T>(T) {
      for (size_t i = 0; i * sizeof(T) < bytes.size(); ++i) {
        T value;
        std::memcpy(static_cast<void*>(&value), bytes.data() + i * sizeof(T), sizeof(T));
        out.push_back(static_cast<double>(static_cast<sdk::Wide<T>>(value)));
      }
    };
    switch (dtype) {
      case TENON_DT_FLOAT: read(float{}); break;
      case TENON_DT_DOUBLE: read(double{}); break;
      case TENON_DT_INT32: read(int32_t{}); break;
      case TENON_DT_INT64: read(int64_t{}); break;
      case TENON_DT_BFLOAT16: read(sdk::Bfloat16{}); break;
      case TENON_DT_HALF: read(sdk::Half{}); break;
      default: read(uint8_t{}); break;
    }
    return out;
  }
};
template <class T>
Value Tensor(Dimensions dims, const std::vector<T>& values) {
  Value value = {sdk::DtypeOf<T>::value, std::move(dims)};
  if (!values.empty()) std::memcpy(value.bytes.data(), static_cast<const void*>(values.data()), value.bytes.size());
  return value;
}
inline Value Floats(Dimensions dims, const std::vector<float>& values) { return Tensor<float>(std::move(dims), values); }
inline Value Ints(const std::vector<int32_t>& values) { return Tensor<int32_t>({static_cast<int64_t>(values.size())}, values); }
inline Value Int(int32_t value) { return Tensor<int32_t>({}, {value}); }
inline Value Bools(Dimensions dims, const std::vector<int>& values) {
  Value value = {TENON_DT_BOOL, std::move(dims)};
  std::copy(values.begin(), values.end(), value.bytes.begin());
  return value;
}
inline Value RandomFloatsOf(Dimensions dims, uint32_t seed = 5, float low = -1, float high = 1) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(low, high);
  std::vector<float> values(static_cast<size_t>(CountOf(dims)));
  for (float& value : values) value = uniform(random);
  return Floats(std::move(dims), values);
}
// A variable without a value yet, or with the one given.
inline Value Variable() { return {TENON_DT_RESOURCE, {}, {}}; }

struct Case {
  std::string op;
  Attributes attributes = {};
  std::vector<Value> inputs = {};
  std::vector<Value> outputs = {};  // dtypes and dims
  std::vector<int> host = {};       // inputs that stay on the host
  std::vector<int> host_outputs = {};
  uint32_t precision = TENON_PRECISION_STRICT;
  bool constant = true;  // host inputs are known to prepare()
};

}  // namespace tenon::device_test

struct tenon_node {
  std::string op;
  tenon::device_test::Attributes attributes;
  std::vector<uint32_t> input_types, output_types;
  mutable tenon_span text = {};
};
// A variable, in the memory of the device or of the host.
struct tenon_resource {
  uint32_t dtype = TENON_DT_INVALID;
  std::vector<int64_t> dims;
  void* data = nullptr;  // NULL: no value
  void* spare = nullptr;
  int updates = 0, commits = 0;
};
struct tenon_frame_context {
  std::function<void*(uint64_t)> allocate;
  std::vector<std::vector<int64_t>> output_dims;  // of outputs that were set or allocated
  uint32_t is_cancelled = 0;
};

namespace tenon::device_test {

inline const tenon_node_services* NodeServices() {
  static const tenon_node_services services = [] {
    tenon_node_services s = {};
    s.struct_size = sizeof s;
    s.name = [](const tenon_node* node) -> tenon_span { return {node->op.data(), node->op.size()}; };
    s.op = s.name;
    s.input_count = [](const tenon_node* node) { return static_cast<int32_t>(node->input_types.size()); };
    s.output_count = [](const tenon_node* node) { return static_cast<int32_t>(node->output_types.size()); };
    s.input_dtype = [](const tenon_node* node, int32_t i) { return node->input_types[static_cast<size_t>(i)]; };
    s.output_dtype = [](const tenon_node* node, int32_t i) { return node->output_types[static_cast<size_t>(i)]; };
    s.attr = [](const tenon_node* node, tenon_span name, tenon_attr_value* out) -> tenon_status* {
      const auto found = node->attributes.find(std::string(name.data, name.size));
      if (found == node->attributes.end()) return Host()->status_new(TENON_NOT_FOUND, name);
      const Attribute& a = found->second;
      if (const auto* b = std::get_if<bool>(&a)) *out = {TENON_ATTR_BOOL, 0, 1, b};
      if (const auto* i = std::get_if<int64_t>(&a)) *out = {TENON_ATTR_INT, 0, 1, i};
      if (const auto* f = std::get_if<float>(&a)) *out = {TENON_ATTR_FLOAT, 0, 1, f};
      if (const auto* t = std::get_if<Type>(&a)) *out = {TENON_ATTR_TYPE, 0, 1, &t->dtype};
      if (const auto* l = std::get_if<std::vector<int64_t>>(&a)) *out = {TENON_ATTR_INT | TENON_ATTR_LIST, 0, l->size(), l->data()};
      if (const auto* text = std::get_if<std::string>(&a)) {
        node->text = {text->data(), text->size()};
        *out = {TENON_ATTR_STRING, 0, 1, &node->text};
      }
      return nullptr;
    };
    return s;
  }();
  return &services;
}

inline tenon_tensor_view ViewOf(uint32_t dtype, std::vector<int64_t>& dims, void* data) {
  tenon_tensor_view view = {};
  view.dl.data = data;
  view.dl.ndim = static_cast<int32_t>(dims.size());
  view.dl.shape = dims.data();
  view.dtype = dtype;
  view.byte_size = static_cast<uint64_t>(CountOf(dims)) * sdk::ElementSize(dtype);
  return view;
}
inline uint64_t BytesOf(const tenon_resource& r) { return static_cast<uint64_t>(CountOf(r.dims)) * sdk::ElementSize(r.dtype); }

inline const tenon_frame_services* FrameServices() {
  static const tenon_frame_services services = [] {
    tenon_frame_services s = {};
    s.struct_size = sizeof s;
    s.set_output = [](tenon_frame* frame, int32_t i, const tenon_tensor_view* view) -> tenon_status* {
      std::vector<int64_t>& dims = frame->context->output_dims[static_cast<size_t>(i)];
      dims.assign(view->dl.shape, view->dl.shape + view->dl.ndim);
      *frame->outputs[i] = ViewOf(view->dtype, dims, view->dl.data);
      return nullptr;
    };
    s.alloc_output = [](tenon_frame* frame, int32_t i, tenon_shape shape, uint64_t) -> tenon_status* {
      std::vector<int64_t>& dims = frame->context->output_dims[static_cast<size_t>(i)];
      dims.assign(shape.dims, shape.dims + shape.rank);
      tenon_tensor_view view = ViewOf(frame->outputs[i]->dtype, dims, nullptr);
      view.dl.data = frame->context->allocate(view.byte_size);
      *frame->outputs[i] = view;
      return nullptr;
    };
    // The bench keeps the memory.
    s.alloc_tensor = [](tenon_frame* frame, uint32_t dtype, tenon_shape shape, uint64_t, tenon_tensor_view* out) -> tenon_status* {
      std::vector<int64_t> dims(shape.dims, shape.dims + shape.rank);
      *out = ViewOf(dtype, dims, nullptr);
      out->dl.data = frame->context->allocate(out->byte_size);
      out->dl.shape = const_cast<int64_t*>(shape.dims);
      return nullptr;
    };
    s.is_cancelled = [](tenon_frame* frame) -> uint32_t { return frame->context->is_cancelled; };
    s.parallel_for = [](tenon_frame*, int64_t total, double, tenon_range_function function, void* argument) {
      function(argument, 0, total / 3);  // in uneven shares
      function(argument, total / 3, total);
    };
    s.input_resource = [](tenon_frame* frame, int32_t i, tenon_resource** out) -> tenon_status* {
      *out = *static_cast<tenon_resource**>(frame->inputs[i]->dl.data);
      return nullptr;
    };
    s.variable_read = [](tenon_frame*, tenon_resource* r, tenon_tensor_view* out) -> tenon_status* {
      if (r->data == nullptr) return Host()->status_new(TENON_FAILED_PRECONDITION, Span("no value"));
      *out = ViewOf(r->dtype, r->dims, r->data);
      return nullptr;
    };
    s.variable_is_initialized = [](tenon_frame*, tenon_resource* r) -> uint32_t { return r->data != nullptr; };
    s.variable_begin_update = [](tenon_frame* frame, tenon_resource* r, uint32_t flags, uint32_t dtype, tenon_shape shape,
                                 uint64_t, tenon_tensor_view* out_old, tenon_tensor_view* out_new) -> tenon_status* {
      if ((flags & TENON_UPDATE_INITIALIZE) != 0) {
        r->dtype = dtype;
        r->dims.assign(shape.dims, shape.dims + shape.rank);
      } else if (r->data == nullptr) {
        return Host()->status_new(TENON_FAILED_PRECONDITION, Span("no value"));
      } else if (shape.rank >= 0 && !std::equal(r->dims.begin(), r->dims.end(), shape.dims, shape.dims + shape.rank)) {
        return Host()->status_new(TENON_INVALID_ARGUMENT, Span("another shape"));
      }
      ++r->updates;
      r->spare = frame->context->allocate(BytesOf(*r));
      *out_old = ViewOf(r->dtype, r->dims, r->data);
      *out_new = ViewOf(r->dtype, r->dims, r->spare);
      // Device memory of the tested plugins is the host's.
      if ((flags & TENON_UPDATE_PRESERVE) != 0 && BytesOf(*r) > 0) std::memcpy(r->spare, r->data, BytesOf(*r));
      return nullptr;
    };
    s.variable_end_update = [](tenon_frame*, tenon_resource* r, uint32_t outcome) {
      if (outcome != TENON_UPDATE_COMMIT) return;
      r->data = r->spare;
      ++r->commits;
    };
    return s;
  }();
  return &services;
}

// The kernels of a built plugin by op, the first whose type constraints hold for the node.
class KernelTable {
 public:
  explicit KernelTable(const tenon_plugin* descriptor)
      : package_(static_cast<const tenon_kernel_package*>(Capability(TENON_CAPABILITY_KERNELS, descriptor))) {}
  const tenon_kernel_registration* Find(const tenon_node& node) const {
    for (uint64_t i = 0; i < package_->count; ++i) {
      const tenon_kernel_registration* r = package_->registrations[i];
      if (std::string_view(r->op.data, r->op.size) == node.op && Fits(*r, node)) return r;
    }
    return nullptr;
  }
  const tenon_kernel_package& package() const { return *package_; }

 private:
  static bool Fits(const tenon_kernel_registration& r, const tenon_node& node) {
    for (uint64_t i = 0; i < r.constraint_count; ++i) {
      const tenon_type_constraint& constraint = r.constraints[i];
      const auto found = node.attributes.find(std::string(constraint.attr.data, constraint.attr.size));
      if (found == node.attributes.end()) continue;
      const uint32_t* end = constraint.dtypes + constraint.count;
      if (std::find(constraint.dtypes, end, std::get<Type>(found->second).dtype) == end) return false;
    }
    return true;
  }
  const tenon_kernel_package* package_;
};

// Devices, and the CPU's kernels beside them.
class Bench {
 public:
  Bench() : Bench(kBenchSettings, 0) {}
  Bench(std::initializer_list<Settings::value_type> settings) : Bench(Settings(settings), 0) {}
  Bench(const Settings& settings, uint32_t index)
      : plugin_(settings), device(plugin_, index), queue(device.Queue()), tested(Descriptor()), cpu(LoadCpu()) {}
  ~Bench() {
    for (void* memory : host_memory_) std::free(memory);
    Descriptor(kCpuPlugin)->unload(cpu_self_);
  }

  // Gives "" or the failure, also a late one; then the outputs.
  std::string OnDevice(const Case& given, std::vector<Value>* out_outputs, const std::vector<tenon_resource*>& variables = {}) {
    Run run(given, variables);
    const auto upload = [&](Value& value) -> void* {
      if (value.bytes.empty()) return nullptr;
      void* memory = device.Memory(value.bytes.size());
      device.Upload(queue, value.bytes, memory);
      return memory;
    };
    for (size_t i = 0; i < run.inputs.size(); ++i) {
      const bool host = std::find(given.host.begin(), given.host.end(), static_cast<int>(i)) != given.host.end();
      if (!host && run.inputs[i].dtype != TENON_DT_RESOURCE) run.views[i].dl.data = upload(run.inputs[i]);
    }
    for (size_t i = 0; i < run.outputs.size(); ++i) {
      const auto at = std::find(given.host_outputs.begin(), given.host_outputs.end(), static_cast<int>(i));
      const uint64_t bytes = run.outputs[i].bytes.size();
      if (at == given.host_outputs.end()) run.OutputView(i).dl.data = bytes == 0 ? nullptr : device.Memory(bytes);
    }
    tenon_semaphore* timeline = device.Semaphore();
    const tenon_kernel_registration* kernel = tested.Find(run.node);
    if (kernel == nullptr) return "no kernel";
    tenon_frame_context context = {[&](uint64_t bytes) { return device.Memory(std::max<uint64_t>(bytes, 1)); }, {}};
    run.frame.device = device.device;
    run.frame.queue = queue;
    run.frame.timeline = timeline;
    run.frame.label = Span("node");
    std::string text = run.Go(*kernel, device.device, &context, [&] {
      EXPECT_EQ(device.Barrier(queue, {{}, timeline, 1}), "");
      std::string failure = device.Wait(timeline, 1);
      device.Finish(queue);  // after a failure that is told early, work may still use the workspace
      return failure;
    });
    device.Finish(queue);
    device.Destroy(timeline);
    if (!text.empty()) return text;
    for (size_t i = 0; i < run.outputs.size(); ++i) {
      const auto at = std::find(given.host_outputs.begin(), given.host_outputs.end(), static_cast<int>(i));
      const tenon_tensor_view& view = run.OutputView(i);
      if (at != given.host_outputs.end()) continue;
      run.outputs[i].bytes.clear();
      if (view.byte_size > 0) run.outputs[i].bytes = device.Download<char>(queue, view.dl.data, view.byte_size);
      run.outputs[i].dims = Dimensions(view.dl.shape, view.dl.shape + view.dl.ndim);
    }
    *out_outputs = std::move(run.outputs);
    return "";
  }

  std::string OnCpu(const Case& given, std::vector<Value>* out_outputs, const std::vector<tenon_resource*>& variables = {}) {
    Run run(given, variables);
    const tenon_kernel_registration* kernel = cpu.Find(run.node);
    if (kernel == nullptr) return "no kernel";
    tenon_frame_context context = {[&](uint64_t bytes) { return HostMemory(bytes); }, {}};
    const std::string text = run.Go(*kernel, nullptr, &context, [] { return std::string(); });
    if (text.empty()) *out_outputs = std::move(run.outputs);
    return text;
  }
  void* HostMemory(uint64_t bytes) {
    host_memory_.push_back(std::aligned_alloc(64, (bytes + 64) / 64 * 64));
    return host_memory_.back();
  }

 private:
  tenon_plugin_self* cpu_self_ = nullptr;
  std::vector<void*> host_memory_;
  const Plugin plugin_;

 public:
  Handle device;
  tenon_queue* queue;
  KernelTable tested, cpu;

 private:
  // One node, its operands, and one run.
  struct Run {
    Run(const Case& given, const std::vector<tenon_resource*>& variables)
        : inputs(given.inputs), outputs(given.outputs), resources(variables), precision(given.precision) {
      node = {given.op, given.attributes, {}, {}};
      size_t variable = 0;
      for (size_t i = 0; i < inputs.size(); ++i) {
        Value& value = inputs[i];
        node.input_types.push_back(value.dtype);
        void* data = value.bytes.empty() ? nullptr : static_cast<void*>(value.bytes.data());
        if (value.dtype == TENON_DT_RESOURCE) data = &resources[variable++];
        views.push_back(ViewOf(value.dtype, value.dims, data));
        known.push_back(given.constant);
      }
      for (Value& value : outputs) {
        node.output_types.push_back(value.dtype);
        views.push_back(ViewOf(value.dtype, value.dims, value.bytes.data()));
      }
      if (node.attributes.count("T") == 0 && !inputs.empty()) node.attributes["T"] = Type{BaseType(given)};
      host_inputs = given.host;
      host_outputs = given.host_outputs;
    }
    static uint32_t BaseType(const Case& given) {
      for (const Value& value : given.inputs) {
        if (value.dtype != TENON_DT_RESOURCE) return value.dtype;
      }
      return TENON_DT_FLOAT;
    }
    tenon_tensor_view& OutputView(size_t i) { return views[inputs.size() + i]; }

    template <class Wait>
    std::string Go(const tenon_kernel_registration& kernel, tenon_device* device, tenon_frame_context* context, Wait&& wait) {
      const tenon_create_args create = {TENON_HEAD(tenon_create_args), NodeServices(), &node, nullptr, nullptr, device};
      tenon_kernel* object = nullptr;
      if (kernel.create != nullptr) {
        if (tenon_status* status = kernel.create(&create, &object)) return Text(status);
      }
      std::string text = Prepared(kernel, object, device, context, wait);
      if (kernel.destroy != nullptr) kernel.destroy(object);
      return text;
    }
    template <class Wait>
    std::string Prepared(const tenon_kernel_registration& kernel, tenon_kernel* object, tenon_device* device,
                         tenon_frame_context* context, Wait&& wait) {
      std::vector<tenon_tensor_view> shapes = views;
      std::vector<const tenon_tensor_view*> planned, in;
      std::vector<tenon_tensor_view*> out;
      for (size_t i = 0; i < shapes.size(); ++i) {
        const bool host = std::find(host_inputs.begin(), host_inputs.end(), static_cast<int>(i)) != host_inputs.end();
        if (!(host && known[i])) shapes[i].dl.data = nullptr;
        planned.push_back(&shapes[i]);
      }
      tenon_prepare_args prepare = {TENON_HEAD(tenon_prepare_args), planned.data(), planned.data() + inputs.size(),
                                    static_cast<int32_t>(inputs.size()), static_cast<int32_t>(outputs.size()), precision, 1,
                                    device, nullptr, 0};
      if (kernel.prepare != nullptr) {
        if (tenon_status* status = kernel.prepare(object, &prepare)) return Text(status);
      }
      for (size_t i = 0; i < inputs.size(); ++i) in.push_back(&views[i]);
      for (size_t i = 0; i < outputs.size(); ++i) out.push_back(&OutputView(i));
      // A device's workspace lies in its memory.
      std::vector<char> host_workspace(device == nullptr ? prepare.out_workspace_bytes + 64 : 0);
      void* const workspace = device == nullptr ? host_workspace.data() : context->allocate(prepare.out_workspace_bytes + 64);
      context->output_dims.resize(outputs.size());
      frame.struct_size = sizeof frame;
      frame.inputs = in.data();
      frame.outputs = out.data();
      frame.input_count = static_cast<int32_t>(in.size());
      frame.output_count = static_cast<int32_t>(out.size());
      frame.workspace = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(workspace) + 63) / 64 * 64);
      frame.workspace_bytes = prepare.out_workspace_bytes;
      frame.services = FrameServices();
      frame.context = context;
      std::string text = Text(kernel.run(object, prepare.out_prepared, &frame));
      if (text.empty()) text = wait();
      for (size_t i = 0; i < outputs.size(); ++i) {
        // An output that was set lies elsewhere.
        const bool on_host = device == nullptr || std::find(host_outputs.begin(), host_outputs.end(), static_cast<int>(i)) != host_outputs.end();
        if (on_host && !context->output_dims[i].empty()) {
          outputs[i].dims = context->output_dims[i];
          outputs[i].bytes.assign(static_cast<char*>(out[i]->dl.data), static_cast<char*>(out[i]->dl.data) + out[i]->byte_size);
        }
      }
      if (kernel.destroy_prepared != nullptr && prepare.out_prepared != nullptr) kernel.destroy_prepared(prepare.out_prepared);
      return text;
    }

    tenon_node node;
    std::vector<Value> inputs, outputs;
    std::vector<tenon_resource*> resources;
    uint32_t precision;
    std::vector<tenon_tensor_view> views;
    std::vector<bool> known;
    std::vector<int> host_inputs, host_outputs;
    tenon_frame frame = {};
  };

  KernelTable LoadCpu() {
    EXPECT_EQ(Text(Load({}, &cpu_self_, Descriptor(kCpuPlugin))), "");
    return KernelTable(Descriptor(kCpuPlugin));
  }
};

// "" or how the outputs differ by more than `tolerance`, relative to the largest element of either.
inline std::string Difference(const std::vector<Value>& got, const std::vector<Value>& want, double tolerance) {
  for (size_t i = 0; i < want.size(); ++i) {
    const std::vector<double> a = got[i].Numbers(), b = want[i].Numbers();
    const std::string where = "output " + std::to_string(i);
    if (got[i].dims != want[i].dims || a.size() != b.size()) return where + " has another shape";
    double largest = 0;
    for (double x : b) largest = std::isfinite(x) ? std::max(largest, std::fabs(x)) : largest;
    for (size_t k = 0; k < a.size(); ++k) {
      const bool same = a[k] == b[k] || (a[k] != a[k] && b[k] != b[k]) || std::fabs(a[k] - b[k]) <= tolerance * largest;
      if (!same) return where + "[" + std::to_string(k) + "] is " + std::to_string(a[k]) + ", not " + std::to_string(b[k]);
    }
  }
  return "";
}

// "" when the device's kernel gives what the CPU's gives.
inline std::string Compare(Bench& bench, const Case& given, double tolerance) {
  std::vector<Value> got, want;
  std::string text = bench.OnCpu(given, &want);
  if (!text.empty()) return given.op + " on the CPU: " + text;
  const tenon_kernel_registration* kernel = bench.tested.Find({given.op, given.attributes, {}, {}});
  if (kernel == nullptr) return given.op + " has no kernel";
  if ((kernel->host_memory_count == 0) != (given.host.empty() && given.host_outputs.empty())) return given.op + ": what is the host's?";
  text = bench.OnDevice(given, &got);
  if (!text.empty()) return given.op + " on the device: " + text;
  text = Difference(got, want, tolerance);
  return text.empty() ? "" : given.op + ": " + text;
}

}  // namespace tenon::device_test

#endif  // TENON_TESTS_DEVICE_KERNEL_H_
