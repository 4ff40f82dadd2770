// SPDX-License-Identifier: Apache-2.0
// Shape functions: what an op says of its outputs' shapes before it runs.
//
//   static void MatMulShape(ShapeContext& c) {
//     const Shape a = c.WithRank(0, 2), b = c.WithRank(1, 2);
//     const bool ta = c.Bool("transpose_a"), tb = c.Bool("transpose_b");
//     c.Merge(a[ta ? 0 : 1], b[tb ? 1 : 0], "inner dims");
//     c.SetOutput(0, {a[ta ? 1 : 0], b[tb ? 0 : 1]});
//   }
//
// ShapeFunction<MatMulShape> is the C function. Rules: the first failure sticks (node.h); an output
// that is never set has unknown rank; products that do not fit into int64 are refused by SetOutput.
//
// A dim below 0 is unknown, and may be a name (shape.h) where the package says TENON_OPS_NAMED_DIMS (package.h): then
// a function asks `dim < 0`, never `dim == -1`, and computes with what may be unknown by Add, Multiply and Divide.
#ifndef TENON_SDK_OP_SHAPE_FUNCTION_H_
#define TENON_SDK_OP_SHAPE_FUNCTION_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tenon/sdk/node.h"
#include "tenon/sdk/number.h"

namespace tenon::sdk {

inline constexpr int kMostElements = 32;  // of a tensor, that ShapeContext::Elements tells

class ShapeContext : public NodeContext {
 public:
  ShapeContext(tenon_plugin_self* self, const tenon_shape_services* services, tenon_shape_context* context)
      : NodeContext(services->node_services, services->node(context), self), services_(services), context_(context) {}

  // ---- Inputs ----

  // index < input_count(), here and below.
  Shape Input(int index) const { return Shape(services_->input_shape(context_, index)); }

  // The input's shape, of which the rank is known from now on.
  Shape WithRank(int index, int rank) {
    const Shape shape = Input(index);
    if (!shape.known_rank()) return Shape::OfRank(rank);
    if (shape.rank() != rank) {
      Invalid("input ", index, " must have rank ", rank, "; its shape is ", shape);
      return Shape::OfRank(rank);
    }
    return shape;
  }
  Shape WithRankAtLeast(int index, int rank) {
    const Shape shape = Input(index);
    if (shape.known_rank() && shape.rank() < rank) {
      Invalid("input ", index, " must have rank ", rank, " at least; its shape is ", shape);
      return Shape();
    }
    return shape;
  }
  Shape WithRankAtMost(int index, int rank) {
    const Shape shape = Input(index);
    if (shape.known_rank() && shape.rank() > rank) {
      Invalid("input ", index, " must have rank ", rank, " at most; its shape is ", shape);
      return Shape();
    }
    return shape;
  }

  // The elements of an integer input whose value is known, which it need not be: a shape function does without too.
  std::optional<std::vector<int64_t>> Integers(int index) {
    tenon_tensor_view view{};
    if (!Check(services_->input_value(context_, index, &view)) || view.dl.data == nullptr) {
      return std::nullopt;
    }
    return IntegersOf(view);
  }
  // The one element of an integer input whose value is known.
  std::optional<int64_t> Integer(int index) {
    const auto values = Integers(index);
    if (!values.has_value() || !IsInteger(input_type(index))) return std::nullopt;
    if (values->size() != 1) {
      Invalid("input ", index, " must hold one number; it holds ", values->size());
      return std::nullopt;
    }
    return values->front();
  }
  // The one element of a real input of any type whose value is known.
  std::optional<double> Number(int index) {
    tenon_tensor_view view{};
    if (!Check(services_->input_value(context_, index, &view)) || view.dl.data == nullptr) {
      return std::nullopt;
    }
    double value = 0;
    if (!DecodeElement(Data<const char>(view), view.dtype, &value)) return std::nullopt;
    return value;
  }
  // A known axis of a tensor of `rank` (known): negative ones counted from the end, range checked.
  std::optional<int> Axis(int index, int rank) {
    const auto value = Integer(index);
    return value.has_value() ? CheckAxis(*value, rank) : std::nullopt;
  }
  std::optional<int> CheckAxis(int64_t axis, int rank) {
    if (axis < -rank || axis >= rank) {
      Invalid("axis ", axis, " is outside of [", -rank, ", ", rank, ") of a tensor of rank ", rank);
      return std::nullopt;
    }
    return static_cast<int>(axis < 0 ? axis + rank : axis);
  }
  // The input's value as a shape, perhaps partly known.
  Shape InputAsShape(int index) {
    tenon_shape shape{nullptr, -1, 0};
    if (!Check(services_->input_value_as_shape(context_, index, &shape))) return Shape();
    return Shape(shape);
  }

