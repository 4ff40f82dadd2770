// SPDX-License-Identifier: Apache-2.0
// Opens the templates, built out of tree against an installed prefix, and uses what they provide as a host would.
// Covers A11, O5.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/fakes/plugins/fixture.h"
#include "plugins/loader.h"
#include "tenon/device.h"
#include "tenon/kernel.h"
#include "tenon/op.h"

namespace tenon::plugins {
namespace {

// "": built against the headers of today; "/longer": against those of a later minor version, whose structs are longer
// than the host's;
// "/changed_draft": against headers with a draft that is not the host's, which these do not use.
class Templates : public testing::TestWithParam<const char*> {
 protected:
  Templates() : loader_(&TestHost(), Options()) { loader_.Scan(); }

  static LoaderOptions Options() {
    const std::string folder = std::string(TENON_CONSUME_FOLDER) + GetParam();
    LoaderOptions options;
    options.search.paths = {folder + "/op_plugin/lib/tenon/plugins", folder + "/null_device/lib/tenon/plugins"};
    options.search.explicit_only = true;
    return options;
  }

  template <typename Table>
  const Table* Open(const char* id, const char* capability) {
    const OpenResult result = loader_.Open(id);
    EXPECT_NE(result.plugin, nullptr) << result.report.text;
    return result.plugin == nullptr ? nullptr : static_cast<const Table*>(result.plugin->Capability(capability));
  }

