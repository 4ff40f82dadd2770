// SPDX-License-Identifier: Apache-2.0
#include "tests/crossings/shrink.h"

#include <algorithm>
#include <optional>

namespace tenon::crossings {
namespace {

std::vector<Region*> RegionsOf(Program* program) {
  std::vector<Region*> regions;
  const auto add = [&](Region* region, const auto& again) -> void {
    regions.push_back(region);
    for (Step& step : region->steps)
      for (const auto& part : step.parts) again(part.get(), again);
  };
  add(&program->main, add);
  for (const auto& function : program->functions) add(function.get(), add);
  return regions;
}

// Copies a region step for step, and puts something else in the place of one.
class Rewriting {
 public:
  explicit Rewriting(Region* region) : region_(*region), numbers_(region->types.size(), -1) {
    made_.parameters = region->parameters;
    made_.recurs = region->recurs;
    made_.types.assign(region->types.begin(),
                       region->types.begin() + static_cast<ptrdiff_t>(region->parameters.size()));
    for (size_t i = 0; i < made_.types.size(); ++i) numbers_[i] = static_cast<int>(i);
  }
  int New(int value) const { return numbers_[static_cast<size_t>(value)]; }
  const Type& TypeOf(int made) const { return made_.type(made); }
  std::vector<int> New(const std::vector<int>& values) const {
    std::vector<int> all;
    for (const int value : values) all.push_back(New(value));
    return all;
  }
  int Add(Step step) {
    step.first = static_cast<int>(made_.types.size());
    made_.types.insert(made_.types.end(), step.out.begin(), step.out.end());
    made_.steps.push_back(std::move(step));
    return made_.steps.back().first;
  }
  int AddConstant(const Type& type) {
    Step step;
    step.out = {type};
    step.number = 8;
    return Add(step);
  }
  // As it is.
  void Keep(const Step& step) {
    Step copy = step;
    copy.in = New(step.in);
    const int first = Add(copy);
    for (size_t k = 0; k < step.out.size(); ++k)
      numbers_[static_cast<size_t>(step.first) + k] = first + static_cast<int>(k);
  }
  void Replace(const Step& step, const std::vector<int>& with) {
    for (size_t k = 0; k < step.out.size(); ++k) numbers_[static_cast<size_t>(step.first) + k] = with[k];
  }
  // The steps of another region; what its results are here.
  std::vector<int> Inline(const Region& part, const std::vector<int>& arguments) {
    std::vector<int> inside(part.types.size(), -1);
    for (size_t i = 0; i < arguments.size(); ++i) inside[i] = arguments[i];
    for (const Step& step : part.steps) {
      Step copy = step;
      for (int& in : copy.in) in = inside[static_cast<size_t>(in)];
      const int first = Add(copy);
      for (size_t k = 0; k < step.out.size(); ++k)
        inside[static_cast<size_t>(step.first) + k] = first + static_cast<int>(k);
    }
    std::vector<int> results;
    for (const int result : part.results) results.push_back(inside[static_cast<size_t>(result)]);
    return results;
  }
  // The new numbers of values.
  const std::vector<int>& Finish() {
    made_.results = New(region_.results);
    region_ = std::move(made_);
    return numbers_;
  }

 private:
  Region& region_;
  Region made_;
  std::vector<int> numbers_;
};

const Step* StepOf(const Region& region, int value) {
  for (const Step& step : region.steps)
    if (value >= step.first && value < step.first + static_cast<int>(step.out.size())) return &step;
  return nullptr;
}
// Whether its loops count to their limits: one that does not would go on for ever.
bool Ends(const Region& region) {
  for (const Step& step : region.steps) {
    for (const auto& part : step.parts)
      if (!Ends(*part)) return false;
    if (step.what != Do::k_loop) continue;
    const Region &question = *step.parts[0], &body = *step.parts[1];
    const Step* asks = StepOf(question, question.results[0]);
    if (asks != nullptr && asks->what == Do::k_both) asks = StepOf(question, asks->in[0]);
    if (asks == nullptr || asks->what != Do::k_less || asks->in[0] != 0 || asks->in[1] != step.states) return false;
    const Step* adds = StepOf(body, body.results[0]);
    if (adds == nullptr || adds->what != Do::k_add || adds->in[0] != 0) return false;
    const Step* one = StepOf(body, adds->in[1]);
    if (one == nullptr || one->what != Do::k_constant || one->number != 7) return false;
    const Step *start = StepOf(region, step.in[0]), *limit = StepOf(region, step.in[static_cast<size_t>(step.states)]);
    if (start == nullptr || start->what != Do::k_constant || limit == nullptr ||
        (limit->what != Do::k_constant && limit->what != Do::k_remainder))
      return false;
  }
  return true;
}
bool Ends(const Program& program) {
  for (const auto& function : program.functions)
    if (!Ends(*function)) return false;
  return Ends(program.main);
}

bool IsPlain(const Type& type) { return type.kind == Kind::kTensor && type.dtype != DType::kString; }

class Shrinker {
 public:
  Shrinker(const Program& program, const std::function<bool(const Program&)>& fails, int tries)
      : now_(Copy(program)), fails_(fails), tries_(tries) {}

