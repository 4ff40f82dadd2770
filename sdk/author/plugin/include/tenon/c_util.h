/* SPDX-License-Identifier: Apache-2.0 */
/* What an author of plugins in C writes again and again: elements of a view, attributes by their kind, scalars,
 * strings, errors with numbers in them. All are inline functions over the plugin ABI; C++ authors have tenon/sdk. After
 * load() only, as tenon_plugin_error.
 *
 *   int64_t times = 0;
 *   tenon_status* status = tenon_c_attr_int(args->node_services, args->node, "times", &times);
 *   if (status != NULL) return status;
 */
#ifndef TENON_C_UTIL_H_
#define TENON_C_UTIL_H_

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tenon/plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Texts and errors ---- */

/* Of a NUL-terminated text, which it borrows. */
static inline tenon_span tenon_c_span(const char* text) {
  tenon_span span;
  span.data = text;
  span.size = strlen(text);
  return span;
}

/* 1 when the span is the NUL-terminated text. */
static inline uint32_t tenon_c_equal(tenon_span span, const char* text) {
  return span.size == strlen(text) && (span.size == 0 || memcmp(span.data, text, span.size) == 0);
}

/* A failure whose message is printf's, cut to 1023 bytes; who gets it releases it. Texts of spans: "%.*s",
 * (int)span.size, span.data. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static inline tenon_status* tenon_c_error(uint32_t code, const char* format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  const int length = vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  return tenon_plugin_error(code, length < 0 ? format : text);
}

/* ---- Views ---- */

/* Where the first element is; NULL without data. In host memory only by TENON_VIEW_HOST_VISIBLE. */
static inline void* tenon_c_data(const tenon_tensor_view* view) {
  return view->dl.data == NULL ? NULL : (void*)((char*)view->dl.data + view->dl.byte_offset);
}

/* The number of elements: 1 of a scalar; -1 when the rank or a dim is unknown, or int64 does not hold it. */
static inline int64_t tenon_c_count(const tenon_tensor_view* view) {
  int64_t count = 1;
  if (view->dl.ndim < 0) return -1;
  for (int32_t i = 0; i < view->dl.ndim; ++i) {
    if (view->dl.shape[i] < 0) return -1;
  }
  for (int32_t i = 0; i < view->dl.ndim; ++i) {
    if (view->dl.shape[i] == 0) return 0;
  }
  for (int32_t i = 0; i < view->dl.ndim; ++i) {
    if (count > INT64_MAX / view->dl.shape[i]) return -1;
    count *= view->dl.shape[i];
  }
  return count;
}

/* The one element of an int32 or int64 tensor in host memory. INVALID_ARGUMENT says what it is instead. what:
 * "the axis". */
static inline tenon_status* tenon_c_integer(const tenon_tensor_view* view, const char* what, int64_t* out_value) {
  const void* data = tenon_c_data(view);
  if (data == NULL || tenon_c_count(view) != 1)
    return tenon_c_error(TENON_INVALID_ARGUMENT, "%s must be one number that is there", what);
  if (view->dtype == TENON_DT_INT32) {
    int32_t value;
    memcpy(&value, data, sizeof(value));
    *out_value = value;
    return NULL;
  }
  if (view->dtype != TENON_DT_INT64)
    return tenon_c_error(TENON_INVALID_ARGUMENT, "%s must be int32 or int64, found dtype %u", what,
                         (unsigned)view->dtype);
  memcpy(out_value, data, sizeof(*out_value));
  return NULL;
}

/* Element `index` of a string tensor in host memory, as long as the tensor is; index is below tenon_c_count(). */
static inline tenon_span tenon_c_string(const tenon_tensor_view* view, int64_t index) {
  const char* base = (const char*)tenon_c_data(view);
  const tenon_string_cell* cells = (const tenon_string_cell*)(const void*)base;
  tenon_span text;
  text.data = base + cells[index].offset;
  text.size = cells[index].size;
  return text;
}

/* Makes output `index`, which the registration names in dynamic_outputs, a string tensor of that shape; strings
 * [count], copied. */
static inline tenon_status* tenon_c_set_strings(tenon_frame* frame, int32_t index, tenon_shape shape,
                                                const tenon_span* strings, uint64_t count) {
  uint64_t bytes = 0;
  for (uint64_t i = 0; i < count; ++i) {
    if (strings[i].size > UINT64_MAX / 2 - bytes)
      return tenon_plugin_error(TENON_RESOURCE_EXHAUSTED, "the strings are longer than memory can be");
    bytes += strings[i].size;
  }
  tenon_status* status = frame->services->alloc_output(frame, index, shape, bytes);
  if (status != NULL) return status;
  const tenon_tensor_view* view = frame->outputs[index];
  if (tenon_c_count(view) < 0 || (uint64_t)tenon_c_count(view) != count)
    return tenon_plugin_error(TENON_INTERNAL, "the shape does not have as many elements as there are strings");
  char* base = (char*)tenon_c_data(view);
  tenon_string_cell* cells = (tenon_string_cell*)(void*)base;
  uint64_t offset = count * sizeof(tenon_string_cell);
  for (uint64_t i = 0; i < count; ++i) {
    cells[i].offset = offset;
    cells[i].size = strings[i].size;
    if (strings[i].size > 0) memcpy(base + offset, strings[i].data, strings[i].size);
    offset += strings[i].size;
  }
  return NULL;
}

/* ---- Attributes ---- */

