// SPDX-License-Identifier: Apache-2.0
#include "core/tensor/variant_types.h"

#include <algorithm>
#include <vector>

#include "core/base/adopt.h"
#include "core/base/plugin_instance.h"
#include "core/base/table_check.h"

namespace tenon::variant {
namespace {

constexpr uint64_t kMostTypes = 1024;

// Texts between commas, without the blanks around them.
std::vector<std::string_view> Parts(std::string_view text) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    std::string_view part = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    while (part.starts_with(' ')) part.remove_prefix(1);
    while (part.ends_with(' ')) part.remove_suffix(1);
    if (!part.empty()) parts.push_back(part);
  }
  return parts;
}

Result<const tenon_variant_type*> AdoptType(const tenon_variant_type* given) {
  TENON_RETURN_IF_ERROR(CheckHead(given, TENON_SIZE_UP_TO(tenon_variant_type, makers), "a type of variants"));
  const tenon_variant_type* const type = Adopt(given);
  TENON_RETURN_IF_ERROR(CheckName(type->name, "the name of a type of variants"));
  const std::string what = StrCat("the variants of type '", View(type->name), "'");
  TENON_RETURN_IF_ERROR(CheckText(type->makers, StrCat(what, ": their makers")));
  static constexpr TableFunction kNeeded[] = {TENON_TABLE_FUNCTION(tenon_variant_type, check)};
  TENON_RETURN_IF_ERROR(CheckFunctions(type, given->struct_size, kNeeded, what));
  return type;
}

}  // namespace

Status Type::Check(const tenon_variant_info& info, std::span<const tenon_tensor_view> told) const {
  Status status = plugin_->Call("variant.check", nullptr, nullptr, [&](tenon_plugin_self* self) {
    return table_->check(self, &info, told.data(), told.size());
  });
  return status.ok() ? status : std::move(status).Annotate(StrCat("no ", View(table_->name)));
}

Status Types::Register(const tenon_variant_package* given, const std::shared_ptr<PluginInstance>& plugin) {
  TENON_RETURN_IF_ERROR(CheckHead(given, TENON_SIZE_UP_TO(tenon_variant_package, count), TENON_CAPABILITY_VARIANTS));
  if (given->count == 0 || given->count > kMostTypes)
    return InvalidArgument(
        StrCat(TENON_CAPABILITY_VARIANTS, " has ", given->count, " types; 1 to ", kMostTypes, " are allowed"));
  TENON_RETURN_IF_ERROR(CheckArray(given->types, given->count, "the types of variants"));
  const std::lock_guard lock(mutex_);
  for (uint64_t i = 0; i < given->count; ++i) {
    TENON_ASSIGN_OR_RETURN(const tenon_variant_type* type, AdoptType(given->types[i]));
    const auto [at, fresh] =
        types_.try_emplace(std::string(View(type->name)), std::make_shared<const Type>(type, plugin));
    if (!fresh)
      return AlreadyExists(StrCat("the variants of type '", at->first, "' are ",
                                  DescribePlugin(at->second->plugin()->id()), "'s already"));
    for (const std::string_view op : Parts(View(type->makers))) makers_[plugin->id()].emplace(op);
  }
  return Status::Ok();
}

void Types::Unregister(std::string_view plugin) {
  const std::lock_guard lock(mutex_);
  std::erase_if(types_, [&](const auto& each) { return each.second->plugin()->id() == plugin; });
  std::erase_if(makers_, [&](const auto& each) { return each.first == plugin; });
}

std::shared_ptr<const Type> Types::FindOpened(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  const auto found = types_.find(name);
  return found == types_.end() ? nullptr : found->second;
}

std::shared_ptr<const Type> Types::Find(std::string_view name) {
  if (auto found = FindOpened(name); found != nullptr) return found;
  std::call_once(opened_, [this] {
    if (opener_) opener_();
  });
  return FindOpened(name);
}

bool Types::AreMadeBy(std::string_view op) const {
  const std::lock_guard lock(mutex_);
  return std::any_of(makers_.begin(), makers_.end(), [&](const auto& each) { return each.second.contains(op); });
}

}  // namespace tenon::variant