  Program Run() {
    for (int before = -1; before != CountAll() && tries_ > 0;) {
      before = CountAll();
      Whole();
      for (size_t region = 0; region < RegionsOf(&now_).size(); ++region) Steps(region);
      for (size_t region = 0; region < RegionsOf(&now_).size(); ++region) Results(region);
      for (size_t region = 0; region < RegionsOf(&now_).size(); ++region) Arguments(region);
      Parameters();
    }
    return std::move(now_);
  }

 private:
  // What may become less.
  int CountAll() {
    int count = now_.order + static_cast<int>(now_.losses.size() + now_.main.results.size() + now_.variables.size()) +
                (now_.trains ? 1 : 0);
    for (Region* region : RegionsOf(&now_)) {
      count += static_cast<int>(region->parameters.size());
      for (const Step& step : region->steps) count += step.what == Do::k_constant ? 1 : 3;
    }
    return count;
  }
  // change: whether it could be made.
  bool Try(const std::function<bool(Program*)>& change) {
    if (tries_ <= 0) return false;
    Program candidate = Copy(now_);
    if (!change(&candidate)) return false;
    RemoveUnused(&candidate);
    if (!Ends(candidate)) return false;
    --tries_;
    if (!fails_(candidate)) return false;
    now_ = std::move(candidate);
    return true;
  }

  void Whole() {
    if (now_.trains) Try([](Program* program) { return program->trains = false, true; });
    while (now_.order > 0 && Try([](Program* program) {
      --program->order;
      if (program->order == 0) program->losses.clear();
      return true;
    })) {}
    for (size_t i = now_.losses.size(); i-- > 0;)
      if (now_.losses.size() > 1)
        Try([i](Program* program) {
          return program->losses.erase(program->losses.begin() + static_cast<ptrdiff_t>(i)), true;
        });
    if (!now_.losses.empty()) Try([](Program* program) { return program->main.results.clear(), true; });
    for (size_t i = now_.main.results.size(); i-- > 0;)
      if (now_.main.results.size() > 1)
        Try([i](Program* program) {
          return program->main.results.erase(program->main.results.begin() + static_cast<ptrdiff_t>(i)), true;
        });
  }

