// SPDX-License-Identifier: Apache-2.0
// Training through C: a line is fitted, saved, restored and recorded; and what a caller gets wrong. Covers O2, P6.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "sdk/app/model_c/c_test.h"
#include "tenon/data/file.h"
#include "tenon/train.h"
#include "tenon/train/event_file.h"
#include "tests/engine/engine.h"
#include "tests/fakes/temporary_folder.h"

namespace tenon::train_c_test {
namespace {

using engine::TheRuntime;
using model_c::Said, model_c::Sized;
using host::Graph, host::Output, host::Session, host::Span, host::Status, host::Tensor, host::Text;

// y = w x + b, fitted to y = 3 x - 1.
class Line : public testing::Test {
 protected:
  Line() : graph_(TheRuntime()) { EXPECT_EQ(Said(tenon_variables_create(graph_.get(), nullptr, &variables_)), "OK"); }
  ~Line() override {
    tenon_saver_release(saver_);
    tenon_variables_release(variables_);
  }

  tenon_variable_info Variable(const char* name, float initial = 0) {
    auto spec = Sized<tenon_variable_spec>();
    spec.name = Span(name);
    spec.initial = initial;
    auto info = Sized<tenon_variable_info>();
    EXPECT_EQ(Said(tenon_variables_add(variables_, &spec, &info)), "OK");
    return info;
  }
  Output ValueOf(const tenon_variable_info& info) { return Output(graph_.get(), info.value.node, info.value.index); }

  void Build() {
    const Output x = graph_.Const({-1.f, 0.f, 1.f, 2.f}), y = graph_.Const({-4.f, -1.f, 2.f, 5.f});
    w_ = ValueOf(Variable("w", 0.5f));
    b_ = ValueOf(Variable("b"));
    const Output error = graph_.Op("Sub", {graph_.Op("AddV2", {graph_.Op("Mul", {w_, x}), b_}), y});
    loss_ = graph_.Op("Mean", {graph_.Op("Square", {error}), graph_.Const({0})});
    rate_ = graph_.Const(0.1f);
    ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  }
  std::string Minimize(const tenon_optimizer_options* options) {
    return Said(tenon_variables_minimize(variables_, loss_.c_output(), rate_.c_output(), options, &update_));
  }
  std::string NameOf(int64_t node) const { return std::string(Text(tenon_graph_node_name(graph_.get(), node))); }
  Session Begin() {
    int64_t init = -1;
    EXPECT_EQ(Said(tenon_variables_initializer(variables_, &init)), "OK");
    Session session = *Session::Create(TheRuntime(), graph_);
    EXPECT_TRUE(session.RunTargets({NameOf(init)}).ok());
    return session;
  }
  float Value(Session& session, const Output& of) { return (*session.Run({}, {of}))[0].scalar<float>(); }

