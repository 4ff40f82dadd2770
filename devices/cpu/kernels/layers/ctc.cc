// SPDX-License-Identifier: Apache-2.0
// Connectionist temporal classification: CTCLoss by the forward-backward algorithm (Graves and others, 2006), decoding
// greedily and by a beam.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory_resource>
#include <unordered_map>
#include <vector>

#include "kernels/common/types.h"
#include "tenon/extras/kernel/step_memory.h"

namespace tenon::cpu {
namespace {

using CtcTypes = Types<float, double>;

template <class T>
constexpr T kNever = -std::numeric_limits<T>::infinity();  // the logarithm of no probability

template <class T>
T LogSum(T a, T b) {
  if (a == kNever<T>) return b;
  if (b == kNever<T>) return a;
  return a > b ? a + std::log1p(std::exp(b - a)) : b + std::log1p(std::exp(a - b));
}

// inputs: [time, batch, classes]; lengths: of sequences, a number for each of the batch.
struct Inputs {
  Inputs(const sdk::RunContext& c, int32_t lengths, uint32_t code) : length(c.input<int32_t>(lengths)) {
    const sdk::Dims dims = sdk::DimsOf(c.input_view(0));
    time = dims[0], batch = dims[1], classes = dims[2];
    if (sdk::Count(c.input_view(lengths)) != batch) {
      sdk::Fail(code, "len(sequence_length) != batch_size.  len(sequence_length):  ", sdk::Count(c.input_view(lengths)),
                " batch_size: ", batch);
    }
    if (time == 0 || batch == 0 || classes == 0)
      sdk::Fail(TENON_INVALID_ARGUMENT, "inputs must not be empty; their shape is ", dims);
    for (int64_t b = 0; b < batch; ++b) {
      if (length[b] > time) sdk::Fail(code, "sequence_length(", b, ") is ", length[b], "; there are ", time, " steps");
    }
  }
  int64_t At(int64_t t, int64_t b) const { return (t * batch + b) * classes; }
  const int32_t* length;
  int64_t time, batch, classes;
};

struct CtcLossKernel {
  explicit CtcLossKernel(sdk::CreateContext& c)
      : collapses(c.Bool("preprocess_collapse_repeated")),
        merges(c.Bool("ctc_merge_repeated")),
        skips(c.Bool("ignore_longer_outputs_than_inputs")),
        blank_is_last(c.op() == "CTCLoss") {}
  struct Plan {
    Plan(const CtcLossKernel&, sdk::PrepareContext& c) : threads(c.threads()) {}
    int64_t threads;
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    CtcTypes::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) { Typed<T>(plan, c); });
  }

 private:
  using Labels = std::pmr::vector<int32_t>;

  template <class T>
  void Typed(const Plan& plan, sdk::RunContext c) const {
    const Inputs in(c, 3, TENON_INVALID_ARGUMENT);
    for (int64_t b = 0; b < in.batch; ++b) {
      if (in.length[b] < 0)
        sdk::Fail(TENON_INVALID_ARGUMENT, "sequence_length(", b, ") is ", in.length[b], "; it must not be negative");
    }
    // Labels of all sequences with a blank before each and one behind, and where each sequence's begin; none of those
    // that are passed over.
    sdk::StepMemory memory(c);
    Labels labels(&memory);
    std::pmr::vector<int64_t> begins(&memory);
    labels.reserve(static_cast<size_t>(2 * sdk::Count(c.input_view(2)) + in.batch));
    begins.reserve(static_cast<size_t>(in.batch) + 1);
    ReadLabels(c, in, labels, begins);
    int64_t longest = 0;
    for (size_t b = 0; b + 1 < begins.size(); ++b) longest = std::max(longest, begins[b + 1] - begins[b]);
    // Of a task: the logarithms of forward probabilities [time, places], of backward ones of two steps, and a sum for
    // each class.
    const int64_t each = sdk::Multiply(longest, in.time + 2) + in.classes,
                  tasks = std::clamp<int64_t>(plan.threads, 1, in.batch);
    std::pmr::vector<T> numbers(static_cast<size_t>(sdk::Multiply(each, tasks)), &memory);
    const double cost = static_cast<double>(in.batch * in.time) *
                        (60.0 * static_cast<double>(longest) + 10.0 * static_cast<double>(in.classes));
    c.ParallelFor(tasks, cost / static_cast<double>(tasks), [&](int64_t task, int64_t end) {
      for (; task < end; ++task) {
        for (int64_t b = in.batch * task / tasks; b < in.batch * (task + 1) / tasks; ++b) {
          const int64_t first = begins[static_cast<size_t>(b)];
          Sequence<T>(c, in, b, labels.data() + first, begins[static_cast<size_t>(b) + 1] - first,
                      numbers.data() + task * each);
        }
      }
    });
  }

