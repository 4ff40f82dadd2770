// SPDX-License-Identifier: Apache-2.0
#include "core/graph/op_registry.h"

#include <algorithm>
#include <utility>

#include "core/base/adopt.h"
#include "core/base/table_check.h"
#include "tenon/bytes/near_miss.h"

namespace tenon::graph {
namespace {

constexpr uint64_t kKnownTraits = (TENON_OP_REMOTE << 1) - 1;

// What the engine asks ops for.
constexpr std::string_view kRoles[] = {"add",
                                       "argument",
                                       "cast",
                                       "concat",
                                       "constant",
                                       "control_trigger",
                                       "enter",
                                       "exit",
                                       "greater_equal",
                                       "identity",
                                       "identity_n",
                                       "less",
                                       "logical_and",
                                       "loop_condition",
                                       "merge",
                                       "next_iteration",
                                       "no_op",
                                       "ones_like",
                                       "read_variable",
                                       "read_variable_rows",
                                       "recv",
                                       "reference_variable",
                                       "send",
                                       "shape",
                                       "stack",
                                       "stack_pop",
                                       "stack_push",
                                       "strided_slice",
                                       "subtract",
                                       "sum",
                                       "switch",
                                       "to_bool",
                                       "unsorted_segment_sum",
                                       "variable_handle",
                                       "zeros_like"};

Status CheckTexts(const tenon_op_definition& op) {
  TENON_RETURN_IF_ERROR(CheckName(op.name, "the name of an op"));
  const std::pair<const char*, tenon_span> texts[] = {
      {"inputs", op.inputs},           {"outputs", op.outputs},      {"attrs", op.attrs},
      {"constraints", op.constraints}, {"roles", op.roles},          {"doc", op.doc},
      {"deprecation", op.deprecation}, {"properties", op.properties}};
  for (const auto& [what, text] : texts)
    TENON_RETURN_IF_ERROR(CheckText(text, StrCat("op '", View(op.name), "': its ", what)));
  return Status::Ok();
}

// The definition as this host knows it, if it can: what it does not know is refused, not overlooked.
Result<const tenon_op_definition*> AdoptDefinition(const tenon_op_definition* given) {
  if (given == nullptr) return InvalidArgument("an op package holds a NULL definition");
  const uint32_t least = TENON_SIZE_UP_TO(tenon_op_definition, shape);
  const bool has_name =
      given->struct_size >= TENON_SIZE_UP_TO(tenon_op_definition, name) && CheckName(given->name, "").ok();
  TENON_RETURN_IF_ERROR(
      CheckHead(given, least, has_name ? StrCat("op '", View(given->name), "'") : "an op definition"));
  const tenon_op_definition* definition = Adopt(given);
  TENON_RETURN_IF_ERROR(CheckTexts(*definition));
  if (const uint64_t unknown = definition->traits & ~kKnownTraits; unknown != 0)
    return Unimplemented(
        StrCat("op '", View(definition->name), "' has the traits ", unknown, ", which this host does not know"));
  if (definition->version < 0)
    return InvalidArgument(
        StrCat("op '", View(definition->name), "' has the version ", definition->version, "; versions are from 1 on"));
  return definition;
}

Status CheckRoles(const OpDef& op) {
  for (const std::string& role : op.roles)
    if (std::find(std::begin(kRoles), std::end(kRoles), role) == std::end(kRoles)) {
      std::string known;
      for (std::string_view each : kRoles) known += StrCat(known.empty() ? "" : ", ", each);
      return InvalidArgument(
          StrCat("op '", op.name, "' has the role '", role, "', which the engine asks nobody for; there are: ", known));
    }
  return Status::Ok();
}

}  // namespace

Status OpRegistry::Register(const tenon_op_package& package, const std::shared_ptr<PluginInstance>& plugin,
                            std::map<std::string, std::string>* out_refused) {
  TENON_RETURN_IF_ERROR(CheckHead(&package, TENON_SIZE_UP_TO(tenon_op_package, count), TENON_CAPABILITY_OPS));
  TENON_RETURN_IF_ERROR(
      CheckArray(package.definitions, package.count, StrCat("the definitions of ", TENON_CAPABILITY_OPS)));
  const uint64_t flags = TENON_HAS(&package, flags) ? package.flags : 0;
  if (const uint64_t unknown = flags & ~TENON_OPS_NAMED_DIMS; unknown != 0)
    return Unimplemented(
        StrCat(TENON_CAPABILITY_OPS, " has the flags ", unknown, ", which this host does not know"));
  std::vector<std::unique_ptr<OpDef>> parsed;
  for (uint64_t i = 0; i < package.count; ++i) {
    TENON_ASSIGN_OR_RETURN(const tenon_op_definition* definition, AdoptDefinition(package.definitions[i]));
    TENON_ASSIGN_OR_RETURN(OpDef op, ParseOpDef(*definition));
    TENON_RETURN_IF_ERROR(CheckRoles(op));
    op.package = plugin->id();
    op.plugin = plugin;
    op.knows_dim_names = (flags & TENON_OPS_NAMED_DIMS) != 0;
    const auto same_name = [&op](const auto& other) { return other->name == op.name; };
    if (std::any_of(parsed.begin(), parsed.end(), same_name))
      return InvalidArgument(StrCat("op '", op.name, "' stands twice in one package"));
    parsed.push_back(std::make_unique<OpDef>(std::move(op)));
  }
  std::lock_guard lock(mutex_);
  std::erase_if(parsed, [&](const std::unique_ptr<OpDef>& op) {
    const auto it = ops_.find(op->name);
    std::string difference;
    if (it == ops_.end() || Compare(*it->second.op, *op, &difference) != Sameness::kDifferent) return false;
    out_refused->emplace(op->name, StrCat("op '", op->name, "' of plugin '", plugin->id(), "' differs in its ",
                                          difference, " from the one of plugin '", it->second.op->package,
                                          "'; load only one of them, or make the definitions equal"));
    return true;
  });
  roles_.clear();
  for (auto& op : parsed) {
    Entry& entry = ops_[op->name];
    entry.plugins.push_back(plugin->id());
    const OpDef* kept = Keep(std::move(op));
    std::string difference;
    if (entry.op == nullptr || Compare(*entry.op, *kept, &difference) == Sameness::kSecondLarger) entry.op = kept;
  }
  return Status::Ok();
}

Status OpRegistry::RegisterGradients(const tenon_gradient_package& package,
                                     const std::shared_ptr<PluginInstance>& plugin) {
  TENON_RETURN_IF_ERROR(CheckHead(&package, sizeof package, TENON_CAPABILITY_GRADIENTS));
  TENON_RETURN_IF_ERROR(
      CheckArray(package.registrations, package.count, StrCat("the registrations of ", TENON_CAPABILITY_GRADIENTS)));
  std::map<std::string, GradientEntry, std::less<>> adopted;
  for (uint64_t i = 0; i < package.count; ++i) {
    const tenon_gradient_registration* const given = package.registrations[i];
    TENON_RETURN_IF_ERROR(
        CheckHead(given, TENON_SIZE_UP_TO(tenon_gradient_registration, gradient), "a gradient's registration"));
    TENON_RETURN_IF_ERROR(CheckName(given->op, "the op of a gradient"));
    if (given->gradient == nullptr)
      return InvalidArgument(StrCat("the gradient of op '", View(given->op), "' has no function"));
    if (!adopted.emplace(View(given->op), GradientEntry{given->gradient, plugin}).second)
      return InvalidArgument(StrCat("a gradient of op '", View(given->op), "' stands twice in one package"));
  }
  std::lock_guard lock(mutex_);
  for (const auto& [op, entry] : adopted)
    if (const auto found = gradients_.find(op); found != gradients_.end())
      return AlreadyExists(StrCat("plugin '", found->second.plugin->id(), "' brings a gradient of op '", op,
                                  "' already; load only one of them"));
  gradients_.merge(adopted);
  return Status::Ok();
}

OpRegistry::GradientEntry OpRegistry::FindGradient(std::string_view op) const {
  if (opener_) opener_(op);
  std::lock_guard lock(mutex_);
  const auto found = gradients_.find(op);
  return found == gradients_.end() ? GradientEntry{} : found->second;
}

// Graphs point at definitions for ever. A plugin that was unloaded and comes back finds its own.
const OpDef* OpRegistry::Keep(std::unique_ptr<OpDef> op) {
  std::string difference;
  const auto [begin, end] = storage_.equal_range(op->name);
  for (auto it = begin; it != end; ++it) {
    const OpDef& kept = *it->second;
    if (kept.c == op->c && kept.plugin == op->plugin && kept.doc == op->doc &&
        Compare(kept, *op, &difference) == Sameness::kEqual)
      return &kept;
  }
  const std::string name = op->name;
  return storage_.emplace(name, std::move(op))->second.get();
}

void OpRegistry::Unregister(std::string_view plugin) {
  std::lock_guard lock(mutex_);
  std::erase_if(gradients_, [plugin](const auto& entry) { return entry.second.plugin->id() == plugin; });
  roles_.clear();
  for (auto it = ops_.begin(); it != ops_.end();) {
    auto& plugins = it->second.plugins;
    plugins.erase(std::remove(plugins.begin(), plugins.end(), plugin), plugins.end());
    if (plugins.empty()) {
      it = ops_.erase(it);
      continue;
    }
    if (it->second.op->package == plugin)
      for (const auto& [name, op] : storage_)
        if (name == it->first && op->package == plugins.front()) it->second.op = op.get();
    ++it;
  }
}

const OpDef* OpRegistry::Lookup(std::string_view name) const {
  std::lock_guard lock(mutex_);
  const auto it = ops_.find(name);
  return it == ops_.end() ? nullptr : it->second.op;
}

const OpDef* OpRegistry::FindOpened(std::string_view name) const { return Lookup(name); }

const OpDef* OpRegistry::FindOrNull(std::string_view name) const {
  if (const OpDef* op = Lookup(name); op != nullptr || !opener_) return op;
  opener_(name);
  return Lookup(name);
}

Result<const OpDef*> OpRegistry::Find(std::string_view name) const {
  if (const OpDef* op = FindOrNull(name)) return op;
  if (opener_) opener_({});  // so that near misses are known
  std::lock_guard lock(mutex_);
  if (const auto it = elsewhere_.find(name); it != elsewhere_.end())
    return NotFound(StrCat("op '", name, "' is not loaded; ", it->second));
  sdk::NearMiss near(name);
  for (const auto& [known, entry] : ops_) near.Try(known);
  return NotFound(
      StrCat("no loaded plugin has the op '", name, "'", near.Hint(), " (", ops_.size(), " ops are loaded)"));
}

Result<const OpDef*> OpRegistry::FindRole(std::string_view role) const {
  if (opener_) opener_({});
  std::lock_guard lock(mutex_);
  if (const auto found = roles_.find(role); found != roles_.end()) return found->second;
  for (const auto& [name, entry] : ops_)
    if (std::find(entry.op->roles.begin(), entry.op->roles.end(), role) != entry.op->roles.end())
      return roles_.emplace(role, entry.op).first->second;
  return NotFound(StrCat("no loaded plugin has an op with the role '", role,
                         "', which the engine needs here; load the package that offers it"));
}

std::vector<const OpDef*> OpRegistry::All() const {
  if (opener_) opener_({});
  std::lock_guard lock(mutex_);
  std::vector<const OpDef*> out;
  for (const auto& [name, entry] : ops_) out.push_back(entry.op);
  return out;
}

void OpRegistry::NoteElsewhere(std::string_view op, std::string_view package, std::string_view help) {
  std::lock_guard lock(mutex_);
  elsewhere_.insert_or_assign(std::string(op), StrCat("package '", package, "' has it: ", help));
}

}  // namespace tenon::graph
