// SPDX-License-Identifier: Apache-2.0
#include "fuse/attention_gradient_pattern.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "fuse/executable.h"

namespace tenon::gpu {
namespace {

constexpr size_t kMostSteps = 8;
constexpr int kOwn = INT32_MIN;  // the dim of a product that scores do not have, which no other dim is called after

bool IsSame(const tenon_output& a, const tenon_output& b) { return a.node == b.node && a.index == b.index; }

// A product of P or dS and an operand, whose dims are called after the scores'.
struct Weighted {
  int64_t node = -1;
  tenon_output operand = {-1, 0, 0};
  DimLabels operand_labels, out_labels;
};

class Finder {
 public:
  Finder(const tenon_graph_cursor& cursor, const ReadersOfNode& readers, const std::function<bool(int64_t)>& may_take,
         const DimsOfEdge& dims)
      : cursor_(cursor), graph_(cursor, dims), readers_(readers), may_take_(may_take), dims_(dims) {}

  std::optional<AttentionGradientPattern> Find(int64_t softmax) {
    std::vector<int64_t> factors, products;
    for (const int64_t reader : readers_(softmax)) (graph_.IsProduct(reader) ? products : factors).push_back(reader);
    if (factors.size() != 2 || products.size() > 2) return {};
    const std::function<bool(int64_t)> is_alone = [this](int64_t id) {
      return may_take_(id) && readers_(id).size() == 1;
    };
    std::optional<AttentionPattern> of = FindProbabilities(cursor_, softmax, is_alone, dims_);
    if (!of.has_value()) return {};
    found_.of = *std::move(of);
    if (!ReadSoftmax(factors[0], factors[1]) && !ReadSoftmax(factors[1], factors[0])) return {};
    const std::vector<int64_t> ends = WalkToProducts();
    const bool is_one =
        !ends.empty() && ends.size() <= 2 &&
        std::all_of(products.begin(), products.end(), [this](int64_t id) { return ReadOfProbabilities(id); }) &&
        std::all_of(ends.begin(), ends.end(), [this](int64_t id) { return ReadOfScores(id); });
    if (!is_one) return {};
    found_.nodes.insert(found_.nodes.end(), found_.of.nodes.begin(), found_.of.nodes.end());
    std::sort(found_.nodes.begin(), found_.nodes.end());
    return found_;
  }

 private:
  int64_t softmax() const { return found_.of.softmax; }
  bool MayTake(int64_t id, int32_t inputs) const {
    return may_take_(id) && graph_.HasType(id, graph_.TypeOf(softmax()), inputs);
  }
  bool IsReadBy(int64_t id, std::vector<int64_t> nodes) const {
    std::vector<int64_t> readers = readers_(id);
    std::sort(readers.begin(), readers.end());
    std::sort(nodes.begin(), nodes.end());
    return readers == nodes;
  }
  // What a node of two inputs reads besides the first output of `id`; node -1: it does not, or does twice.
  tenon_output Other(int64_t node, int64_t id) const {
    const tenon_output left = graph_.Input(node, 0), right = graph_.Input(node, 1), wanted = {id, 0, 0};
    if (IsSame(left, wanted) == IsSame(right, wanted)) return {-1, 0, 0};
    return IsSame(left, wanted) ? right : left;
  }

