// SPDX-License-Identifier: Apache-2.0
// oneDNN 2.6, whose primitives begin with a descriptor of the operation; included by library.h alone, which says what
// each is. omp.h is used for the thread count alone.
#ifndef TENON_DEVICES_CPU_ONEDNN_LIBRARY_2_H_
#define TENON_DEVICES_CPU_ONEDNN_LIBRARY_2_H_

#include <omp.h>

namespace tenon::cpu_onednn::library {

inline constexpr char kPlugin[] = "tenon.cpu_onednn";
inline constexpr char kAbout[] = "Kernels of oneDNN for the CPU, in float, bfloat16 and 8-bit integers.";
inline constexpr int32_t kPriority = 10;  // above that of devices/cpu
inline constexpr bool kHasPass = true;

inline int MostThreads() { return omp_get_max_threads(); }
inline void SetMostThreads(int count) { omp_set_num_threads(count); }

inline dnnl::memory::dims Dims(const Desc& desc) { return desc.dims(); }
inline ElementType Type(const Desc& desc) { return desc.data_type(); }
inline Desc WithType(Desc desc, ElementType type) {
  desc.data.data_type = dnnl::memory::convert_to_c(type);
  return desc;
}

inline void AppendEltwise(dnnl::post_ops& operations, dnnl::algorithm algorithm, float alpha, float beta) {
  operations.append_eltwise(1, algorithm, alpha, beta);
}

inline constexpr bool kZeroPointsAreArguments = false;
inline void SetZeroPoint(dnnl::primitive_attr& attributes, int argument, int32_t value) {
  attributes.set_zero_points(argument, 0, {value});
}

inline dnnl::convolution_forward::primitive_desc ConvolutionForward(dnnl::prop_kind kind, dnnl::algorithm algorithm,
                                                                    const Desc& in, const Desc& filter,
                                                                    const Desc& bias, const Desc& out, const Windows& w,
                                                                    const dnnl::primitive_attr& attributes) {
  return {dnnl::convolution_forward::desc(kind, algorithm, in, filter, bias, out, w.strides, w.dilations, w.before,
                                          w.after),
          attributes, Engine()};
}
inline dnnl::convolution_backward_data::primitive_desc ConvolutionBackwardData(
    dnnl::algorithm algorithm, const Desc& in, const Desc& filter, const Desc& out, const Windows& w,
    const dnnl::primitive_attr& attributes, const dnnl::convolution_forward::primitive_desc& forward) {
  return {dnnl::convolution_backward_data::desc(algorithm, in, filter, out, w.strides, w.dilations, w.before, w.after),
          attributes, Engine(), forward};
}
inline dnnl::convolution_backward_weights::primitive_desc ConvolutionBackwardWeights(
    dnnl::algorithm algorithm, const Desc& in, const Desc& filter, const Desc& out, const Windows& w,
    const dnnl::primitive_attr& attributes, const dnnl::convolution_forward::primitive_desc& forward) {
  return {
      dnnl::convolution_backward_weights::desc(algorithm, in, filter, out, w.strides, w.dilations, w.before, w.after),
      attributes, Engine(), forward};
}

inline dnnl::pooling_forward::primitive_desc PoolForward(dnnl::algorithm algorithm, const Desc& in, const Desc& out,
                                                         const PoolWindows& w, const dnnl::primitive_attr& attributes) {
  return {dnnl::pooling_forward::desc(dnnl::prop_kind::forward_inference, algorithm, in, out, w.strides, w.sizes,
                                      w.before, w.after),
          attributes, Engine()};
}
inline dnnl::pooling_backward::primitive_desc PoolBackward(dnnl::algorithm algorithm, const Desc& in, const Desc& out,
                                                           const PoolWindows& w, const dnnl::primitive_attr& attributes,
                                                           const dnnl::pooling_forward::primitive_desc& forward) {
  return {dnnl::pooling_backward::desc(algorithm, in, out, w.strides, w.sizes, w.before, w.after), attributes, Engine(),
          forward};
}

inline dnnl::matmul::primitive_desc Product(const Desc& left, const Desc& right, const Desc& product,
                                            const dnnl::primitive_attr& attributes) {
  return {dnnl::matmul::desc(left, right, product), attributes, Engine()};
}

inline constexpr auto kInference = dnnl::prop_kind::forward_inference;
inline constexpr auto kOneWay = dnnl::rnn_direction::unidirectional_left2right;
inline dnnl::lstm_forward::primitive_desc Lstm(const RecurrentDescs& d, const dnnl::primitive_attr& attributes) {
  return {dnnl::lstm_forward::desc(kInference, kOneWay, d.x, d.state, d.state, d.kernel, d.recurrent, d.bias, d.y,
                                   d.state, d.state),
          attributes, Engine()};
}
// Primitive: gru_forward or lbr_gru_forward.
template <class Primitive>
typename Primitive::primitive_desc Gru(const RecurrentDescs& d, const dnnl::primitive_attr& attributes) {
  return {typename Primitive::desc(kInference, kOneWay, d.x, d.state, d.kernel, d.recurrent, d.bias, d.y, d.state),
          attributes, Engine()};
}

}  // namespace tenon::cpu_onednn::library

#endif  // TENON_DEVICES_CPU_ONEDNN_LIBRARY_2_H_