  void ReadLabels(const sdk::RunContext& c, const Inputs& in, Labels& labels, std::pmr::vector<int64_t>& begins) const {
    const int64_t* indices = c.input<int64_t>(1);
    const int32_t* values = c.input<int32_t>(2);
    const int64_t count = sdk::Count(c.input_view(2));
    if (sdk::DimsOf(c.input_view(1))[0] != count) {
      sdk::Fail(TENON_INVALID_ARGUMENT,
                "labels_indices and labels_values must contain the same number of rows, but saw shapes: ",
                sdk::DimsOf(c.input_view(1)), " vs. ", sdk::DimsOf(c.input_view(2)));
    }
    for (int64_t i = 0; i < count; ++i) {
      const int64_t b = indices[2 * i], at = indices[2 * i + 1];
      if (b < 0 || b >= in.batch || at < 0)
        sdk::Fail(TENON_INVALID_ARGUMENT, "labels_indices[", i, "] is [", b, ",", at, "], which is not in a batch of ",
                  in.batch);
      if (i > 0 && (b < indices[2 * i - 2] || (b == indices[2 * i - 2] && at <= indices[2 * i - 1]))) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "labels_indices[", i, "] is [", b, ",", at,
                  "], which is out of order or repeated");
      }
    }
    const int32_t blank = blank_is_last ? static_cast<int32_t>(in.classes - 1) : 0;
    int64_t i = 0;
    for (int64_t b = 0; b < in.batch; ++b) {
      begins.push_back(static_cast<int64_t>(labels.size()));
      const int64_t first = i;
      while (i < count && indices[2 * i] == b) ++i;
      if (i == first) sdk::Fail(TENON_INVALID_ARGUMENT, "Labels length is zero in batch ", b);
      bool ended = false;
      for (int64_t k = first; k < i; ++k) {
        if (k > first && collapses && values[k] == values[k - 1]) continue;
        if (blank_is_last ? values[k] >= blank : values[k] == blank) {
          ended = true;
          continue;
        }
        if (ended)
          sdk::Fail(TENON_INVALID_ARGUMENT, "Saw a non-null label following a null label in batch ", b,
                    ": labels_values[", k, "] is ", values[k]);
        if (values[k] < 0 || values[k] >= in.classes) {
          sdk::Fail(TENON_INVALID_ARGUMENT, "labels_values[", k, "] is ", values[k], "; it must be in [0, ", in.classes,
                    ")");
        }
        labels.push_back(blank);
        labels.push_back(values[k]);
      }
      labels.push_back(blank);
      if (i - first <= in.length[b]) continue;
      if (!skips) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "Not enough time for target transition sequence (required: ", i - first,
                  ", available: ", in.length[b], ") in batch ", b,
                  "; with ignore_longer_outputs_than_inputs such sequences have the loss 0");
      }
      labels.resize(static_cast<size_t>(begins.back()));
    }
    begins.push_back(static_cast<int64_t>(labels.size()));
  }

  // The loss and the gradient of one sequence, whose labels are `label`, `places` with the blanks.
  template <class T>
  void Sequence(const sdk::RunContext& c, const Inputs& in, int64_t b, const int32_t* label, int64_t places,
                T* numbers) const {
    T& loss = c.output<T>(0)[b];
    T* gradient = c.output<T>(1);
    const int64_t time = places == 0 ? 0 : in.length[b];
    for (int64_t t = time; t < in.time; ++t) std::fill_n(gradient + in.At(t, b), in.classes, T(0));
    loss = 0;
    if (time == 0) return;
    sdk::CancelPoll poll(c);
    for (int64_t t = 0; t < time; poll(5 * in.classes), ++t)
      Softmax(c.input<T>(0) + in.At(t, b), gradient + in.At(t, b), in.classes);
    const int32_t blank = label[0];
    const auto log_of = [&](int64_t t, int64_t u) { return std::log(gradient[in.At(t, b) + label[u]]); };
    const auto stays = [&](int64_t u) { return merges || label[u] == blank; };
    const auto jumps = [&](int64_t u) {
      return u > 1 && label[u] != blank && !(merges && label[u] == label[u - 2]);
    };  // from u - 2 to u
    // Places that can be reached by then, and from which the end can be.
    const auto low = [&](int64_t t) { return std::max<int64_t>(0, places - 2 * (time - t)); };
    const auto high = [&](int64_t t) { return std::min(places, 2 * (t + 1)); };

    T* alpha = numbers;
    std::fill_n(alpha, time * places, kNever<T>);
    for (int64_t u = 0; u < std::min<int64_t>(2, places); ++u) alpha[u] = log_of(0, u);
    for (int64_t t = 1; t < time; poll(30 * places), ++t) {
      const T* before = alpha + (t - 1) * places;
      for (int64_t u = low(t); u < high(t); ++u) {
        T sum = stays(u) ? before[u] : kNever<T>;
        if (u > 0) sum = LogSum(sum, before[u - 1]);
        if (jumps(u)) sum = LogSum(sum, before[u - 2]);
        alpha[t * places + u] = log_of(t, u) + sum;
      }
    }
    T whole = kNever<T>;
    for (int64_t u = std::max<int64_t>(0, places - 2); u < places; ++u)
      whole = LogSum(whole, alpha[(time - 1) * places + u]);
    loss = -whole;
    if (whole == kNever<T>) return;  // no path: the gradient is that of the normalization alone

    T *beta = numbers + time * places, *after = beta + places, *sums = after + places;
    std::fill_n(beta, places, kNever<T>);
    for (int64_t u = std::max<int64_t>(0, places - 2); u < places; ++u) beta[u] = 0;
    for (int64_t t = time - 1; t >= 0; poll(40 * places + 10 * in.classes), --t) {
      if (t < time - 1) {
        std::swap(beta, after);
        std::fill_n(beta, places, kNever<T>);
        for (int64_t u = low(t); u < high(t); ++u) {
          T sum = stays(u) ? after[u] : kNever<T>;
          if (u + 1 < places) sum = LogSum(sum, after[u + 1]);
          if (u + 2 < places && jumps(u + 2)) sum = LogSum(sum, after[u + 2]);
          beta[u] = sum;
        }
      }
      std::fill_n(sums, in.classes, kNever<T>);
      for (int64_t u = 0; u < places; ++u) {
        T& sum = sums[label[u]];
        sum = LogSum(sum, alpha[t * places + u] + beta[u]);
        // For the step before: what follows, with this step's class.
        beta[u] = beta[u] == kNever<T> ? beta[u] : beta[u] + log_of(t, u);
      }
      T* to = gradient + in.At(t, b);
      for (int64_t k = 0; k < in.classes; ++k) to[k] -= std::exp(sums[k] - whole);
    }
  }

  template <class T>
  static void Softmax(const T* x, T* y, int64_t count) {
    const T largest = *std::max_element(x, x + count);
    T sum = 0;
    for (int64_t k = 0; k < count; ++k) sum += y[k] = std::exp(x[k] - largest);
    for (int64_t k = 0; k < count; ++k) y[k] /= sum;
  }

  bool collapses, merges, skips, blank_is_last;
};

