// SPDX-License-Identifier: Apache-2.0
#include "core/exec/kernel_registry.h"

#include <algorithm>

#include "core/base/adopt.h"

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

Status KernelRegistry::Register(const tenon_kernel_package& package, std::string_view plugin) {
  std::vector<KernelEntry> adopted;
  for (uint64_t i = 0; i < package.count; ++i) {
    const tenon_kernel_registration* given = package.registrations[i];
    if (given == nullptr) return InvalidArgument("a kernel package holds a NULL registration");
    if (given->must_understand != 0)
      return Unimplemented(StrCat("a kernel of op '", View(given->op), "' needs a feature of a newer host (must_understand ",
                                  given->must_understand, ")"));
    given = Adopt(given);
    if (given->run == nullptr && given->run_async == nullptr && (given->traits & TENON_KERNEL_VIEW) == 0)
      return InvalidArgument(StrCat("a kernel of op '", View(given->op), "' has no run function"));
    adopted.push_back({given, std::string(plugin)});
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
  for (auto& [op, list] : kernels_) std::erase_if(list, [&](const KernelEntry& entry) { return entry.plugin == plugin; });
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
        TypesFit(node, *entry.registration) && MakesItsVariants(node, *entry.registration))
      out.push_back(entry);
  }
  return out;
}

Status KernelRegistry::NoKernel(const graph::Node& node, std::string_view device_type) const {
  std::lock_guard lock(mutex_);
  std::string types;
  for (const auto& [name, value] : node.attrs)
    if ((value.kind() & ~TENON_ATTR_LIST) == TENON_ATTR_TYPE) types += StrCat(types.empty() ? "" : ", ", name, "=", value.ToString());
  std::string known;
  if (const auto it = kernels_.find(node.op->name); it != kernels_.end())
    for (const KernelEntry& entry : it->second)
      known += StrCat(known.empty() ? "" : "; ", entry.plugin, " on ",
                      entry.registration->device_type.size == 0 ? "any device" : View(entry.registration->device_type), " (",
                      DescribeConstraints(*entry.registration), ")");
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
