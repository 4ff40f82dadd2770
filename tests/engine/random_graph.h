// SPDX-License-Identifier: Apache-2.0
// A random program as a graph of the engine, run in several ways and held against what it means.
#ifndef TENON_TESTS_ENGINE_RANDOM_GRAPH_H_
#define TENON_TESTS_ENGINE_RANDOM_GRAPH_H_

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <random>

#include "tests/engine/random_program_run.h"

namespace tenon::engine {

constexpr int kFeedings = 2;  // values that each graph is run with

// One way to run a graph.
struct Way {
  std::string name;
  SessionOptions options{};
  std::vector<std::string> places{};  // devices whose memory feeds and fetches lie in, one after the other; empty: none
  int steps = 1;                      // of one session with each feeding, all with the same bits
};

// One program as a graph, and what it should give for each feeding.
class RandomGraph {
 public:
  // Chooses a device for each node, by the number of the draw; nullptr: none.
  using Placer = std::function<std::string(uint32_t draw)>;

  RandomGraph(Runtime& runtime, uint32_t seed, const ProgramOptions& options, const Placer& placer = nullptr)
      : runtime_(runtime),
        seed_(seed),
        options_(options),
        program_(ProgramMaker(seed, options).Make()),
        graph_(runtime) {
    std::vector<Output> parameters;
    for (size_t i = 0; i < program_.parameters.size(); ++i) {
      const Type type = program_.parameters[i];
      // Now and then the shape is found only when it is fed.
      const Shape shape = (seed + i) % 3 == 0 ? Shape::Unknown() : ShapeOf(type.form);
      parameters.push_back(graph_.Placeholder("x" + std::to_string(i), type.dtype, shape));
    }
    values_ = ProgramBuilder(graph_, placer, seed).Build(program_, parameters);
    for (uint32_t feeding = 0; feeding < kFeedings; ++feeding) {
      const std::vector<Plain> plain = RandomParameters(program_, seed * kFeedings + feeding);
      std::vector<Feed>& feeds = feeds_.emplace_back();
      for (size_t i = 0; i < plain.size(); ++i)
        feeds.push_back({parameters[i], TensorOf(plain[i].type.dtype, ShapeOf(plain[i].type.form), plain[i].elements)});
      expected_.push_back(Calculate(program_, plain));
    }
  }

  // Empty when every way gives the same bits, and they are right.
  std::string Check(const std::vector<Way>& ways) {
    if (!graph_.status().ok()) return Story("building: " + graph_.status().message(), program_.results);
    std::vector<std::vector<Tensor>> first;
    for (const Way& way : ways) {
      for (size_t feeding = 0; feeding < feeds_.size(); ++feeding) {
        std::vector<Tensor> found;
        const std::string why = Differs(way, feeding, program_.results, &found);
        if (!why.empty()) return Smallest(way, feeding, why);
        if (first.size() == feeding) first.push_back(found);
        for (size_t i = 0; i < found.size(); ++i)
          if (!SameBits({found[i]}, {first[feeding][i]}))
            return Story(way.name + ": other bits than straight code", {program_.results[i]});
      }
    }
    return "";
  }

