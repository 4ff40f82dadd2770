// SPDX-License-Identifier: Apache-2.0
// A batch of SequenceExamples, or one, into columns: of the context, as of an Example, and of the lists of features,
// which have one dim more, their steps.
#ifndef TENON_OPS_PARSE_SEQUENCE_H_
#define TENON_OPS_PARSE_SEQUENCE_H_

#include <string_view>
#include <vector>

#include "tenon/extras/example/columns.h"

namespace tenon::ops::parse {
using namespace sdk::example;  // what both kinds of messages become

struct SequenceDense : DenseColumn {
  int32_t lengths = -1;        // output of the numbers of steps; -1: none
  bool missing_is_empty = false;
};

struct SequenceColumns {
  std::vector<ListColumn> context_sparse, context_ragged;
  std::vector<DenseColumn> context_dense;
  std::vector<ListColumn> sparse, ragged;  // splits: the outer ones
  std::vector<SequenceDense> dense;        // fallback is not used
};

// single: one message, whose outputs have no dim of the batch. names: of the rows, for messages; none, or as many.
void ParseSequences(const sdk::RunContext& c, const std::vector<std::string_view>& messages,
                    const std::vector<std::string_view>& names, bool single, SequenceColumns columns);

}  // namespace tenon::ops::parse

#endif  // TENON_OPS_PARSE_SEQUENCE_H_
