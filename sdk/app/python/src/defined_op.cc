// SPDX-License-Identifier: Apache-2.0
#include "defined_op.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <charconv>
#include <map>
#include <memory>
#include <mutex>

#include "attr.h"
#include "cause.h"
#include "dtype.h"
#include "graph.h"
#include "later.h"
#include "runtime.h"

namespace tenon::python {
namespace {

using host::Span;

std::atomic<const tenon_host*> the_host{nullptr};  // one for all runtimes

// The ops by their numbers. load() is told a number and not an address, since options may be anybody's.
std::mutex mutex;
std::map<uint64_t, DefinedOp*>& AllOps() {
  static auto* const all = new std::map<uint64_t, DefinedOp*>;
  return *all;
}

DefinedOp& OpOf(tenon_plugin_self* self) { return *reinterpret_cast<DefinedOp*>(self); }

tenon_status* NewStatus(uint32_t code, const std::string& message) { return TheHost().status_new(code, Span(message)); }

tenon_status* Load(const tenon_load_args* args, tenon_plugin_self** out_self) {
  the_host = args->host;
  uint64_t number = 0;
  for (uint64_t i = 0; i < args->option_count; ++i) {
    const std::string_view value = host::Text(args->options[i].value);
    std::from_chars(value.data(), value.data() + value.size(), number);
  }
  const std::lock_guard lock(mutex);
  const auto found = AllOps().find(number);
  if (found == AllOps().end())
    return NewStatus(TENON_INVALID_ARGUMENT, "its option 'number' is Python's own; leave it as it is");
  found->second->loads.fetch_add(1);
  *out_self = reinterpret_cast<tenon_plugin_self*>(found->second);
  return nullptr;
}

// The box and each load keep the op's objects. Whoever is the last lets go of them; a load after that finds no op.
void Forget(DefinedOp& op) {
  nb::object run, shape;
  {
    const std::lock_guard lock(mutex);
    if (op.loads.fetch_sub(1) > 1) return;
    std::erase_if(AllOps(), [&](const auto& entry) { return entry.second == &op; });
    run = std::move(op.run);
    shape = std::move(op.shape);
  }
  LetGoLater(std::move(run));
  LetGoLater(std::move(shape));
}

void Unload(tenon_plugin_self* self) { Forget(OpOf(self)); }

// ---- Shapes ----

nb::list ShapesOf(const tenon_shape_services& services, tenon_shape_context* context, int32_t count) {
  nb::list shapes;
  for (int32_t i = 0; i < count; ++i) shapes.append(FromShape(Shape::From(services.input_shape(context, i))));
  return shapes;
}

tenon_status* InferShapes(tenon_plugin_self* self, const tenon_shape_services* services, tenon_shape_context* context) {
  const DefinedOp& op = OpOf(self);
  const WithLock locked;
  const std::string what = "shape of op '" + op.name + "'";
  ++shape_functions;
  const std::unique_ptr<int, void (*)(int*)> over(&shape_functions, [](int* count) { --*count; });
  try {
    const tenon_node* node = services->node(context);
    const tenon_node_services& nodes = *services->node_services;
    const nb::object given =
        op.shape(ShapesOf(*services, context, nodes.input_count(node)), AttributesOf(op, nodes, node));
    const auto count = static_cast<int32_t>(nb::len(given));
    if (count != nodes.output_count(node))
      FailInvalid("it gave " + std::to_string(count) + " shapes for " + std::to_string(nodes.output_count(node)) +
                  " outputs");
    for (int32_t i = 0; i < count; ++i)
      if (tenon_status* failed = services->set_output_shape(context, i, ToShape(given[i]).c_shape()); failed != nullptr)
        return failed;
    return nullptr;
  } catch (...) {
    return StatusOfThrown(what);
  }
}

// ---- Gradients ----

struct GradientNode {
  std::vector<tenon_output> inputs;
  std::vector<tenon_attr> attrs;
};

tenon_status* Collect(const DefinedOp& op, const tenon_gradient_args& args, GradientNode* out) {
  out->inputs.assign(args.inputs, args.inputs + args.input_count);
  for (const int32_t index : op.gradient_of) {
    tenon_output dy = {-1, 0, 0};
    if (tenon_status* failed = args.dense_dy(&args, index, &dy); failed != nullptr) return failed;
    out->inputs.push_back(dy);
  }
  for (const std::string& name : op.attr_names) {
    tenon_attr_value value = {};
    if (tenon_status* failed = args.node_services->attr(args.node, Span(name), &value); failed != nullptr)
      return failed;
    out->attrs.push_back({Span(name), value});
  }
  return nullptr;
}

tenon_status* Differentiate(const tenon_gradient_args* args) {
  const DefinedOp& op = OpOf(args->self);
  GradientNode made;
  if (tenon_status* failed = Collect(op, *args, &made); failed != nullptr) return failed;
  const std::string name =
      std::string(host::Text(args->scope)) + "/" + std::string(host::Text(args->node_services->name(args->node)));
  const tenon_node_spec spec = {TENON_HEAD(tenon_node_spec),
                                Span(op.gradient),
                                Span(name),
                                made.inputs.data(),
                                made.inputs.size(),
                                made.attrs.data(),
                                made.attrs.size(),
                                nullptr,
                                0};
  int64_t node = -1;
  if (tenon_status* failed = args->builder->add_node(args->builder->context, &spec, &node); failed != nullptr)
    return failed;
  for (size_t i = 0; i < op.gradient_to.size(); ++i) {
    tenon_gradient& dx = args->dx[op.gradient_to[i]];
    dx.kind = TENON_GRADIENT_DENSE;
    dx.dense = {node, static_cast<int32_t>(i), 0};
  }
  return nullptr;
}

// ---- The plugin ----

template <typename T>
T Headed() {
  T made = {};
  made.struct_size = sizeof(T);
  return made;
}

void Describe(DefinedOp* op) {
  op->definition = Headed<tenon_op_definition>();
  op->definition.name = Span(op->name);
  op->definition.inputs = Span(op->inputs);
  op->definition.outputs = Span(op->outputs);
  op->definition.attrs = Span(op->attrs);
  op->definition.constraints = Span(op->constraints);
  op->definition.properties = Span(op->properties);
  op->definition.doc = Span(op->doc);
  op->definition.traits = op->traits;
  if (!op->shape.is_none()) op->definition.shape = &InferShapes;
  if (!op->gradient.empty()) op->definition.gradient = &Differentiate;
  op->definitions[0] = &op->definition;
  op->op_package = {TENON_HEAD(tenon_op_package), op->definitions, 1, 0};

  op->kernel = Headed<tenon_kernel_registration>();
  op->kernel.op = Span(op->name);
  op->kernel.traits = TENON_KERNEL_EXPENSIVE;
  op->foreign.function == 0 ? UsePythonKernel(&op->kernel) : UseForeignKernel(&op->kernel);
  op->kernels[0] = &op->kernel;
  op->kernel_package = {TENON_HEAD(tenon_kernel_package), op->kernels, 1};

  op->capabilities[0] = TENON_PROVIDES(OPS, &op->op_package);
  op->capabilities[1] = TENON_PROVIDES(KERNELS, &op->kernel_package);
  op->option = {TENON_SPAN("number"), Span(op->number), TENON_SPAN("which of Python's ops it is"), TENON_OPTION_INT, 0};
  op->descriptor = Headed<tenon_plugin>();
  op->descriptor.abi_major = TENON_ABI_MAJOR;
  op->descriptor.abi_minor = TENON_ABI_MINOR;
  op->descriptor.layout_hash = TENON_LAYOUT_HASH;
  op->descriptor.id = Span(op->plugin);
  op->descriptor.version = TENON_SPAN("1.0.0");
  op->descriptor.vendor = TENON_SPAN("this process");
  op->descriptor.doc = Span(op->doc);
  op->descriptor.options = &op->option;
  op->descriptor.option_count = 1;
  op->descriptor.load = &Load;
  op->descriptor.unload = &Unload;
  op->descriptor.capabilities = op->capabilities;
  op->descriptor.capability_count = 2;
}

// Python's own.
struct DefinedOpBox {
  explicit DefinedOpBox(DefinedOp* made) : op(made) {}
  DefinedOpBox(const DefinedOpBox&) = delete;
  DefinedOpBox& operator=(const DefinedOpBox&) = delete;
  ~DefinedOpBox() { Forget(*op); }
  DefinedOp* const op;  // never freed
};

void Make(DefinedOpBox* self, nb::dict given) {
  static std::atomic<uint64_t> last{0};
  const auto text = [&](const char* key) { return nb::cast<std::string>(given[key]); };
  auto op = std::make_unique<DefinedOp>();
  for (auto [key, to] : {std::pair{"plugin", &op->plugin},
                         {"name", &op->name},
                         {"inputs", &op->inputs},
                         {"outputs", &op->outputs},
                         {"attrs", &op->attrs},
                         {"constraints", &op->constraints},
                         {"doc", &op->doc},
                         {"properties", &op->properties},
                         {"gradient", &op->gradient}})
    *to = text(key);
  if (nb::cast<bool>(given["stateful"])) op->traits |= TENON_OP_STATEFUL;
  if (op->gradient.empty()) op->traits |= nb::cast<bool>(given["differentiable"]) ? 0 : TENON_OP_NO_GRADIENT;
  op->attr_names = nb::cast<std::vector<std::string>>(given["attr_names"]);
  op->gradient_of = nb::cast<std::vector<int32_t>>(given["gradient_of"]);
  op->gradient_to = nb::cast<std::vector<int32_t>>(given["gradient_to"]);
  op->run = given["run"];
  op->shape = given["shape"];
  const auto addresses = nb::cast<std::vector<uint64_t>>(given["foreign"]);
  if (addresses.size() == 4) op->foreign = {addresses[0], addresses[1], addresses[2], addresses[3]};
  const uint64_t number = ++last;
  op->number = std::to_string(number);
  op->loads = 1;
  Describe(op.get());
  {
    const std::lock_guard lock(mutex);
    AllOps()[number] = op.get();
  }
  new (self) DefinedOpBox(op.release());
}

}  // namespace

const tenon_host& TheHost() { return *the_host; }

nb::dict AttributesOf(const DefinedOp& op, const tenon_node_services& services, const tenon_node* node) {
  nb::dict attributes;
  for (const std::string& name : op.attr_names) {
    tenon_attr_value value = {};
    Check(Status::Take(services.attr(node, Span(name), &value)));
    attributes[name.c_str()] = FromAttr(value);
  }
  return attributes;
}

tenon_status* StatusOfException(const std::string& what, const std::string& node) noexcept {
  nb::python_error error;
  try {
    const nb::tuple told = nb::cast<nb::tuple>(nb::module_::import_("tenon.errors").attr("tell")(error.value()));
    const auto name = nb::cast<std::string>(told[0]);
    uint32_t code = TENON_UNAUTHENTICATED;
    while (code > TENON_UNKNOWN && host::Text(tenon_status_code_name(code)) != name) --code;
    const std::string words = what + ": " + nb::cast<std::string>(told[1]);
    KeepCause(nb::borrow(error.value()), words, node);
    return NewStatus(code, words);
  } catch (...) {
    return NewStatus(TENON_UNKNOWN, what + ": an exception that cannot be told: " + error.what());
  }
}

tenon_status* StatusOfThrown(const std::string& what, const std::string& node) noexcept {
  try {
    throw;
  } catch (const StatusError& error) {
    return NewStatus(static_cast<uint32_t>(error.status().code()), what + ": " + error.status().message());
  } catch (nb::python_error& error) {
    error.restore();
    return StatusOfException(what, node);
  } catch (const std::exception& error) {
    return NewStatus(TENON_INVALID_ARGUMENT, what + ": " + error.what());
  } catch (...) {
    return NewStatus(TENON_UNKNOWN, what + ": something that is no exception was thrown");
  }
}

void BindDefinedOps(nb::module_& module) {
  nb::class_<DefinedOpBox>(module, "_DefinedOp", "An op of Python's, as the engine has it; see tenon.op.")
      .def("__init__", &Make, nb::arg("given"))
      .def("add_to", [](const DefinedOpBox& self, const RuntimeBox& runtime) {
        const WithoutLock unlocked;
        Check(const_cast<host::Runtime&>(*runtime.runtime).AddPlugin(self.op->descriptor));
      }, nb::arg("runtime"));
}

}  // namespace tenon::python
