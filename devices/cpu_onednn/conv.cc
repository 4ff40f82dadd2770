// SPDX-License-Identifier: Apache-2.0
// Conv2D and its gradients through oneDNN. Shares are parts of the batch; forward also rows of one image (conv.h). A
// share that lasts is done in pieces, between which a step can be given up.
//
// The gradient of the filter is one sum a share, added at the end in the order of the shares.
#include "conv.h"

#include <array>
#include <cmath>
#include <cstdlib>
#include <functional>

#include "tenon/ext/draft/lasting_view.h"

namespace tenon::cpu_onednn {

using dnnl::memory;

namespace {

constexpr double kConvPerNanosecond = 110;  // multiply-adds
constexpr double kFilterCost = 50e3;    // nanoseconds of a share of a large filter's reorder; a small one is one share

int64_t ConvolutionParts(const sdk::PrepareContext& c, double work) {
  constexpr double kMostPieces = 1024;  // of a share; each has primitives and memory of its own
  return SharesAndPieces(c, work / kConvPerNanosecond, kMostPieces);
}

}  // namespace

ForwardShares::ForwardShares(const Convolution& v, sdk::PrepareContext& c, const Epilogue& epilogue, int image,
                             int filter) {
  RefuseBelow(v.work, v.SmallestWork(kSmallestConvolution));
  v.RefuseFewChannels();
  const int64_t shares = ConvolutionParts(c, v.work);
  if (v.x.batch >= shares) {
    for (auto images : Parts(v.x.batch, shares)) Add(v, c, epilogue, image, filter, images, {0, v.y.height});
  } else {
    const int64_t each = (shares + v.x.batch - 1) / v.x.batch;
    for (int64_t n = 0; n < v.x.batch; ++n)
      for (auto rows : Parts(v.y.height, each)) Add(v, c, epilogue, image, filter, {n, n + 1}, rows);
  }
  cost_ = v.work / kConvPerNanosecond / static_cast<double>(programs_.size());
}

// Some images' output rows: a convolution of its own over the rows that they reach.
void ForwardShares::Add(const Convolution& v, sdk::PrepareContext& c, const Epilogue& epilogue, int image, int filter,
                        std::pair<int64_t, int64_t> images, std::pair<int64_t, int64_t> rows) {
  const auto [r0, r1] = rows;
  const int64_t count = images.second - images.first;
  constexpr int64_t kFewPixels = 2048;  // for which to reorder the filter costs more than it saves
  if (epilogue.IsEmpty() && v.IsOfPixels() && c.Constant<char>(filter) == nullptr &&
      count * (r1 - r0) * v.y.width <= kFewPixels) {
    AddProduct(v, c, image, filter, images, rows);
    return;
  }
  const int64_t reach = (v.height.size - 1) * v.height.dilation + 1;
  const int64_t first = r0 * v.height.stride - v.height.before;
  const int64_t last = (r1 - 1) * v.height.stride - v.height.before + reach;
  const bool whole = r0 == 0 && r1 == v.y.height;  // with rows, too, that no window reaches
  const int64_t begin = std::max<int64_t>(0, first), end = whole ? v.x.height : std::min(v.x.height, last);
  if (end <= begin) sdk::Fail(TENON_UNIMPLEMENTED, "a share of the image lies in the padding alone");
  const auto in = v.ImageDesc(v.x, count, end - begin), out = v.ImageDesc(v.y, count, r1 - r0);
  const int64_t result_at = v.BatchOffset(v.y, images.first) + v.RowOffset(v.y, r0);

  using From = Epilogue::Vector::From;
  const memory::dims channels = {1, v.y.channels, 1, 1};
  const auto by_channel = Strided(channels, {v.y.channels, 1, 1, 1});
  const bool bias = epilogue.shift.from != From::kNone && epilogue.scale.from == From::kNone;
  const auto bias_desc = bias ? Strided({v.y.channels}, {1}, epilogue.shift.type) : memory::desc();
  dnnl::post_ops after;
  if (epilogue.scale.from != From::kNone) after.append_binary(dnnl::algorithm::binary_mul, by_channel);
  if (epilogue.shift.from != From::kNone && !bias) after.append_binary(dnnl::algorithm::binary_add, by_channel);
  if (epilogue.addend >= 0) after.append_sum(1);
  if (epilogue.activation.algorithm != dnnl::algorithm::undef)
    library::AppendEltwise(after, epilogue.activation.algorithm, epilogue.activation.alpha, epilogue.activation.beta);
  const library::Windows windows =
      v.Windows({begin - first, v.width.before}, {std::max<int64_t>(0, last - end), Convolution::After(v.width)});
  const bool constant = c.Constant<char>(filter) != nullptr, quick = v.SuitsWinograd(count, r1 - r0, constant);
  auto pd = quick ? v.Winograd(in, bias_desc, out, windows, after, constant) : Convolution::Forward::primitive_desc();
  if (!pd) pd = v.ForwardDesc(v.Asked(in), Any(v.FilterDims(), v.type), bias_desc, v.Asked(out), windows, after);
  RefuseSlow(pd, v.type);

  Program& p = programs_.emplace_back();
  const auto vector = [&](const Epilogue::Vector& values, const memory::desc& desc) {
    switch (values.from) {
      case From::kInput: return p.Input(static_cast<int32_t>(values.at), desc);
      case From::kWorkspace: return p.WorkspaceAt(values.at, desc);
      default: return p.Constant(values.values, desc);
    }
  };
  const int weights = Filter(v, c, epilogue, filter, pd.weights_desc(), &p);
  const int source =
      p.Converted(c, p.Input(image, in, v.BatchOffset(v.x, images.first) + v.RowOffset(v.x, begin)), pd.src_desc());
  const int result = p.Output(0, out, result_at);
  const int target = p.Target(c, result, pd.dst_desc());
  // The sum's other operand lies where the sum goes.
  if (epilogue.addend >= 0) {
    const int addend = p.Input(epilogue.addend, out, result_at);
    target == result ? p.CopyUnlessSame(addend, target) : p.Finish(addend, target);
  }
  std::vector<std::pair<int, int>> arguments = {
      {DNNL_ARG_SRC, source}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DST, target}};
  if (bias) arguments.emplace_back(DNNL_ARG_BIAS, vector(epilogue.shift, bias_desc));
  int position = 0;
  const auto operand = [&](const Epilogue::Vector& values) {
    arguments.emplace_back(DNNL_ARG_ATTR_MULTIPLE_POST_OP(position++) | DNNL_ARG_SRC_1, vector(values, by_channel));
  };
  if (epilogue.scale.from != From::kNone) operand(epilogue.scale);
  if (epilogue.shift.from != From::kNone && !bias) operand(epilogue.shift);
  p.Step(c, Made([&] { return dnnl::convolution_forward(pd); }), pd.scratchpad_desc(), std::move(arguments));
  p.Finish(target, result);
}