// ---- Decoding ----

// Decoded sequences of a batch as a sparse tensor: outputs indices, values and shape.
void PutSequences(const sdk::RunContext& c, int64_t batch, const std::pmr::vector<int64_t>& values,
                  const std::pmr::vector<int64_t>& begins, int32_t indices, int32_t of_values, int32_t shape) {
  const auto count = static_cast<int64_t>(values.size());
  c.AllocOutput(indices, std::array{count, int64_t{2}});
  c.AllocOutput(of_values, std::array{count});
  c.AllocOutput(shape, std::array{int64_t{2}});
  std::copy(values.begin(), values.end(), c.output<int64_t>(of_values));
  int64_t longest = 0, *to = c.output<int64_t>(indices);
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t length = begins[static_cast<size_t>(b) + 1] - begins[static_cast<size_t>(b)];
    longest = std::max(longest, length);
    for (int64_t i = 0; i < length; ++i) *to++ = b, *to++ = i;
  }
  c.output<int64_t>(shape)[0] = batch;
  c.output<int64_t>(shape)[1] = longest;
}

struct GreedyDecoderKernel {
  explicit GreedyDecoderKernel(sdk::CreateContext& c) : merges(c.Bool("merge_repeated")), blank(c.Int("blank_index")) {}
  void Run(sdk::RunContext c) const {
    const Inputs in(c, 1, TENON_FAILED_PRECONDITION);
    if (blank < -in.classes || blank >= in.classes) {
      sdk::Fail(TENON_INVALID_ARGUMENT, "blank_index expected to be between ", -in.classes, " and ", in.classes - 1,
                " but was ", blank);
    }
    const int64_t without = blank < 0 ? blank + in.classes : blank;
    sdk::StepMemory memory(c);
    std::pmr::vector<int64_t> values(&memory), begins(&memory);
    begins.reserve(static_cast<size_t>(in.batch) + 1);
    CtcTypes::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      sdk::CancelPoll poll(c);
      for (int64_t b = 0; b < in.batch; ++b) {
        begins.push_back(static_cast<int64_t>(values.size()));
        T sum = 0;
        int64_t before = -1;
        for (int64_t t = 0; t < in.length[b]; poll(2 * in.classes + 5), ++t) {
          const T* row = c.input<T>(0) + in.At(t, b);
          const int64_t largest = std::max_element(row, row + in.classes) - row;
          sum -= row[largest];
          if (largest != without && !(merges && largest == before)) values.push_back(largest);
          before = largest;
        }
        c.output<T>(3)[b] = sum;
      }
    });
    begins.push_back(static_cast<int64_t>(values.size()));
    PutSequences(c, in.batch, values, begins, 0, 1, 2);
  }
  bool merges;
  int64_t blank;
};

