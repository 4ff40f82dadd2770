// SPDX-License-Identifier: Apache-2.0
// CudnnRNN and CudnnRNNBackprop in all their versions, without cuDNN: layers of recurrent cells over the parameters
// that it packs into one vector.
//
// Of T steps, B sequences, I inputs, L layers in D directions and C cells with G gates. The parameters are, layer by
// layer and in it direction by direction, the weights [G C, inputs] of the layer's input and [G C, C] of the state,
// then in the same order the biases of both. Gates: LSTM i, f, c, o; GRU r, u, c, whose r is applied to the product;
// else one. A layer's input is what the one before gave in all directions. Everything is computed with the steps first,
// in float (of doubles in double). What the forward pass leaves is computed again by the backward pass, but for what
// dropout drew, which is reserve_space.
#include <algorithm>
#include <cmath>

#include "kernels/common/math.h"
#include "kernels/common/types.h"
#include "kernels/products/product.h"
#include "tenon/extras/kernel/random.h"

namespace tenon::cpu {
namespace {

enum class Cell { kRelu, kTanh, kLstm, kGru };

struct RnnAttributes {
  explicit RnnAttributes(sdk::CreateContext& c)
      : versioned(c.op().ends_with("V3")),
        time_major(!versioned || c.Bool("time_major")),
        dropout(c.Float("dropout")),
        directions(c.String("direction") == "bidirectional" ? 2 : 1),
        auto_select(c.String("input_mode") == "auto_select") {
    const std::string_view mode = c.String("rnn_mode");
    cell = mode == "lstm" ? Cell::kLstm : mode == "gru" ? Cell::kGru : mode == "rnn_tanh" ? Cell::kTanh : Cell::kRelu;
    gates = cell == Cell::kLstm ? 4 : cell == Cell::kGru ? 3 : 1;
    if (c.String("input_mode") == "skip_input") {
      c.Fail(TENON_UNIMPLEMENTED,
             "input_mode 'skip_input' is cuDNN's alone; the CPU has linear_input, with weights for the first layer's "
             "input too");
    }
    if (versioned && c.Int("num_proj") != 0)
      c.Fail(TENON_UNIMPLEMENTED, "num_proj is ", c.Int("num_proj"), "; projections are cuDNN's alone, the CPU has 0");
    if (!(dropout >= 0 && dropout < 1)) c.Invalid("dropout is ", dropout, "; it must be in [0, 1)");
  }
  bool versioned, time_major;
  float dropout;
  int64_t directions;
  bool auto_select;
  Cell cell = Cell::kLstm;
  int64_t gates = 4;
};

// Shapes, and where parts of the parameters stand. x and h are the node's inputs 0 and 1.
struct RnnSizes : RnnAttributes {
  RnnSizes(const RnnAttributes& a, const tenon_tensor_view& x, const tenon_tensor_view& h) : RnnAttributes(a) {
    const sdk::Dims in = sdk::DimsOf(x), state = sdk::DimsOf(h);
    time = in[time_major ? 0 : 1], batch = in[time_major ? 1 : 0], inputs = in[2];
    const int64_t stacked = state[time_major ? 0 : 1];
    cells = state[2];
    if (state[time_major ? 1 : 0] != batch)
      sdk::Fail(TENON_INVALID_ARGUMENT, "input_h of shape ", state, " is not of the batch of input, ", in);
    if (stacked <= 0 || stacked % directions != 0 || cells <= 0) {
      sdk::Fail(TENON_INVALID_ARGUMENT, "input_h of shape ", state, " has no whole number of layers in ", directions,
                " directions");
    }
    layers = stacked / directions;
    if (auto_select && inputs == cells) {
      sdk::Fail(TENON_UNIMPLEMENTED,
                "input_mode 'auto_select' skips the weights of an input that has the size of the state, which is "
                "cuDNN's alone; take linear_input");
    }
    rows = sdk::Multiply(time, batch);
    width = sdk::Multiply(gates, cells);
    states = sdk::Multiply(batch, cells);
    weights = 0;
    for (int64_t l = 0; l < layers; ++l)
      weights = sdk::Add(weights, sdk::Multiply(directions, sdk::Multiply(width, sdk::Add(InputsOf(l), cells))));
    params = sdk::Add(weights, sdk::Multiply(2 * width, sdk::Multiply(layers, directions)));
    masks = dropout > 0 ? sdk::Multiply(layers - 1, sdk::Multiply(rows, directions * cells)) : 0;
  }
  int64_t InputsOf(int64_t layer) const { return layer == 0 ? inputs : directions * cells; }
  // Where the weights of a layer's input begin; those of its state follow.
  int64_t WeightsAt(int64_t layer, int64_t direction) const {
    const int64_t first = width * (inputs + cells), other = width * (directions * cells + cells);
    return layer == 0 ? direction * first : directions * first + ((layer - 1) * directions + direction) * other;
  }
  int64_t StateWeightsAt(int64_t layer, int64_t direction) const {
    return WeightsAt(layer, direction) + width * InputsOf(layer);
  }
  int64_t BiasesAt(int64_t layer, int64_t direction) const {
    return weights + (layer * directions + direction) * 2 * width;
  }
  // Element [step, sequence] of rows of `size`, and the state of a layer and direction, as the node's tensors have
  // them.
  int64_t StepAt(int64_t t, int64_t b, int64_t size) const {
    return (time_major ? t * batch + b : b * time + t) * size;
  }
  int64_t StateAt(int64_t l, int64_t d, int64_t b) const {
    const int64_t stacked = l * directions + d;
    return (time_major ? stacked * batch + b : b * layers * directions + stacked) * cells;
  }
  int64_t time, batch, inputs, layers, cells, rows, width, states, weights, params, masks;
};

struct Rnn : RnnSizes {
  Rnn(const RnnAttributes& a, sdk::PrepareContext& c, bool backward)
      : RnnSizes(a, c.input(0), c.input(1)), backward(backward) {
    if (sdk::Count(c.input(3)) != params) {
      sdk::Fail(TENON_INVALID_ARGUMENT, "params has ", sdk::Count(c.input(3)), " elements; ", layers, " layers of ",
                cells, " cells in ", directions, " directions with ", inputs, " inputs need ", params);
    }
    if (cell == Cell::kLstm && sdk::Count(c.input(2)) != sdk::Count(c.input(1))) {
      sdk::Fail(TENON_INVALID_ARGUMENT, "input_c has the shape ", sdk::DimsOf(c.input(2)), ", input_h ",
                sdk::DimsOf(c.input(1)));
    }
    if (versioned && sdk::Count(c.input(4)) != batch) {
      sdk::Fail(TENON_INVALID_ARGUMENT, "sequence_lengths has ", sdk::Count(c.input(4)), " numbers for a batch of ",
                batch);
    }
    Reals::Dispatch(c.input(0).dtype, [&]<class T>(Tag<T>) { Memory<Real<T>>(c, std::is_same_v<T, Real<T>>); });
  }
  template <class T>
  using Real = std::conditional_t<std::is_same_v<T, double>, double, float>;