void ForwardShares::AddProduct(const Convolution& v, sdk::PrepareContext& c, int image, int filter,
                               std::pair<int64_t, int64_t> images, std::pair<int64_t, int64_t> rows) {
  const auto [r0, r1] = rows;
  const int64_t count = images.second - images.first, ci = v.x.channels, co = v.y.channels;
  Program& p = programs_.emplace_back();
  const int result =
      p.Output(0, v.PixelRows(co, count, r1 - r0), v.BatchOffset(v.y, images.first) + v.RowOffset(v.y, r0));
  p.Multiply({false, false, count * (r1 - r0) * v.y.width, ci, co, ci, co, co}, v.Pixels(c, &p, image, images, rows),
             p.Input(filter, v.FilterDesc()), result);
}

// The filter in the layout that a share wants: one copy for all shares that want it so.
int ForwardShares::Filter(const Convolution& v, sdk::PrepareContext& c, const Epilogue& epilogue, int filter,
                          const memory::desc& wanted, Program* program) {
  if (c.Constant<char>(filter) != nullptr)
    return program->Constant(Packed(c.input(filter), 0, v.FilterDesc(), wanted, epilogue.filter_scale));
  if (v.FilterDesc() == wanted) return program->Input(filter, wanted);
  filter_ = filter;
  const int64_t at = Reordered(&filters_, c, filter, v.FilterDesc(), wanted).at;
  if (kept_.size() < filters_.size()) kept_.emplace_back(v.FilterDesc(), wanted);
  return program->WorkspaceAt(at, wanted);
}

