// SPDX-License-Identifier: Apache-2.0
// Optionals: variants of type "tenon.Optional" that hold some tensors, or nothing.
#include <vector>

#include "element.h"
#include "tenon/sdk/kernel/variant.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

constexpr std::string_view kOptionalType = "tenon.Optional", kSome = "some";

void GiveOptional(const RunContext& c, std::string_view metadata, const std::vector<tenon_tensor_view>& elements) {
  tenon_variant* made = nullptr;
  Check(c.services().variant_new(c.frame(), ToSpan(kOptionalType), ToSpan(metadata), elements.data(), elements.size(), &made));
  SetVariant(c, 0, made);
}

struct None {
  void Run(RunContext c) const { GiveOptional(c, "", {}); }
};

struct FromValue {
  void Run(RunContext c) const {
    std::vector<KeptTensor> kept;
    std::vector<tenon_tensor_view> elements;
    for (int32_t i = 0; i < c.input_count(); ++i) kept.push_back(KeptTensor::OfInput(c, i));
    for (const KeptTensor& tensor : kept) elements.push_back(tensor.view());
    GiveOptional(c, kSome, elements);
  }
};

// The input, and whether it has values.
const tenon_variant* OptionalOf(const RunContext& c, tenon_variant_info* info) {
  const tenon_tensor_view& view = c.input_view(0);
  if (view.dl.ndim != 0) Fail(TENON_INVALID_ARGUMENT, "the input must be one optional; its shape is ", DimsOf(view));
  const tenon_variant* variant = VariantOf(view);
  if (variant != nullptr) c.services().variant_info(variant, info);
  if (ToText(info->type) != kOptionalType) Fail(TENON_INVALID_ARGUMENT, "the input is no optional, but ", variant == nullptr ? "an empty variant" : ToText(info->type));
  return variant;
}

struct HasValue {
  void Run(RunContext c) const {
    tenon_variant_info info{};
    OptionalOf(c, &info);
    *c.output<bool>(0) = ToText(info.metadata) == kSome;
  }
};

struct GetValue {
  explicit GetValue(CreateContext& c) : types(c.Types("output_types")), shapes(c.Shapes("output_shapes")) {}
  void Run(RunContext c) const {
    tenon_variant_info info{};
    const tenon_variant* variant = OptionalOf(c, &info);
    if (ToText(info.metadata) != kSome) Fail(TENON_INVALID_ARGUMENT, "The given optional does not have a value.");
    if (static_cast<int32_t>(info.element_count) != c.output_count())
      Fail(TENON_INVALID_ARGUMENT, "the optional holds ", info.element_count, " tensors, ", c.output_count(), " are asked for");
    for (int32_t i = 0; i < c.output_count(); ++i) {
      tenon_tensor_view element{};
      c.services().variant_element(variant, static_cast<uint64_t>(i), &element);
      const uint32_t wanted = types[static_cast<size_t>(i)];  // the view of an output that is not made yet may have none
      if (element.dtype != wanted) Fail(TENON_INVALID_ARGUMENT, "value ", i, " of the optional is ", TypeName(element.dtype), "; ", TypeName(wanted), " is asked for");
      if (const Shape& shape = shapes[static_cast<size_t>(i)]; !Fits(ShapeOf(element), shape))
        Fail(TENON_INVALID_ARGUMENT, "value ", i, " of the optional has shape ", ShapeOf(element), "; ", shape, " is asked for");
      Check(c.services().set_output(c.frame(), i, &element));
    }
  }
  std::vector<uint32_t> types;
  std::vector<Shape> shapes;
};

constexpr Traits kGives = {.dynamic_outputs = TENON_DYNAMIC_ALL};

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
  const int64_t values = g.Node("OptionalGetValue", {g.dy(0)}, {{"output_types", g.Raw("Toutput_types")}, {"output_shapes", shapes}});
  for (int i = 0; i < g.input_count(); ++i) g.SetDx(i, {values, i, 0});
}
void GetValueGradient(GradientContext& g) {
  std::vector<Output> gradients;
  for (int i = 0; i < g.output_count(); ++i) gradients.push_back(g.dy(i));
  g.SetDx(0, g.Op("OptionalFromValue", gradients));
}

}  // namespace

TENON_KERNEL(kOptionalNoneKernel) = Registration<None>("OptionalNone", kGives);
TENON_KERNEL(kOptionalFromValueKernel) = Registration<FromValue>("OptionalFromValue", kGives);
TENON_KERNEL(kOptionalHasValueKernel) = Registration<HasValue>("OptionalHasValue", {});
TENON_KERNEL(kOptionalGetValueKernel) = Registration<GetValue>("OptionalGetValue", kGives);

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