  bool backward;
  // In the workspace. Of every layer and direction where the backward pass follows, else of one (and outputs of two
  // layers).
  int64_t x, w, h, c, product, gates_at, extra, outs, dropped;
  int64_t dy, dx, dgx, dgh, before, dh, dc, dw;
  SharedProduct of_x[2], of_h, back_h, back_x[2], to_w[2], to_r;

 private:
  template <class A>
  void Memory(sdk::PrepareContext& context, bool in_place) {
    const auto take = [&](int64_t count) { return context.Workspace(sdk::Multiply(count, sizeof(A))); };
    const int64_t wide = directions * cells, each = backward ? layers * directions : 1,
                  levels = backward ? layers : std::min<int64_t>(layers, 2);
    x = take(sdk::Multiply(rows, inputs)), w = take(in_place ? 0 : params), h = take(states), c = take(states),
    product = take(batch * width);
    gates_at = take(sdk::Multiply(sdk::Multiply(rows, width), each)),
    extra = take(sdk::Multiply(sdk::Multiply(rows, cells), each));
    outs = take(sdk::Multiply(sdk::Multiply(rows, wide), levels)),
    dropped = take(dropout > 0 ? sdk::Multiply(sdk::Multiply(rows, wide), levels) : 0);
    const int64_t first[] = {inputs, wide};
    for (size_t i = 0; i < 2; ++i)
      of_x[i] = SharedProduct::Make<A>(context, {rows, width, first[i], first[i], 1, 1, first[i], width});
    of_h = SharedProduct::Make<A>(context, {batch, width, cells, cells, 1, 1, cells, width});
    if (!backward) return;
    const int64_t widest = std::max(inputs, wide);
    dy = take(sdk::Multiply(rows, widest)), dx = take(sdk::Multiply(rows, widest)), dgx = take(rows * width),
    dgh = take(rows * width);
    before = take(rows * cells), dh = take(states), dc = take(states), dw = take(in_place ? 0 : params);
    back_h = SharedProduct::Make<A>(context, {batch, cells, width, width, 1, cells, 1, cells});
    to_r = SharedProduct::Make<A>(context, {width, cells, rows, 1, width, cells, 1, cells});
    for (size_t i = 0; i < 2; ++i) {
      back_x[i] = SharedProduct::Make<A>(context, {rows, first[i], width, width, 1, first[i], 1, first[i]});
      to_w[i] = SharedProduct::Make<A>(context, {width, first[i], rows, 1, width, first[i], 1, first[i]});
    }
  }
};

template <class A>
A GateSigmoid(A v) {
  return A(1) / (A(1) + math::Exp(-v));
}

// One run. T: the node's type, A: what is computed with.
template <class T, class A = Rnn::Real<T>>
class Work {
 public:
  Work(const Rnn& p, sdk::RunContext c) : p_(p), c_(c) {
    if (!p.versioned) return;
    lengths_ = c.input<int32_t>(4);
    for (int64_t b = 0; b < p.batch; ++b) {
      if (lengths_[b] < 0 || lengths_[b] > p.time)
        sdk::Fail(TENON_INVALID_ARGUMENT, "sequence_lengths[", b, "] is ", lengths_[b], "; input has ", p.time,
                  " steps");
    }
  }

