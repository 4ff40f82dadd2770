// SPDX-License-Identifier: Apache-2.0
#include "program.h"

#include <omp.h>

namespace tenon::cpu_onednn {

const dnnl::engine& Engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

int64_t Shares(const sdk::PrepareContext& c) {
  const int64_t limit = thread_limit.load(std::memory_order_relaxed);
  return limit > 0 ? std::min(limit, c.threads()) : c.threads();
}

SingleThread::SingleThread() : before_(omp_get_max_threads()) {
  if (before_ != 1) omp_set_num_threads(1);
}
SingleThread::~SingleThread() {
  if (before_ != 1) omp_set_num_threads(before_);
}

namespace {

dnnl_stream_t ThreadStream() {
  thread_local const dnnl::stream stream(Engine());
  return stream.get();
}

void CheckDnnl(dnnl_status_t status, const char* what) {
  if (status != dnnl_success) sdk::Fail(TENON_INTERNAL, "oneDNN failed to ", what, ": status ", static_cast<int>(status));
}

}  // namespace

// Memory objects and argument lists of one run in flight.
struct Program::Execution {
  std::vector<dnnl::memory> memories;
  std::vector<std::vector<dnnl_exec_arg_t>> arguments;
  Execution* next = nullptr;
};

Program::Program(Program&& other) noexcept
    : slots_(std::move(other.slots_)),
      steps_(std::move(other.steps_)),
      constants_(std::move(other.constants_)),
      free_(std::exchange(other.free_, nullptr)) {}

Program::~Program() {
  while (free_ != nullptr) {
    std::unique_ptr<Execution> execution(free_);
    free_ = execution->next;
  }
}

int Program::Workspace(sdk::PrepareContext& c, const Desc& desc) {
  return WorkspaceAt(c.Workspace(static_cast<int64_t>(desc.get_size())), desc);
}

int Program::Constant(const Desc& from, const void* value, const Desc& desc) {
  const SingleThread single;
  dnnl::stream stream(Engine());
  dnnl::memory source(from, Engine(), const_cast<void*>(value));
  dnnl::memory target(desc, Engine());
  dnnl::reorder(source, target).execute(stream, source, target);
  stream.wait();
  constants_.push_back(target);
  return Add({Kind::kConstant, static_cast<int32_t>(constants_.size()) - 1, 0, desc});
}

int Program::Converted(sdk::PrepareContext& c, int slot, const Desc& desc) {
  const Desc from = slots_[static_cast<size_t>(slot)].desc;
  if (from == desc) return slot;
  const int target = Workspace(c, desc);
  Finish(slot, target);
  (void)c;
  return target;
}

int Program::Target(sdk::PrepareContext& c, int slot, const Desc& desc) {
  return slots_[static_cast<size_t>(slot)].desc == desc ? slot : Workspace(c, desc);
}

void Program::Finish(int target, int slot) {
  if (target == slot) return;
  Made([&] {
    const dnnl::reorder::primitive_desc pd(Engine(), slots_[static_cast<size_t>(target)].desc, Engine(),
                                           slots_[static_cast<size_t>(slot)].desc);
    steps_.push_back({dnnl::reorder(pd), {{DNNL_ARG_FROM, target}, {DNNL_ARG_TO, slot}}});
    return 0;
  });
}

void Program::Step(sdk::PrepareContext& c, const dnnl::primitive& primitive, const Desc& scratchpad,
                   std::vector<std::pair<int, int>> arguments) {
  if (scratchpad.get_size() != 0) arguments.emplace_back(DNNL_ARG_SCRATCHPAD, Workspace(c, scratchpad));
  steps_.push_back({primitive, std::move(arguments)});
}

Program::Execution* Program::Take() const {
  while (lock_.test_and_set(std::memory_order_acquire)) {
  }
  Execution* execution = free_;
  if (execution != nullptr) free_ = execution->next;
  lock_.clear(std::memory_order_release);
  if (execution != nullptr) return execution;
  auto made = std::make_unique<Execution>();
  for (const Slot& slot : slots_) {
    made->memories.push_back(slot.kind == Kind::kConstant ? constants_[static_cast<size_t>(slot.index)]
                                                          : dnnl::memory(slot.desc, Engine(), DNNL_MEMORY_NONE));
  }
  for (const StepEntry& step : steps_) {
    std::vector<dnnl_exec_arg_t> list;
    for (const auto& [argument, slot] : step.arguments) {
      list.push_back({argument, made->memories[static_cast<size_t>(slot)].get()});
    }
    made->arguments.push_back(std::move(list));
  }
  return made.release();
}

void Program::Give(Execution* execution) const {
  while (lock_.test_and_set(std::memory_order_acquire)) {
  }
  execution->next = free_;
  free_ = execution;
  lock_.clear(std::memory_order_release);
}

void Program::Run(sdk::RunContext c) const {
  const SingleThread single;
  struct Borrowed {
    explicit Borrowed(const Program& program) : owner(program), execution(program.Take()) {}
    ~Borrowed() { owner.Give(execution); }
    const Program& owner;
    Execution* execution;
  } const borrowed(*this);
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    if (slot.kind == Kind::kConstant) continue;
    char* base = slot.kind == Kind::kInput    ? const_cast<char*>(c.input<char>(slot.index))
                 : slot.kind == Kind::kOutput ? c.output<char>(slot.index)
                                              : c.workspace<char>();
    CheckDnnl(dnnl_memory_set_data_handle(borrowed.execution->memories[i].get(), base + slot.offset), "bind a memory");
  }
  const dnnl_stream_t stream = ThreadStream();
  for (size_t i = 0; i < steps_.size(); ++i) {
    const auto& arguments = borrowed.execution->arguments[i];
    CheckDnnl(dnnl_primitive_execute(steps_[i].primitive.get(), stream, static_cast<int>(arguments.size()), arguments.data()),
              "execute a primitive");
  }
}

void RunShares(sdk::RunContext c, const std::vector<Program>& programs, double cost) {
  c.ParallelFor(static_cast<int64_t>(programs.size()), cost, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) programs[static_cast<size_t>(i)].Run(c);
  });
}

}  // namespace tenon::cpu_onednn
