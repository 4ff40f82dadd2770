// SPDX-License-Identifier: Apache-2.0
#include "program.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "large_pages.h"
#include "tenon/sdk/kernel/element.h"

namespace tenon::cpu_onednn {

const dnnl::engine& Engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

int64_t Shares(const sdk::PrepareContext& c) {
  const int64_t limit = thread_limit.load(std::memory_order_relaxed);
  return limit > 0 ? std::min(limit, c.threads()) : c.threads();
}

int64_t SharesAndPieces(const sdk::PrepareContext& c, double ns, double most_pieces) {
  constexpr double kPieceNs = 50e6;
  const double share = ns / static_cast<double>(Shares(c));
  return Shares(c) * static_cast<int64_t>(std::clamp(std::ceil(share / kPieceNs), 1.0, most_pieces));
}

bool HasBfloat16() {
  static const bool has = Has(dnnl::cpu_isa::avx512_core_bf16);
  return has;
}

SingleThread::SingleThread() : before_(library::MostThreads()) {
  if (before_ != 1) library::SetMostThreads(1);
}
SingleThread::~SingleThread() {
  if (before_ != 1) library::SetMostThreads(before_);
}

namespace {

dnnl_stream_t ThreadStream() {
  thread_local const dnnl::stream stream(Engine());
  return stream.get();
}

void CheckDnnl(dnnl_status_t status, const char* what) {
  if (status != dnnl_success)
    sdk::Fail(TENON_INTERNAL, "oneDNN failed to ", what, ": status ", static_cast<int>(status));
}

void Gemm(const MatrixProduct& p, const float* a, const float* b, float* out) {
  const auto status = dnnl_sgemm(p.turned_a ? 'T' : 'N', p.turned_b ? 'T' : 'N', p.m, p.n, p.k, 1.0F, a, p.row_a, b,
                                 p.row_b, 0.0F, out, p.row_out);
  if (status == dnnl_out_of_memory)
    sdk::Fail(TENON_RESOURCE_EXHAUSTED, "no memory in which oneDNN could pack matrices");
  CheckDnnl(status, "multiply matrices");
}

}  // namespace

struct PackedConstant {
  PackedConstant(tenon_buffer* source, std::shared_ptr<void> place, dnnl::memory memory)
      : source(source), place(std::move(place)), memory(std::move(memory)) {
    if (source != nullptr) tenon_plugin_host->buffer_retain(source);
  }
  PackedConstant(const PackedConstant&) = delete;
  ~PackedConstant() {
    if (source != nullptr) tenon_plugin_host->buffer_release(source);
  }
  tenon_buffer* source;  // kept, so that no other constant can take its address
  std::shared_ptr<void> place;
  dnnl::memory memory;
};

namespace {

// What has been packed and is still in use.
class PackedConstants {
 public:
  struct Key {
    const void* data;
    dnnl::memory::desc from, wanted;
    std::vector<float> scale;
    int64_t column_stride = 0;  // of 8-bit integers
    bool operator==(const Key&) const = default;
  };
  static PackedConstants& The() {
    static PackedConstants all;
    return all;
  }
  std::shared_ptr<const PackedConstant> Find(const Key& key) {
    const std::lock_guard lock(mutex_);
    const auto [begin, end] = by_data_.equal_range(key.data);
    for (auto at = begin; at != end; ++at)
      if (at->second.first == key)
        if (auto found = at->second.second.lock()) return found;
    return nullptr;
  }
  void Keep(Key key, const std::shared_ptr<const PackedConstant>& packed) {
    const std::lock_guard lock(mutex_);
    if (by_data_.size() >= sweep_at_) {
      std::erase_if(by_data_, [](const auto& entry) { return entry.second.second.expired(); });
      sweep_at_ = 2 * by_data_.size() + 64;
    }
    const void* data = key.data;
    by_data_.emplace(data, std::pair(std::move(key), std::weak_ptr(packed)));
  }