  // mask: of dropout, [layers - 1, rows, directions * cells], or null. output, output_h, output_c: null where the
  // backward pass follows.
  void Forward(const T* mask, T* output, T* output_h, T* output_c) {
    A* x = At(p_.x);
    for (int64_t t = 0; t < p_.time; ++t) {
      for (int64_t b = 0; b < p_.batch; ++b) {
        for (int64_t k = 0; k < p_.inputs; ++k)
          *x++ = static_cast<A>(Wider(c_.input<T>(0)[p_.StepAt(t, b, p_.inputs) + k]));
      }
    }
    w_ = Params();
    for (int64_t l = 0; l < p_.layers; ++l) {
      for (int64_t d = 0; d < p_.directions; ++d) ForwardLayer(l, d, output_h, output_c);
      if (mask == nullptr || l + 1 == p_.layers) continue;
      const int64_t count = p_.rows * p_.directions * p_.cells;
      for (int64_t i = 0; i < count; ++i) Dropped(l)[i] = Out(l)[i] * static_cast<A>(Wider(mask[l * count + i]));
    }
    if (output == nullptr) return;
    const int64_t wide = p_.directions * p_.cells;
    for (int64_t t = 0; t < p_.time; ++t) {
      for (int64_t b = 0; b < p_.batch; ++b) {
        for (int64_t k = 0; k < wide; ++k)
          output[p_.StepAt(t, b, wide) + k] = static_cast<T>(Out(p_.layers - 1)[(t * p_.batch + b) * wide + k]);
      }
    }
  }

