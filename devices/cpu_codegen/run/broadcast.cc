// SPDX-License-Identifier: Apache-2.0
#include "run/broadcast.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "tenon/sdk/kernel/kernel.h"
#include "tenon/bytes/repeat.h"
#include "tenon/extras/walk/broadcast.h"

namespace tenon::cpu_codegen {

SpreadDims DimsOfSpreads(const std::vector<std::vector<int64_t>>& shapes, const std::vector<int64_t>& out,
                         std::vector<SpreadSteps>* out_steps) {
  for (const std::vector<int64_t>& shape : shapes)
    if (shape.size() > out.size())
      sdk::Fail(TENON_UNIMPLEMENTED, "a region with shapes ", sdk::Dims(shape), " and ", sdk::Dims(out));
  std::vector<sdk::BroadcastDim> dims = sdk::BroadcastDims({shapes.begin(), shapes.end()}, out, "a region");
  if (dims.empty()) dims.push_back({1, std::vector<int64_t>(shapes.size(), 0)});
  SpreadDims found{{}, dims[0].size};
  out_steps->assign(shapes.size(), {});
  for (size_t i = 0; i < shapes.size(); ++i) (*out_steps)[i].inner = dims[0].steps[i];
  for (size_t d = dims.size(); d-- > 1;) {
    found.outer.push_back(dims[d].size);
    for (size_t i = 0; i < shapes.size(); ++i) (*out_steps)[i].outer.push_back(dims[d].steps[i]);
  }
  return found;
}

int64_t SpreadSteps::OfRow(const SpreadDims& dims, int64_t row) const {
  int64_t offset = 0;
  for (size_t d = dims.outer.size(); d-- > 0; row /= dims.outer[d]) offset += row % dims.outer[d] * outer[d];
  return offset;
}

int64_t PeriodOf(const SpreadDims& dims, const SpreadSteps& steps) {
  size_t first = 0;
  while (first < steps.outer.size() && steps.outer[first] == 0) ++first;
  int64_t period = steps.inner != 0 || first < steps.outer.size() ? dims.inner : 1;
  for (size_t d = first; d < steps.outer.size(); ++d) period *= dims.outer[d];
  return period;
}

void LayOut(const SpreadDims& dims, const Spread& spread, const char* from, int64_t begin, int64_t count, char* to) {
  std::array<int64_t, TENON_MAX_RANK> at{};
  int64_t inner = begin % dims.inner, row = begin / dims.inner, offset = spread.steps.inner * inner;
  for (size_t d = dims.outer.size(); d-- > 0; row /= dims.outer[d]) {
    at[d] = row % dims.outer[d];
    offset += at[d] * spread.steps.outer[d];
  }
  const auto size = static_cast<size_t>(spread.size);
  while (count > 0) {
    const int64_t part = std::min(count, dims.inner - inner);
    const char* const source = from + offset * spread.size;
    if (spread.steps.inner != 0) {
      std::memcpy(to, source, static_cast<size_t>(part) * size);
    } else {
      sdk::Repeat(to, source, size, static_cast<size_t>(part));
    }
    to += static_cast<size_t>(part) * size;
    count -= part;
    offset -= spread.steps.inner * inner;
    inner = 0;
    for (size_t d = dims.outer.size(); d-- > 0;) {
      offset += spread.steps.outer[d];
      if (++at[d] < dims.outer[d]) break;
      offset -= at[d] * spread.steps.outer[d];
      at[d] = 0;
    }
  }
}

}  // namespace tenon::cpu_codegen
