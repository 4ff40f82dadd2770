// SPDX-License-Identifier: Apache-2.0
// The arguments of app.h's functions, checked before any is read: one line a function, TENON_CHECK(graph, name,
// out_text). What structs hold is looked at by their Rules here.
#ifndef TENON_SDK_HOST_CHECK_H_
#define TENON_SDK_HOST_CHECK_H_

#include <string>

#include "core/base/status.h"
#include "tenon/app.h"
#include "tenon/host/arguments.h"

namespace tenon::arguments {

template <>
struct Rule<tenon_plugin_option> {
  static Fault Find(const tenon_plugin_option& o) { return TENON_FAULT_WITHIN(o.plugin, o.key, o.value); }
};
template <>
struct Rule<tenon_runtime_options> {
  static Fault Find(const tenon_runtime_options& o) {
    return TENON_FAULT_WITHIN(List(o.plugins, o.plugin_count), List(o.plugin_options, o.plugin_option_count), o.task,
                              o.tuning_folder);
  }
};
template <>
struct Rule<tenon_task> {
  static Fault Find(const tenon_task& t) { return TENON_FAULT_WITHIN(t.name, t.address); }
};
template <>
struct Rule<tenon_worker_options> {
  static Fault Find(const tenon_worker_options& o) {
    return TENON_FAULT_WITHIN(List(o.tasks, o.task_count), o.listen, o.credentials);
  }
};
template <>
struct Rule<tenon_attr_value> {
  static Fault Find(const tenon_attr_value& value);
};
template <>
struct Rule<tenon_attr> {
  static Fault Find(const tenon_attr& a) { return TENON_FAULT_WITHIN(a.name, a.value); }
};
template <>
struct Rule<tenon_node_spec> {
  static Fault Find(const tenon_node_spec& s) {
    return TENON_FAULT_WITHIN(s.op, s.name, List(s.inputs, s.input_count), List(s.attrs, s.attr_count),
                              List(s.control_inputs, s.control_input_count));
  }
};
template <>
struct Rule<tenon_named_output> {
  static Fault Find(const tenon_named_output& named) { return TENON_FAULT_WITHIN(named.name); }
};
template <>
struct Rule<tenon_named_node> {
  static Fault Find(const tenon_named_node& named) { return TENON_FAULT_WITHIN(named.name); }
};
template <>
struct Rule<tenon_function_spec> {
  static Fault Find(const tenon_function_spec& s) {
    return TENON_FAULT_WITHIN(s.name, s.description, s.body, List(s.inputs, s.input_count),
                              List(s.outputs, s.output_count), List(s.control_outputs, s.control_output_count),
                              List(s.attrs, s.attr_count), s.gradient);
  }
};
// All that are texts, by their list.
template <>
struct Rule<tenon_session_options> {
  static Fault Find(const tenon_session_options& options);
};

// That all that the dims and strides of elements of so many bytes lead to lies in what addresses can name.
Fault FaultOfExtent(const tenon_dl_tensor& dl, uint64_t element_bytes);

// A value that is copied: of a type whose elements can be, and as long as its shape says; strings lie in no more than
// can be.
struct Whole {
  explicit Whole(const tenon_tensor_view* given) : view(given) {}
  const tenon_tensor_view* view;
};
template <>
struct Rule<Whole> {
  static Fault Find(const Whole& whole);
};

}  // namespace tenon::arguments

namespace tenon::host {

using arguments::Array, arguments::List, arguments::Ranked, arguments::Whole;

inline Status ToStatus(const arguments::Fault& fault) {
  return fault ? Status(static_cast<Code>(fault.code()), fault.text()) : Status::Ok();
}
// In a function that gives a Status.
#define TENON_CHECK(...) TENON_RETURN_IF_ERROR(::tenon::host::ToStatus(TENON_FAULT_AMONG(__VA_ARGS__)))

// A struct as this library knows it. NULL: the defaults.
template <typename T>
Status ReadOptions(const T* given, T* out, const char* name = "options") {
  *out = T{};
  if (given == nullptr) return Status::Ok();
  return ToStatus(arguments::ReadSized(*given, out).Within(name));
}

}  // namespace tenon::host

#endif  // TENON_SDK_HOST_CHECK_H_