  // After Forward. Inputs: the gradients of output, output_h and output_c; outputs: those of input, input_h, input_c
  // and params.
  void Backward(const T* mask, const T* dy, const T* dhn, const T* dcn) {
    const int64_t wide = p_.directions * p_.cells;
    A *above = At(p_.dy), *below = At(p_.dx);
    for (int64_t t = 0; t < p_.time; ++t) {
      for (int64_t b = 0; b < p_.batch; ++b) {
        for (int64_t k = 0; k < wide; ++k)
          above[(t * p_.batch + b) * wide + k] = static_cast<A>(Wider(dy[p_.StepAt(t, b, wide) + k]));
      }
    }
    A* dw;
    if constexpr (std::is_same_v<T, A>) {
      dw = c_.output<T>(3);
    } else {
      dw = At(p_.dw);
    }
    std::fill_n(dw, p_.params, A(0));
    for (int64_t l = p_.layers - 1; l >= 0; --l) {
      for (int64_t d = 0; d < p_.directions; ++d) BackwardLayer(l, d, above, below, dhn, dcn, dw);
      if (l > 0 && mask != nullptr) {
        const int64_t count = p_.rows * wide;
        for (int64_t i = 0; i < count; ++i) below[i] *= static_cast<A>(Wider(mask[(l - 1) * count + i]));
      }
      std::swap(above, below);
    }
    for (int64_t t = 0; t < p_.time; ++t) {
      for (int64_t b = 0; b < p_.batch; ++b) {
        for (int64_t k = 0; k < p_.inputs; ++k)
          c_.output<T>(0)[p_.StepAt(t, b, p_.inputs) + k] = static_cast<T>(above[(t * p_.batch + b) * p_.inputs + k]);
      }
    }
    if constexpr (!std::is_same_v<T, A>) {
      for (int64_t i = 0; i < p_.params; ++i) c_.output<T>(3)[i] = static_cast<T>(dw[i]);
    }
  }

 private:
  static Wide<T> Wider(T value) { return static_cast<Wide<T>>(value); }
  A* At(int64_t offset) const { return c_.workspace<A>(offset); }
  int64_t Kept(int64_t l, int64_t d) const { return p_.backward ? l * p_.directions + d : 0; }
  int64_t Level(int64_t l) const { return p_.backward ? l : l % 2; }
  A* Gates(int64_t l, int64_t d) const { return At(p_.gates_at) + Kept(l, d) * p_.rows * p_.width; }
  A* Extra(int64_t l, int64_t d) const { return At(p_.extra) + Kept(l, d) * p_.rows * p_.cells; }
  A* Out(int64_t l) const { return At(p_.outs) + Level(l) * p_.rows * p_.directions * p_.cells; }
  A* Dropped(int64_t l) const { return At(p_.dropped) + Level(l) * p_.rows * p_.directions * p_.cells; }
  // What goes into a layer.
  const A* In(int64_t l) const { return l == 0 ? At(p_.x) : p_.dropout > 0 && dropping_ ? Dropped(l - 1) : Out(l - 1); }
  bool Runs(int64_t t, int64_t b) const { return lengths_ == nullptr || t < lengths_[b]; }
  int64_t Step(int64_t s, int64_t d) const { return d == 0 ? s : p_.time - 1 - s; }
  A Initial(int32_t input, int64_t l, int64_t d, int64_t b, int64_t k) const {
    return static_cast<A>(Wider(c_.input<T>(input)[p_.StateAt(l, d, b) + k]));
  }

  const A* Params() const {
    const T* given = c_.input<T>(3);
    if constexpr (std::is_same_v<T, A>) {
      return given;
    } else {
      A* copy = At(p_.w);
      for (int64_t i = 0; i < p_.params; ++i) copy[i] = static_cast<A>(Wider(given[i]));
      return copy;
    }
  }

  void ForwardLayer(int64_t l, int64_t d, T* output_h, T* output_c) {
    const int64_t in = p_.InputsOf(l), width = p_.width, cells = p_.cells;
    A *gates = Gates(l, d), *h = At(p_.h), *c = At(p_.c), *product = At(p_.product);
    if (in > 0) {
      p_.of_x[l > 0 ? 1 : 0].Run(c_, In(l), w_ + p_.WeightsAt(l, d), gates);
    } else {
      std::fill_n(gates, p_.rows * width, A(0));
    }
    for (int64_t b = 0; b < p_.batch; ++b) {
      for (int64_t k = 0; k < cells; ++k) {
        h[b * cells + k] = Initial(1, l, d, b, k);
        c[b * cells + k] = p_.cell == Cell::kLstm ? Initial(2, l, d, b, k) : A(0);
      }
    }
    for (int64_t s = 0; s < p_.time; ++s) {
      c_.CheckCancelled();
      const int64_t t = Step(s, d);
      p_.of_h.Run(c_, h, w_ + p_.StateWeightsAt(l, d), product);
      c_.ParallelFor(p_.batch, 15.0 * static_cast<double>(width), [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b) {
          const int64_t row = t * p_.batch + b;
          A* y = Out(l) + (row * p_.directions + d) * cells;
          if (!Runs(t, b)) {
            std::fill_n(y, cells, A(0));
            continue;
          }
          ForwardCell(l, d, gates + row * width, product + b * width, Extra(l, d) + row * cells, h + b * cells,
                      c + b * cells);
          std::copy_n(h + b * cells, cells, y);
        }
      });
    }
    if (output_h == nullptr) return;
    for (int64_t b = 0; b < p_.batch; ++b) {
      for (int64_t k = 0; k < cells; ++k) {
        output_h[p_.StateAt(l, d, b) + k] = static_cast<T>(h[b * cells + k]);
        if (p_.cell == Cell::kLstm) output_c[p_.StateAt(l, d, b) + k] = static_cast<T>(c[b * cells + k]);
      }
    }
  }

