// SPDX-License-Identifier: Apache-2.0
// Iterators of a session that have names, and strings that stand for them.
#ifndef TENON_OPS_DATASET_ITERATORS_NAMED_ITERATORS_H_
#define TENON_OPS_DATASET_ITERATORS_NAMED_ITERATORS_H_

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/sdk/kernel/resource.h"
#include "tenon/sdk/kernel/string_tensor.h"

namespace tenon::ops {

// A kind of iterator: its resources, the objects in them, and the session's table of those that have names.
struct NamedKind {
  tenon_span handle_type, object_type;
  tenon_span table, table_type, table_object_type;
  std::string_view what;  // "iterator", for people and in the strings
  std::string_view maker;  // the op that gives names
};

template <const NamedKind& kKind>
class NamedTable {
 public:
  explicit NamedTable(sdk::CreateContext& c) {
    c.Check(c.args().services->resource_handle(c.args().context, TENON_SPAN(""), kKind.table, kKind.table_type, 0,
                                               &handle_));
  }
  void Add(const sdk::RunContext& c, const std::string& name, tenon_resource* handle) const {
    Entries& entries = In(c);
    const std::lock_guard lock(entries.mutex);
    entries.by_name.emplace(name, handle);
  }
  // Empty: it has none.
  std::string NameOf(const sdk::RunContext& c, const tenon_resource* wanted) const {
    Entries& entries = In(c);
    const std::lock_guard lock(entries.mutex);
    for (const auto& [name, handle] : entries.by_name)
      if (handle == wanted) return name;
    return {};
  }
  // nullptr: there is none.
  tenon_resource* Find(const sdk::RunContext& c, std::string_view name) const {
    Entries& entries = In(c);
    const std::lock_guard lock(entries.mutex);
    const auto at = entries.by_name.find(name);
    return at == entries.by_name.end() ? nullptr : at->second;
  }

 private:
  struct Entries {
    std::mutex mutex;
    std::map<std::string, tenon_resource*, std::less<>> by_name;
  };
  Entries& In(const sdk::RunContext& c) const {
    return sdk::ObjectOf<Entries>(c, handle_, kKind.table_object_type, [] { return std::make_unique<Entries>(); });
  }
  tenon_resource* handle_ = nullptr;
};

// The resource of a node with attributes shared_name and container, and the string that stands for it.
template <const NamedKind& kKind>
struct NamedResource {
  explicit NamedResource(sdk::CreateContext& c) : table(c) {
    const std::string container(c.String("container"));
    std::string own(c.String("shared_name"));
    if (own.empty()) own = std::string(c.name());
    name = sdk::Concat(kKind.what, ":", container.size(), ":", container, own);
    if (c.ok())
      c.Check(c.args().services->resource_handle(c.args().context, sdk::ToSpan(container), sdk::ToSpan(own),
                                                 kKind.handle_type, 0, &handle));
  }
  NamedTable<kKind> table;
  tenon_resource* handle = nullptr;
  std::string name;
};

// Kernels: from the iterator to its string, and back.
template <const NamedKind& kKind>
struct ToStringHandle {
  explicit ToStringHandle(sdk::CreateContext& c) : table(c) {}
  void Run(sdk::RunContext c) const {
    const std::string name = table.NameOf(c, c.resource(0));
    if (name.empty())
      sdk::Fail(TENON_UNIMPLEMENTED, "an anonymous ", kKind.what, " has no string handle; make it by ", kKind.maker);
    sdk::SetStrings(c, 0, {}, std::vector<std::string>{name});
  }
  NamedTable<kKind> table;
};

// Object: the resources' object, which has a spec().
template <const NamedKind& kKind, class Object>
struct FromStringHandle {
  explicit FromStringHandle(sdk::CreateContext& c) : table(c), types(c.Types("output_types")) {}
  void Run(sdk::RunContext c) const {
    const std::string_view name = sdk::StringAt(c.input_view(0), 0);
    tenon_resource* const handle = table.Find(c, name);
    if (handle == nullptr)
      sdk::Fail(TENON_INVALID_ARGUMENT, "'", name, "' is the handle of no ", kKind.what, " of this session");
    const auto& iterator = sdk::ObjectOf<Object>(c, handle, kKind.object_type);
    if (!types.empty() && iterator.spec().types != types)
      sdk::Fail(TENON_INVALID_ARGUMENT, "the ", kKind.what, " '", name, "' has other types than output_types");
    *c.output<tenon_resource*>(0) = handle;
  }
  NamedTable<kKind> table;
  std::vector<uint32_t> types;
};

}  // namespace tenon::ops

#endif  // TENON_OPS_DATASET_ITERATORS_NAMED_ITERATORS_H_
