// SPDX-License-Identifier: Apache-2.0
// oneDNN 3 without threads of its own (ONEDNN_CPU_RUNTIME=SEQ, tools/build_onednn3.sh); included by library.h alone,
// which says what each is.
#ifndef TENON_DEVICES_CPU_ONEDNN_LIBRARY_3_H_
#define TENON_DEVICES_CPU_ONEDNN_LIBRARY_3_H_

#if DNNL_CPU_THREADING_RUNTIME != DNNL_RUNTIME_SEQ
#error "this oneDNN has threads of its own, which would fight the engine's: build it by tools/build_onednn3.sh"
#endif

namespace tenon::cpu_onednn::library {

inline constexpr char kPlugin[] = "tenon.cpu_onednn3";
inline constexpr char kAbout[] = "Kernels of oneDNN 3 for the CPU, in float, bfloat16 and 8-bit integers.";
inline constexpr int32_t kPriority = 11;
inline constexpr bool kHasPass = false;

inline int MostThreads() { return 1; }
inline void SetMostThreads(int) {}

inline dnnl::memory::dims Dims(const Desc& desc) { return desc.get_dims(); }
inline ElementType Type(const Desc& desc) { return desc.get_data_type(); }
inline Desc WithType(const Desc& desc, ElementType type) { return {desc.get_dims(), type, desc.get_strides()}; }

inline void AppendEltwise(dnnl::post_ops& operations, dnnl::algorithm algorithm, float alpha, float beta) {
  operations.append_eltwise(algorithm, alpha, beta);
}

inline constexpr bool kZeroPointsAreArguments = true;
inline void SetZeroPoint(dnnl::primitive_attr& attributes, int argument, int32_t) {
  attributes.set_zero_points_mask(argument, 0);
}

inline dnnl::convolution_forward::primitive_desc ConvolutionForward(dnnl::prop_kind kind, dnnl::algorithm algorithm,
                                                                    const Desc& in, const Desc& filter,
                                                                    const Desc& bias, const Desc& out, const Windows& w,
                                                                    const dnnl::primitive_attr& attributes) {
  return {Engine(), kind, algorithm, in, filter, bias, out, w.strides, w.dilations, w.before, w.after, attributes};
}
inline dnnl::convolution_backward_data::primitive_desc ConvolutionBackwardData(
    dnnl::algorithm algorithm, const Desc& in, const Desc& filter, const Desc& out, const Windows& w,
    const dnnl::primitive_attr& attributes, const dnnl::convolution_forward::primitive_desc& forward) {
  return {Engine(), algorithm, in, filter, out, w.strides, w.dilations, w.before, w.after, forward, attributes};
}
inline dnnl::convolution_backward_weights::primitive_desc ConvolutionBackwardWeights(
    dnnl::algorithm algorithm, const Desc& in, const Desc& filter, const Desc& out, const Windows& w,
    const dnnl::primitive_attr& attributes, const dnnl::convolution_forward::primitive_desc& forward) {
  return {Engine(), algorithm, in, filter, out, w.strides, w.dilations, w.before, w.after, forward, attributes};
}

inline dnnl::memory::dims Undilated(const PoolWindows& w) { return dnnl::memory::dims(w.sizes.size(), 0); }
inline dnnl::pooling_forward::primitive_desc PoolForward(dnnl::algorithm algorithm, const Desc& in, const Desc& out,
                                                         const PoolWindows& w, const dnnl::primitive_attr& attributes) {
  return {Engine(),  dnnl::prop_kind::forward_inference,
          algorithm, in,
          out,       w.strides,
          w.sizes,   Undilated(w),
          w.before,  w.after,
          attributes};
}
inline dnnl::pooling_backward::primitive_desc PoolBackward(dnnl::algorithm algorithm, const Desc& in, const Desc& out,
                                                           const PoolWindows& w, const dnnl::primitive_attr& attributes,
                                                           const dnnl::pooling_forward::primitive_desc& forward) {
  return {Engine(), algorithm, in, out, w.strides, w.sizes, Undilated(w), w.before, w.after, forward, attributes};
}

// Of one column among others oneDNN 3.7.2 (brg_matmul) writes the rows one after the other, over the other columns.
inline dnnl::matmul::primitive_desc Product(const Desc& left, const Desc& right, const Desc& product,
                                            const dnnl::primitive_attr& attributes) {
  const size_t dims = product.get_dims().size();
  if (product.get_dims()[dims - 1] == 1 && product.get_dims()[dims - 2] > 1 && product.get_strides()[dims - 2] != 1)
    throw dnnl::error(dnnl_unimplemented, "a column among others");
  return {Engine(), left, right, product, attributes};
}

inline constexpr auto kInference = dnnl::prop_kind::forward_inference;
inline constexpr auto kOneWay = dnnl::rnn_direction::unidirectional_left2right;
inline dnnl::lstm_forward::primitive_desc Lstm(const RecurrentDescs& d, const dnnl::primitive_attr& attributes) {
  return {Engine(),    kInference, kOneWay, d.x,     d.state, d.state,   d.kernel,
          d.recurrent, d.bias,     d.y,     d.state, d.state, attributes};
}
// Primitive: gru_forward or lbr_gru_forward.
template <class Primitive>
typename Primitive::primitive_desc Gru(const RecurrentDescs& d, const dnnl::primitive_attr& attributes) {
  return {Engine(), kInference, kOneWay, d.x, d.state, d.kernel, d.recurrent, d.bias, d.y, d.state, attributes};
}

}  // namespace tenon::cpu_onednn::library

#endif  // TENON_DEVICES_CPU_ONEDNN_LIBRARY_3_H_
