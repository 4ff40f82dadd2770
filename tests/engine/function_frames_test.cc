// SPDX-License-Identifier: Apache-2.0
// Functions that have loops and branches of Enter, Switch and Merge in them, called from loops and branches of either
// form; and functional loops whose next values are invariants. Covers Q1, L1 to L5.
#include "tests/engine/engine.h"

namespace tenon::engine::function_frames_test {
namespace {

using Outputs = std::vector<Output>;

class FramesInFunctions : public ::testing::Test {
 protected:
  // What both executors give; int32 scalars.
  void Expect(const Output& fetch, int32_t right, const std::vector<Name>& before = {}) {
    for (const auto executor : {TENON_EXECUTOR_AUTO, TENON_EXECUTOR_DYNAMIC}) {
      SessionOptions options;
      options.executor = executor;
      options.compile = false;  // whether a loop becomes code of its own is no matter here
      auto session = Session::Create(TheRuntime(), g_, options);
      ASSERT_TRUE(session.ok()) << session.status();
      if (!before.empty()) {
        ASSERT_TRUE(session->RunTargets(before).ok());
      }
      RunOptions run;
      run.timeout = std::chrono::seconds(20);  // a loop that does not wait for its turns has no end
      auto found = session->Run({}, {fetch}, {}, run);
      ASSERT_TRUE(found.ok()) << found.status();
      EXPECT_EQ((*found)[0].scalar<int32_t>(), right);
    }
  }
  // i = 0; while (i < 3) i = i + 1, x = x + step.
  static Output Added(Graph& body, const Output& x, const Output& step) {
    return While(
        body, {body.Const(0), x}, {step},
        [&](const Outputs& v) {
          return body.Op("Less", {v[0], body.Const(3)});
        },
        [&](const Outputs& v) {
          return Outputs{body.Op("AddV2", {v[0], body.Const(1)}), body.Op("AddV2", {v[1], v[2]})};
        },
        {"adding"})[1];
  }