// The search of one sequence after the other: prefixes are nodes of a tree, of which the `width` most likely are leaves
// of the search.
template <class T>
class Beam {
 public:
  Beam(std::pmr::memory_resource* memory, int64_t width, int64_t classes)
      : width_(static_cast<size_t>(width)),
        classes_(classes),
        nodes_(memory),
        children_(memory),
        leaves_(memory),
        branches_(memory) {}

  void Reset() {
    nodes_.clear();
    children_.clear();
    leaves_.clear();
    nodes_.push_back({-1, -1, {0, 0, kNever<T>}, {0, 0, kNever<T>}});
    leaves_.push_back(0);
  }

  // One step: logits of the classes, the last of which is the blank.
  void Step(const T* logits, sdk::CancelPoll& poll) {
    const T largest = *std::max_element(logits, logits + classes_);
    T sum = 0;
    for (int64_t k = 0; k < classes_; ++k) sum += std::exp(logits[k] - largest);
    const T norm = largest + std::log(sum);
    std::sort(leaves_.begin(), leaves_.end(), [&](int64_t a, int64_t b) { return Better(a, b); });
    branches_.assign(leaves_.begin(), leaves_.end());
    leaves_.clear();
    for (const int64_t b : branches_) At(b).before = At(b).now;
    for (const int64_t b : branches_) {
      Node& node = At(b);
      if (node.parent >= 0) {
        const Node& parent = At(node.parent);
        if (parent.now.total != kNever<T>) {
          node.now.label =
              LogSum(node.now.label, node.label == parent.label ? parent.before.blank : parent.before.total);
        }
        node.now.label += logits[node.label] - norm;
      }
      node.now.blank = node.before.total + logits[classes_ - 1] - norm;
      node.now.total = LogSum(node.now.blank, node.now.label);
      Push(b);
      poll(50);
    }
    for (const int64_t b : branches_) {
      if (!IsCandidate(At(b).before.total)) continue;
      for (int64_t label = 0; label + 1 < classes_; ++label) {
        poll(30);
        const auto found = children_.find(b * classes_ + label);
        if (found != children_.end() && At(found->second).now.total != kNever<T>) continue;
        const Probability& before = At(b).before;
        const T value = logits[label] - norm + (label == At(b).label ? before.blank : before.total);
        if (!IsCandidate(value)) {
          if (found != children_.end()) At(found->second).now = At(found->second).before = {};
          continue;
        }
        int64_t child;
        if (found != children_.end()) {
          child = found->second;
        } else {
          child = static_cast<int64_t>(nodes_.size());
          nodes_.push_back({b, static_cast<int32_t>(label), {}, {}});
          children_.emplace(b * classes_ + label, child);
        }
        At(child).now = {value, kNever<T>, value};
        if (leaves_.size() == width_) {
          At(leaves_.front()).now = {};
          PopWorst();
        }
        Push(child);
      }
    }
  }