  // The sizes that an int32 or int64 scalar or vector input holds, one dim an element, below 0 where one is not known;
  // nothing: none is. For SetElements.
  std::optional<std::vector<int64_t>> Elements(int index) {
    tenon_shape elements{nullptr, -1, 0};
    if (!ok() || !TENON_HAS(services_, input_elements) ||
        !Check(services_->input_elements(context_, index, &elements)) || elements.rank < 0)
      return std::nullopt;
    return std::vector<int64_t>(elements.dims, elements.dims + elements.rank);
  }

  // The same for a shape that is asked for (Fill, random numbers): a vector without negative dims.
  Shape WantedShape(int index) {
    const Shape vector = WithRank(index, 1);
    if (const auto values = Integers(index)) {
      for (int64_t value : *values) {
        if (value < 0) Invalid("the shape ", *values, " has a negative dim");
      }
      return Shape(*values);
    }
    const Shape partly = InputAsShape(index);
    if (partly.known_rank() || vector[0] < 0 || vector[0] > TENON_MAX_RANK) return partly;
    return Shape::OfRank(static_cast<int>(vector[0]));
  }

  // What a resource refers to: a variable's shape and dtype.
  struct Handle {
    Shape shape;
    uint32_t dtype = TENON_DT_INVALID;  // when unknown
  };
  Handle InputHandle(int index) {
    tenon_shape shape{nullptr, -1, 0};
    uint32_t dtype = TENON_DT_INVALID;
    if (!Check(services_->input_handle(context_, index, &shape, &dtype))) return {};
    return {Shape(shape), dtype};
  }

  // ---- Arithmetic on dims; unknown stays unknown ----

  // What both say. what: for the message, "inner dims".
  int64_t Merge(int64_t a, int64_t b, std::string_view what) {
    if (a >= 0 && b >= 0 && a != b) Invalid(what, " differ: ", a, " and ", b);
    return Known(a, b);
  }
  Shape Merge(const Shape& a, const Shape& b, std::string_view what) {
    if (!a.known_rank()) return b;
    if (!b.known_rank()) return a;
    if (a.rank() != b.rank()) {
      Invalid(what, " differ: ", a, " and ", b);
      return a;
    }
    Shape out = a;
    for (int i = 0; i < a.rank(); ++i) {
      if (a[i] >= 0 && b[i] >= 0 && a[i] != b[i]) Invalid(what, " differ: ", a, " and ", b);
      out.Set(i, Known(a[i], b[i]));
    }
    return out;
  }
  // INVALID_ARGUMENT where int64 does not hold the result.
  int64_t Add(int64_t a, int64_t b) {
    if (a < 0 || b < 0)
      return TENON_HAS(services_, dim_sum) ? services_->dim_sum(context_, a, b) : kUnknown;
    int64_t sum = 0;
    if (__builtin_add_overflow(a, b, &sum)) {
      Invalid("the dim ", a, " + ", b, " is too large");
      return kUnknown;
    }
    return sum;
  }
  int64_t Multiply(int64_t a, int64_t b) {
    if (a < 0 || b < 0)
      return TENON_HAS(services_, dim_product) ? services_->dim_product(context_, a, b) : kUnknown;
    int64_t product = 0;
    if (!MultiplyFits(a, b, &product)) {
      Invalid("the dim ", a, " * ", b, " is too large");
      return kUnknown;
    }
    return product;
  }

  // a / b where it is whole, whatever is not known of them; else unknown.
  int64_t Divide(int64_t a, int64_t b) {
    if (a < 0 || b < 0)
      return TENON_HAS(services_, dim_quotient) ? services_->dim_quotient(context_, a, b) : kUnknown;
    return b != 0 && a % b == 0 ? a / b : kUnknown;
  }
  // The product of a shape's dims; unknown where its rank is, or where int64 does not hold it.
  int64_t Count(const Shape& shape) {
    int64_t product = shape.known_rank() ? 1 : kUnknown;
    for (const int64_t dim : shape.dims()) {
      const bool is_number = product >= 0 && dim >= 0;
      if (is_number && !MultiplyFits(product, dim, &product)) return kUnknown;
      if (!is_number) product = Multiply(product, dim);
    }
    return product;
  }

  // The shape to which a and b broadcast, aligned at the last dim, where 1 goes with any; nullopt when they do not fit.
  static std::optional<Shape> BroadcastOf(const Shape& a, const Shape& b) {
    if (!a.known_rank() || !b.known_rank()) return Shape();
    const int rank = std::max(a.rank(), b.rank());
    Shape out = Shape::OfRank(rank);
    for (int i = 1; i <= rank; ++i) {
      const int64_t x = i <= a.rank() ? a[-i] : 1;
      const int64_t y = i <= b.rank() ? b[-i] : 1;
      if (x == 1) {
        out.Set(-i, y);
      } else if (y == 1 || x == y) {
        out.Set(-i, x);
      } else if (x >= 0 && y >= 0) {
        return std::nullopt;
      } else {
        // The unknown one is 1 or equal to the other, which is not 1 if it is known.
        out.Set(-i, x >= 0 ? x : y >= 0 ? y : kUnknown);
      }
    }
    return out;
  }
  Shape Broadcast(const Shape& a, const Shape& b) {
    const auto shape = BroadcastOf(a, b);
    if (!shape.has_value()) {
      Invalid("shapes ", a, " and ", b, " do not broadcast against each other");
      return Shape();
    }
    return *shape;
  }

