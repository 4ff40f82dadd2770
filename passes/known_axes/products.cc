// SPDX-License-Identifier: Apache-2.0
// A weight that a network uses at every step of a sequence has as its gradient a sum of products, one of each step:
//
//   AddN(MatMul(a1, b1, transpose_a), MatMul(a2, b2, transpose_a), ...) = MatMul(Concat(a1, a2, ...), Concat(b1, b2,
//   ...), transpose_a)
//
// Apart, each product writes a matrix of the weight's size, which the sum reads again: with 20 examples, 35 steps and a
// weight of 1500 x 6000 that is 2.5 GB, where the rows that the one product is made of are 21 MB. It is rounded once
// for an element of the sum, not once for a step. Sums stay where the rows are more than the matrices, where products
// are made on several devices or somebody else reads one, and in loops and conditionals.
//
// Steps follow one another: what comes back to one has come through those behind it. Replicas and microbatches do not
// hang on each other: each has a product of its own over its steps, and those stay a sum, in the order in which they
// were, so that it is rounded alike wherever the replicas are.
#include "products.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "straight.h"

namespace tenon::passes {
namespace {

using sdk::Output;
using sdk::Shape;

class Products {
 public:
  explicit Products(sdk::PassContext& p) : p_(p) {}

  void Join() {
    std::vector<int64_t> sums;
    for (int64_t id = 0, count = p_.node_count(); id < count; ++id)
      p_.With(id, [&](sdk::NodeContext& c) {
        if (!p_.Runs(id)) return;
        if (c.op() == "AddN") sums.push_back(id);
        else if (IsOfRows(c)) products_.emplace(id, 0);
      });
    std::erase_if(sums, [&](int64_t sum) {
      const std::vector<Output> inputs = InputsOf(sum);
      return std::count_if(inputs.begin(), inputs.end(),
                           [&](const Output& input) { return products_.contains(input.node); }) < 2;
    });
    if (sums.empty()) return;
    looks_ = kMostWalks * CountReaders();
    std::vector<std::pair<int64_t, std::vector<Chain>>> all;
    for (const int64_t sum : sums)
      if (std::vector<Chain> chains = ChainsOf(sum); !chains.empty()) all.emplace_back(sum, std::move(chains));
    if (all.empty()) return;
    // Constants of loops are others.
    const std::vector<bool> straight = StraightNodes(p_);
    for (const auto& [sum, chains] : all)
      if (straight[static_cast<size_t>(sum)]) Replace(sum, chains);
  }

 private:
  using Chain = std::vector<int64_t>;  // products that become one, in the order of the sum
  struct Size {
    int64_t m, n;
    std::string device;
    auto operator<=>(const Size&) const = default;
  };

  static bool IsOfRows(sdk::NodeContext& c) {
    if (c.op() != "MatMul" || !c.Bool("transpose_a") || c.Bool("transpose_b")) return false;
    const uint32_t type = c.Type("T");
    return type == TENON_DT_FLOAT || type == TENON_DT_DOUBLE || type == TENON_DT_HALF || type == TENON_DT_BFLOAT16;
  }

  std::vector<Chain> ChainsOf(int64_t sum) {
    std::map<Size, Chain> by_size;
    for (const Output& input : InputsOf(sum)) {
      // Whoever else reads a product has it made all the same.
      const auto found = products_.find(input.node);
      if (found == products_.end() || found->second != 1 || p_.control_input_count(input.node) != 0) continue;
      const Shape shape = p_.shape(input);
      if (shape.known_rank() && shape[0] > 0 && shape[1] > 0)
        by_size[{shape[0], shape[1], p_.DeviceOf(input.node)}].push_back(input.node);
    }
    std::vector<Chain> chains;
    for (const auto& [size, products] : by_size)
      for (Chain& chain : FollowingEachOther(products))
        if (Pays(size.m, size.n, chain)) chains.push_back(std::move(chain));
    return chains;
  }
  std::vector<Output> InputsOf(int64_t sum) {
    int count = 0;
    p_.With(sum, [&](sdk::NodeContext& c) { count = c.input_count(); });
    std::vector<Output> inputs;
    for (int i = 0; i < count && p_.ok(); ++i) inputs.push_back(p_.input(sum, i));
    return inputs;
  }
  // Whether the rows are copied with less than the matrices are written and read with. Of how many rows nobody says
  // they are as many as hide behind the arithmetic.
  bool Pays(int64_t m, int64_t n, const Chain& products) {
    if (products.size() < 2) return false;
    const double wide = static_cast<double>(m) + static_cast<double>(n),
                 matrix = static_cast<double>(m) * static_cast<double>(n);
    double rows = 0;
    for (const int64_t product : products) {
      const Shape a = p_.shape(p_.input(product, 0)), b = p_.shape(p_.input(product, 1));
      const int64_t own = a.known_rank() && a[0] >= 0 ? a[0] : b.known_rank() ? b[0] : -1;
      if (own < 0) return matrix >= kLeastUnknown * wide;
      rows += static_cast<double>(own);
    }
    return rows * wide <= static_cast<double>(products.size()) * matrix;
  }

