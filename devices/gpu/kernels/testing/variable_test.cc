// SPDX-License-Identifier: Apache-2.0
// Variables and random numbers of the GPU plugins against the CPU's, on the emulated grid.
#include <cstring>

#include "tests/device/tested.h"

namespace tenon::device_test {
namespace {

TEST(GpuVariables, AreAssignedReadAndAddedTo) {
  Bench bench;
  tenon_resource r;
  std::vector<Tensor> out;
  const DeviceCase read = {"ReadVariableOp", {}, {VariableInput()}, {{TENON_DT_FLOAT, {3}}}};
  EXPECT_EQ(bench.OnDevice(read, &out, {&r}), "FAILED_PRECONDITION: the variable has no value");
  EXPECT_EQ(bench.OnDevice({"AssignVariableOp", {}, {VariableInput(), Floats({3}, {1, 2, 3})}, {}}, &out, {&r}), "");
  EXPECT_EQ(bench.OnDevice({"AssignAddVariableOp", {}, {VariableInput(), Floats({3}, {10, 20, 30})}, {}}, &out, {&r}),
            "");
  EXPECT_EQ(bench.OnDevice({"AssignSubVariableOp", {}, {VariableInput(), Floats({3}, {1, 1, 1})}, {}}, &out, {&r}), "");
  EXPECT_EQ(bench.OnDevice({"AssignSubVariableOp", {}, {VariableInput(), Floats({2}, {1, 1})}, {}}, &out, {&r}),
            "INVALID_ARGUMENT: the variable has another shape or dtype");
  EXPECT_EQ(bench.OnDevice(read, &out, {&r}), "");
  EXPECT_EQ(Values<float>(out[0]), (std::vector<float>{10, 21, 32}));
  EXPECT_EQ(r.updates, 3);
  EXPECT_EQ(r.commits, 3);
}

TEST(GpuVariables, OfEveryTypeAreTheCpus) {
  Bench bench;
  std::vector<Tensor> out;
  for (const uint32_t dtype : {TENON_DT_FLOAT, TENON_DT_DOUBLE, TENON_DT_HALF, TENON_DT_BFLOAT16, TENON_DT_INT8,
                               TENON_DT_INT16, TENON_DT_INT32, TENON_DT_INT64, TENON_DT_UINT8, TENON_DT_UINT16,
                               TENON_DT_UINT32, TENON_DT_UINT64, TENON_DT_COMPLEX64, TENON_DT_COMPLEX128}) {
    for (const Dimensions& dims : {Dimensions{}, Dimensions{0, 3}, Dimensions{257}}) {
      Twin v(bench, ValuesOf(dtype, RandomFloatsOf(dims, 1, 0, 1), 100));
      for (const char* op : {"AssignAddVariableOp", "AssignSubVariableOp", "AssignSubVariableOp", "AssignVariableOp"}) {
        const DeviceCase given = {
            op, {{"dtype", Type{dtype}}}, {VariableInput(), ValuesOf(dtype, RandomFloatsOf(dims, 2, 0, 1), 100)}, {}};
        EXPECT_EQ(bench.OnDevice(given, &out, {&v.on_device}), "") << op;
        EXPECT_EQ(bench.OnCpu(given, &out, {&v.on_cpu}), "") << op;
        EXPECT_EQ(v.Differ(bench, 0), "") << op << " of dtype " << dtype;
      }
    }
  }
}

TEST(GpuVariables, OfReferencesAreGivenOn) {
  Bench bench;
  tenon_resource r;
  std::vector<Tensor> out;
  // A reference output is a resource in the host's memory.
  const auto run = [&](const char* op, const Tensor& value) {
    Tensor reference = {TENON_DT_INT64, {1}};  // as large as the handle
    const std::string text = bench.OnDevice(
        {op, {{"validate_shape", true}, {"T", Type{TENON_DT_FLOAT}}}, {VariableInput(), value}, {reference}, {}, {0}},
        &out, {&r});
    EXPECT_EQ(reinterpret_cast<tenon_resource*>(Values<int64_t>(out[0])[0]), &r);
    return text;
  };
  EXPECT_EQ(run("Assign", Floats({2}, {1, 2})), "");
  EXPECT_EQ(run("AssignAdd", Floats({2}, {1, 2})), "");
  EXPECT_EQ(run("AssignSub", Floats({2}, {0, 5})), "");
  EXPECT_EQ(Values<float>(bench.Downloaded(r.value)), (std::vector<float>{2, -1}));
  EXPECT_EQ(run("Assign", Floats({3}, {1, 2, 3})),
            "INVALID_ARGUMENT: Assign requires shapes of both tensors to match. lhs shape= [2] rhs shape= [3]");
}

// An op's variables on both sides, and its other inputs.
struct Training {
  std::string Step(Bench& bench) {
    DeviceCase given = {op, attributes, {}, {}};
    given.attributes["T"] = Type{dtype};
    std::vector<tenon_resource*> on_device, on_cpu;
    for (const auto& twin : twins) {
      given.inputs.push_back(VariableInput());
      on_device.push_back(&twin->on_device);
      on_cpu.push_back(&twin->on_cpu);
    }
    for (const Tensor& other : others)
      given.inputs.push_back(other.dtype == TENON_DT_FLOAT ? ValuesOf(dtype, other, 100) : other);
    std::vector<Tensor> out;
    std::string text = bench.OnCpu(given, &out, on_cpu);
    if (!text.empty()) return "on the CPU: " + text;
    return bench.OnDevice(given, &out, on_device);
  }
  std::string op;
  uint32_t dtype;
  Attributes attributes;
  std::vector<std::unique_ptr<Twin>> twins;
  std::vector<Tensor> others;  // after the variables
};
struct StepCase {
  const char* op;
  size_t variables;
  std::vector<Tensor> others;
  Attributes attributes = {};
  bool is_close = false;  // of halves, which may be rounded another way once
};
Tensor Scalar(float x) { return Floats({}, {x}); }
constexpr uint32_t kFloatTypes[] = {TENON_DT_FLOAT, TENON_DT_DOUBLE, TENON_DT_HALF, TENON_DT_BFLOAT16};

void ExpectTheCpus(Bench& bench, const StepCase& c, uint32_t dtype, const Dimensions& dims) {
  Training training = {c.op, dtype, c.attributes, {}, c.others};
  for (size_t i = 0; i < c.variables; ++i) {
    training.twins.push_back(std::make_unique<Twin>(
        bench, ValuesOf(dtype, RandomFloatsOf(dims, static_cast<uint32_t>(20 + i), 0.1f, 1), 100)));
  }
  for (int step = 0; step < 3; ++step) EXPECT_EQ(training.Step(bench), "") << c.op;
  for (size_t i = 0; i < c.variables; ++i) {
    EXPECT_EQ(training.twins[i]->Differ(bench, c.is_close ? ToleranceOf(dtype, 1e-6) : 1e-6), "")
        << c.op << " variable " << i << " of dtype " << dtype;
    EXPECT_EQ(training.twins[i]->on_device.commits, 3);
  }
}

TEST(GpuOptimizers, StepAsTheCpusDo) {
  Bench bench;
  const Tensor rate = Scalar(0.1f), power = Scalar(-0.5f), other_power = Scalar(-0.75f);
  for (const int64_t n : {19, 0, 1000}) {
    const Tensor gradient = RandomFloatsOf({n}, 3);
    const StepCase cases[] = {
        {"ResourceApplyGradientDescent", 1, {rate, gradient}},
        {"ResourceApplyMomentum", 2, {rate, gradient, Scalar(0.9f)}, {{"use_nesterov", false}}},
        {"ResourceApplyMomentum", 2, {rate, gradient, Scalar(0.9f)}, {{"use_nesterov", true}}},
        {"ResourceApplyKerasMomentum", 2, {rate, gradient, Scalar(0.9f)}, {{"use_nesterov", true}}},
        {"ResourceApplyAdagrad", 2, {rate, gradient}, {{"update_slots", true}}},
        {"ResourceApplyAdagrad", 2, {rate, gradient}, {{"update_slots", false}}},
        {"ResourceApplyAdagradV2", 2, {rate, Scalar(1e-3f), gradient}},
        {"ResourceApplyAdam",
         3,
         {Scalar(0.9f), Scalar(0.99f), rate, Scalar(0.9f), Scalar(0.99f), Scalar(1e-3f), gradient}},
        {"ResourceApplyAdam",
         3,
         {Scalar(0.9f), Scalar(0.99f), rate, Scalar(0.9f), Scalar(0.99f), Scalar(1e-3f), gradient},
         {{"use_nesterov", true}}},
        {"ResourceApplyRMSProp", 3, {rate, Scalar(0.9f), Scalar(0.5f), Scalar(1e-3f), gradient}},
        {"ResourceApplyFtrl", 3, {gradient, rate, Scalar(0.01f), Scalar(0.1f), power}},
        {"ResourceApplyFtrl",
         3,
         {gradient, rate, Scalar(0.01f), Scalar(0.1f), other_power},
         {{"multiply_linear_by_lr", true}}},
        {"ResourceApplyFtrlV2", 3, {gradient, rate, Scalar(0.01f), Scalar(0.1f), Scalar(0.2f), power}},
        {"ResourceApplyAdamWithAmsgrad",
         4,
         {Scalar(0.9f), Scalar(0.99f), rate, Scalar(0.9f), Scalar(0.99f), Scalar(1e-3f), gradient}},
        {"ResourceApplyAdaMax", 3, {Scalar(0.9f), rate, Scalar(0.9f), Scalar(0.99f), Scalar(1e-3f), gradient}},
        {"ResourceApplyAdadelta", 3, {rate, Scalar(0.9f), Scalar(1e-3f), gradient}, {}, true},
        {"ResourceApplyCenteredRMSProp", 4, {Scalar(0.01f), Scalar(0.1f), Scalar(0.5f), Scalar(1), gradient}},
        {"ResourceApplyAddSign", 2, {rate, Scalar(1), Scalar(0.5f), Scalar(0.9f), gradient}},
        {"ResourceApplyPowerSign", 2, {rate, Scalar(1), Scalar(0.5f), Scalar(0.9f), gradient}},
    };
    for (const StepCase& c : cases) {
      for (const uint32_t dtype : kFloatTypes) ExpectTheCpus(bench, c, dtype, {n});
    }
    const StepCase wide[] = {
        {"ResourceApplyProximalGradientDescent", 1, {rate, Scalar(0.1f), Scalar(0.2f), gradient}},
        {"ResourceApplyProximalAdagrad", 2, {rate, Scalar(0.1f), Scalar(0.2f), gradient}},
        {"ResourceApplyAdagradDA", 3, {gradient, rate, Scalar(0.1f), Scalar(0.2f), Make<int64_t>({}, {3})}},
    };
    for (const StepCase& c : wide) {
      for (const uint32_t dtype : {TENON_DT_FLOAT, TENON_DT_DOUBLE}) ExpectTheCpus(bench, c, dtype, {n});
    }
  }
}

TEST(GpuOptimizers, StepSomeRowsAsTheCpusDo) {
  Bench bench;
  const Tensor rate = Scalar(0.1f);
  const Dimensions dims = {7, 3, 11};
  std::vector<int64_t> many(300);
  for (size_t i = 0; i < many.size(); ++i) many[i] = static_cast<int64_t>(i * i % 7);
  for (const Tensor& indices : {Ints({5, 0, 5, 2}), Make<int64_t>({2, 150}, many), Ints({})}) {
    Dimensions shape = indices.dims;
    shape.insert(shape.end(), {3, 11});
    const Tensor gradient = RandomFloatsOf(shape, 3);
    const StepCase cases[] = {
        {"ResourceSparseApplyMomentum", 2, {rate, gradient, indices, Scalar(0.9f)}, {{"use_nesterov", false}}},
        {"ResourceSparseApplyKerasMomentum", 2, {rate, gradient, indices, Scalar(0.9f)}, {{"use_nesterov", true}}},
        {"ResourceSparseApplyAdagrad", 2, {rate, gradient, indices}},
        {"ResourceSparseApplyRMSProp", 3, {rate, Scalar(0.9f), Scalar(0.5f), Scalar(1e-3f), gradient, indices}},
        {"ResourceSparseApplyFtrl", 3, {gradient, indices, rate, Scalar(0.01f), Scalar(0.1f), Scalar(-0.5f)}},
        {"ResourceSparseApplyFtrlV2",
         3,
         {gradient, indices, rate, Scalar(0.01f), Scalar(0.1f), Scalar(0.2f), Scalar(-0.5f)}},
        {"ResourceSparseApplyAdagradV2", 2, {rate, Scalar(1e-3f), gradient, indices}},
        {"ResourceSparseApplyAdadelta", 3, {rate, Scalar(0.9f), Scalar(1e-3f), gradient, indices}},
        {"ResourceSparseApplyCenteredRMSProp",
         4,
         {Scalar(0.01f), Scalar(0.1f), Scalar(0.5f), Scalar(1), gradient, indices}},
        {"ResourceSparseApplyProximalGradientDescent", 1, {rate, Scalar(0.1f), Scalar(0.2f), gradient, indices}},
        {"ResourceSparseApplyProximalAdagrad", 2, {rate, Scalar(0.1f), Scalar(0.2f), gradient, indices}},
        {"ResourceSparseApplyAdagradDA",
         3,
         {gradient, indices, rate, Scalar(0.1f), Scalar(0.2f), Make<int64_t>({}, {3})}},
    };
    for (StepCase c : cases) {
      c.attributes["Tindices"] = Type{indices.dtype};
      for (const uint32_t dtype : {TENON_DT_FLOAT, TENON_DT_DOUBLE}) ExpectTheCpus(bench, c, dtype, dims);
    }
    // Rounded after each of many steps, halves are the CPU's too.
    StepCase adagrad = cases[2];
    adagrad.attributes["Tindices"] = Type{indices.dtype};
    for (const uint32_t dtype : {TENON_DT_HALF, TENON_DT_BFLOAT16}) ExpectTheCpus(bench, adagrad, dtype, dims);
  }
}

TEST(GpuOptimizers, SayWhichRowOrScalarIsBad) {
  Bench bench;
  std::vector<Tensor> out;
  const auto run = [&](const std::string& op, size_t variables, const std::vector<Tensor>& others) {
    std::vector<std::unique_ptr<Twin>> twins;
    std::vector<tenon_resource*> on_device;
    DeviceCase given = {op, {{"T", Type{TENON_DT_FLOAT}}, {"Tindices", Type{TENON_DT_INT32}}}, {}, {}};
    for (size_t i = 0; i < variables; ++i) {
      twins.push_back(std::make_unique<Twin>(bench, RandomFloatsOf({3, 2}, 1, 0.1f, 1)));
      given.inputs.push_back(VariableInput());
      on_device.push_back(&twins.back()->on_device);
    }
    given.inputs.insert(given.inputs.end(), others.begin(), others.end());
    return bench.OnDevice(given, &out, on_device);
  };
  const Tensor gradient = RandomFloatsOf({2, 2});
  const auto contains = [](const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
  };
  std::string text = run("ResourceSparseApplyAdagrad", 2, {Scalar(0.1f), gradient, Ints({1, 3})});
  EXPECT_TRUE(contains(text, "INVALID_ARGUMENT") && contains(text, "indices[1] = 3 is not in [0, 3)")) << text;
  text = run("ResourceSparseApplyAdagrad", 2, {Scalar(0.1f), gradient, Ints({-1, 1})});
  EXPECT_TRUE(contains(text, "indices[0] = -1 is not in [0, 3)")) << text;
  text =
      run("ResourceSparseApplyFtrl", 3, {gradient, Ints({1, 2}), Scalar(0.1f), Scalar(-1), Scalar(0), Scalar(-0.5f)});
  EXPECT_TRUE(contains(text, "l1 regularization strength is not a non-negative scalar")) << text;
  text = run("ResourceApplyProximalAdagrad", 2, {Scalar(0), Scalar(0.1f), Scalar(0.2f), RandomFloatsOf({3, 2})});
  EXPECT_TRUE(contains(text, "lr is not a positive scalar")) << text;
  text = run("ResourceSparseApplyFtrlV2", 3,
             {gradient, Ints({1, 2}), Scalar(0.1f), Scalar(0), Scalar(0), Scalar(0), Scalar(0.5f)});
  EXPECT_TRUE(contains(text, "lr_power is not a non-positive scalar")) << text;
  text = run("ResourceSparseApplyAdagrad", 2, {Scalar(0.1f), RandomFloatsOf({3, 2}), Ints({0, 1})});
  EXPECT_EQ(text, "INVALID_ARGUMENT: a gradient of shape [3,2] does not fit 2 rows of a variable of shape [3,2]");
}

// ---- Random numbers ----

TEST(GpuRandom, GivesTheCpusStream) {
  Bench bench;
  for (const uint32_t dtype : kFloatTypes) {
    const Attributes seeds = {{"seed", int64_t{7}}, {"seed2", int64_t{9}}, {"dtype", Type{dtype}}};
    for (const char* op : {"RandomUniform", "RandomStandardNormal", "TruncatedNormal"}) {
      for (const Dimensions& dims : {Dimensions{3}, Dimensions{5, 207}, Dimensions{0}, Dimensions{}}) {
        const std::vector<int32_t> shape(dims.begin(), dims.end());
        EXPECT_EQ(Compare(bench, {op, seeds, {Ints(shape)}, {{dtype, dims}}, {0}}, 1e-7), "") << dtype;
      }
    }
  }
  for (const uint32_t dtype : {TENON_DT_INT32, TENON_DT_INT64}) {
    const Attributes whole = {{"seed", int64_t{7}}, {"seed2", int64_t{9}}, {"Tout", Type{dtype}}};
    const auto bound = [&](int64_t x) {
      return dtype == TENON_DT_INT32 ? Int(static_cast<int32_t>(x)) : Make<int64_t>({}, {x});
    };
    EXPECT_EQ(
        Compare(bench, {"RandomUniformInt", whole, {Ints({1111}), bound(-5), bound(100)}, {{dtype, {1111}}}, {0, 1, 2}},
                0),
        "");
    std::vector<Tensor> out;
    EXPECT_EQ(
        bench.OnDevice({"RandomUniformInt", whole, {Ints({1}), bound(5), bound(5)}, {{dtype, {1}}}, {0, 1, 2}}, &out),
        "INVALID_ARGUMENT: Need minval < maxval, got 5 >= 5");
  }
}

TEST(GpuRandom, WithoutAStateIsTheCpus) {
  Bench bench;
  const Tensor key = Make<uint64_t>({1}, {UINT64_C(0x123456789abcdef)}),
               counter = Make<uint64_t>({2}, {UINT64_MAX - 3, 17});
  for (const bool constant : {true, false}) {
    for (const uint32_t dtype : kFloatTypes) {
      const Attributes attributes = {{"dtype", Type{dtype}}};
      DeviceCase seeded = {
          "StatelessRandomUniform", attributes, {Ints({401}), Make<int64_t>({2}, {-3, 8})}, {{dtype, {401}}}, {0, 1}};
      seeded.constant = constant;
      EXPECT_EQ(Compare(bench, seeded, 0), "");
      for (const char* op : {"StatelessRandomNormal", "StatelessTruncatedNormal"}) {
        seeded.op = op;
        EXPECT_EQ(Compare(bench, seeded, 1e-7), "") << op;
      }
      for (const char* op : {"StatelessRandomUniformV2", "StatelessRandomNormalV2", "StatelessTruncatedNormalV2"}) {
        DeviceCase keyed = {op, attributes, {Ints({403}), key, counter, Int(1)}, {{dtype, {403}}}, {0, 1, 2, 3}};
        keyed.constant = constant;
        EXPECT_EQ(Compare(bench, keyed, 1e-7), "");
      }
    }
  }
  const Attributes attributes = {{"dtype", Type{TENON_DT_FLOAT}}};
  std::vector<Tensor> out;
  EXPECT_EQ(bench.OnDevice({"StatelessRandomUniformV2",
                            attributes,
                            {Ints({4}), key, counter, Int(2)},
                            {{TENON_DT_FLOAT, {4}}},
                            {0, 1, 2, 3}},
                           &out),
            "INVALID_ARGUMENT: algorithm 2; GPUs have 1, Philox, and 3, their own choice");
  EXPECT_EQ(Compare(bench,
                    {"StatelessRandomGetKeyCounter",
                     {},
                     {Ints({5, 6})},
                     {{TENON_DT_UINT64, {1}}, {TENON_DT_UINT64, {2}}},
                     {0},
                     {0, 1}},
                    0),
            "");
}

}  // namespace
}  // namespace tenon::device_test