  // Gates become what their activations give. extra: of an LSTM the new c, of a GRU what r is applied to.
  void ForwardCell(int64_t l, int64_t d, A* gate, const A* product, A* extra, A* h, A* c) const {
    const A *of_x = w_ + p_.BiasesAt(l, d), *of_h = of_x + p_.width;
    const int64_t cells = p_.cells;
    const auto sum = [&](int64_t g, int64_t k) {
      return gate[g * cells + k] + of_x[g * cells + k] + product[g * cells + k] + of_h[g * cells + k];
    };
    for (int64_t k = 0; k < cells; ++k) {
      A& first = gate[k];
      switch (p_.cell) {
        case Cell::kRelu: h[k] = first = std::max(sum(0, k), A(0)); break;
        case Cell::kTanh: h[k] = first = math::Tanh(sum(0, k)); break;
        case Cell::kLstm: {
          A &f = gate[cells + k], &n = gate[2 * cells + k], &o = gate[3 * cells + k];
          first = GateSigmoid(sum(0, k)), f = GateSigmoid(sum(1, k)), n = math::Tanh(sum(2, k)),
          o = GateSigmoid(sum(3, k));
          c[k] = extra[k] = f * c[k] + first * n;
          h[k] = o * math::Tanh(c[k]);
          break;
        }
        case Cell::kGru: {
          A &u = gate[cells + k], &n = gate[2 * cells + k];
          first = GateSigmoid(sum(0, k)), u = GateSigmoid(sum(1, k));
          extra[k] = product[2 * cells + k] + of_h[2 * cells + k];
          n = math::Tanh(n + of_x[2 * cells + k] + first * extra[k]);
          h[k] = (A(1) - u) * n + u * h[k];
          break;
        }
      }
    }
  }