  // weighted = dP * P, end = (dP - sum) * P.
  bool ReadSoftmax(int64_t weighted, int64_t end) {
    if (graph_.OpOf(weighted) != "Mul" || graph_.OpOf(end) != "Mul") return false;
    const tenon_output dp = Other(weighted, softmax()), difference = Other(end, softmax());
    if (dp.node < 0 || dp.index != 0 || difference.node < 0 || difference.index != 0 || !graph_.IsProduct(dp.node) ||
        graph_.OpOf(difference.node) != "Sub")
      return false;
    const tenon_output sum = graph_.Input(difference.node, 1);
    if (sum.node < 0 || !IsSame(graph_.Input(difference.node, 0), dp) || !IsSumOf(sum.node, weighted)) return false;
    if (!IsReadBy(dp.node, {weighted, difference.node}) || !IsReadBy(weighted, {sum.node}) ||
        !IsReadBy(sum.node, {difference.node}) || !IsReadBy(difference.node, {end}))
      return false;
    if (!MayTake(dp.node, 2) || !MayTake(weighted, 2) || !MayTake(sum.node, 1) || !MayTake(difference.node, 2) ||
        !MayTake(end, 2))
      return false;
    found_.nodes = {dp.node, weighted, sum.node, difference.node, end};
    return ReadGradient(dp.node);
  }
  // Along the last dim, which stays.
  bool IsSumOf(int64_t sum, int64_t of) const {
    if (graph_.OpOf(sum) != "Sum" || !IsSame(graph_.Input(sum, 0), {of, 0, 0}) ||
        !BoolAttr(graph_.services(), graph_.NodeOf(sum), TENON_SPAN("keep_dims")))
      return false;
    const std::optional<double> axis = graph_.Constant(graph_.Input(sum, 1));
    return axis.has_value() && (*axis == -1 || *axis == static_cast<double>(found_.of.score_labels.size()) - 1);
  }
  // Rows of what comes in, and of values, whose elements lie beside each other.
  bool ReadGradient(int64_t dp) {
    AttentionPattern& of = found_.of;
    const std::optional<ProductLabels> labels = graph_.LabelsOf(dp);
    if (!labels.has_value() || labels->out.size() != of.score_labels.size()) return false;
    const DimLabels sides[2] = {Renamed(labels->operands[0], labels->out), Renamed(labels->operands[1], labels->out)};
    const int value = Has(sides[1], of.key_label) ? 1 : 0;
    of.value_labels = sides[value];
    of.out_labels = sides[1 - value];
    of.value = graph_.Input(dp, value);
    found_.gradient = graph_.Input(dp, 1 - value);
    of.value_depth_label = kOwn;
    for (const DimLabels* each : {&of.value_labels, &of.out_labels}) {
      if (each->empty() || each->back() != kOwn || !AreDistinct(*each) || !AreIn(*each, of.score_labels, kOwn))
        return false;
    }
    if (!Has(of.value_labels, of.key_label) || Has(of.value_labels, of.query_label) || Has(of.out_labels, of.key_label))
      return false;
    return AreIn(of.score_labels, of.out_labels, of.key_label) && IsHeadSize(graph_.DimsOf(of.value)->back()) &&
           IsHeadSize(graph_.DimsOf(found_.gradient)->back());
  }
  // What is called after `those` is called after the scores' dims, in their order.
  DimLabels Renamed(const DimLabels& labels, const DimLabels& those) const {
    DimLabels renamed;
    for (const int label : labels) {
      const auto at = std::find(those.begin(), those.end(), label);
      renamed.push_back(at == those.end() ? kOwn : found_.of.score_labels[static_cast<size_t>(at - those.begin())]);
    }
    return renamed;
  }

  // Over what scales dS, to what reads it.
  std::vector<int64_t> WalkToProducts() {
    int64_t at = found_.nodes.back();
    for (size_t step = 0; step <= kMostSteps; ++step) {
      scores_gradient_ = at;
      std::vector<int64_t> readers = readers_(at);
      if (readers.empty() ||
          std::all_of(readers.begin(), readers.end(), [this](int64_t id) { return graph_.IsProduct(id); }))
        return readers;
      if (readers.size() != 1 || !ReadScale(readers[0], at)) return {};
      at = readers[0];
      found_.nodes.push_back(at);
    }
    return {};
  }
  bool ReadScale(int64_t id, int64_t of) {
    const std::string_view op = graph_.OpOf(id);
    if ((op != "Mul" && op != "RealDiv") || !MayTake(id, 2)) return false;
    const tenon_output other = Other(id, of);
    const std::optional<double> number = graph_.Constant(other);
    if (!number.has_value() || (op == "RealDiv" && !IsSame(graph_.Input(id, 1), other))) return false;
    found_.scale = op == "Mul" ? found_.scale * *number : found_.scale / *number;
    return std::isfinite(static_cast<float>(found_.scale));
  }

