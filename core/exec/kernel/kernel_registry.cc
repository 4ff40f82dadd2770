// SPDX-License-Identifier: Apache-2.0
#include "core/exec/kernel/kernel_registry.h"

#include <algorithm>

#include "core/base/adopt.h"
#include "core/base/log.h"
#include "core/base/plugin_call.h"
#include "core/base/table_check.h"
#include "core/graph/op_def.h"

namespace tenon::exec {
namespace {

bool TypesFit(const graph::Node& node, const tenon_kernel_registration& kernel) {
  for (uint64_t i = 0; i < kernel.constraint_count; ++i) {
    const tenon_type_constraint& constraint = kernel.constraints[i];
    const graph::AttrValue* value = node.FindAttr(View(constraint.attr));
    if (value == nullptr || (value->kind() & ~TENON_ATTR_LIST) != TENON_ATTR_TYPE) return false;
    for (size_t k = 0; k < value->size(); ++k)
      if (std::find(constraint.dtypes, constraint.dtypes + constraint.count, BaseType(value->type(k))) ==
          constraint.dtypes + constraint.count)
        return false;
  }
  return true;
}

// The engine has no variants to give: their kernel makes them.
bool MakesItsVariants(const graph::Node& node, const tenon_kernel_registration& kernel) {
  for (size_t k = 0; k < node.output_types.size(); ++k) {
    const bool makes = IsDynamicOutput(kernel, k) || (k == 0 && (kernel.traits & TENON_KERNEL_VIEW) != 0);
    if (node.output_types[k] == TENON_DT_VARIANT && !makes) return false;
  }
  return true;
}

std::string_view LabelOf(const graph::Node& node) {
  const graph::AttrValue* label = node.FindAttr("_kernel");
  return label != nullptr && label->kind() == TENON_ATTR_STRING ? std::string_view(label->s()) : std::string_view();
}

}  // namespace

std::string DescribeConstraints(const tenon_kernel_registration& registration) {
  std::string out;
  for (uint64_t i = 0; i < registration.constraint_count; ++i) {
    const tenon_type_constraint& constraint = registration.constraints[i];
    out += StrCat(out.empty() ? "" : "; ", View(constraint.attr), ": ");
    for (uint64_t k = 0; k < constraint.count; ++k) out += (k == 0 ? "" : ", ") + TypeName(constraint.dtypes[k]);
  }
  return out;
}

namespace {

constexpr uint32_t kKnownTraits = (TENON_KERNEL_CAPTURE_UPDATES << 1) - 1;

std::string KernelOf(const tenon_kernel_registration& kernel) {
  return StrCat("a kernel of op '", View(kernel.op), "'");
}

// The arrays of a registration, and what stands in them.
Status CheckArrays(const tenon_kernel_registration& kernel, const std::string& what) {
  TENON_RETURN_IF_ERROR(CheckArray(kernel.constraints, kernel.constraint_count, what + ": its constraints"));
  TENON_RETURN_IF_ERROR(CheckArray(kernel.host_memory_args, kernel.host_memory_count, what + ": its host_memory_args"));
  TENON_RETURN_IF_ERROR(CheckArray(kernel.in_place, kernel.in_place_count, what + ": its in_place"));
  for (uint64_t i = 0; i < kernel.constraint_count; ++i) {
    TENON_RETURN_IF_ERROR(CheckName(kernel.constraints[i].attr, what + ": the attribute of a constraint"));
    TENON_RETURN_IF_ERROR(
        CheckArray(kernel.constraints[i].dtypes, kernel.constraints[i].count, what + ": the dtypes of a constraint"));
  }
  for (uint64_t i = 0; i < kernel.host_memory_count; ++i)
    TENON_RETURN_IF_ERROR(CheckName(kernel.host_memory_args[i], what + ": one of host_memory_args"));
  for (uint64_t i = 0; i < kernel.in_place_count; ++i)
    if (kernel.in_place[i].input < 0 || kernel.in_place[i].output < 0)
      return InvalidArgument(
          StrCat(what, ": in_place says input ", kernel.in_place[i].input, " and output ", kernel.in_place[i].output));
  return Status::Ok();
}

// run, or run_async with its trait, or neither for a view.
Status CheckRun(const tenon_kernel_registration& kernel, const std::string& what) {
  if ((kernel.traits & TENON_KERNEL_VIEW) != 0) return Status::Ok();
  const bool async = (kernel.traits & TENON_KERNEL_ASYNC) != 0;
  if (kernel.run == nullptr && kernel.run_async == nullptr) return InvalidArgument(what + " has no run function");
  if (kernel.run == nullptr && !async)
    return InvalidArgument(what + " has run_async alone, without the trait TENON_KERNEL_ASYNC");
  if (kernel.run_async == nullptr && async)
    return InvalidArgument(what + " has the trait TENON_KERNEL_ASYNC and no run_async");
  return Status::Ok();
}

// The registration as this host knows it, if it can.
Result<const tenon_kernel_registration*> AdoptRegistration(const tenon_kernel_registration* given) {
  if (given == nullptr) return InvalidArgument("a kernel package holds a NULL registration");
  const bool has_op =
      given->struct_size >= TENON_SIZE_UP_TO(tenon_kernel_registration, op) && CheckName(given->op, "").ok();
  TENON_RETURN_IF_ERROR(CheckHead(given, TENON_SIZE_UP_TO(tenon_kernel_registration, run),
                                  has_op ? KernelOf(*given) : "a kernel's registration"));
  const tenon_kernel_registration* kernel = Adopt(given);
  TENON_RETURN_IF_ERROR(CheckName(kernel->op, "the op of a kernel"));
  const std::string what = KernelOf(*kernel);
  if (kernel->device_type.size > 0) TENON_RETURN_IF_ERROR(CheckName(kernel->device_type, what + ": its device_type"));
  TENON_RETURN_IF_ERROR(CheckText(kernel->label, what + ": its label"));
  if (const uint32_t unknown = kernel->traits & ~kKnownTraits; unknown != 0)
    return Unimplemented(StrCat(what, " has the traits ", unknown, ", which this host does not know"));
  TENON_RETURN_IF_ERROR(CheckArrays(*kernel, what));
  TENON_RETURN_IF_ERROR(CheckRun(*kernel, what));
  return kernel;
}

bool HasArgument(const std::vector<graph::ArgDef>& arguments, std::string_view name) {
  return std::any_of(arguments.begin(), arguments.end(),
                     [name](const graph::ArgDef& argument) { return argument.name == name; });
}

// How many there are; nothing where the node says it.
std::optional<size_t> CountOf(const std::vector<graph::ArgDef>& arguments) {
  for (const graph::ArgDef& argument : arguments)
    if (!argument.number_attr.empty() || !argument.type_list_attr.empty()) return std::nullopt;
  return arguments.size();
}

// Of a mask whose bit 63 stands for all from there on: whether it speaks of what is not there. All bits are all that
// there are.
bool SaysTooMuch(uint64_t mask, std::optional<size_t> count) {
  return mask != UINT64_MAX && count && *count < 63 && (mask >> *count) != 0;
}

}  // namespace

Status CheckAgainst(const graph::OpDef& op, const tenon_kernel_registration& kernel) {
  const std::string what = KernelOf(kernel);
  const auto inputs = CountOf(op.inputs), outputs = CountOf(op.outputs);
  for (uint64_t i = 0; i < kernel.constraint_count; ++i) {
    const std::string_view name = View(kernel.constraints[i].attr);
    const graph::AttrDef* attr = op.FindAttr(name);
    if (attr == nullptr || (attr->kind & ~TENON_ATTR_LIST) != TENON_ATTR_TYPE)
      return InvalidArgument(StrCat(what, " constrains '", name, "', which is no type attribute of the op"));
  }
  for (uint64_t i = 0; i < kernel.host_memory_count; ++i)
    if (const std::string_view name = View(kernel.host_memory_args[i]);
        !HasArgument(op.inputs, name) && !HasArgument(op.outputs, name))
      return InvalidArgument(
          StrCat(what, ": host_memory_args names '", name, "', which is no input or output of the op"));
  for (uint64_t i = 0; i < kernel.in_place_count; ++i) {
    const tenon_in_place& pair = kernel.in_place[i];
    if ((inputs && static_cast<size_t>(pair.input) >= *inputs) ||
        (outputs && static_cast<size_t>(pair.output) >= *outputs))
      return InvalidArgument(StrCat(what, ": in_place says input ", pair.input, " and output ", pair.output,
                                    "; the op has ", op.inputs.size(), " and ", op.outputs.size()));
  }
  if (SaysTooMuch(kernel.dynamic_outputs, outputs))
    return InvalidArgument(
        StrCat(what, ": dynamic_outputs is ", kernel.dynamic_outputs, "; the op has ", *outputs, " outputs"));
  if (SaysTooMuch(kernel.retained_inputs, inputs))
    return InvalidArgument(
        StrCat(what, ": retained_inputs is ", kernel.retained_inputs, "; the op has ", *inputs, " inputs"));
  return Status::Ok();
}

Status KernelRegistry::Register(const tenon_kernel_package& package, const std::shared_ptr<PluginInstance>& plugin,
                                const std::map<std::string, std::string>& left_out, const OpOf& op_of) {
  TENON_RETURN_IF_ERROR(CheckHead(&package, sizeof package, TENON_CAPABILITY_KERNELS));
  TENON_RETURN_IF_ERROR(
      CheckArray(package.registrations, package.count, StrCat("the registrations of ", TENON_CAPABILITY_KERNELS)));
  std::vector<KernelEntry> adopted;
  for (uint64_t i = 0; i < package.count; ++i) {
    TENON_ASSIGN_OR_RETURN(const tenon_kernel_registration* kernel, AdoptRegistration(package.registrations[i]));
    if (left_out.contains(std::string(View(kernel->op)))) continue;
    const graph::OpDef* op = op_of ? op_of(View(kernel->op)) : nullptr;
    if (op != nullptr) TENON_RETURN_IF_ERROR(CheckAgainst(*op, *kernel));
    adopted.push_back({kernel, plugin});
  }
  std::lock_guard lock(mutex_);
  for (KernelEntry& entry : adopted) {
    auto& list = kernels_[std::string(View(entry.registration->op))];
    list.push_back(std::move(entry));
    std::stable_sort(list.begin(), list.end(), [](const KernelEntry& a, const KernelEntry& b) {
      return a.registration->priority > b.registration->priority;
    });
  }
  return Status::Ok();
}

void KernelRegistry::Unregister(std::string_view plugin) {
  std::lock_guard lock(mutex_);
  for (auto& [op, list] : kernels_)
    std::erase_if(list, [&](const KernelEntry& entry) { return entry.plugin() == plugin; });
}

// A kernel that came before its op was known, and says of it what is not so, is never taken.
bool KernelRegistry::FitsItsOp(const graph::Node& node, const KernelEntry& entry) const {
  Status status = CheckAgainst(*node.op, *entry.registration);
  if (status.ok()) return true;
  if (named_.insert(entry.registration).second)
    Log(TENON_LOG_WARNING, StrCat(DescribePlugin(entry.plugin()), ": ", status.message(), "; it is not used"));
  return false;
}

std::vector<KernelEntry> KernelRegistry::Find(const graph::Node& node, std::string_view device_type) const {
  if (opener_) opener_(node.op->name);
  std::lock_guard lock(mutex_);
  std::vector<KernelEntry> out;
  const auto it = kernels_.find(node.op->name);
  if (it == kernels_.end()) return out;
  for (const KernelEntry& entry : it->second) {
    const std::string_view type = View(entry.registration->device_type);
    if ((type.empty() || type == device_type) && View(entry.registration->label) == LabelOf(node) &&
        FitsItsOp(node, entry) && TypesFit(node, *entry.registration) && MakesItsVariants(node, *entry.registration))
      out.push_back(entry);
  }
  return out;
}

Status KernelRegistry::NoKernel(const graph::Node& node, std::string_view device_type) const {
  std::lock_guard lock(mutex_);
  std::string types;
  for (const auto& [name, value] : node.attrs)
    if ((value.kind() & ~TENON_ATTR_LIST) == TENON_ATTR_TYPE)
      types += StrCat(types.empty() ? "" : ", ", name, "=", value.ToString());
  std::string known;
  if (const auto it = kernels_.find(node.op->name); it != kernels_.end())
    for (const KernelEntry& entry : it->second)
      known += StrCat(known.empty() ? "" : "; ", entry.plugin(), " on ",
                      entry.registration->device_type.size == 0 ? "any device" : View(entry.registration->device_type),
                      " (", DescribeConstraints(*entry.registration), ")");
  std::string text = StrCat(node.Describe(), ": no kernel on ", device_type, types.empty() ? "" : " for ", types);
  text += known.empty() ? "; no loaded plugin has a kernel for this op" : StrCat("; kernels that are loaded: ", known);
  if (const auto it = elsewhere_.find(node.op->name); it != elsewhere_.end())
    text += StrCat("; package '", it->second, "' has one: load that plugin");
  return NotFound(std::move(text));
}

std::vector<KernelEntry> KernelRegistry::All() const {
  if (opener_) opener_({});
  std::lock_guard lock(mutex_);
  std::vector<KernelEntry> out;
  for (const auto& [op, list] : kernels_) out.insert(out.end(), list.begin(), list.end());
  return out;
}

void KernelRegistry::NoteElsewhere(std::string_view op, std::string_view text) {
  std::lock_guard lock(mutex_);
  elsewhere_.emplace(op, text);
}

}  // namespace tenon::exec