  void BackwardLayer(int64_t l, int64_t d, const A* above, A* below, const T* dhn, const T* dcn, A* dw) {
    const int64_t in = p_.InputsOf(l), width = p_.width, cells = p_.cells, batch = p_.batch;
    A *dgx = At(p_.dgx), *dgh = At(p_.dgh), *before = At(p_.before), *dh = At(p_.dh), *dc = At(p_.dc);
    const A* state_weights = w_ + p_.StateWeightsAt(l, d);
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t k = 0; k < cells; ++k) {
        dh[b * cells + k] = static_cast<A>(Wider(dhn[p_.StateAt(l, d, b) + k]));
        dc[b * cells + k] = p_.cell == Cell::kLstm ? static_cast<A>(Wider(dcn[p_.StateAt(l, d, b) + k])) : A(0);
      }
    }
    for (int64_t s = p_.time - 1; s >= 0; --s) {
      c_.CheckCancelled();
      const int64_t t = Step(s, d);
      c_.ParallelFor(batch, 15.0 * static_cast<double>(width), [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b) {
          const int64_t row = t * batch + b;
          if (!Runs(t, b)) {
            std::fill_n(dgx + row * width, width, A(0));
            std::fill_n(dgh + row * width, width, A(0));
            std::fill_n(before + row * cells, cells, A(0));
            continue;
          }
          BackwardCell(l, d, t, b, above + (row * p_.directions + d) * cells, before + row * cells, dgx + row * width,
                       dgh + row * width, dh + b * cells, dc + b * cells);
        }
      });
      p_.back_h.Run(c_, {batch, cells, width, width, 1, cells, 1, cells}, dgh + t * batch * width, state_weights, dh,
                    true);
    }
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t k = 0; k < cells; ++k) {
        c_.output<T>(1)[p_.StateAt(l, d, b) + k] = static_cast<T>(dh[b * cells + k]);
        if (p_.cell == Cell::kLstm) c_.output<T>(2)[p_.StateAt(l, d, b) + k] = static_cast<T>(dc[b * cells + k]);
      }
    }
    if (in > 0) {
      const size_t which = l > 0 ? 1 : 0;
      p_.to_w[which].Run(c_, dgx, In(l), dw + p_.WeightsAt(l, d));
      p_.back_x[which].Run(c_, {p_.rows, in, width, width, 1, in, 1, in}, dgx, w_ + p_.WeightsAt(l, d), below, d > 0);
    }
    p_.to_r.Run(c_, dgh, before, dw + p_.StateWeightsAt(l, d));
    A *of_x = dw + p_.BiasesAt(l, d), *of_h = of_x + width;
    for (int64_t row = 0; row < p_.rows; ++row) {
      for (int64_t k = 0; k < width; ++k) of_x[k] += dgx[row * width + k], of_h[k] += dgh[row * width + k];
    }
  }

  // before: becomes the state before the step. dh, dc: of the states after it, become those before, dh but for the
  // product with the weights.
  void BackwardCell(int64_t l, int64_t d, int64_t t, int64_t b, const A* dy, A* before, A* dgx, A* dgh, A* dh,
                    A* dc) const {
    const int64_t cells = p_.cells, row = t * p_.batch + b, last = (lengths_ == nullptr ? p_.time : lengths_[b]) - 1;
    const bool first = d == 0 ? t == 0 : t == last;
    const int64_t row_before = (d == 0 ? t - 1 : t + 1) * p_.batch + b;
    const A *gate = Gates(l, d) + row * p_.width, *extra = Extra(l, d) + row * cells;
    for (int64_t k = 0; k < cells; ++k) {
      before[k] = first ? Initial(1, l, d, b, k) : Out(l)[(row_before * p_.directions + d) * cells + k];
      const A g = dh[k] + dy[k], v = gate[k];
      dh[k] = 0;
      switch (p_.cell) {
        case Cell::kRelu: dgx[k] = dgh[k] = v > 0 ? g : A(0); break;
        case Cell::kTanh: dgx[k] = dgh[k] = g * (1 - v * v); break;
        case Cell::kLstm: {
          const A f = gate[cells + k], n = gate[2 * cells + k], o = gate[3 * cells + k], tangent = math::Tanh(extra[k]);
          const A c_before = first ? Initial(2, l, d, b, k) : Extra(l, d)[row_before * cells + k];
          const A whole = dc[k] + g * o * (1 - tangent * tangent);
          dgx[k] = whole * n * v * (1 - v);
          dgx[cells + k] = whole * c_before * f * (1 - f);
          dgx[2 * cells + k] = whole * v * (1 - n * n);
          dgx[3 * cells + k] = g * tangent * o * (1 - o);
          for (int64_t i = 0; i < 4; ++i) dgh[i * cells + k] = dgx[i * cells + k];
          dc[k] = whole * f;
          break;
        }
        case Cell::kGru: {
          const A u = gate[cells + k], n = gate[2 * cells + k];
          const A of_n = g * (1 - u) * (1 - n * n);
          dgx[k] = dgh[k] = of_n * extra[k] * v * (1 - v);
          dgx[cells + k] = dgh[cells + k] = g * (before[k] - n) * u * (1 - u);
          dgx[2 * cells + k] = of_n;
          dgh[2 * cells + k] = of_n * v;
          dh[k] = g * u;
          break;
        }
      }
    }
  }

 public:
  bool dropping_ = false;

 private:
  const Rnn& p_;
  sdk::RunContext c_;
  const int32_t* lengths_ = nullptr;
  const A* w_ = nullptr;
};