  std::optional<Weighted> ReadWeighted(int64_t product, int64_t weights) const {
    Weighted read;
    read.node = product;
    read.operand = Other(product, weights);
    const std::optional<ProductLabels> labels = graph_.LabelsOf(product);
    if (read.operand.node < 0 || !labels.has_value()) return {};
    const int number = IsSame(graph_.Input(product, 0), {weights, 0, 0}) ? 0 : 1;
    const DimLabels& of_weights = labels->operands[number];
    if (of_weights.size() != found_.of.score_labels.size()) return {};
    read.operand_labels = Renamed(labels->operands[1 - number], of_weights);
    read.out_labels = Renamed(labels->out, of_weights);
    for (const DimLabels* each : {&read.operand_labels, &read.out_labels}) {
      if (each->empty() || each->back() != kOwn || !AreDistinct(*each) || !AreIn(*each, found_.of.score_labels, kOwn))
        return {};
    }
    return read;
  }
  // Whether it sums over that dim alone, and has the other one's rows.
  bool SumsOver(const Weighted& read, int summed, int kept) const {
    return Has(read.operand_labels, summed) && !Has(read.operand_labels, kept) && !Has(read.out_labels, summed) &&
           AreIn(found_.of.score_labels, read.out_labels, summed);
  }
  bool ReadOfProbabilities(int64_t id) {
    const AttentionPattern& of = found_.of;
    const std::optional<Weighted> read = ReadWeighted(id, softmax());
    if (!read.has_value()) return false;
    if (SumsOver(*read, of.key_label, of.query_label)) {
      if (of.values >= 0) return false;
      found_.of.values = id;
      return true;
    }
    if (!SumsOver(*read, of.query_label, of.key_label) || !IsSame(read->operand, found_.gradient) ||
        read->operand_labels != of.out_labels)
      return false;
    return Take(*read, kOwn, &found_.of_value, &found_.of_value_labels);
  }
  bool ReadOfScores(int64_t id) {
    const AttentionPattern& of = found_.of;
    const std::optional<Weighted> read = ReadWeighted(id, scores_gradient_);
    if (!read.has_value()) return false;
    const auto is_operand = [&](const tenon_output& edge, const DimLabels& labels) {
      DimLabels renamed = labels;
      std::replace(renamed.begin(), renamed.end(), of.depth_label, kOwn);
      return IsSame(read->operand, edge) && read->operand_labels == renamed;
    };
    if (SumsOver(*read, of.key_label, of.query_label) && is_operand(of.key, of.key_labels))
      return Take(*read, of.depth_label, &found_.of_query, &found_.of_query_labels);
    if (SumsOver(*read, of.query_label, of.key_label) && is_operand(of.query, of.query_labels))
      return Take(*read, of.depth_label, &found_.of_key, &found_.of_key_labels);
    return false;
  }
  bool Take(const Weighted& read, int depth_label, int64_t* node, DimLabels* labels) {
    if (*node >= 0 || !MayTake(read.node, 2)) return false;
    *node = read.node;
    *labels = read.out_labels;
    labels->back() = depth_label;
    found_.nodes.push_back(read.node);
    return true;
  }

  const tenon_graph_cursor& cursor_;
  const AttentionGraph graph_;
  const ReadersOfNode& readers_;
  const std::function<bool(int64_t)>& may_take_;
  const DimsOfEdge& dims_;
  AttentionGradientPattern found_;
  int64_t scores_gradient_ = -1;  // dS times its constants
};

}  // namespace

std::optional<AttentionGradientPattern> FindAttentionGradient(const tenon_graph_cursor& cursor, int64_t softmax,
                                                              const ReadersOfNode& readers,
                                                              const std::function<bool(int64_t)>& may_take,
                                                              const DimsOfEdge& dims) {
  return Finder(cursor, readers, may_take, dims).Find(softmax);
}

}  // namespace tenon::gpu
