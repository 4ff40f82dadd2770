// SPDX-License-Identifier: Apache-2.0
#include "tests/hostile/trial.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "tenon/model/file_guard.h"
#include "tests/hostile/value_mutator.h"

#ifdef __SANITIZE_THREAD__
// Reference variables of numbers are written where others read them, as TensorFlow's are: who asks for two steps at
// once asks for that.
#define TENON_SHOWN extern "C" __attribute__((visibility("default")))
TENON_SHOWN const char* __tsan_default_suppressions();
TENON_SHOWN const char* __tsan_default_suppressions() {
  return "race:AssignKernel<true>\nrace:AssignAddKernel<true\nrace:ApplyKernel<\nrace:ScatterKernel<true\n";
}
// A writer whose stack is forgotten cannot be told from others.
TENON_SHOWN const char* __tsan_default_options();
TENON_SHOWN const char* __tsan_default_options() { return "history_size=7:halt_on_error=1"; }
#endif

namespace tenon::hostile {

using host::DType;
using host::Feed;
using host::Graph;
using host::Name;
using host::Output;
using host::Runtime;
using host::Session;
using host::SessionOptions;
using host::Shape;
using host::Status;
using host::Tensor;

namespace {

constexpr uint64_t kMemoryLimit = 64 << 20;
constexpr std::chrono::milliseconds kDeadline{100};

SessionOptions OptionsFrom(Dice& dice) {
  SessionOptions options;
  options.memory_limit = kMemoryLimit;
  options.seed = 1;
  if (dice.OneIn(4)) options.executor = TENON_EXECUTOR_DYNAMIC;
  options.optimize = !dice.OneIn(4);
  options.debug.partition = dice.OneIn(16);
  return options;
}

class Trial {
 public:
  Trial(const Runtime& runtime, const Subject& subject, const Damage& damage, Dice& dice)
      : runtime_(runtime),
        subject_(subject),
        damage_(damage),
        dice_(dice),
        options_(OptionsFrom(dice)),
        index_(model::GraphIndex::Build(damage.bytes)) {
    if (index_.ok())
      for (const data::NodeView& node : index_->graph().nodes)
        if (node.op == "Const") constants_.emplace_back(node.name);
  }

  Outcome Run() {
    auto session = Session::Create(runtime_, options_);
    Note("a session", session.status());
    if (!session.ok()) return std::move(outcome_);
    const Status imported = session->Extend(damage_.bytes);
    Note("import", imported);
    if (!imported.ok()) return std::move(outcome_);
    for (const Ask& ask : subject_.asks) Step(*session, ask);
    if (!damage_.nodes.empty()) AnyNodes(*session);
    if (damage_.nodes.size() > 1 && dice_.OneIn(4)) JoinedNames(*session);
    if (dice_.OneIn(4)) TwoAtOnce(*session);
    if (!subject_.ys.empty()) Differentiate();
    return std::move(outcome_);
  }

 private:
  void Note(const std::string& what, const Status& status) {
    outcome_.log.push_back(what + ": " + (status.ok() ? "ok" : status.message()));
    if (!status.ok() && status.message().empty()) outcome_.fault = what + " is refused without a word";
  }

  // Whether nothing of it touches files.
  bool IsHarmless(const Ask& ask) {
    Status status = index_.status();
    if (index_.ok()) {
      std::vector<std::string> feeds, wanted = ask.fetches;
      for (const Feed& feed : ask.feeds) feeds.push_back(feed.name.text());
      wanted.insert(wanted.end(), ask.targets.begin(), ask.targets.end());
      status = model::CheckFiles(runtime_, *index_, feeds, {}, wanted);
    }
    if (!status.ok()) Note("the guard of files", status);
    return status.ok();
  }

  void Step(const Session& session, Ask ask) {
    if (!IsHarmless(ask)) return;
    if (!damage_.edits.empty()) {
      Disturb(&ask);
      if (dice_.OneIn(3)) FeedConstants(session, &ask);
    }
    const auto values =
        RunIn(session, ask.feeds, {ask.fetches.begin(), ask.fetches.end()}, {ask.targets.begin(), ask.targets.end()});
    Note("a step", values.status());
    outcome_.ran |= values.ok() && !(ask.fetches.empty() && ask.targets.empty());
  }
  static host::Result<std::vector<Tensor>> RunIn(const Session& session, const std::vector<Feed>& feeds,
                                                 const std::vector<Name>& fetches, const std::vector<Name>& targets) {
    return session.Run(feeds, fetches, targets, {.timeout = kDeadline});
  }