const ReorderedFilter& Reordered(std::vector<ReorderedFilter>* filters, sdk::PrepareContext& c, int filter,
                                 const memory::desc& given, const memory::desc& wanted) {
  for (const ReorderedFilter& made : *filters)
    if (made.wanted == wanted) return made;
  const int64_t at = c.Workspace(static_cast<int64_t>(wanted.get_size()));
  return filters->emplace_back(ReorderedFilter{wanted, at, ReorderInShares(c, filter, given, wanted, at)});
}

// Without memory of its own in each run.
void ForwardShares::Run(sdk::RunContext c) const {
  if (filters_.empty()) return RunShares(c, programs_, cost_);
  constexpr size_t kMost = 4;  // layouts, of which there are one or two
  const tenon_tensor_view& given = c.input_view(filter_);
  std::array<std::shared_ptr<char>, kMost> kept;
  std::array<Program::Elsewhere, kMost> elsewhere;
  size_t count = 0;
  for (size_t i = 0; i < filters_.size(); ++i) {
    const int64_t at = filters_[i].at;
    if (i < kMost)
      kept[i] = kept_[i].Find(given, [&](char* memory) {
        RunShares(c, filters_[i].parts, kFilterCost, std::array{Program::Elsewhere{at, memory}});
      });
    if (i < kMost && kept[i] != nullptr) elsewhere[count++] = {at, kept[i].get()};
    else RunShares(c, filters_[i].parts, kFilterCost);
  }
  RunShares(c, programs_, cost_, std::span(elsewhere).first(count));
}

bool KeptFilter::IsSame(const tenon_tensor_view& view) {
  constexpr uint32_t kSoon = 8;
  if ((view.flags & TENON_VIEW_LASTING) == 0 || buffer_ == nullptr || buffer_ != view.buffer ||
      data_ != sdk::Data<const char>(view))
    return false;
  found_ = std::min(found_ + 1, kSoon);
  if (found_ == kSoon) pause_ = 1;
  return true;
}

// Whether a value that nobody held is the same as before, its address does not tell: it may have been written to in
// place. So a try holds one, and a value that changed soon makes the next try come later: in training, where each step
// has another, one update in so many is a copy.
bool KeptFilter::IsWorthATry(const tenon_tensor_view& view) {
  constexpr uint32_t kLongest = 1024, kSoon = 8;
  if ((view.flags & TENON_VIEW_LASTING) == 0 || view.buffer == nullptr) return false;
  if (buffer_ != nullptr) {
    if (found_ < kSoon) pause_ = std::min(pause_ * 2, kLongest);
    wait_ = found_ < kSoon ? pause_ : 1;
    LetGo();
  }
  if (wait_ == 0) return true;
  --wait_;
  return false;
}

namespace {

// Those that hold something, in lists by its address.
struct Held {
  std::mutex mutex;
  KeptFilter* first = nullptr;
};
std::array<Held, 256> held_filters;

Held& ListOf(const void* data) {
  return held_filters[std::hash<uintptr_t>()(reinterpret_cast<uintptr_t>(data) / 64) % held_filters.size()];
}

}  // namespace

// Who holds the value keeps it from being changed, so what was made of it is what would be made now.
bool KeptFilter::TakeOfOthers(const tenon_tensor_view& view) {
  const void* const data = sdk::Data<const char>(view);
  Held& list = ListOf(data);
  const std::lock_guard lock(list.mutex);
  for (KeptFilter* other = list.first; other != nullptr; other = other->next_)
    if (other->buffer_ == view.buffer && other->data_ == data && other->given_ == given_ && other->wanted_ == wanted_) {
      made_ = other->made_;
      return true;
    }
  return false;
}