  Graph graph_;
  tenon_variables* variables_ = nullptr;
  tenon_saver* saver_ = nullptr;
  Output w_, b_, loss_, rate_;
  int64_t update_ = -1;
};

TEST_F(Line, IsFittedByEachOptimizer) {
  Build();
  for (const char* name : {"sgd", "momentum", "adam", "adagrad", "rmsprop"}) {
    auto options = Sized<tenon_optimizer_options>();
    options.name = Span(name);
    if (std::string(name) == "momentum") {
      options.given = TENON_OPTIMIZER_MOMENTUM;
      options.momentum = 0.5f;
    }
    ASSERT_EQ(Minimize(&options), "OK") << name;
    Session session = Begin();
    const float before = Value(session, loss_);
    for (int i = 0; i < 300; ++i) ASSERT_TRUE(session.RunTargets({NameOf(update_)}).ok());
    EXPECT_LT(Value(session, loss_), before * 0.2f) << name;
  }
}

TEST_F(Line, ItsGradientsAreClippedAndAccumulated) {
  Build();
  auto options = Sized<tenon_optimizer_options>();
  options.name = TENON_SPAN("sgd");
  options.clip = TENON_CLIP_GLOBAL_NORM;
  options.clip_limit = 1;
  options.accumulate = 2;
  ASSERT_EQ(Minimize(&options), "OK");
  Session session = Begin();
  ASSERT_TRUE(session.RunTargets({NameOf(update_)}).ok());
  EXPECT_EQ(Value(session, w_), 0.5f) << "changed by the first of two steps";
  ASSERT_TRUE(session.RunTargets({NameOf(update_)}).ok());
  const float dw = Value(session, w_) - 0.5f, db = Value(session, b_);
  EXPECT_NEAR(std::sqrt(dw * dw + db * db), 0.1f, 1e-6) << "the rate times a gradient of norm 1";
  options.clip_limit = 0;
  EXPECT_TRUE(Minimize(&options).starts_with("INVALID_ARGUMENT: gradients cannot be clipped at"));
  options.clip = 9;
  EXPECT_EQ(Minimize(&options), "INVALID_ARGUMENT: 'clip' is 9; give one of TENON_CLIP_*");
}

TEST_F(Line, WhatIsDoneToGradientsInBetweenCounts) {
  Build();
  tenon_output gradients[2];
  ASSERT_EQ(Said(tenon_variables_gradients(variables_, loss_.c_output(), gradients, 2)), "OK");
  EXPECT_EQ(Said(tenon_variables_gradients(variables_, loss_.c_output(), gradients, 1)),
            "INVALID_ARGUMENT: there are 2 trainable variables, and room for 1 gradients");
  const Output twice =
      graph_.Op("Mul", {Output(graph_.get(), gradients[0].node, gradients[0].index), graph_.Const(2.f)});
  gradients[0] = twice.c_output();
  auto sgd = Sized<tenon_optimizer_options>();
  sgd.name = TENON_SPAN("sgd");
  ASSERT_EQ(Said(tenon_variables_apply(variables_, gradients, 2, rate_.c_output(), &sgd, &update_)), "OK");
  Session session = Begin();
  const float gradient = Value(session, twice);
  ASSERT_TRUE(session.RunTargets({NameOf(update_)}).ok());
  EXPECT_FLOAT_EQ(Value(session, w_), 0.5f - 0.1f * gradient);
}

TEST_F(Line, IsSavedAndRestored) {
  Build();
  ASSERT_EQ(Minimize(nullptr), "OK");
  const std::string folder = fakes::TemporaryFolder("model_c");
  auto options = Sized<tenon_saver_options>();
  options.keep = 2;
  ASSERT_EQ(Said(tenon_saver_create(variables_, Span(data::JoinPath(folder, "kept")), &options, &saver_)), "OK");
  Session session = Begin();
  auto restored = Sized<tenon_restored>();
  ASSERT_EQ(Said(tenon_saver_restore_newest(saver_, session.get(), &restored)), "OK");
  EXPECT_EQ(restored.prefix.size, 0u);
  float last = 0;
  for (int64_t step = 1; step <= 4; ++step) {
    ASSERT_TRUE(session.RunTargets({NameOf(update_)}).ok());
    tenon_text* prefix = nullptr;
    ASSERT_EQ(Said(tenon_saver_save(saver_, session.get(), step, nullptr, &prefix)), "OK");
    EXPECT_TRUE(Text(tenon_text_span(prefix)).ends_with("/model.ckpt-" + std::to_string(step)));
    tenon_text_release(prefix);
    last = Value(session, w_);
  }
  EXPECT_FALSE(std::filesystem::exists(data::JoinPath(folder, "kept/model.ckpt-2.index"))) << "more than two are kept";
  Session other = Begin();
  ASSERT_EQ(Said(tenon_saver_restore_newest(saver_, other.get(), &restored)), "OK");
  EXPECT_EQ(restored.step, 4);
  EXPECT_EQ(restored.warnings.size, 0u);
  EXPECT_EQ(Value(other, w_), last);
  EXPECT_TRUE(Said(tenon_saver_restore_from(saver_, other.get(), TENON_SPAN("nowhere"))).starts_with("NOT_FOUND"));
  EXPECT_EQ(Value(other, w_), last) << "a restore that failed changed a variable";
  // Another saver of the same folder is told that it is taken.
  tenon_saver* second = nullptr;
  ASSERT_EQ(Said(tenon_saver_create(variables_, Span(data::JoinPath(folder, "kept")), nullptr, &second)), "OK");
  EXPECT_TRUE(Said(tenon_saver_claim(second)).starts_with("FAILED_PRECONDITION"));
  tenon_saver_release(second);
  ASSERT_EQ(Said(tenon_saver_clear(saver_)), "OK");
  ASSERT_EQ(Said(tenon_saver_restore_newest(saver_, other.get(), &restored)), "OK");
  EXPECT_EQ(restored.prefix.size, 0u);
}

TEST_F(Line, AVariableIsMadeOnce) {
  const tenon_variable_info made = Variable("w");
  const tenon_variable_info again = Variable("w");
  EXPECT_EQ(made.handle.node, again.handle.node);
  EXPECT_EQ(tenon_variables_count(variables_), 1u);
  auto spec = Sized<tenon_variable_spec>();
  spec.name = TENON_SPAN("w");
  const int64_t dims[] = {2};
  spec.shape = {dims, 1, 0};
  auto info = Sized<tenon_variable_info>();
  EXPECT_EQ(Said(tenon_variables_add(variables_, &spec, &info)),
            "INVALID_ARGUMENT: variable 'w': there is a variable of that name, float[] and trained, and it is asked "
            "for as another, float[2]");
  spec.shape = {nullptr, 0, 0};
  spec.kind = TENON_VARIABLE_STATE;
  EXPECT_TRUE(
      Said(tenon_variables_add(variables_, &spec, &info)).starts_with("INVALID_ARGUMENT: variable 'w': there is"));
}

TEST_F(Line, ACallThatFailsDoesNotSpoilTheNext) {
  auto spec = Sized<tenon_variable_spec>();
  auto info = Sized<tenon_variable_info>();
  spec.name = TENON_SPAN("not a name");
  EXPECT_TRUE(
      Said(tenon_variables_add(variables_, &spec, &info)).starts_with("INVALID_ARGUMENT: variable 'not a name':"));
  EXPECT_EQ(tenon_variables_count(variables_), 0u) << "half a variable stayed";
  const int64_t dims[] = {-1};
  spec.name = TENON_SPAN("v");
  spec.shape = {dims, 1, 0};
  EXPECT_EQ(Said(tenon_variables_add(variables_, &spec, &info)),
            "INVALID_ARGUMENT: variable 'v': a variable's shape is known in all its dimensions, found [?]");
  spec.shape = {nullptr, 2, 0};
  EXPECT_EQ(Said(tenon_variables_add(variables_, &spec, &info)),
            "INVALID_ARGUMENT: 'spec.shape.dims' is NULL, with a rank of 2");
  Build();
  auto options = Sized<tenon_optimizer_options>();
  options.name = TENON_SPAN("adamm");
  EXPECT_TRUE(Minimize(&options).starts_with("INVALID_ARGUMENT")) << Minimize(&options);
  options.name = TENON_SPAN("adam");
  options.given = 1u << 20;
  EXPECT_EQ(Minimize(&options), "INVALID_ARGUMENT: 'given' has a bit that is none of TENON_OPTIMIZER_*");
  EXPECT_FALSE(Said(tenon_variables_minimize(variables_, {99999, 0, 0}, rate_.c_output(), nullptr, &update_)) == "OK");
  EXPECT_EQ(Minimize(nullptr), "OK");
}

TEST_F(Line, ScopeAndControlInputsOfTheGraphStayAsTheyAre) {
  tenon_graph_set_scope(graph_.get(), TENON_SPAN("mine"));
  tenon_variables* scoped = nullptr;
  ASSERT_EQ(Said(tenon_variables_create(graph_.get(), nullptr, &scoped)), "OK");
  auto spec = Sized<tenon_variable_spec>();
  spec.name = TENON_SPAN("w");
  auto info = Sized<tenon_variable_info>();
  ASSERT_EQ(Said(tenon_variables_add(scoped, &spec, &info)), "OK");
  EXPECT_EQ(Text(tenon_graph_get_scope(graph_.get())), "mine");
  EXPECT_EQ(tenon_graph_get_control_inputs(graph_.get(), nullptr, 0), 0u);
  tenon_variables_release(scoped);
}

TEST(EventsInC, AreReadBackAsTheyWereWritten) {
  const std::string folder = fakes::TemporaryFolder("model_c");
  tenon_event_writer* writer = nullptr;
  ASSERT_EQ(Said(tenon_event_writer_create(Span(data::JoinPath(folder, "events")), &writer)), "OK");
  const tenon_span tags[] = {TENON_SPAN("loss"), TENON_SPAN("rate")};
  const float values[] = {0.5f, 0.1f};
  ASSERT_EQ(Said(tenon_event_writer_add_scalars(writer, 7, tags, values, 2)), "OK");
  ASSERT_EQ(Said(tenon_event_writer_add_graph(writer, TENON_SPAN("graph bytes"))), "OK");
  ASSERT_EQ(Said(tenon_event_writer_add_summary(writer, 8, TENON_SPAN("summary bytes"))), "OK");
  ASSERT_EQ(Said(tenon_event_writer_add_start(writer, 9)), "OK");
  EXPECT_EQ(Said(tenon_event_writer_add_scalars(writer, 7, nullptr, values, 2)),
            "INVALID_ARGUMENT: 'tags' is NULL, with a count of 2");
  ASSERT_EQ(Said(tenon_event_writer_flush(writer)), "OK");
  const std::string bytes = *data::ReadFile(std::string(Text(tenon_event_writer_path(writer))));
  tenon_event_writer_release(writer);
  train::RecordReader reader(bytes);
  std::vector<std::string> records;
  for (auto record = reader.Next(); record.ok() && record->has_value(); record = reader.Next())
    records.emplace_back(**record);
  ASSERT_EQ(records.size(), 5u);
  EXPECT_NE(records[1].find("loss"), std::string::npos);
  EXPECT_NE(records[2].find("graph bytes"), std::string::npos);
  EXPECT_NE(records[3].find("summary bytes"), std::string::npos);
  EXPECT_EQ(Said(tenon_event_writer_flush(nullptr)), "INVALID_ARGUMENT: 'writer' is NULL");
  tenon_event_writer_release(nullptr);
}

}  // namespace
}  // namespace tenon::train_c_test
