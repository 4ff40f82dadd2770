// SPDX-License-Identifier: Apache-2.0
// OptionalNone, OptionalFromValue, OptionalHasValue, OptionalGetValue: see optional.h.
#include "optional.h"

#include <vector>

#include "element.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

struct None {
  void Run(RunContext c) const { GiveOptional(c, std::nullopt); }
};

struct FromValue {
  void Run(RunContext c) const {
    std::vector<KeptTensor> kept;
    std::vector<tenon_tensor_view> elements;
    for (int32_t i = 0; i < c.input_count(); ++i) kept.push_back(KeptTensor::OfInput(c, i));
    for (const KeptTensor& tensor : kept) elements.push_back(tensor.view());
    GiveOptional(c, elements);
  }
};

struct HasValue {
  void Run(RunContext c) const {
    *c.output<bool>(0) = OptionalOf(c, 0).has_value();
  }
};

struct GetValue {
  explicit GetValue(CreateContext& c) : types(c.Types("output_types")), shapes(c.Shapes("output_shapes")) {}
  void Run(RunContext c) const {
    const auto elements = OptionalOf(c, 0);
    if (!elements.has_value()) Fail(TENON_INVALID_ARGUMENT, "The given optional does not have a value.");
    if (static_cast<int32_t>(elements->size()) != c.output_count())
      Fail(TENON_INVALID_ARGUMENT, "the optional holds ", elements->size(), " tensors, ", c.output_count(),
           " are asked for");
    for (int32_t i = 0; i < c.output_count(); ++i) {
      const tenon_tensor_view& element = (*elements)[static_cast<size_t>(i)];
      const uint32_t wanted =
          types[static_cast<size_t>(i)];  // the view of an output that is not made yet may have none
      if (element.dtype != wanted)
        Fail(TENON_INVALID_ARGUMENT, "value ", i, " of the optional is ", TypeName(element.dtype), "; ",
             TypeName(wanted), " is asked for");
      if (const Shape& shape = shapes[static_cast<size_t>(i)]; !Fits(ShapeOf(element), shape))
        Fail(TENON_INVALID_ARGUMENT, "value ", i, " of the optional has shape ", ShapeOf(element), "; ", shape,
             " is asked for");
      Check(c.services().set_output(c.frame(), i, &element));
    }
  }
  std::vector<uint32_t> types;
  std::vector<Shape> shapes;
};

constexpr Traits kOptionalGives = {.dynamic_outputs = TENON_DYNAMIC_ALL};

void OptionalShape(ShapeContext& c) { c.SetOutput(0, Shape::Scalar()); }

void GetValueShape(ShapeContext& c) {
  const std::vector<Shape> shapes = c.Shapes("output_shapes");
  if (c.ok() && static_cast<int>(shapes.size()) != c.output_count())
    return c.Invalid("output_shapes has ", shapes.size(), " shapes for ", c.output_count(), " outputs");
  for (int i = 0; i < c.output_count(); ++i) c.SetOutput(i, shapes[static_cast<size_t>(i)]);
}

// The gradient of an optional is an optional of its values' gradients.
void FromValueGradient(GradientContext& g) {
  const std::vector<tenon_shape> any(static_cast<size_t>(g.input_count()), tenon_shape{nullptr, -1, 0});
  const tenon_attr_value shapes{TENON_ATTR_SHAPE | TENON_ATTR_LIST, 0, any.size(), any.data()};
  const int64_t values =
      g.Node("OptionalGetValue", {g.dy(0)}, {{"output_types", g.Raw("Toutput_types")}, {"output_shapes", shapes}});
  for (int i = 0; i < g.input_count(); ++i) g.SetDx(i, {values, i, 0});
}
void GetValueGradient(GradientContext& g) {
  std::vector<Output> gradients;
  for (int i = 0; i < g.output_count(); ++i) gradients.push_back(g.dy(i));
  g.SetDx(0, g.Op("OptionalFromValue", gradients));
}

}  // namespace

TENON_KERNEL(kOptionalNoneKernel) = Registration<None>("OptionalNone", kOptionalGives);
TENON_KERNEL(kOptionalFromValueKernel) = Registration<FromValue>("OptionalFromValue", kOptionalGives);
TENON_KERNEL(kOptionalHasValueKernel) = Registration<HasValue>("OptionalHasValue", {});
TENON_KERNEL(kOptionalGetValueKernel) = Registration<GetValue>("OptionalGetValue", kOptionalGives);

TENON_OP(kOptionalNone) = DefineOp({
    .name = "OptionalNone",
    .outputs = "optional: variant",
    .doc = "An optional without a value.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<OptionalShape>,
});

TENON_OP(kOptionalFromValue) = DefineOp({
    .name = "OptionalFromValue",
    .inputs = "components: Toutput_types",
    .outputs = "optional: variant",
    .attrs = "Toutput_types: list(type) >= 1",
    .doc = "An optional that holds the components.",
    .shape = ShapeFunction<OptionalShape>,
    .gradient = GradientFunction<FromValueGradient>,
});

TENON_OP(kOptionalHasValue) = DefineOp({
    .name = "OptionalHasValue",
    .inputs = "optional: variant",
    .outputs = "has_value: bool",
    .constraints = "rank(optional) == 0",
    .doc = "Whether an optional holds a value.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<OptionalShape>,
});

TENON_OP(kOptionalGetValue) = DefineOp({
    .name = "OptionalGetValue",
    .inputs = "optional: variant",
    .outputs = "components: output_types",
    .attrs = "output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
    .constraints = "rank(optional) == 0",
    .doc = "What an optional holds, which must be of these types and shapes.",
    .shape = ShapeFunction<GetValueShape>,
    .gradient = GradientFunction<GetValueGradient>,
});

}  // namespace tenon::ops