  // Gives at how much a walk over the graph looks: nodes and their inputs.
  int64_t CountReaders() {
    int64_t looks = 0;
    for (int64_t id = 0, count = p_.node_count(); id < count && p_.ok(); ++id) {
      const std::vector<Output> inputs = InputsOf(id);
      looks += 1 + static_cast<int64_t>(inputs.size());
      for (const Output& input : inputs)
        if (const auto found = products_.find(input.node); found != products_.end()) ++found->second;
    }
    return looks;
  }
  // The products in chains: what the latest of a chain is of hangs on what all others of it are of. Nodes stand behind
  // what they read.
  std::vector<Chain> FollowingEachOther(const Chain& products) {
    std::map<int64_t, Chain> wanted;  // by the node that brings the gradient
    for (const int64_t product : products) wanted[p_.input(product, 1).node].push_back(product);
    std::vector<Chain> chains;
    while (!wanted.empty() && p_.ok()) {
      const int64_t last = wanted.rbegin()->first;
      std::set<int64_t> seen{last};
      std::vector<int64_t> open{last};
      std::set<int64_t> found;
      while (!open.empty()) {
        const int64_t id = open.back();
        open.pop_back();
        if (const auto at = wanted.find(id); at != wanted.end()) {
          found.insert(at->second.begin(), at->second.end());
          wanted.erase(at);
          if (wanted.empty()) break;
        }
        const std::vector<Output> inputs = InputsOf(id);
        looks_ -= 1 + static_cast<int64_t>(inputs.size());
        if (looks_ < 0) return chains;
        for (const Output& input : inputs)
          if (input.node >= wanted.begin()->first && seen.insert(input.node).second) open.push_back(input.node);
      }
      Chain chain;
      for (const int64_t product : products)
        if (found.contains(product)) chain.push_back(product);
      chains.push_back(std::move(chain));
    }
    return chains;
  }

  // A chain's product stands where the first of its products stood.
  void Replace(int64_t sum, const std::vector<Chain>& chains) {
    std::map<int64_t, const Chain*> chain_of;
    for (const Chain& chain : chains)
      for (const int64_t product : chain) chain_of[product] = &chain;
    std::vector<Output> terms;
    for (const Output& input : InputsOf(sum)) {
      const auto found = chain_of.find(input.node);
      if (found == chain_of.end()) terms.push_back(input);
      else if (found->second->front() == input.node) {
        p_.Begin(sum, p_.DeviceOf(input.node));
        terms.push_back(Joined(*found->second));
      }
    }
    p_.Begin(sum, p_.DeviceOf(sum));
    p_.Replace(sum, {terms.size() == 1 ? terms[0] : p_.Op("AddN", terms)});
    p_.Explain(sum, "products of steps are one product");
  }
  Output Joined(const Chain& products) {
    const int32_t zero = 0;
    const Output axis = p_.Constant(TENON_DT_INT32, tenon_shape{nullptr, 0, 0}, &zero, sizeof zero);
    const auto rows = [&](int operand) {
      std::vector<Output> inputs;
      for (const int64_t product : products) inputs.push_back(p_.input(product, operand));
      inputs.push_back(axis);
      return p_.Op("ConcatV2", inputs);
    };
    return p_.Op("MatMul", {rows(0), rows(1)}, {{"transpose_a", true}});
  }

  static constexpr double kLeastUnknown = 32;
  static constexpr int64_t kMostWalks = 32;  // over the whole graph
  sdk::PassContext& p_;
  std::map<int64_t, int> products_;  // that may be joined, with their readers
  int64_t looks_ = 0;
};

}  // namespace

void JoinProducts(sdk::PassContext& p) { Products(p).Join(); }

}  // namespace tenon::passes
