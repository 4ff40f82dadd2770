// SPDX-License-Identifier: Apache-2.0
// What the structs of model.h and train.h must hold.
#ifndef TENON_SDK_MODEL_C_RULES_H_
#define TENON_SDK_MODEL_C_RULES_H_

#include "tenon/host/arguments.h"
#include "tenon/model.h"
#include "tenon/train.h"

namespace tenon::arguments {

template <>
struct Rule<tenon_model_open_options> {
  static Fault Find(const tenon_model_open_options& o) { return TENON_FAULT_WITHIN(List(o.tags, o.tag_count)); }
};
template <>
struct Rule<tenon_signature_entry> {
  static Fault Find(const tenon_signature_entry& o) { return TENON_FAULT_WITHIN(o.key, o.tensor); }
};
template <>
struct Rule<tenon_signature_spec> {
  static Fault Find(const tenon_signature_spec& o) {
    return TENON_FAULT_WITHIN(o.name, o.method, List(o.inputs, o.input_count), List(o.outputs, o.output_count));
  }
};
template <>
struct Rule<tenon_model_write_options> {
  static Fault Find(const tenon_model_write_options& o) {
    return TENON_FAULT_WITHIN(List(o.signatures, o.signature_count), List(o.tags, o.tag_count));
  }
};
template <>
struct Rule<tenon_variables_options> {
  static Fault Find(const tenon_variables_options& o) { return TENON_FAULT_WITHIN(List(o.devices, o.device_count)); }
};
template <>
struct Rule<tenon_variable_spec> {
  static Fault Find(const tenon_variable_spec& o) { return TENON_FAULT_WITHIN(o.name, o.device, Ranked(o.shape)); }
};
template <>
struct Rule<tenon_optimizer_options> {
  static Fault Find(const tenon_optimizer_options& o) { return TENON_FAULT_WITHIN(o.name); }
};
template <>
struct Rule<tenon_rate_spec> {
  static Fault Find(const tenon_rate_spec& o) {
    return TENON_FAULT_WITHIN(List(o.boundaries, o.boundary_count),
                              List(o.values, o.boundary_count == 0 ? 0 : o.boundary_count + 1));
  }
};
template <>
struct Rule<tenon_elements_spec> {
  static Fault Find(const tenon_elements_spec& o) {
    return TENON_FAULT_WITHIN(o.function, o.name, List(o.states, o.state_count), List(o.xs, o.x_count),
                              List(o.invariants, o.invariant_count));
  }
};
template <>
struct Rule<tenon_rnn_cell_spec> {
  static Fault Find(const tenon_rnn_cell_spec& o) {
    return TENON_FAULT_WITHIN(o.name, o.function, List(o.state_sizes, o.state_count), List(o.weights, o.weight_count));
  }
};
template <>
struct Rule<tenon_rnn_options> {
  static Fault Find(const tenon_rnn_options& o) {
    return TENON_FAULT_WITHIN(o.name, List(o.initial_states, o.state_count));
  }
};
template <>
struct Rule<tenon_class_shards_spec> {
  static Fault Find(const tenon_class_shards_spec& o) {
    return TENON_FAULT_WITHIN(o.name, List(o.devices, o.device_count));
  }
};
template <>
struct Rule<tenon_saved_variable> {
  static Fault Find(const tenon_saved_variable& o) { return TENON_FAULT_WITHIN(o.variable, o.name); }
};
template <>
struct Rule<tenon_saver_options> {
  static Fault Find(const tenon_saver_options& o) {
    return TENON_FAULT_WITHIN(List(o.variables, o.variable_count), o.step_variable);
  }
};

}  // namespace tenon::arguments

#endif  // TENON_SDK_MODEL_C_RULES_H_