  // A feed of another shape, type or value.
  void Disturb(Ask* ask) {
    if (ask->feeds.empty() || !dice_.OneIn(3)) return;
    Feed& feed = dice_.AnyOf(ask->feeds);
    const auto* given = feed.value.c_view().dl.shape;
    std::vector<int64_t> dims(given, given + feed.value.c_view().dl.ndim);
    auto dtype = static_cast<int>(feed.value.c_view().dtype);
    switch (dice_.Under(6)) {
      case 0: dims.push_back(static_cast<int64_t>(dice_.Under(4))); break;
      case 1:
        if (!dims.empty()) dims.pop_back();
        break;
      case 2: case 3:
        if (!dims.empty()) dice_.AnyOf(dims) = static_cast<int64_t>(dice_.Under(5));
        break;
      case 4: dtype = dice_.OddType(); break;
      default: break;
    }
    if (auto tensor = OddTensor(dtype, dims); tensor.ok()) feed.value = *tensor;
  }
  host::Result<Tensor> OddTensor(int dtype, const std::vector<int64_t>& dims) {
    const Shape shape(dims);
    const auto count = static_cast<size_t>(std::max<int64_t>(shape.element_count(), 0));
    if (dtype == static_cast<int>(DType::kString)) {
      std::vector<std::string> texts;
      for (size_t i = 0; i < count; ++i) texts.push_back(dice_.OddText());
      return Tensor::Strings(texts, shape);
    }
    std::string bytes;
    for (size_t i = 0; i < count; ++i) bytes += OddElement(dice_, dtype);
    return Tensor::FromBytes(static_cast<DType>(dtype), shape, bytes.data(), bytes.size());
  }
  // Constants fed with their own values: what was known when a step is planned is not any more.
  void FeedConstants(const Session& session, Ask* ask) {
    for (size_t i = 0; i < 3 && !constants_.empty(); ++i) {
      const std::string& name = dice_.AnyOf(constants_);
      const auto value = RunIn(session, {}, {name}, {});
      if (value.ok() && std::none_of(ask->feeds.begin(), ask->feeds.end(),
                                     [&](const Feed& feed) { return feed.name.text() == name; }))
        ask->feeds.push_back({name, (*value)[0]});
    }
  }

  void AnyNodes(const Session& session) {
    for (int i = 0; i < 2; ++i) {
      Ask ask;
      if (!subject_.asks.empty()) ask.feeds = subject_.asks.back().feeds;
      (i == 0 ? ask.fetches : ask.targets).push_back(dice_.AnyOf(damage_.nodes));
      Step(session, std::move(ask));
    }
  }

  // Names that, written one after the other, read as others.
  void JoinedNames(const Session& session) {
    static const std::string separators[] = {",", ";", ":", std::string(1, '\0')};
    const std::string a = dice_.AnyOf(damage_.nodes), b = dice_.AnyOf(damage_.nodes);
    for (const std::vector<std::string>& fetches :
         {std::vector<std::string>{a, b}, std::vector<std::string>{a + dice_.AnyOf(separators) + b}}) {
      Ask ask;
      if (!subject_.asks.empty()) ask.feeds = subject_.asks.back().feeds;
      ask.fetches = fetches;
      Step(session, std::move(ask));
    }
  }

  // Two clients of a session, whose steps read and write its variables at the same time.
  void TwoAtOnce(const Session& session) {
    std::vector<Ask> asks;
    for (size_t i = 0; i < 6 && !subject_.asks.empty(); ++i) {
      Ask ask = dice_.AnyOf(subject_.asks);
      if (!damage_.nodes.empty() && dice_.OneIn(2)) ask.targets.push_back(dice_.AnyOf(damage_.nodes));
      if (!IsHarmless(ask)) continue;
      if (!damage_.edits.empty()) Disturb(&ask);
      asks.push_back(std::move(ask));
    }
    const auto run = [&](size_t first) {
      for (size_t i = first; i < asks.size(); i += 2)
        (void)RunIn(session, asks[i].feeds, {asks[i].fetches.begin(), asks[i].fetches.end()},
                    {asks[i].targets.begin(), asks[i].targets.end()});
    };
    std::thread other(run, 1);
    run(0);
    other.join();
    outcome_.log.push_back("two clients at once");
  }

  void Differentiate() {
    auto graph = Graph::Import(runtime_, damage_.bytes);
    Note("import for gradients", graph.status());
    if (!graph.ok()) return;
    std::vector<Output> ys, xs;
    for (const auto& [names, outputs] : {std::pair(&subject_.ys, &ys), std::pair(&subject_.xs, &xs)})
      for (const std::string& name : *names) {
        const auto found = graph->Find(name);
        if (!found.ok()) return Note("gradients", found.status());
        outputs->push_back(*found);
      }
    const std::vector<host::Gradient> gradients = graph->Gradients(ys, xs);
    Note("gradients", graph->status());
    Ask ask = subject_.asks.back();
    if (!graph->status().ok() || !IsHarmless(ask)) return;
    RunGradients(*graph, gradients, ask);
  }
  void RunGradients(const Graph& graph, const std::vector<host::Gradient>& gradients, const Ask& ask) {
    std::vector<Name> fetches;
    for (const host::Gradient& gradient : gradients)
      if (gradient.kind != host::Gradient::Kind::kNone) fetches.emplace_back(gradient.dense);
    auto session = Session::Create(runtime_, graph, options_);
    Note("a session for gradients", session.status());
    if (!session.ok()) return;
    for (const Ask& before : subject_.asks)
      if (before.fetches.empty() && IsHarmless(before))
        Note("initializing",
             RunIn(*session, before.feeds, {}, {before.targets.begin(), before.targets.end()}).status());
    const auto values = RunIn(*session, ask.feeds, fetches, {});
    Note("a step of gradients", values.status());
    outcome_.ran |= values.ok();
  }

  const Runtime& runtime_;
  const Subject& subject_;
  const Damage& damage_;
  Dice& dice_;
  const SessionOptions options_;
  const host::Result<model::GraphIndex> index_;
  std::vector<std::string> constants_;
  Outcome outcome_;
};

}  // namespace

Outcome Try(const Runtime& runtime, const Subject& subject, const Damage& damage, Dice& dice) {
  return Trial(runtime, subject, damage, dice).Run();
}

}  // namespace tenon::hostile