/* An attribute of that kind (TENON_ATTR_*, with TENON_ATTR_LIST for a list); INVALID_ARGUMENT when it is of another. */
static inline tenon_status* tenon_c_attr(const tenon_node_services* services, const tenon_node* node, const char* name,
                                         uint32_t kind, tenon_attr_value* out_value) {
  memset(out_value, 0, sizeof(*out_value));
  tenon_status* status = services->attr(node, tenon_c_span(name), out_value);
  if (status != NULL) return status;
  /* A list without elements is of any kind. */
  if (out_value->kind == kind || ((out_value->kind & kind & TENON_ATTR_LIST) != 0 && out_value->count == 0))
    return NULL;
  return tenon_c_error(TENON_INVALID_ARGUMENT, "attribute '%s' is of kind %u; %u is wanted", name,
                       (unsigned)out_value->kind, (unsigned)kind);
}

static inline tenon_status* tenon_c_attr_int(const tenon_node_services* services, const tenon_node* node,
                                             const char* name, int64_t* out_value) {
  tenon_attr_value value;
  tenon_status* status = tenon_c_attr(services, node, name, TENON_ATTR_INT, &value);
  if (status == NULL) *out_value = *(const int64_t*)value.data;
  return status;
}

static inline tenon_status* tenon_c_attr_float(const tenon_node_services* services, const tenon_node* node,
                                               const char* name, float* out_value) {
  tenon_attr_value value;
  tenon_status* status = tenon_c_attr(services, node, name, TENON_ATTR_FLOAT, &value);
  if (status == NULL) *out_value = *(const float*)value.data;
  return status;
}

/* out_value: 1 or 0. */
static inline tenon_status* tenon_c_attr_bool(const tenon_node_services* services, const tenon_node* node,
                                              const char* name, uint32_t* out_value) {
  tenon_attr_value value;
  tenon_status* status = tenon_c_attr(services, node, name, TENON_ATTR_BOOL, &value);
  if (status == NULL) *out_value = *(const uint8_t*)value.data != 0;
  return status;
}

/* out_value: TENON_DT_*. */
static inline tenon_status* tenon_c_attr_type(const tenon_node_services* services, const tenon_node* node,
                                              const char* name, uint32_t* out_value) {
  tenon_attr_value value;
  tenon_status* status = tenon_c_attr(services, node, name, TENON_ATTR_TYPE, &value);
  if (status == NULL) *out_value = *(const uint32_t*)value.data;
  return status;
}

/* The span lives as long as the call in which the node was given. */
static inline tenon_status* tenon_c_attr_string(const tenon_node_services* services, const tenon_node* node,
                                                const char* name, tenon_span* out_value) {
  tenon_attr_value value;
  tenon_status* status = tenon_c_attr(services, node, name, TENON_ATTR_STRING, &value);
  if (status == NULL) *out_value = *(const tenon_span*)value.data;
  return status;
}

/* out_values [*out_count] live as long as the call in which the node was given. */
static inline tenon_status* tenon_c_attr_ints(const tenon_node_services* services, const tenon_node* node,
                                              const char* name, const int64_t** out_values, uint64_t* out_count) {
  tenon_attr_value value;
  tenon_status* status = tenon_c_attr(services, node, name, TENON_ATTR_INT | TENON_ATTR_LIST, &value);
  if (status == NULL) {
    *out_values = (const int64_t*)value.data;
    *out_count = value.count;
  }
  return status;
}

/* What the node's op says of itself (tenon/graph.h); nothing with a host that is older than properties. */
static inline tenon_node_properties tenon_c_properties(const tenon_node_services* services, const tenon_node* node) {
  tenon_node_properties properties;
  memset(&properties, 0, sizeof(properties));
  properties.struct_size = sizeof(properties);
  properties.axes_input = -1;
  if (TENON_CALLABLE(services, properties)) services->properties(node, &properties);
  return properties;
}

/* ---- Graphs ---- */

/* A scalar constant, for gradients and decompositions: float, double, int32 or int64. */
static inline tenon_status* tenon_c_scalar(const tenon_graph_builder* builder, uint32_t dtype, double number,
                                           tenon_output* out_output) {
  const float single = (float)number;
  const int32_t narrow = (int32_t)number;
  const int64_t wide = (int64_t)number;
  tenon_tensor_view view;
  memset(&view, 0, sizeof(view));
  view.dtype = dtype;
  view.flags = TENON_VIEW_HOST_VISIBLE | TENON_VIEW_READ_ONLY;
  view.dl.device_type = 1; /* kDLCPU */
  view.dl.dtype.lanes = 1;
  view.dl.dtype.code = dtype == TENON_DT_FLOAT || dtype == TENON_DT_DOUBLE ? 2 : 0; /* kDLFloat, kDLInt */
  view.byte_size = dtype == TENON_DT_FLOAT || dtype == TENON_DT_INT32 ? 4 : 8;
  view.dl.dtype.bits = (uint8_t)(view.byte_size * 8);
  switch (dtype) {
    case TENON_DT_FLOAT: view.dl.data = (void*)&single; break;
    case TENON_DT_DOUBLE: view.dl.data = (void*)&number; break;
    case TENON_DT_INT32: view.dl.data = (void*)&narrow; break;
    case TENON_DT_INT64: view.dl.data = (void*)&wide; break;
    default:
      return tenon_c_error(TENON_UNIMPLEMENTED, "a scalar of dtype %u; float, double, int32 and int64 there are",
                           (unsigned)dtype);
  }
  return builder->add_constant(builder->context, &view, out_output);
}

#ifdef __cplusplus
}
#endif
#endif /* TENON_C_UTIL_H_ */