 private:
  std::mutex mutex_;
  std::unordered_multimap<const void*, std::pair<Key, std::weak_ptr<const PackedConstant>>> by_data_;
  size_t sweep_at_ = 64;
};

// values: in the layout `from`, which may be of another type than key.from.
std::shared_ptr<const PackedConstant> PackAndKeep(const tenon_tensor_view& constant, PackedConstants::Key key,
                                                  const dnnl::memory::desc& from, const void* values) {
  const SingleThread single;
  dnnl::stream stream(Engine());
  dnnl::memory source(from, Engine(), const_cast<void*>(values));
  auto place = InLargePages(key.wanted.get_size());
  dnnl::memory target(key.wanted, Engine(), place.get());
  dnnl::reorder(source, target).execute(stream, source, target);
  stream.wait();
  auto packed = std::make_shared<const PackedConstant>(constant.buffer, std::move(place), std::move(target));
  // A constant without a buffer may go, and its address with it.
  if (constant.buffer != nullptr) PackedConstants::The().Keep(std::move(key), packed);
  return packed;
}

}  // namespace

std::shared_ptr<const PackedConstant> Packed(const tenon_tensor_view& constant, int64_t offset,
                                             const dnnl::memory::desc& from, const dnnl::memory::desc& wanted,
                                             const std::vector<float>& scale) {
  const bool narrow = library::Type(from) == ElementType::bf16;
  const char* const value = sdk::Data<const char>(constant) + offset * BytesOf(library::Type(from));
  PackedConstants::Key key{value, from, wanted, scale, 0};
  if (auto found = PackedConstants::The().Find(key)) return found;
  if (scale.empty()) return PackAndKeep(constant, std::move(key), from, value);
  // In float32, so that it is rounded once.
  std::vector<float> scaled(static_cast<size_t>(sdk::Count(constant)));
  for (size_t i = 0; i < scaled.size(); ++i)
    scaled[i] = scale[i % scale.size()] * (narrow ? static_cast<float>(sdk::Data<const sdk::Bfloat16>(constant)[i])
                                                  : sdk::Data<const float>(constant)[i]);
  return PackAndKeep(constant, std::move(key), library::WithType(from, ElementType::f32), scaled.data() + offset);
}

std::shared_ptr<const PackedConstant> PackedBytes(const tenon_tensor_view& constant, int64_t column_stride,
                                                  const std::vector<int8_t>& values, const dnnl::memory::desc& from,
                                                  const dnnl::memory::desc& wanted) {
  PackedConstants::Key key{sdk::Data<const float>(constant), from, wanted, {}, column_stride};
  if (auto found = PackedConstants::The().Find(key)) return found;
  return PackAndKeep(constant, std::move(key), from, values.data());
}

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
      packed_(std::move(other.packed_)),
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

int Program::Constant(std::shared_ptr<const PackedConstant> value) {
  constants_.push_back(value->memory);
  packed_.push_back(std::move(value));
  return Add({Kind::kConstant, static_cast<int32_t>(constants_.size()) - 1, 0, constants_.back().get_desc()});
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

void Program::CopyUnlessSame(int from, int to) {
  Finish(from, to);
  if (from != to) steps_.back().what = StepEntry::Do::kPrimitiveUnlessSame;
}

void Program::Multiply(const MatrixProduct& product, int a, int b, int out) {
  steps_.push_back(
      {{}, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, out}}, StepEntry::Do::kMultiply, product});
}

void Program::Clear(int slot) { steps_.push_back({{}, {{DNNL_ARG_DST, slot}}, StepEntry::Do::kClear}); }

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

void Program::Run(sdk::RunContext c, std::span<const Elsewhere> elsewhere) const {
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
    char* data = base + slot.offset;
    if (slot.kind == Kind::kWorkspace)
      for (const Elsewhere& part : elsewhere)
        if (part.offset == slot.offset) data = part.data;
    CheckDnnl(dnnl_memory_set_data_handle(borrowed.execution->memories[i].get(), data), "bind a memory");
  }
  const dnnl_stream_t stream = ThreadStream();
  const auto address = [&](int slot) {
    return borrowed.execution->memories[static_cast<size_t>(slot)].get_data_handle();
  };
  for (size_t i = 0; i < steps_.size(); ++i) {
    const StepEntry& step = steps_[i];
    const auto at = [&](size_t argument) { return address(step.arguments[argument].second); };
    if (step.what == StepEntry::Do::kPrimitiveUnlessSame && at(0) == at(1)) continue;
    if (step.what == StepEntry::Do::kClear) {
      std::memset(at(0), 0, slots_[static_cast<size_t>(step.arguments[0].second)].desc.get_size());
    } else if (step.what == StepEntry::Do::kMultiply) {
      Gemm(step.product, static_cast<const float*>(at(0)), static_cast<const float*>(at(1)),
           static_cast<float*>(at(2)));
    } else {
      const auto& arguments = borrowed.execution->arguments[i];
      CheckDnnl(
          dnnl_primitive_execute(step.primitive.get(), stream, static_cast<int>(arguments.size()), arguments.data()),
          "execute a primitive");
    }
  }
}

void RunShares(sdk::RunContext c, const std::vector<Program>& programs, double cost,
               std::span<const Program::Elsewhere> elsewhere) {
  c.ParallelFor(static_cast<int64_t>(programs.size()), cost, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      c.CheckCancelled();
      programs[static_cast<size_t>(i)].Run(c, elsewhere);
    }
  });
}

std::vector<Program> ReorderInShares(sdk::PrepareContext& c, int32_t input, const dnnl::memory::desc& given,
                                     const dnnl::memory::desc& wanted, int64_t at) {
  constexpr size_t kSmallest = 256 << 10;  // bytes
  constexpr int64_t kBlock = 64;           // a multiple of what layouts put together
  dnnl::memory::dims size = library::Dims(given), first(size.size(), 0);
  std::vector<Program> parts;
  const int64_t total = size[0];
  for (const auto& [from, to] : Parts((total + kBlock - 1) / kBlock, given.get_size() < kSmallest ? 1 : Shares(c))) {
    first[0] = from * kBlock;
    size[0] = std::min(total, to * kBlock) - first[0];
    const auto part = [&](const dnnl::memory::desc& of) {
      return MadeOrNone([&] { return of.submemory_desc(size, first); });
    };
    const dnnl::memory::desc source = part(given), target = part(wanted);
    const bool cut = source != dnnl::memory::desc() && target != dnnl::memory::desc();
    if (!cut) parts.clear();
    Program& p = parts.emplace_back();
    p.Finish(p.Input(input, cut ? source : given), p.WorkspaceAt(at, cut ? target : wanted));
    if (!cut) break;
  }
  return parts;
}

}  // namespace tenon::cpu_onednn