bool KeptFilter::HaveMemory() {
  const size_t bytes = (wanted_.get_size() + 63) / 64 * 64;
  if (made_ == nullptr || made_.use_count() > 1)
    made_.reset(static_cast<char*>(std::aligned_alloc(64, bytes)), &std::free);
  return made_ != nullptr;
}

void KeptFilter::Hold(const tenon_tensor_view& view) {
  tenon_plugin_host->buffer_retain(view.buffer);
  found_ = 0;
  Held& list = ListOf(sdk::Data<const char>(view));
  const std::lock_guard lock(list.mutex);
  buffer_ = view.buffer;
  data_ = sdk::Data<const char>(view);
  next_ = list.first;
  before_ = nullptr;
  if (next_ != nullptr) next_->before_ = this;
  list.first = this;
}

void KeptFilter::LetGo() {
  if (buffer_ == nullptr) return;
  {
    Held& list = ListOf(data_);
    const std::lock_guard lock(list.mutex);
    (before_ == nullptr ? list.first : before_->next_) = next_;
    if (next_ != nullptr) next_->before_ = before_;
  }
  tenon_plugin_host->buffer_release(std::exchange(buffer_, nullptr));
}

namespace {

constexpr double kSmallestGradient = 50e3;

template <bool kDepthwise>
struct ForwardKernel {
  explicit ForwardKernel(sdk::CreateContext& c) : attributes(c, "") {}
  struct Plan {
    Plan(const ForwardKernel& kernel, sdk::PrepareContext& c) : shares(Of(kernel, c), c) {}
    static Convolution Of(const ForwardKernel& kernel, sdk::PrepareContext& c) {
      const sdk::Dims filter = sdk::DimsOf(c.input(1));
      if (!kDepthwise)
        return {kernel.attributes, sdk::DimsOf(c.input(0)), filter, sdk::DimsOf(c.output(0)), TypeOf(c.input(0))};
      const std::array<int64_t, 4> grouped = DepthwiseFilter(filter);
      return {kernel.attributes, sdk::DimsOf(c.input(0)), grouped, sdk::DimsOf(c.output(0)), TypeOf(c.input(0))};
    }
    ForwardShares shares;
  };
  void Run(const Plan& plan, sdk::RunContext c) const { plan.shares.Run(c); }
  sdk::WindowAttributes attributes;
};

// (input_sizes, filter, out_backprop).
struct BackpropInputKernel {
  explicit BackpropInputKernel(sdk::CreateContext& c) : attributes(c, "") {}
  struct Plan {
    Plan(const BackpropInputKernel& kernel, sdk::PrepareContext& c) {
      const Convolution v(kernel.attributes, sdk::DimsOf(c.output(0)), sdk::DimsOf(c.input(1)), sdk::DimsOf(c.input(2)),
                          TypeOf(c.input(1)));
      RefuseBelow(v.work, v.SmallestWork(kSmallestGradient));
      // Gradients of so few channels are oneDNN's slow case: 1.1 to 3.6 times the plain kernel.
      const bool strided = v.height.stride > 1 || v.width.stride > 1;
      v.RefuseFewChannelsOfInput();
      if (v.x.channels == 1 || (v.x.channels < 4 && strided)) RefuseBelow(v.work, v.SmallestWork(HUGE_VAL));
      RefuseLong(v.work / kConvPerNanosecond / static_cast<double>(v.x.batch));
      for (auto [from, to] : Parts(v.x.batch, ConvolutionParts(c, v.work))) Add(v, c, from, to);
      cost = v.work / kConvPerNanosecond / static_cast<double>(programs.size());
    }