  // The leaves, the most likely first.
  const std::pmr::vector<int64_t>& Sorted() {
    std::sort(leaves_.begin(), leaves_.end(), [&](int64_t a, int64_t b) { return Better(a, b); });
    return leaves_;
  }
  T LogProbability(int64_t leaf) const { return nodes_[static_cast<size_t>(leaf)].now.total; }
  void AppendLabels(int64_t leaf, bool merges, std::pmr::vector<int64_t>& values) const {
    const auto first = static_cast<std::ptrdiff_t>(values.size());
    int32_t before = -1;
    for (const Node* node = &nodes_[static_cast<size_t>(leaf)]; node->parent >= 0;
         node = &nodes_[static_cast<size_t>(node->parent)]) {
      if (!merges || node->label != before) values.push_back(node->label);
      before = node->label;
    }
    std::reverse(values.begin() + first, values.end());
  }

 private:
  struct Probability {  // logarithms: of both, of sequences that end with a blank, and with the label
    T total = kNever<T>, blank = kNever<T>, label = kNever<T>;
  };
  struct Node {
    int64_t parent;
    int32_t label;
    Probability before, now;
  };
  Node& At(int64_t id) { return nodes_[static_cast<size_t>(id)]; }
  // NaN comes last, so that there is an order.
  bool Better(int64_t a, int64_t b) {
    const T u = At(a).now.total, v = At(b).now.total;
    return u > v || (std::isnan(v) && !std::isnan(u));
  }
  bool IsCandidate(T total) {
    return total > kNever<T> && (leaves_.size() < width_ || total > At(leaves_.front()).now.total);
  }
  // leaves_ is a heap with the least likely in front.
  void Push(int64_t id) {
    leaves_.push_back(id);
    std::push_heap(leaves_.begin(), leaves_.end(), [&](int64_t a, int64_t b) { return Better(a, b); });
  }
  void PopWorst() {
    std::pop_heap(leaves_.begin(), leaves_.end(), [&](int64_t a, int64_t b) { return Better(a, b); });
    leaves_.pop_back();
  }

