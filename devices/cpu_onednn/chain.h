// SPDX-License-Identifier: Apache-2.0
// The compiler: convolutions together with what is done to their results, as one primitive of oneDNN.
//
// A chain is Conv2D or DepthwiseConv2dNative, then any of
//   BiasAdd, Add or AddV2 of a value of each channel, FusedBatchNorm of inference (all versions), in any order;
//   Add or AddV2 of another image of the same shape, once;
//   Relu, Relu6, LeakyRelu, Elu, Tanh or Sigmoid, which ends it,
// each the only reader of the one before. What is constant goes into the filter and the bias; what is not (variables)
// is brought to one factor and one term of each channel in every run. Where oneDNN has no fast primitive the nodes run
// one by one.
#ifndef TENON_DEVICES_CPU_ONEDNN_CHAIN_H_
#define TENON_DEVICES_CPU_ONEDNN_CHAIN_H_

#include "tenon/ext/draft/compile.h"

namespace tenon::cpu_onednn {

extern const tenon_compiler kCompiler;

}  // namespace tenon::cpu_onednn

#endif  // TENON_DEVICES_CPU_ONEDNN_CHAIN_H_
