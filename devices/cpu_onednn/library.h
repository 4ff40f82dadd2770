// SPDX-License-Identifier: Apache-2.0
// What oneDNN 2.6 and oneDNN 3 write differently, in one way for both: the rest of this folder is compiled with either.
//
// library_2.h and library_3.h each define, in namespace library:
//   kPlugin, kAbout, kPriority         the plugin's id, what it is, and its kernels' priority. 3 stands one above 2.6:
//   where both are loaded its kernels come first kHasPass                           whether the plugin brings the pass
//   of bfloat16 (bfloat16.h): two would each go over a step MostThreads, SetMostThreads        of the library's own
//   team, for the calling thread Dims, Type, WithType               of a plain memory::desc AppendEltwise a step after
//   a primitive, that is done to each element SetZeroPoint                       of an argument of bytes;
//   kZeroPointsAreArguments: its value comes with each execution, too (DNNL_ARG_ATTR_ZERO_POINTS) Convolution...,
//   Pool..., Product, Lstm, Gru
//                                      primitive_desc of a primitive. Refusals are dnnl::error, for Made() of program.h
// Geometry of windows: strides, dilations (0: none; pooling has none), paddings before and after.
#ifndef TENON_DEVICES_CPU_ONEDNN_LIBRARY_H_
#define TENON_DEVICES_CPU_ONEDNN_LIBRARY_H_

#include <dnnl.hpp>

namespace tenon::cpu_onednn {

using ElementType = dnnl::memory::data_type;

const dnnl::engine& Engine();

namespace library {

using Desc = dnnl::memory::desc;

struct Windows {
  dnnl::memory::dims strides, dilations, before, after;
};
struct PoolWindows {
  dnnl::memory::dims strides, sizes, before, after;
};
struct RecurrentDescs {
  Desc x, state, kernel, recurrent, bias, y;  // state: of h, and of an LSTM c, that come in and go out
};

}  // namespace library
}  // namespace tenon::cpu_onednn

#if DNNL_VERSION_MAJOR >= 3
#include "library_3.h"
#else
#include "library_2.h"
#endif

#endif  // TENON_DEVICES_CPU_ONEDNN_LIBRARY_H_