    // Images from `from` to `to`.
    void Add(const Convolution& v, sdk::PrepareContext& c, int64_t from, int64_t to) {
      constexpr int64_t kFewPixels = 512;
      const bool all = v.IsOfAllPixels();
      if (v.IsOfPixels() && (!all || (to - from) * v.y.pixels() <= kFewPixels)) return AddProduct(v, c, from, to);
      all ? AddOfPixels(v, c, from, to) : AddOfWindows(v, c, from, to);
    }
    void AddOfWindows(const Convolution& v, sdk::PrepareContext& c, int64_t from, int64_t to) {
      const auto dx = v.ImageDesc(v.x, to - from, v.x.height), dy = v.ImageDesc(v.y, to - from, v.y.height);
      const auto hint = v.ForwardDesc(v.Asked(dx), Any(v.FilterDims(), v.type), {}, v.Asked(dy), v.Windows());
      const auto of = [&](dnnl::algorithm algorithm, const memory::desc& in, const memory::desc& out) {
        return library::ConvolutionBackwardData(algorithm, in, Any(v.FilterDims(), v.type), out, v.Windows(),
                                                UserScratchpad(), hint);
      };
      dnnl::convolution_backward_data::primitive_desc pd;
      if (v.SuitsWinograd(to - from, v.y.height, c.Constant<char>(1) != nullptr))
        pd = MadeOrNone(
            [&] { return of(dnnl::algorithm::convolution_winograd, Any(library::Dims(dx)), Any(library::Dims(dy))); });
      if (!pd) pd = Made([&] { return of(dnnl::algorithm::convolution_direct, v.Asked(dx), v.Asked(dy)); });
      RefuseSlow(pd, v.type);
      Program& p = programs.emplace_back();
      const int filter = Filter(c, &p, v.FilterDesc(), pd.weights_desc());
      const int source = p.Converted(c, p.Input(2, dy, v.BatchOffset(v.y, from)), pd.diff_dst_desc());
      const int result = p.Output(0, dx, v.BatchOffset(v.x, from));
      const int target = p.Target(c, result, pd.diff_src_desc());
      p.Step(c, Made([&] { return dnnl::convolution_backward_data(pd); }), pd.scratchpad_desc(),
             {{DNNL_ARG_DIFF_DST, source}, {DNNL_ARG_WEIGHTS, filter}, {DNNL_ARG_DIFF_SRC, target}});
      p.Finish(target, result);
    }
    // A product with the filter transposed. Pixels of x that nobody read have zeros.
    void AddProduct(const Convolution& v, sdk::PrepareContext& c, int64_t from, int64_t to) {
      const int64_t images = to - from, ci = v.x.channels, co = v.y.channels, at = v.BatchOffset(v.x, from);
      Program& p = programs.emplace_back();
      const bool all = v.IsOfAllPixels();
      const auto rows = v.PixelRows(ci, images, v.y.height);
      const int64_t place = all ? 0 : c.Workspace(static_cast<int64_t>(rows.get_size()));
      const int dy = p.Input(2, v.PixelRows(co, images, v.y.height), v.BatchOffset(v.y, from));
      p.Multiply({false, true, images * v.y.pixels(), co, ci, co, co, ci}, dy, p.Input(1, v.FilterDesc()),
                 all ? p.Output(0, rows, at) : p.WorkspaceAt(place, rows));
      if (all) return;
      p.Clear(p.Output(0, v.ImageDesc(v.x, images, v.x.height), at));
      for (int64_t i = 0; i < images; ++i)
        p.Finish(p.WorkspaceAt(place + i * v.y.pixels() * ci * kFloat, v.PixelRows(ci, 1, v.y.height)),
                 p.Output(0, v.PixelsRead(v.y.height), at + v.BatchOffset(v.x, i)));
    }
    // The filter transposed, forward: oneDNN 2.6 has a kernel of block products (brgconv) for that alone, which takes
    // 0.75 to 0.95 of the time.
    void AddOfPixels(const Convolution& v, sdk::PrepareContext& c, int64_t from, int64_t to) {
      const auto dx = v.ImageDesc(v.x, to - from, v.x.height), dy = v.ImageDesc(v.y, to - from, v.y.height);
      const auto transposed = Strided({v.x.channels, v.y.channels, 1, 1}, {v.y.channels, 1, 1, 1});
      const auto pd = v.ForwardDesc(dy, Any(library::Dims(transposed)), {}, dx, v.Windows());
      RefuseSlow(pd);
      Program& p = programs.emplace_back();
      p.Step(c, Made([&] { return dnnl::convolution_forward(pd); }), pd.scratchpad_desc(),
             {{DNNL_ARG_SRC, p.Input(2, dy, v.BatchOffset(v.y, from))},
              {DNNL_ARG_WEIGHTS, Filter(c, &p, transposed, pd.weights_desc())},
              {DNNL_ARG_DST, p.Output(0, dx, v.BatchOffset(v.x, from))}});
    }
    int Filter(sdk::PrepareContext& c, Program* p, const memory::desc& given, const memory::desc& wanted) {
      if (c.Constant<char>(1) != nullptr) return p->Constant(Packed(c.input(1), 0, given, wanted));
      if (given == wanted) return p->Input(1, given);
      return p->WorkspaceAt(Reordered(&filters, c, 1, given, wanted).at, wanted);
    }
    std::vector<ReorderedFilter> filters;
    std::vector<Program> programs;
    double cost;
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    for (const auto& filter : plan.filters) RunShares(c, filter.parts, kFilterCost);
    RunShares(c, plan.programs, plan.cost);
  }
  sdk::WindowAttributes attributes;
};

// (input, filter_sizes, out_backprop).
struct BackpropFilterKernel {
  explicit BackpropFilterKernel(sdk::CreateContext& c) : attributes(c, "") {}
  struct Plan {
    Plan(const BackpropFilterKernel& kernel, sdk::PrepareContext& c) {
      const Convolution v(kernel.attributes, sdk::DimsOf(c.input(0)), sdk::DimsOf(c.output(0)), sdk::DimsOf(c.input(2)),
                          TypeOf(c.input(0)));
      RefuseBelow(v.work, v.SmallestWork(kSmallestGradient));
      v.RefuseFewChannelsOfFilter();
      RefuseLong(v.work / kConvPerNanosecond / static_cast<double>(v.x.batch));
      count = sdk::Count(c.output(0));
      const auto bytes = sdk::Multiply(count, kFloat);
      const int64_t pieces = ConvolutionParts(c, v.work) / Shares(c);
      for (auto [first, last] : Parts(v.x.batch, Shares(c))) {
        Share& share = shares.emplace_back();
        if (shares.size() > 1) share.sum = c.Workspace(bytes);
        for (auto [from, to] : Parts(last - first, pieces)) Add(v, c, first + from, first + to, &share);
      }
      cost = v.work / kConvPerNanosecond / static_cast<double>(shares.size());
    }