  size_t width_;
  int64_t classes_;
  std::pmr::vector<Node> nodes_;
  std::pmr::unordered_map<int64_t, int64_t> children_;  // of node * classes + label
  std::pmr::vector<int64_t> leaves_, branches_;
};

struct BeamSearchDecoderKernel {
  explicit BeamSearchDecoderKernel(sdk::CreateContext& c)
      : width(c.Int("beam_width")), paths(c.Int("top_paths")), merges(c.Bool("merge_repeated")) {
    if (paths > width)
      c.Invalid("requested more paths than the beam width: top_paths is ", paths, ", beam_width ", width);
  }
  void Run(sdk::RunContext c) const {
    const Inputs in(c, 1, TENON_FAILED_PRECONDITION);
    CtcTypes::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      sdk::StepMemory memory(c);
      std::pmr::unsynchronized_pool_resource pool(&memory);
      std::pmr::vector<std::pmr::vector<int64_t>> values(static_cast<size_t>(paths), &pool),
          begins(static_cast<size_t>(paths), &pool);
      const auto probability = static_cast<int32_t>(3 * paths);
      c.AllocOutput(probability, std::array{in.batch, paths});
      Beam<T> beam(&pool, width, in.classes);
      sdk::CancelPoll poll(c);
      for (int64_t b = 0; b < in.batch; ++b) {
        beam.Reset();
        for (int64_t t = 0; t < in.length[b]; ++t) beam.Step(c.input<T>(0) + in.At(t, b), poll);
        const std::pmr::vector<int64_t>& leaves = beam.Sorted();
        if (static_cast<int64_t>(leaves.size()) < paths) {
          sdk::Fail(TENON_INVALID_ARGUMENT, "Less leaves in the beam search than requested: sequence ", b, " has ",
                    leaves.size(), ", top_paths is ", paths);
        }
        for (size_t i = 0; i < values.size(); ++i) {
          begins[i].push_back(static_cast<int64_t>(values[i].size()));
          beam.AppendLabels(leaves[i], merges, values[i]);
          c.output<T>(probability)[b * paths + static_cast<int64_t>(i)] = beam.LogProbability(leaves[i]);
        }
      }
      for (size_t i = 0; i < values.size(); ++i) {
        begins[i].push_back(static_cast<int64_t>(values[i].size()));
        const auto at = static_cast<int32_t>(i), step = static_cast<int32_t>(paths);
        PutSequences(c, in.batch, values[i], begins[i], at, at + step, at + 2 * step);
      }
    });
  }
  int64_t width, paths;
  bool merges;
};

constexpr sdk::Traits kLoss = {.constraints = sdk::Constraints<CtcTypes::Constraint<"T">>::list,
                               .flags = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_EXPENSIVE};
constexpr sdk::Traits kGreedy = {.constraints = sdk::Constraints<CtcTypes::Constraint<"T">>::list,
                                 .dynamic_outputs = 0b0111};
constexpr sdk::Traits kBeam = {.constraints = sdk::Constraints<CtcTypes::Constraint<"T">>::list,
                               .flags = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_EXPENSIVE,
                               .dynamic_outputs = TENON_DYNAMIC_ALL};

}  // namespace

TENON_CPU_KERNEL(CTCLoss) = CpuKernel<CtcLossKernel>("CTCLoss", kLoss);
TENON_CPU_KERNEL(CTCLossV2) = CpuKernel<CtcLossKernel>("CTCLossV2",
                                                       {.flags = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_EXPENSIVE});
TENON_CPU_KERNEL(CTCGreedyDecoder) = CpuKernel<GreedyDecoderKernel>("CTCGreedyDecoder", kGreedy);
TENON_CPU_KERNEL(CTCBeamSearchDecoder) = CpuKernel<BeamSearchDecoderKernel>("CTCBeamSearchDecoder", kBeam);

}  // namespace tenon::cpu
