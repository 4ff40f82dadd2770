// SPDX-License-Identifier: Apache-2.0
#include "core/base/plugin_instance.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>

namespace tenon::plugin_instance_test {
namespace {

int g_first = 0, g_second = 0;
tenon_plugin_self* SelfAt(int* of) { return reinterpret_cast<tenon_plugin_self*>(of); }

TEST(PluginInstance, GivesItsSelfAsLongAsItIsOpen) {
  PluginInstance plugin("a.b", SelfAt(&g_first));
  tenon_plugin_self* seen = nullptr;
  const auto ask = [&] {
    return plugin.Call("shape", nullptr, nullptr, [&](tenon_plugin_self* self) -> tenon_status* {
      seen = self;
      return nullptr;
    });
  };
  EXPECT_TRUE(ask().ok());
  EXPECT_EQ(seen, SelfAt(&g_first));
  plugin.Close();
  seen = nullptr;
  EXPECT_EQ(ask().ToString(),
            "FAILED_PRECONDITION: plugin 'a.b' was unloaded: its shape() cannot be called; load it again");
  EXPECT_EQ(seen, nullptr);
  plugin.Open(SelfAt(&g_second));
  EXPECT_TRUE(ask().ok());
  EXPECT_EQ(seen, SelfAt(&g_second));
  EXPECT_EQ(plugin.calls(), 0);
}

TEST(PluginInstance, ACallWithinACallIsRefusedOnceItIsClosedAndTheOuterOneGoesOn) {
  PluginInstance plugin("a.b");
  Status inner;
  const Status outer = plugin.Call("gradient", nullptr, nullptr, [&](tenon_plugin_self*) -> tenon_status* {
    plugin.Close();
    EXPECT_EQ(plugin.calls(), 1);
    inner = plugin.Call("shape", nullptr, nullptr, [](tenon_plugin_self*) -> tenon_status* { return nullptr; });
    return nullptr;
  });
  EXPECT_TRUE(outer.ok());
  EXPECT_EQ(inner.code(), Code::kFailedPrecondition);
  EXPECT_EQ(plugin.calls(), 0);
}

TEST(PluginInstance, WhatIsThrownEndsTheCall) {
  PluginInstance plugin("a.b");
  const Status thrown = plugin.Call("cost", nullptr, nullptr,
                                    [](tenon_plugin_self*) -> tenon_status* { throw std::runtime_error("no"); });
  EXPECT_EQ(thrown.code(), Code::kInternal);
  EXPECT_EQ(plugin.calls(), 0);
}

TEST(PluginInstance, ABitThatThePluginDoesNotUnderstandIsRefusedBeforeTheCall) {
  PluginInstance plugin("a.b");
  EXPECT_TRUE(plugin.CheckUnderstood("tenon_frame", 0).ok());
  EXPECT_EQ(plugin.CheckUnderstood("tenon_frame", 5).code(), Code::kUnimplemented);
  plugin.SetUnderstood({{"tenon_frame", 5}});
  EXPECT_TRUE(plugin.CheckUnderstood("tenon_frame", 4).ok());
  EXPECT_EQ(plugin.CheckUnderstood("tenon_frame", 7).ToString(),
            "UNIMPLEMENTED: plugin 'a.b' does not understand the bits 2 of tenon_frame.must_understand; a newer "
            "version of it may");
  EXPECT_EQ(plugin.CheckUnderstood("tenon_create_args", 1).code(), Code::kUnimplemented);
}

// Once it is closed and no call runs, none will: what the calls use may go.
TEST(PluginInstance, ClosedAndWithoutCallsNothingOfItIsCalledAnyMore) {
  for (int round = 0; round < 50; ++round) {
    PluginInstance plugin("a.b");
    std::atomic<bool> gone{false}, end{false};
    std::atomic<int64_t> after{0};
    std::thread caller([&] {
      while (!end.load())
        (void)plugin.Call("shape", nullptr, nullptr, [&](tenon_plugin_self*) -> tenon_status* {
          after += gone.load();
          return nullptr;
        }).ok();
    });
    while (true) {
      plugin.Close();
      if (plugin.calls() == 0) break;
      plugin.Open(nullptr);
    }
    gone.store(true);
    end.store(true);
    caller.join();
    EXPECT_EQ(after.load(), 0);
  }
}

}  // namespace
}  // namespace tenon::plugin_instance_test
