// SPDX-License-Identifier: Apache-2.0
// Equations of Einsum: "ab,bc->ac", with one or two operands, repeated labels and an ellipsis.
//
// A label is a number: a letter's own, or for the dims that an ellipsis stands for, counted from the last, kEllipsis +
// 0, 1, ..., so that those of two operands meet as broadcasting has it.
#ifndef TENON_SDK_OP_EINSUM_H_
#define TENON_SDK_OP_EINSUM_H_

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/sdk/span.h"

namespace tenon::sdk {

inline constexpr int kEllipsis = 256;

struct EinsumEquation {
  // Letters; '.' is the ellipsis.
  std::vector<std::string> inputs;
  std::string output;

  // Of a tensor of `rank`. error: gets why it does not fit.
  static std::vector<int> Labels(std::string_view subscripts, int rank, std::string* error) {
    const bool ellipsis = subscripts.find('.') != subscripts.npos;
    const int named = static_cast<int>(subscripts.size()) - (ellipsis ? 1 : 0);
    if (ellipsis ? rank < named : rank != named) {
      *error = Concat("the subscripts '", subscripts, "' ask for rank ", named, ellipsis ? " at least" : "",
                      "; the input has rank ", rank);
      return {};
    }
    std::vector<int> labels;
    for (char letter : subscripts) {
      if (letter != '.') {
        labels.push_back(static_cast<unsigned char>(letter));
      } else {
        for (int i = rank - named; i-- > 0;) labels.push_back(kEllipsis + i);
      }
    }
    return labels;
  }
  // So many dims of the output stand for its ellipsis: the most of any input's (as Labels gave them).
  static int EllipsisDims(const std::vector<std::vector<int>>& inputs) {
    int dims = 0;
    for (const auto& labels : inputs) {
      for (int label : labels) dims = std::max(dims, label - kEllipsis + 1);
    }
    return dims;
  }
  // Slowest first. error as above: an ellipsis of the inputs must be in the output.
  std::vector<int> OutputLabels(int ellipsis_dims, std::string* error) const {
    const bool ellipsis = output.find('.') != output.npos;
    if (!ellipsis && ellipsis_dims > 0) {
      *error = Concat("the inputs' ellipses stand for ", ellipsis_dims, " dims, and the output '", output,
                      "' has no ellipsis (...)");
      return {};
    }
    return Labels(output, static_cast<int>(output.size()) - (ellipsis ? 1 : 0) + ellipsis_dims, error);
  }
};

// Subscripts without the dots of their ellipsis; false when there is more than one.
inline bool ReadSubscripts(std::string_view text, std::string* subscripts, std::string* error) {
  const size_t dots = static_cast<size_t>(std::count(text.begin(), text.end(), '.'));
  const size_t at = text.find("...");
  if (dots != 0 && (dots != 3 || at == text.npos)) {
    *error = Concat("'", text, "' may have one ellipsis (...); it has ", dots, " periods");
    return false;
  }
  *subscripts = text;
  if (dots != 0) subscripts->replace(at, 3, ".");
  return true;
}

// Its parts. error: gets why it is no equation of so many operands, 1 or 2, and is left alone otherwise. Whether dims
// of one label agree is the caller's to see.
inline EinsumEquation ParseEinsum(std::string_view equation, int input_count, std::string* error) {
  EinsumEquation out;
  const size_t arrow = equation.find("->");
  if (arrow == equation.npos || equation.find("->", arrow + 2) != equation.npos) {
    *error = Concat("the equation '", equation, "' must have exactly one '->'");
    return out;
  }
  std::string_view left = equation.substr(0, arrow);
  for (bool more = true; more;) {
    const size_t comma = left.find(',');
    more = comma != left.npos;
    if (!ReadSubscripts(left.substr(0, comma), &out.inputs.emplace_back(), error)) return out;
    if (more) left.remove_prefix(comma + 1);
  }
  if (!ReadSubscripts(equation.substr(arrow + 2), &out.output, error)) return out;
  if (static_cast<int>(out.inputs.size()) != input_count || input_count > 2) {
    *error = Concat("the equation '", equation, "' has ", out.inputs.size(), " operands, the node ", input_count,
                    "; 1 and 2 are possible");
  }
  for (char letter : out.output) {
    const auto has = [&](const std::string& input) { return input.find(letter) != input.npos; };
    if (letter != '.' && std::none_of(out.inputs.begin(), out.inputs.end(), has)) {
      *error = Concat("the output of the equation '", equation, "' has the label '", std::string(1, letter),
                      "', which no input has");
    }
  }
  return out;
}

}  // namespace tenon::sdk

#endif  // TENON_SDK_OP_EINSUM_H_