 private:
  static bool SameBits(const std::vector<Tensor>& one, const std::vector<Tensor>& other) {
    return std::ranges::equal(
        one, other, [](const Tensor& a, const Tensor& b) { return std::ranges::equal(a.bytes(), b.bytes()); });
  }
  // Why these values are not what they should be.
  std::string Differs(const Way& way, size_t feeding, const std::vector<int>& wanted, std::vector<Tensor>* found) {
    if (feeding == 0 || !session_.has_value()) {
      auto session = Session::Create(runtime_, graph_, way.options);
      if (!session.ok()) return session.status().message();
      session_.emplace(std::move(*session));
    }
    std::vector<Name> fetches;
    for (int value : wanted) fetches.push_back(values_[static_cast<size_t>(value)]);
    RunOptions run;
    run.timeout = std::chrono::seconds(20);  // a step takes far less; one that hangs is told with its program
    for (int step = 0; step < way.steps; ++step) {
      auto result = way.places.empty() ? session_->Run(feeds_[feeding], fetches, {}, run)
                                       : RunInPlaces(way, feeds_[feeding], fetches, run);
      if (!result.ok()) return result.status().message();
      if (step > 0 && !SameBits(*found, *result))
        return "step " + std::to_string(step + 1) + " of a session gave other bits than those before";
      *found = std::move(*result);
    }
    for (size_t i = 0; i < wanted.size(); ++i) {
      const Plain& right = expected_[feeding][static_cast<size_t>(wanted[i])];
      const Tensor& tensor = (*found)[i];
      const std::string name = "v" + std::to_string(wanted[i]);
      if (tensor.dtype() != right.type.dtype || tensor.shape() != ShapeOf(right.type.form))
        return name + " has the shape " + tensor.shape().ToString() + " instead of " + Describe(right.type);
      const std::vector<double> elements = DoublesOf(tensor);
      for (size_t k = 0; k < elements.size(); ++k)
        if (!IsRight(elements[k], right.elements[k]))
          return name + "[" + std::to_string(k) + "] is " + std::to_string(elements[k]) + " instead of " +
                 std::to_string(right.elements[k]);
    }
    return "";
  }
  Result<std::vector<Tensor>> RunInPlaces(const Way& way, const std::vector<Feed>& feeds,
                                          const std::vector<Name>& fetches, const RunOptions& run) {
    const auto place = [&](size_t i) { return way.places[(seed_ + i) % way.places.size()]; };
    std::vector<Name> names;
    std::vector<std::string> feed_devices, fetch_devices;
    std::vector<View> values;
    for (size_t i = 0; i < feeds.size(); ++i) {
      names.push_back(feeds[i].name);
      feed_devices.push_back(place(i));
      const tenon_tensor_view here = feeds[i].value.c_view();
      const Shape shape(std::vector<int64_t>(here.dl.shape, here.dl.shape + here.dl.ndim));
      auto there = session_->CopyTensor(
          *Tensor::FromBytes(static_cast<DType>(here.dtype), shape, here.dl.data, here.byte_size), place(i));
      if (!there.ok()) return there.status();
      values.push_back(*there);
    }
    for (size_t i = 0; i < fetches.size(); ++i) fetch_devices.push_back(place(feeds.size() + i));
    auto step = session_->Prepare(names, fetches, {}, feed_devices, fetch_devices);
    if (!step.ok()) return step.status();
    auto found = step->Run(values, run);
    if (!found.ok()) return found.status();
    for (Tensor& tensor : *found) {
      auto here = session_->CopyTensor(tensor, "");
      if (!here.ok()) return here.status();
      tensor = *here;
    }
    return found;
  }
  // A double may come from a float by way of a cast, so that one tolerance is for both.
  bool IsRight(double found, double right) const {
    return options_.smooth ? std::fabs(found - right) <= 1e-4 : found == right;
  }
  // The first value that is wrong by itself, and the steps that it needs.
  std::string Smallest(const Way& way, size_t feeding, const std::string& why) {
    for (size_t value = program_.parameters.size(); value < values_.size(); ++value) {
      std::vector<Tensor> found;
      session_.reset();
      const std::string own = Differs(way, feeding, {static_cast<int>(value)}, &found);
      if (!own.empty()) return Story(way.name + ": " + own, {static_cast<int>(value)});
    }
    return Story(way.name + ": " + why + " (each value alone is right)", program_.results);
  }
  std::string Story(const std::string& why, const std::vector<int>& values) const {
    return "seed " + std::to_string(seed_) + ", steps " + std::to_string(options_.steps) + ", depth " +
           std::to_string(options_.depth) + (options_.smooth ? ", smooth: " : ": ") + why + "\n" +
           Describe(program_, values);
  }

  Runtime& runtime_;
  uint32_t seed_;
  ProgramOptions options_;
  Region program_;
  Graph graph_;
  std::vector<Output> values_;
  std::vector<std::vector<Feed>> feeds_;
  std::vector<std::vector<Plain>> expected_;
  std::optional<Session> session_;
};

}  // namespace tenon::engine

#endif  // TENON_TESTS_ENGINE_RANDOM_GRAPH_H_