  Loader loader_;
};

INSTANTIATE_TEST_SUITE_P(Headers, Templates, testing::Values("", "/longer", "/changed_draft"),
                         [](const auto& info) { return std::string(*info.param == 0 ? "of_today" : info.param + 1); });

TEST_P(Templates, TheirManifestsSayWhatTheyProvide) {
  ASSERT_EQ(loader_.packages().size(), 2u);
  const Manifest& cube = *loader_.packages()[0]->manifest;
  EXPECT_EQ(cube.id, "example.cube");
  EXPECT_EQ(cube.ops, std::vector<std::string>{"Cube"});
  EXPECT_EQ(cube.kernels, std::vector<std::string>{"Cube"});
  EXPECT_EQ(loader_.packages()[1]->manifest->devices, std::vector<std::string>{"NULL"});
}

// A frame with one input and one output, whose parallel_for gives three shares.
struct OneToOne {
  template <typename Number>
  OneToOne(uint32_t dtype, std::vector<Number>* x, std::vector<Number>* y) {
    input.dtype = output.dtype = dtype;
    input.byte_size = output.byte_size = x->size() * sizeof(Number);
    input.dl.data = x->data();
    output.dl.data = y->data();
    services.struct_size = sizeof(services);
    services.parallel_for = [](tenon_frame*, int64_t total, double, tenon_range_function function, void* argument) {
      for (int64_t share = 0; share < 3; ++share) function(argument, total * share / 3, total * (share + 1) / 3);
    };
    frame.struct_size = sizeof(frame);
    frame.inputs = inputs;
    frame.outputs = outputs;
    frame.input_count = frame.output_count = 1;
    frame.services = &services;
  }
  tenon_tensor_view input = {}, output = {};
  const tenon_tensor_view* inputs[1] = {&input};
  tenon_tensor_view* outputs[1] = {&output};
  tenon_frame_services services = {};
  tenon_frame frame = {};
};

template <typename Number>
std::vector<Number> Cubes(const tenon_kernel_registration& kernel, uint32_t dtype, std::vector<Number> x) {
  std::vector<Number> y(x.size(), Number(-99));
  OneToOne run(dtype, &x, &y);
  EXPECT_EQ(kernel.run(nullptr, nullptr, &run.frame), nullptr);
  return y;
}

TEST_P(Templates, TheKernelOfCubeCubes) {
  const auto* package = Open<tenon_kernel_package>("example.cube", TENON_CAPABILITY_KERNELS);
  ASSERT_NE(package, nullptr);
  ASSERT_EQ(package->count, 1u);
  const tenon_kernel_registration& kernel = *package->registrations[0];
  EXPECT_EQ(Cubes<float>(kernel, TENON_DT_FLOAT, {0, 1, -2, 0.5f, 3, 10, -1}),
            (std::vector<float>{0, 1, -8, 0.125f, 27, 1000, -1}));
  EXPECT_EQ(Cubes<double>(kernel, TENON_DT_DOUBLE, {0, 1e100, -3}), (std::vector<double>{0, 1e300, -27}));
  EXPECT_TRUE(Cubes<float>(kernel, TENON_DT_FLOAT, {}).empty());
}

TEST_P(Templates, TheShapeOfACubeIsThatOfItsArgument) {
  const auto* package = Open<tenon_op_package>("example.cube", TENON_CAPABILITY_OPS);
  ASSERT_NE(package, nullptr);
  static const int64_t dims[] = {2, -1, 7};
  static tenon_shape given;
  given = {};
  tenon_shape_services services = {};
  services.struct_size = sizeof(services);
  services.input_shape = [](tenon_shape_context*, int32_t index) { return tenon_shape{dims, index == 0 ? 3 : -1, 0}; };
  services.set_output_shape = [](tenon_shape_context*, int32_t, tenon_shape shape) -> tenon_status* {
    given = shape;
    return nullptr;
  };
  ASSERT_EQ(package->definitions[0]->shape(nullptr, &services, nullptr), nullptr);
  EXPECT_EQ(given.rank, 3);
  EXPECT_EQ(given.dims, dims);
}

// A builder that computes: its nodes are numbers.
std::vector<double> values;

TEST_P(Templates, TheGradientOfCubeIsThreeTimesItsSquare) {
  const auto* package = Open<tenon_op_package>("example.cube", TENON_CAPABILITY_OPS);
  ASSERT_NE(package, nullptr);
  tenon_graph_builder builder = {};
  builder.struct_size = sizeof(builder);
  builder.add_node = [](tenon_graph_builder_context*, const tenon_node_spec* spec, int64_t* out_node) -> tenon_status* {
    EXPECT_EQ(View(spec->op), "Mul");
    values.push_back(values[spec->inputs[0].node] * values[spec->inputs[1].node]);
    *out_node = static_cast<int64_t>(values.size()) - 1;
    return nullptr;
  };
  builder.add_constant = [](tenon_graph_builder_context*, const tenon_tensor_view* value,
                            tenon_output* out_output) -> tenon_status* {
    EXPECT_EQ(value->dl.ndim, 0);
    EXPECT_EQ(value->byte_size * 8, value->dl.dtype.bits);
    double number = 0;
    if (value->dtype == TENON_DT_FLOAT) {
      float single;
      std::memcpy(&single, value->dl.data, sizeof(single));
      number = single;
    } else {
      std::memcpy(&number, value->dl.data, sizeof(number));
    }
    values.push_back(number);
    *out_output = {static_cast<int64_t>(values.size()) - 1, 0, 0};
    return nullptr;
  };
  tenon_node_services node_services = {};
  static uint32_t dtype;
  node_services.input_dtype = [](const tenon_node*, int32_t) { return dtype; };
  for (const uint32_t each : {TENON_DT_FLOAT, TENON_DT_DOUBLE}) {
    dtype = each;
    values = {5.0, 125.0, 0.5};  // x, y, dy
    const tenon_output x = {0, 0, 0}, y = {1, 0, 0};
    tenon_gradient dx = {};
    tenon_gradient_args args = {};
    args.struct_size = sizeof(args);
    args.builder = &builder;
    args.node_services = &node_services;
    args.inputs = &x;
    args.outputs = &y;
    args.dx = &dx;
    args.input_count = args.output_count = 1;
    args.dense_dy = [](const tenon_gradient_args*, int32_t, tenon_output* out_output) -> tenon_status* {
      *out_output = {2, 0, 0};
      return nullptr;
    };
    ASSERT_EQ(package->definitions[0]->gradient(&args), nullptr);
    EXPECT_EQ(dx.kind, TENON_GRADIENT_DENSE);
    EXPECT_EQ(values[dx.dense.node], 3 * 25.0 * 0.5);
  }
}

TEST_P(Templates, TheNullDeviceAllocatesAndRefusesInWords) {
  const auto* driver = Open<tenon_device_driver>("example.null_device", TENON_CAPABILITY_DEVICE);
  ASSERT_NE(driver, nullptr);
  EXPECT_EQ(View(driver->device_type), "NULL");
  uint32_t count = 0;
  ASSERT_EQ(driver->count(nullptr, &count), nullptr);
  EXPECT_EQ(count, 1u);
  tenon_device* device = nullptr;
  const Status missing(driver->open(nullptr, 1, &device));
  EXPECT_EQ(missing.ToString(), "NOT_FOUND: there is one NULL device, of index 0");
  ASSERT_EQ(driver->open(nullptr, 0, &device), nullptr);
  tenon_device_properties properties = {};
  properties.struct_size = sizeof(properties);
  ASSERT_EQ(driver->properties(device, &properties), nullptr);
  EXPECT_EQ(properties.synchronous, 1u);
  EXPECT_EQ(driver->queue_create, nullptr);

  // An older host's struct, whose end is somewhere in ours: nothing behind it is touched.
  tenon_device_properties shorter;
  std::memset(&shorter, 0xA5, sizeof(shorter));
  shorter.struct_size = offsetof(tenon_device_properties, flops);
  shorter.must_understand = 0;
  ASSERT_EQ(driver->properties(device, &shorter), nullptr);
  EXPECT_EQ(shorter.synchronous, 1u);
  const auto* const bytes_of = reinterpret_cast<const unsigned char*>(&shorter);
  for (size_t i = offsetof(tenon_device_properties, flops); i < sizeof(shorter); ++i) ASSERT_EQ(bytes_of[i], 0xA5) << i;
  tenon_memory_kind kind;
  std::memset(&kind, 0xA5, sizeof(kind));
  kind.struct_size = offsetof(tenon_memory_kind, alignment);
  kind.must_understand = 0;
  ASSERT_EQ(driver->memory_kind(device, 0, &kind), nullptr);
  EXPECT_NE(kind.name.size, 0u);
  EXPECT_EQ(kind.flags, 0xA5A5A5A5u);

  for (const uint64_t bytes : {0u, 1u, 100u, 4096u}) {
    void* data = nullptr;
    ASSERT_EQ(driver->allocate(device, 0, bytes, 256, nullptr, &data), nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 256, 0u);
    std::memset(data, 7, bytes);
    driver->free(device, 0, data, bytes, nullptr);
  }
  void* data = nullptr;
  EXPECT_EQ(Status(driver->allocate(device, 0, UINT64_MAX, 64, nullptr, &data)).code(), Code::kResourceExhausted);
  EXPECT_EQ(Status(driver->allocate(device, 1, 8, 64, nullptr, &data)).code(), Code::kInvalidArgument);
  EXPECT_EQ(Status(driver->allocate(device, 0, 8, 65, nullptr, &data)).code(), Code::kInvalidArgument);
  driver->close(device);
}

}  // namespace
}  // namespace tenon::plugins