    // Images whose gradients are summed one piece after the other.
    struct Share {
      std::vector<Program> pieces;
      int64_t sum = -1;    // in the workspace; -1: the output
      int64_t piece = -1;  // of every piece but the first
    };
    void Add(const Convolution& v, sdk::PrepareContext& c, int64_t from, int64_t to, Share* share) {
      Program& p = share->pieces.emplace_back();
      const bool more = share->pieces.size() > 1;
      if (more && share->piece < 0) share->piece = c.Workspace(sdk::Multiply(count, kFloat));
      const int64_t at = more ? share->piece : share->sum;
      const int result =
          at < 0 ? p.Output(0, v.FilterDesc(ElementType::f32)) : p.WorkspaceAt(at, v.FilterDesc(ElementType::f32));
      // The primitive is ahead where there are many pixels and not more channels of the result; it has none for pixels
      // that lie apart, but its general one.
      constexpr int64_t kFewPixels = 512;
      const int64_t pixels = (to - from) * v.y.pixels(), ci = v.x.channels, co = v.y.channels;
      if (v.IsOfPixels() && (!v.IsOfAllPixels() || pixels <= kFewPixels || co >= 2 * ci)) {
        const int dy = p.Input(2, v.PixelRows(co, to - from, v.y.height), v.BatchOffset(v.y, from));
        p.Multiply({true, false, ci, pixels, co, ci, co, co}, v.Pixels(c, &p, 0, {from, to}, {0, v.y.height}), dy,
                   result);
        return;
      }
      const auto x = v.ImageDesc(v.x, to - from, v.x.height), dy = v.ImageDesc(v.y, to - from, v.y.height);
      const auto hint = v.ForwardDesc(v.Asked(x), Any(v.FilterDims(), v.type), {}, v.Asked(dy), v.Windows());
      const auto of = [&](dnnl::algorithm algorithm, const memory::desc& in, const memory::desc& out) {
        return library::ConvolutionBackwardWeights(algorithm, in, Any(v.FilterDims()), out, v.Windows(),
                                                   UserScratchpad(), hint);
      };
      dnnl::convolution_backward_weights::primitive_desc pd;
      if (v.SuitsWinograd(to - from, v.y.height, false))
        pd = MadeOrNone(
            [&] { return of(dnnl::algorithm::convolution_winograd, Any(library::Dims(x)), Any(library::Dims(dy))); });
      if (!pd) pd = Made([&] { return of(dnnl::algorithm::convolution_direct, v.Asked(x), v.Asked(dy)); });
      RefuseSlow(pd, v.type);
      const int source = p.Converted(c, p.Input(0, x, v.BatchOffset(v.x, from)), pd.src_desc());
      const int gradient = p.Converted(c, p.Input(2, dy, v.BatchOffset(v.y, from)), pd.diff_dst_desc());
      const int target = p.Target(c, result, pd.diff_weights_desc());
      p.Step(c, Made([&] { return dnnl::convolution_backward_weights(pd); }), pd.scratchpad_desc(),
             {{DNNL_ARG_SRC, source}, {DNNL_ARG_DIFF_DST, gradient}, {DNNL_ARG_DIFF_WEIGHTS, target}});
      p.Finish(target, result);
    }
    std::vector<Share> shares;
    int64_t count;
    double cost;
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    c.ParallelFor(static_cast<int64_t>(plan.shares.size()), plan.cost, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) RunShare(plan, plan.shares[static_cast<size_t>(i)], c);
    });
    for (const Plan::Share& share : plan.shares) {
      if (share.sum < 0) continue;
      c.ParallelFor(plan.count, 0.15, [&](int64_t begin, int64_t end) {
        Add(c.workspace<float>(share.sum), begin, end, c.output<float>(0));
      });
    }
  }
  static void RunShare(const Plan& plan, const Plan::Share& share, sdk::RunContext c) {
    float* sum = share.sum < 0 ? c.output<float>(0) : c.workspace<float>(share.sum);
    for (const Program& piece : share.pieces) {
      c.CheckCancelled();
      piece.Run(c);
      if (&piece != share.pieces.data()) Add(c.workspace<float>(share.piece), 0, plan.count, sum);
    }
  }
  static void Add(const float* from, int64_t begin, int64_t end, float* sum) {
    for (int64_t i = begin; i < end; ++i) sum[i] += from[i];
  }
  sdk::WindowAttributes attributes;
};

}  // namespace

// The last digits of Winograd's transforms depend on the shares, and so do sums of filters' gradients.
TENON_ONEDNN_KERNEL(Conv2D) = OnednnKernel<ForwardKernel<false>>("Conv2D", 0);
// In float32 the plain kernel is as fast.
TENON_ONEDNN_KERNEL(DepthwiseConv2dNative) = OnednnKernel<ForwardKernel<true>, Bfloat16Alone>("DepthwiseConv2dNative");
TENON_ONEDNN_KERNEL(Conv2DBackpropInput) = OnednnKernel<BackpropInputKernel>("Conv2DBackpropInput", 0);
TENON_ONEDNN_KERNEL(Conv2DBackpropFilter) = OnednnKernel<BackpropFilterKernel, FloatAlone>("Conv2DBackpropFilter", 0);
TENON_ONEDNN_KERNEL(Conv2DBackpropFilterSums) =
    OnednnKernel<BackpropFilterKernel, Bfloat16Alone>("Tenon>Conv2DBackpropFilterSums", 0);

}  // namespace tenon::cpu_onednn