  // ---- Outputs ----

  // INVALID_ARGUMENT for a dim below -1, a rank above TENON_MAX_RANK, or more elements than int64 counts.
  void SetOutput(int index, const Shape& shape) {
    if (!ok()) return;
    for (int64_t dim : shape.dims()) {
      if (dim < kUnknown && dim > TENON_DIM_NAMES)
        return Invalid("output ", index, " would have the negative dim ", dim);
    }
    if (shape.rank() > TENON_MAX_RANK) {
      return Invalid("output ", index, " would have rank ", shape.rank(), "; the largest is ", TENON_MAX_RANK);
    }
    if (shape.fully_known() && shape.elements() < 0) {
      return Invalid("output ", index, " would have shape ", shape, ", more elements than int64 counts");
    }
    Check(services_->set_output_shape(context_, index, shape.view()));
  }
  // Says the value of an int32 or int64 output of the given shape, one number an element; it is copied.
  // INVALID_ARGUMENT when int32 cannot hold one.
  void SetOutputValue(int index, const Shape& shape, const std::vector<int64_t>& values) {
    if (!ok()) return;
    std::vector<int64_t> dims = shape.dims();
    tenon_tensor_view view{};
    view.dtype = output_type(index);
    view.flags = TENON_VIEW_HOST_VISIBLE | TENON_VIEW_READ_ONLY;
    view.dl.device_type = 1;
    view.dl.ndim = shape.rank();
    view.dl.shape = dims.data();
    view.dl.dtype = DlType(view.dtype);
    view.byte_size = values.size() * ElementSize(view.dtype);
    std::vector<int32_t> narrow;
    std::vector<int64_t> wide = values;
    if (view.dtype == TENON_DT_INT32) {
      for (int64_t value : values) {
        if (value != static_cast<int32_t>(value)) {
          return Invalid("output ", index, " would hold ", value, ", which int32 cannot; ask for int64");
        }
      }
      narrow.assign(values.begin(), values.end());
      narrow.reserve(1);
      view.dl.data = narrow.data();
    } else {
      wide.reserve(1);
      view.dl.data = wide.data();
    }
    Check(services_->set_output_value(context_, index, &view));
  }
  // Says the sizes that an int32 or int64 scalar or vector output holds, one an element, below 0 where one is not
  // known. The output's shape says the same count.
  void SetElements(int index, const std::vector<int64_t>& elements) {
    if (!ok() || !TENON_HAS(services_, set_output_elements)) return;
    Check(services_->set_output_elements(context_, index, Shape(elements).view()));
  }
  // The output is the input, so that a resource also keeps what is known of what it refers to.
  void PassOn(int output, int input) {
    SetOutput(output, Input(input));
    const Handle handle = InputHandle(input);
    if (handle.dtype != TENON_DT_INVALID) SetOutputHandle(output, handle.shape, handle.dtype);
  }
  void SetOutputHandle(int index, const Shape& shape, uint32_t dtype) {
    if (ok()) Check(services_->set_output_handle(context_, index, shape.view(), dtype));
  }

 private:
  // Of what two say of one dim the one that says more: a number, a name, nothing.
  static int64_t Known(int64_t a, int64_t b) {
    if (a >= 0 || b >= 0) return a >= 0 ? a : b;
    return std::min(a, b);
  }

  const tenon_shape_services* services_;
  tenon_shape_context* context_;
};

// The C function of a shape function in C++.
template <void (*Function)(ShapeContext&)>
tenon_status* ShapeFunction(tenon_plugin_self* self, const tenon_shape_services* services,
                            tenon_shape_context* context) {
  return Guard([&] {
    ShapeContext c(self, services, context);
    Function(c);
    return c.Finish();
  });
}

// ---- Shape functions that many ops share ----

// Output 0 has input 0's shape.
inline void SameShape(ShapeContext& c) { c.SetOutput(0, c.Input(0)); }
// Output 0 is a scalar.
inline void ScalarShape(ShapeContext& c) { c.SetOutput(0, Shape::Scalar()); }
// Output 0 is what inputs 0 and 1 broadcast to.
inline void BroadcastShape(ShapeContext& c) { c.SetOutput(0, c.Broadcast(c.Input(0), c.Input(1))); }
// Inputs 0 and 1 have one shape, which is output 0's.
inline void EqualShapes(ShapeContext& c) {
  c.SetOutput(0, c.Merge(c.Input(0), c.Input(1), "the shapes of inputs 0 and 1"));
}

}  // namespace tenon::sdk
#endif  // TENON_SDK_OP_SHAPE_FUNCTION_H_