struct CudnnRnnKernel : RnnAttributes {
  explicit CudnnRnnKernel(sdk::CreateContext& c) : RnnAttributes(c), training(c.Bool("is_training")), stream(c) {}
  struct Plan : Rnn {
    Plan(const CudnnRnnKernel& kernel, sdk::PrepareContext& c) : Rnn(kernel, c, false) {}
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    Reals::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      const bool drops = training && plan.masks > 0;
      T* mask = drops ? c.output<T>(3) : nullptr;
      if (drops) {
        sdk::GenerateGroups(stream.Reserve(plan.masks), sdk::Uniform(), plan.masks, 0, sdk::GroupsOf<T>(plan.masks),
                            mask);
        const T kept = static_cast<T>(static_cast<Wide<T>>(1 / (1 - dropout)));
        for (int64_t i = 0; i < plan.masks; ++i)
          mask[i] = static_cast<Wide<T>>(mask[i]) < static_cast<Wide<T>>(dropout) ? T(0) : kept;
      }
      if (cell != Cell::kLstm) std::fill_n(c.output<T>(2), sdk::Count(c.output_view(2)), T(0));
      Work<T> work(plan, c);
      work.dropping_ = drops;
      work.Forward(mask, c.output<T>(0), c.output<T>(1), c.output<T>(2));
    });
  }
  bool training;
  sdk::Stream stream;
};

// The inputs of CudnnRNN, its outputs output, output_h and output_c, their gradients, and what it reserved.
struct CudnnRnnBackpropKernel : RnnAttributes {
  explicit CudnnRnnBackpropKernel(sdk::CreateContext& c) : RnnAttributes(c) {}
  int32_t OfOutput(int32_t k) const { return (versioned ? 8 : 7) + k; }
  struct Plan : Rnn {
    Plan(const CudnnRnnBackpropKernel& kernel, sdk::PrepareContext& c) : Rnn(kernel, c, true) {
      const auto expect = [&](int32_t k, int64_t count, const char* what) {
        if (sdk::Count(c.input(kernel.OfOutput(k))) != count) {
          sdk::Fail(TENON_INVALID_ARGUMENT, what, " has the shape ", sdk::DimsOf(c.input(kernel.OfOutput(k))),
                    "; it needs ", count, " elements");
        }
      };
      expect(0, rows * directions * cells, "output_backprop");
      expect(1, sdk::Count(c.input(1)), "output_h_backprop");
      if (cell == Cell::kLstm) expect(2, sdk::Count(c.input(1)), "output_c_backprop");
      expect(3, masks, "reserve_space");
    }
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    Reals::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      const T* mask = plan.masks > 0 ? c.input<T>(OfOutput(3)) : nullptr;
      if (cell != Cell::kLstm) std::fill_n(c.output<T>(2), sdk::Count(c.output_view(2)), T(0));
      Work<T> work(plan, c);
      work.dropping_ = mask != nullptr;
      work.Forward(mask, nullptr, nullptr, nullptr);
      work.Backward(mask, c.input<T>(OfOutput(0)), c.input<T>(OfOutput(1)), c.input<T>(OfOutput(2)));
    });
  }
};

constexpr sdk::Traits kForward = {.constraints = sdk::Constraints<Reals::Constraint<"T">>::list,
                                  .flags = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_EXPENSIVE | TENON_KERNEL_STATEFUL};
constexpr sdk::Traits kBackward = {.constraints = sdk::Constraints<Reals::Constraint<"T">>::list,
                                   .flags = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_EXPENSIVE};

}  // namespace

TENON_CPU_KERNEL(CudnnRNN) = CpuKernel<CudnnRnnKernel>("CudnnRNN", kForward);
TENON_CPU_KERNEL(CudnnRNNV2) = CpuKernel<CudnnRnnKernel>("CudnnRNNV2", kForward);
TENON_CPU_KERNEL(CudnnRNNV3) = CpuKernel<CudnnRnnKernel>("CudnnRNNV3", kForward);
TENON_CPU_KERNEL(CudnnRNNBackprop) = CpuKernel<CudnnRnnBackpropKernel>("CudnnRNNBackprop", kBackward);
TENON_CPU_KERNEL(CudnnRNNBackpropV2) = CpuKernel<CudnnRnnBackpropKernel>("CudnnRNNBackpropV2", kBackward);
TENON_CPU_KERNEL(CudnnRNNBackpropV3) = CpuKernel<CudnnRnnBackpropKernel>("CudnnRNNBackpropV3", kBackward);

}  // namespace tenon::cpu