  // step: of the region. replace: gives what stands for its outputs.
  bool TryStep(size_t region, size_t step,
               const std::function<std::optional<std::vector<int>>(Program*, Rewriting*, const Step&)>& replace) {
    return Try([&](Program* program) {
      Region* at = RegionsOf(program)[region];
      if (step >= at->steps.size()) return false;
      const Region old = *at;
      Rewriting rewriting(at);
      for (size_t i = 0; i < old.steps.size(); ++i) {
        if (i != step) {
          rewriting.Keep(old.steps[i]);
          continue;
        }
        const auto with = replace(program, &rewriting, old.steps[i]);
        if (!with) return false;
        rewriting.Replace(old.steps[i], *with);
      }
      const std::vector<int> numbers = rewriting.Finish();
      if (at == &program->main)
        for (int& loss : program->losses) loss = numbers[static_cast<size_t>(loss)];
      return true;
    });
  }
  void Steps(size_t region) {
    for (size_t step = RegionsOf(&now_)[region]->steps.size(); step-- > 0;) {
      if (region >= RegionsOf(&now_).size() || step >= RegionsOf(&now_)[region]->steps.size()) continue;
      const Step& now = RegionsOf(&now_)[region]->steps[step];
      if (now.what == Do::k_constant) continue;
      if (TryStep(region, step, AsConstants)) continue;
      if (TryStep(region, step, AsInputs)) continue;
      for (size_t part = 0; part < std::max<size_t>(now.parts.size(), 1); ++part)
        if (TryStep(region, step,
                    [part](Program* program, Rewriting* to, const Step& of) { return AsPart(program, to, of, part); }))
          break;
    }
  }
  static std::optional<std::vector<int>> AsConstants(Program*, Rewriting* to, const Step& step) {
    std::vector<int> with;
    for (const Type& type : step.out) {
      if (!IsPlain(type)) return std::nullopt;
      with.push_back(to->AddConstant(type));
    }
    return with;
  }
  static std::optional<std::vector<int>> AsInputs(Program* program, Rewriting* to, const Step& step) {
    (void)program;
    std::vector<int> with;
    for (const Type& type : step.out) {
      int found = -1;
      for (const int in : step.in)
        if (to->TypeOf(to->New(in)) == type) found = to->New(in);
      if (found < 0 && !IsPlain(type)) return std::nullopt;
      with.push_back(found >= 0 ? found : to->AddConstant(type));
    }
    return with;
  }
  static std::optional<std::vector<int>> AsPart(Program* program, Rewriting* to, const Step& step, size_t part) {
    const std::vector<int> in = to->New(step.in);
    switch (step.what) {
      case Do::k_conditional: case Do::k_choice: return to->Inline(*step.parts[part], {in.begin() + 1, in.end()});
      case Do::k_loop:
        if (part == 0) return std::nullopt;
        return to->Inline(*step.parts[1], in);
      case Do::k_call: return to->Inline(*program->functions[static_cast<size_t>(step.function)], in);
      default: return std::nullopt;
    }
  }

  // A result becomes a parameter of the same type, or a constant.
  void Results(size_t region) {
    if (region == 0) return;
    for (size_t result = 0; region < RegionsOf(&now_).size() && result < RegionsOf(&now_)[region]->results.size();
         ++result)
      Try([&](Program* program) {
        Region* at = RegionsOf(program)[region];
        const int now = at->results[result];
        if (now < static_cast<int>(at->parameters.size())) return false;
        const Type type = at->type(now);
        for (size_t i = at->parameters.size(); i-- > 0;)
          if (at->parameters[i] == type) return at->results[result] = static_cast<int>(i), true;
        if (!IsPlain(type)) return false;
        for (const Step& step : at->steps)
          if (step.first == now && step.what == Do::k_constant) return false;
        Step constant;
        constant.out = {type};
        constant.number = 8;
        constant.first = static_cast<int>(at->types.size());
        at->types.push_back(type);
        at->steps.push_back(constant);
        at->results[result] = constant.first;
        return true;
      });
  }

