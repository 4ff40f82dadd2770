// SPDX-License-Identifier: Apache-2.0
// Broadcasting as strides: several inputs and one output of the broadcast shape, with as few dims as possible.
//
// Adjacent dims over which every input walks on evenly are merged. What is left is an inner dim, which vectorises, and
// outer dims, which an odometer walks. Same-shape and scalar operands end as one dim.
#ifndef TENON_SDK_WALK_BROADCAST_H_
#define TENON_SDK_WALK_BROADCAST_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/sdk/kernel/kernel.h"

namespace tenon::sdk {

// Dims left after merging. More alternations of broadcast and plain dims are refused.
inline constexpr int kMaxDims = 16;

// Shapes are aligned at their last dim, where a dim of 1 goes with any (numpy's rule). Strides and offsets are in
// elements; 0 where an input is repeated.
template <int kInputs>
struct Broadcast {
  int rank = 0;  // of outer dims; the inner one is extra
  int64_t total = 1;
  int64_t inner = 1;
  std::array<int64_t, kInputs> inner_stride = {};  // 0 or 1
  std::array<int64_t, kMaxDims> dims = {};         // outer dims, slowest first
  std::array<std::array<int64_t, kMaxDims>, kInputs> strides = {};

  Broadcast() = default;
  // INVALID_ARGUMENT when an input does not broadcast to `out`, UNIMPLEMENTED beyond kMaxDims.
  Broadcast(const std::array<Dims, kInputs>& inputs, Dims out) {
    total = Count(out);
    // Built from the fastest dim on; entry 0 is the innermost.
    std::array<int64_t, kMaxDims + 1> sizes = {};
    std::array<std::array<int64_t, kMaxDims + 1>, kInputs> steps = {};
    std::array<int64_t, kInputs> walked = {};
    walked.fill(1);
    int count = 0;
    for (size_t back = 1; back <= out.size(); ++back) {
      const int64_t size = out[out.size() - back];
      std::array<int64_t, kInputs> step = {};
      for (int i = 0; i < kInputs; ++i) {
        const int64_t dim = back <= inputs[i].size() ? inputs[i][inputs[i].size() - back] : 1;
        if (dim != 1 && dim != size) {
          Fail(TENON_INVALID_ARGUMENT, "shape ", inputs[i], " does not broadcast to ", out);
        }
        step[i] = dim == 1 ? 0 : walked[i];
        walked[i] *= dim;
      }
      if (size == 1) continue;
      bool merges = count > 0;
      for (int i = 0; merges && i < kInputs; ++i) merges = step[i] == steps[i][count - 1] * sizes[count - 1];
      if (merges) {
        sizes[count - 1] *= size;
        continue;
      }
      if (count == kMaxDims) {
        Fail(TENON_UNIMPLEMENTED, "broadcasting to ", out, " alternates more than ", kMaxDims, " times");
      }
      sizes[count] = size;
      for (int i = 0; i < kInputs; ++i) steps[i][count] = step[i];
      ++count;
    }
    for (int i = 0; i < kInputs; ++i) {
      if (inputs[i].size() > out.size() && Count(inputs[i]) != 1) {
        Fail(TENON_INVALID_ARGUMENT, "shape ", inputs[i], " does not broadcast to ", out);
      }
    }
    if (count == 0) return;
    inner = sizes[0];
    for (int i = 0; i < kInputs; ++i) inner_stride[i] = steps[i][0];
    rank = count - 1;
    for (int d = 0; d < rank; ++d) {
      dims[d] = sizes[count - 1 - d];
      for (int i = 0; i < kInputs; ++i) strides[i][d] = steps[i][count - 1 - d];
    }
  }

  // function(offsets of the inputs, offset of the output, elements) for pieces of inner rows that make up [begin, end)
  // of the `total` elements of the output, in order; along a piece input i goes on by inner_stride[i]. Shares of the
  // range may go to several threads.
  template <class Function>
  void ForEachRow(int64_t begin, int64_t end, Function&& function) const {
    if (begin >= end) return;
    std::array<int64_t, kMaxDims> index = {};
    std::array<int64_t, kInputs> base = {};
    int64_t row = begin / inner;
    int64_t column = begin % inner;
    for (int d = rank - 1; d >= 0; --d) {
      index[d] = row % dims[d];
      row /= dims[d];
      for (int i = 0; i < kInputs; ++i) base[i] += index[d] * strides[i][d];
    }
    while (begin < end) {
      const int64_t n = std::min(inner - column, end - begin);
      std::array<int64_t, kInputs> at = base;
      for (int i = 0; i < kInputs; ++i) at[i] += column * inner_stride[i];
      function(at, begin, n);
      begin += n;
      column = 0;
      for (int d = rank - 1; d >= 0; --d) {
        for (int i = 0; i < kInputs; ++i) base[i] += strides[i][d];
        if (++index[d] < dims[d]) break;
        for (int i = 0; i < kInputs; ++i) base[i] -= dims[d] * strides[i][d];
        index[d] = 0;
      }
    }
  }
};

// A dim over which any number of inputs walk beside an output: how many elements each goes on from one to the next; 0
// where it is repeated.
struct BroadcastDim {
  int64_t size;
  std::vector<int64_t> steps;
};

// The same for a number of inputs that is known only when it runs: the output's dims, merged, the fastest first; none
// where it has one element. Dims of an input that the output does not have are not looked at. UNIMPLEMENTED, with a
// word for who asks ("a chain"), where a dim of an input is neither 1 nor the output's.
inline std::vector<BroadcastDim> BroadcastDims(const std::vector<Dims>& inputs, Dims out, std::string_view who) {
  std::vector<BroadcastDim> dims;
  std::vector<int64_t> walked(inputs.size(), 1);
  for (size_t back = 1; back <= out.size(); ++back) {
    BroadcastDim dim{out[out.size() - back], std::vector<int64_t>(inputs.size())};
    for (size_t i = 0; i < inputs.size(); ++i) {
      const int64_t own = back <= inputs[i].size() ? inputs[i][inputs[i].size() - back] : 1;
      if (own != 1 && own != dim.size) Fail(TENON_UNIMPLEMENTED, who, " with shapes ", inputs[i], " and ", out);
      dim.steps[i] = own == 1 ? 0 : walked[i];
      walked[i] *= own;
    }
    if (dim.size == 1) continue;
    const auto goes_on = [&] {
      for (size_t i = 0; i < inputs.size(); ++i)
        if (dim.steps[i] != dims.back().steps[i] * dims.back().size) return false;
      return true;
    };
    if (!dims.empty() && goes_on()) dims.back().size *= dim.size;
    else dims.push_back(std::move(dim));
  }
  return dims;
}

}  // namespace tenon::sdk

#endif  // TENON_SDK_WALK_BROADCAST_H_