  Graph g_{TheRuntime()};
};

TEST_F(FramesInFunctions, OfACallInABranch) {
  const Function add = Define(g_, "add", [](Graph& body, const Outputs& v) { return Added(body, v[0], body.Const(2)); },
                              {{DType::kInt32, Shape{}}});
  const auto call = [&](const Outputs& v) { return Outputs{g_.Call(add, v)}; };
  Expect(Cond(g_, g_.Const(true), {g_.Const(5)}, call, [](const Outputs& v) { return v; })[0], 11);
}

TEST_F(FramesInFunctions, OfACallInALoop) {
  const Function add = Define(g_, "add", [](Graph& body, const Outputs& v) { return Added(body, v[0], body.Const(2)); },
                              {{DType::kInt32, Shape{}}});
  Expect(While(g_, {g_.Const(0), g_.Const(5)}, {}, [&](const Outputs& v) { return g_.Op("Less", {v[0], g_.Const(2)}); },
               [&](const Outputs& v) { return Outputs{g_.Op("AddV2", {v[0], g_.Const(1)}), g_.Call(add, {v[1]})}; })[1],
         17);
}

TEST_F(FramesInFunctions, OfAConditionalInALoopsBody) {
  // A body that is a function, with a branch in it that is one too, in whose frame there is a node that calls.
  const Function more = Define(g_, "more",
                               [](Graph& body, const Outputs& v) {
                                 return body.Op("AddV2", {v[0], body.Const(1)});
                               },
                               {{DType::kInt32, Shape{}}});
  const Function same = Define(g_, "same", [](Graph& body, const Outputs& v) { return body.Op("Identity", {v[0]}); },
                               {{DType::kInt32, Shape{}}});
  const Function grow = Define(
      g_, "grow",
      [&](Graph& body, const Outputs& v) {
        const Outputs last = While(
            body, {body.Const(0), v[0]}, {},
            [&](const Outputs& w) {
              return body.Op("Less", {w[0], body.Const(3)});
            },
            [&](const Outputs& w) {
              const Output odd = body.Op("Equal", {body.Op("FloorMod", {w[0], body.Const(2)}), body.Const(0)});
              return Outputs{body.Op("AddV2", {w[0], body.Const(1)}), Cond(body, odd, {w[1]}, more, same, "odd")[0]};
            });
        return last[1];
      },
      {{DType::kInt32, Shape{}}});
  Expect(Cond(g_, g_.Const(true), {g_.Const(5)}, grow, same)[0], 7);
}

TEST_F(FramesInFunctions, EffectsInABranchThatIsNotTakenHoldNothingUp) {
  const Output variable = g_.Op("VarHandleOp", {}, {{"dtype", DType::kInt32}, {"shape", Shape{}}});
  const Operation first = g_.AddNode("AssignVariableOp", {variable, g_.Const(100)});
  const Function choose = Define(g_, "choose", [](Graph& body, const Outputs& v) {  // handle, a number
    return Cond(body, body.Op("Less", {v[1], body.Const(0)}), v,
                [&](const Outputs& w) {
                  const auto after = body.ControlDependencies({body.AddNode("AssignAddVariableOp", {w[0], w[1]})});
                  return Outputs{body.Op("ReadVariableOp", {w[0]}, {{"dtype", DType::kInt32}})};
                },
                [&](const Outputs& w) { return Outputs{body.Op("Neg", {w[1]})}; })[0];
  }, {DType::kResource, {DType::kInt32, Shape{}}});
  Expect(While(
             g_, {g_.Const(0), g_.Const(5)}, {variable},
             [&](const Outputs& v) {
               return g_.Op("Less", {v[0], g_.Const(2)});
             },
             [&](const Outputs& v) {
               const Operation call = g_.Call(choose, {v[2], v[1]});
               const auto after = g_.ControlDependencies({call});
               return Outputs{g_.Op("AddV2", {v[0], g_.Const(1)}), call};
             })[1],
         95, {first});
}

// As a next value an invariant must wait for the turn.
TEST_F(FramesInFunctions, NextValuesThatAreInvariantsWaitForTheTurn) {
  const std::vector<Argument> types = {
      {DType::kInt32, Shape{}}, {DType::kInt32, Shape{}}, {DType::kInt32, Shape{}}, {DType::kInt32, Shape{}}};
  const Function question = Define(
      g_, "question",
      [](Graph& body, const Outputs& v) {
        return body.Op("Less", {v[0], body.Const(2)});
      },
      types);
  const Function body = Define(g_, "body", [](Graph& inside, const Outputs& v) {
    return Outputs{inside.Op("AddV2", {v[0], inside.Const(1)}), v[3], inside.Op("Neg", {v[3]}), v[3]};
  }, types);
  const Outputs last = While(g_, {g_.Const(0), g_.Const(3), g_.Const(4), g_.Const(5)}, question, body);
  Expect(last[1], 5);
  Expect(last[2], -5);
  Expect(g_.Op("AddV2", {last[1], last[2]}), 0);
}

// Also where the call of another function gives them.
TEST_F(FramesInFunctions, NextValuesThatACallGivesBackWaitForTheTurn) {
  const Function second = Define(g_, "second", [](Graph&, const Outputs& v) { return v[1]; },
                                 {{DType::kInt32, Shape{}}, {DType::kInt32, Shape{}}});
  const std::vector<Argument> types = {{DType::kInt32, Shape{}}, {DType::kInt32, Shape{}}, {DType::kInt32, Shape{}}};
  const Function question = Define(
      g_, "question",
      [](Graph& body, const Outputs& v) {
        return body.Op("Less", {v[0], body.Const(2)});
      },
      types);
  const Function body = Define(g_, "body", [&](Graph& inside, const Outputs& v) {
    return Outputs{inside.Op("AddV2", {v[0], inside.Const(1)}), inside.Call(second, {v[0], v[2]}), v[2]};
  }, types);
  Expect(While(g_, {g_.Const(0), g_.Const(3), g_.Const(5)}, question, body)[1], 5);
}

// A body that changes a variable by what the loop does not change does so as often as it turns, and not before the loop
// knows that it does.
TEST_F(FramesInFunctions, EffectsOfInvariantsWaitForTheTurn) {
  const Output variable = g_.Op("VarHandleOp", {}, {{"dtype", DType::kInt32}, {"shape", Shape{}}});
  const Operation first = g_.AddNode("AssignVariableOp", {variable, g_.Const(100)});
  const std::vector<Argument> types = {{DType::kInt32, Shape{}}, {DType::kInt32, Shape{}}, DType::kResource};
  const Function question = Define(
      g_, "question",
      [](Graph& body, const Outputs& v) {
        return body.Op("Less", {v[0], v[1]});
      },
      types);
  const auto loop = [&](int32_t turns, bool asks) {
    const Function body = Define(g_, asks ? "asking" : "adding", [asks](Graph& inside, const Outputs& v) {
      const auto add = [&](const Outputs& w) { return inside.AddNode("AssignAddVariableOp", {w[0], w[1]}); };
      std::vector<Operation> effects;
      if (asks) {  // in a branch of frames
        const auto same = [](const Outputs& w) { return Outputs{w[1]}; };
        effects.push_back(Cond(inside, inside.Op("LessEqual", {v[1], v[1]}), {v[2], v[1]}, [&](const Outputs& w) {
          const auto after = inside.ControlDependencies({add(w)});
          return Outputs{inside.Op("Identity", {w[1]})};
        }, same)[0]);
      } else {
        effects.push_back(add({v[2], v[1]}));
      }
      return FunctionResults({inside.Op("AddV2", {v[0], inside.Const(1)}), v[1], v[2]}, effects);
    }, types);
    const Output last = While(g_, {g_.Const(0), g_.Const(turns), variable}, question, body)[0];
    const auto after = g_.ControlDependencies({Operation(last)});
    return g_.Op("ReadVariableOp", {variable}, {{"dtype", DType::kInt32}});
  };
  for (const bool asks : {false, true}) {
    Expect(loop(0, asks), 100, {first});
    Expect(loop(3, asks), 109, {first});
  }
}

// A call whose value is known before the step, while what it waits for is a loop that changes a variable: every turn is
// taken, though nothing that the loop calculates is asked for.
TEST_F(FramesInFunctions, TurnsAreTakenBehindAKnownValue) {
  const Output variable = g_.Op("VarHandleOp", {}, {{"dtype", DType::kInt32}, {"shape", Shape{}}});
  const Operation first = g_.AddNode("AssignVariableOp", {variable, g_.Const(100)});
  const std::vector<Argument> types = {{DType::kInt32, Shape{}}, DType::kResource};
  const Function question = Define(
      g_, "question", [](Graph& body, const Outputs& v) { return body.Op("Less", {v[0], body.Const(3)}); }, types);
  const Function turn = Define(g_, "turn", [](Graph& body, const Outputs& v) {
    const Operation add = body.AddNode("AssignAddVariableOp", {v[1], body.Const(2)});
    return FunctionResults({body.Op("AddV2", {v[0], body.Const(1)}), v[1]}, {add});
  }, types);
  const Function call = Define(g_, "call", [&](Graph& body, const Outputs& v) {
    const Output last = While(body, {body.Const(0), v[0]}, question, turn)[0];
    return FunctionResults({body.Op("AddV2", {body.Const(4), body.Const(3)})}, {Operation(last)});
  }, {DType::kResource});
  const Output known = g_.Call(call, {variable}).output(0);
  const Output now = g_.Op("ReadVariableOp", {variable}, {{"dtype", DType::kInt32}});
  ASSERT_TRUE(g_.status().ok()) << g_.status();
  for (const auto executor : {TENON_EXECUTOR_AUTO, TENON_EXECUTOR_DYNAMIC}) {
    SessionOptions options;
    options.executor = executor;
    const auto session = Session::Create(TheRuntime(), g_, options);
    ASSERT_TRUE(session.ok() && session->RunTargets({first}).ok());
    const auto found = session->Run({}, {known});
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ((*found)[0].scalar<int32_t>(), 7);
    EXPECT_EQ((*session->Run({}, {now}))[0].scalar<int32_t>(), 106);
  }
}

}  // namespace
}  // namespace tenon::engine::function_frames_test