  static bool Uses(const Region& region, int value) {
    for (const int result : region.results)
      if (result == value) return true;
    for (const Step& step : region.steps)
      if (std::find(step.in.begin(), step.in.end(), value) != step.in.end()) return true;
    return false;
  }
  static void RemoveValue(Region* region, int value) {
    region->types.erase(region->types.begin() + value);
    const auto less = [value](int& number) { number -= number > value ? 1 : 0; };
    for (int& result : region->results) less(result);
    for (Step& step : region->steps) {
      less(step.first);
      for (int& in : step.in) less(in);
    }
  }
  static void RemoveParameter(Region* region, size_t parameter) {
    region->parameters.erase(region->parameters.begin() + static_cast<ptrdiff_t>(parameter));
    RemoveValue(region, static_cast<int>(parameter));
  }
  // The step that was like this one, if it still is there: what was shrunk may have taken out more than itself.
  static Step* StepAt(Program* program, size_t region, size_t step, const Step& like) {
    const std::vector<Region*> regions = RegionsOf(program);
    if (region >= regions.size() || step >= regions[region]->steps.size()) return nullptr;
    Step& at = regions[region]->steps[step];
    return at.what == like.what && at.parts.size() == like.parts.size() ? &at : nullptr;
  }
  // What parts do not use, and what of a part nobody uses.
  void Arguments(size_t region) {
    for (size_t step = 0; region < RegionsOf(&now_).size() && step < RegionsOf(&now_)[region]->steps.size(); ++step) {
      const Step now = RegionsOf(&now_)[region]->steps[step];
      if (now.parts.empty()) continue;
      const bool asks = now.what == Do::k_conditional || now.what == Do::k_choice;
      const size_t first = asks                     ? 1
                           : now.what == Do::k_loop ? static_cast<size_t>(now.states) + 1
                                                    : static_cast<size_t>(now.states + now.xs);
      for (size_t in = now.in.size(); in-- > first;)
        Try([&](Program* program) {
          Step* at = StepAt(program, region, step, now);
          if (at == nullptr || in >= at->in.size()) return false;
          const size_t parameter = in - (asks ? 1 : 0);
          for (const auto& part : at->parts)
            if (Uses(*part, static_cast<int>(parameter))) return false;
          for (const auto& part : at->parts) RemoveParameter(part.get(), parameter);
          at->in.erase(at->in.begin() + static_cast<ptrdiff_t>(in));
          return true;
        });
      for (size_t out = now.out.size(); out-- > 0;)
        Try([&](Program* program) {
          const Step* at = StepAt(program, region, step, now);
          return at != nullptr && out < at->out.size() && RemoveOutput(program, region, step, out);
        });
    }
  }
  static bool RemoveOutput(Program* program, size_t region, size_t step, size_t out) {
    Region* at = RegionsOf(program)[region];
    Step& of = at->steps[step];
    const int value = of.first + static_cast<int>(out);
    if (of.out.size() < 2 || Uses(*at, value)) return false;
    if (region == 0 && std::find(program->losses.begin(), program->losses.end(), value) != program->losses.end())
      return false;
    if (of.what == Do::k_loop) {
      const auto number = static_cast<int>(out);
      if (out == 0) return false;
      Region &question = *of.parts[0], &body = *of.parts[1];
      if (Uses(question, number)) return false;
      for (const Step& inside : body.steps)
        if (std::find(inside.in.begin(), inside.in.end(), number) != inside.in.end()) return false;
      for (size_t i = 0; i < body.results.size(); ++i)
        if (i != out && body.results[i] == number) return false;
      body.results.erase(body.results.begin() + static_cast<ptrdiff_t>(out));
      RemoveParameter(&question, out);
      RemoveParameter(&body, out);
      of.in.erase(of.in.begin() + static_cast<ptrdiff_t>(out));
      --of.states;
    } else if (of.what == Do::k_conditional || of.what == Do::k_choice) {
      for (const auto& part : of.parts) part->results.erase(part->results.begin() + static_cast<ptrdiff_t>(out));
    } else {
      if (of.what != Do::k_elements || out < static_cast<size_t>(of.states)) return false;
      of.parts[0]->results.erase(of.parts[0]->results.begin() + static_cast<ptrdiff_t>(out));
    }
    of.out.erase(of.out.begin() + static_cast<ptrdiff_t>(out));
    RemoveValue(at, value);
    if (region == 0)
      for (int& loss : program->losses) loss -= loss > value ? 1 : 0;
    return true;
  }
  void Parameters() {
    for (size_t parameter = now_.main.parameters.size(); parameter-- > 0;)
      Try([&](Program* program) {
        if (Uses(program->main, static_cast<int>(parameter))) return false;
        RemoveParameter(&program->main, parameter);
        for (int& loss : program->losses) loss -= loss > static_cast<int>(parameter) ? 1 : 0;
        return true;
      });
    for (size_t variable = now_.variables.size(); variable-- > 0;)
      Try([&](Program* program) {
        bool used = false;
        for (Region* region : RegionsOf(program))
          for (Step& step : region->steps) {
            used = used || step.variable == static_cast<int>(variable);
            if (step.variable > static_cast<int>(variable)) --step.variable;
          }
        program->variables.erase(program->variables.begin() + static_cast<ptrdiff_t>(variable));
        return !used;
      });
  }

  Program now_;
  const std::function<bool(const Program&)>& fails_;
  int tries_;
};

}  // namespace

Program Shrink(const Program& program, const std::function<bool(const Program&)>& fails, int tries) {
  return Shrinker(program, fails, tries).Run();
}

}  // namespace tenon::crossings
