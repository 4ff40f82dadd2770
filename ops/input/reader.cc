// SPDX-License-Identifier: Apache-2.0
#include "reader.h"

#include <algorithm>

#include "tenon/sdk/kernel/string_tensor.h"
#include "tenon/sdk/kernel/work.h"
#include "tenon/bytes/wire.h"

namespace tenon::ops::input {
using namespace sdk;

struct Reader::Call {
  Kind kind;
  RunContext context;
  Done done;
  std::shared_ptr<Reader> reader;
  SharedQueue* queue = nullptr;
  int64_t wanted = 1;
  std::string text = {};       // a state to restore
  std::vector<std::string> keys = {}, values = {};
  uint64_t bytes = 0, asked = kSmall;  // of the records, and for how many there was room
  std::string name = {};       // of the file that comes next
  bool named = false;
  uint64_t token = 0;          // while it stands in line
  static constexpr uint64_t kSmall = 1 << 20;
};

Reader::Reader(ReaderOptions options) : options_(std::move(options)), format_(MakeFormat(options_)) {}
Reader::~Reader() = default;

void Reader::CheckSame(const ReaderOptions& other) const {
  if (options_ == other) return;
  Fail(TENON_INVALID_ARGUMENT, "the shared ", Describe(), " exists with other attributes, or of another kind than ",
       other.op, "; give this one another shared_name");
}

// ---- From outside ----

void Reader::ReadOne(RunContext c, Done done, SharedQueue& queue) {
  Submit(std::make_unique<Call>(Call{Kind::kReadOne, c, done, shared_from_this(), &queue}));
}
void Reader::ReadUpTo(RunContext c, Done done, SharedQueue& queue, int64_t count) {
  Submit(std::make_unique<Call>(Call{Kind::kReadUpTo, c, done, shared_from_this(), &queue, count}));
}
void Reader::Reset(RunContext c, Done done) {
  Submit(std::make_unique<Call>(Call{Kind::kReset, c, done, shared_from_this()}));
}
void Reader::Serialize(RunContext c, Done done) {
  Submit(std::make_unique<Call>(Call{Kind::kSerialize, c, done, shared_from_this()}));
}
void Reader::Restore(RunContext c, Done done, std::string_view state) {
  Submit(std::make_unique<Call>(Call{Kind::kRestore, c, done, shared_from_this(), nullptr, 1, std::string(state)}));
}

int64_t Reader::records_produced() const {
  const std::lock_guard lock(mutex_);
  return state_.produced;
}
int64_t Reader::units_completed() const {
  const std::lock_guard lock(mutex_);
  return state_.finished;
}

void Reader::Submit(std::unique_ptr<Call> call) {
  const std::shared_ptr<Reader> self = call->reader;
  {
    std::list<std::unique_ptr<Call>> own;
    own.push_back(std::move(call));
    const std::lock_guard lock(mutex_);
    Call& added = *own.front();
    if (active_ != nullptr) {
      added.token = added.context.services().cancel_subscribe(added.context.frame(), &OnCancelled, &added);
      if (added.token == 0) Fail(TENON_CANCELLED, "the step was cancelled before it came to the ", Describe());
      line_.splice(line_.end(), own);
      return;
    }
    active_ = std::move(own.front());
  }
  try {
    Schedule();
  } catch (...) {
    End(CurrentFailure());
  }
}

void Reader::OnCancelled(void* argument, tenon_status* why) {
  auto* const cancelled = static_cast<Call*>(argument);  // lives: who takes it out of the line waits for this to return
  const std::shared_ptr<Reader> reader = cancelled->reader;
  std::unique_ptr<Call> out;
  {
    const std::lock_guard lock(reader->mutex_);
    const auto at = std::find_if(reader->line_.begin(), reader->line_.end(),
                                 [cancelled](const auto& each) { return each.get() == cancelled; });
    if (at != reader->line_.end()) {
      out = std::move(*at);
      reader->line_.erase(at);
    }
  }
  if (out == nullptr) return tenon_plugin_host->status_release(why);  // it is active just now, and asks for itself
  (void)out->context.services().cancel_unsubscribe(out->context.frame(), out->token);
  const Done done = out->done;
  out.reset();
  done(why);
}

// ---- Of the active call ----

// Go() comes, on a thread that may wait.
void Reader::Schedule() {
  Work(active_->context).Schedule(0, [this](Outcome outcome) { Go(std::move(outcome)); }, TENON_WORK_MAY_WAIT);
}

void Reader::Go(Outcome scheduled) noexcept {
  tenon_status* failure = nullptr;
  try {
    if (!scheduled.ok()) {
      failure = ToStatus(scheduled);
    } else if (!Perform()) {
      // What comes may have come, and this call ended, before it returns.
      return TakeOne(
          *active_->queue, active_->context,
          [this](Outcome why, std::span<const tenon_tensor_view> components) { OnName(std::move(why), components); });
    }
  } catch (...) {
    failure = CurrentFailure();
  }
  End(failure);
}

// False: it needs the name of a file.
bool Reader::Perform() {
  const RunContext& c = active_->context;
  switch (active_->kind) {
    case Kind::kReadOne:
    case Kind::kReadUpTo:
      if (active_->named) OpenFile();
      if (!ReadSome()) return false;
      GiveRecords();
      return true;
    case Kind::kReset: ResetState(); return true;
    case Kind::kSerialize: SetStrings(c, 0, {}, std::vector<std::string>{Serialized()}); return true;
    case Kind::kRestore: RestoreFrom(active_->text); return true;
  }
  return true;
}

// False: it needs a file.
bool Reader::ReadSome() {
  const auto wanted = static_cast<size_t>(active_->wanted);
  while (active_->keys.size() < wanted) {
    if (!open_) return active_->kind == Kind::kReadUpTo && !active_->keys.empty();
    if (!TakeRecord() || format_->single()) FinishFile();
  }
  return true;
}

// False at the end of the file.
bool Reader::TakeRecord() {
  Call& call = *active_;
  std::string key, value;
  if (!format_->Next(key, value, call.context)) return false;
  call.bytes += key.size() + value.size() + 2 * sizeof(std::string);
  if (call.bytes > call.asked) CheckRoom(call.context, call.asked = 2 * call.bytes);
  call.keys.push_back(std::move(key));
  call.values.push_back(std::move(value));
  const std::lock_guard lock(mutex_);
  ++state_.produced;
  return true;
}

void Reader::FinishFile() {
  format_->Close();
  open_ = false;
  const std::lock_guard lock(mutex_);
  state_.finished = state_.started;
}

void Reader::GiveRecords() {
  const auto count = static_cast<int64_t>(active_->keys.size());
  const Dims dims = active_->kind == Kind::kReadOne ? Dims() : Dims(&count, 1);
  SetStrings(active_->context, 0, dims, active_->keys);
  SetStrings(active_->context, 1, dims, active_->values);
}

void Reader::OnName(Outcome failure, std::span<const tenon_tensor_view> components) noexcept {
  try {
    if (!failure.ok()) {
      ForgetName();
      return End(ToStatus(failure));
    }
    if (components.size() != 1 || components[0].dtype != TENON_DT_STRING || Count(components[0]) != 1)
      Fail(TENON_INVALID_ARGUMENT, "the ", Describe(), " takes names of files, one a time; the ",
           ToText(active_->queue->description()), " gives something else");
    active_->name = StringAt(components[0], 0);
    active_->named = true;
    Schedule();
  } catch (...) {
    End(CurrentFailure());
  }
}

// A state that is saved now is without a file, as in TensorFlow.
void Reader::ForgetName() {
  const std::lock_guard lock(mutex_);
  state_.work.clear();
}

// A file that cannot be opened is left out: the next call takes the next one.
void Reader::OpenFile() {
  active_->named = false;
  format_->Open(active_->name, active_->context);
  open_ = true;
  const std::lock_guard lock(mutex_);
  ++state_.started;
  state_.work = std::move(active_->name);
}

void Reader::End(tenon_status* failure) noexcept {
  const std::shared_ptr<Reader> self = active_->reader;
  for (;;) {
    std::unique_ptr<Call> ended;
    Call* next = nullptr;
    {
      const std::lock_guard lock(mutex_);
      ended = std::move(active_);
      if (!line_.empty()) {
        active_ = std::move(line_.front());
        line_.pop_front();
        next = active_.get();
      }
    }
    const Done done = ended->done;
    ended.reset();
    const Outcome next_failure = next == nullptr ? Outcome() : Start(*next);
    done(failure);
    if (next_failure.ok()) return;
    failure = ToStatus(next_failure);
  }
}

// Of the call that has become active.
Outcome Reader::Start(Call& call) noexcept {
  (void)call.context.services().cancel_unsubscribe(call.context.frame(), call.token);
  try {
    Schedule();
    return {};
  } catch (...) {
    return TakeStatus(CurrentFailure());
  }
}

// ---- State ----

void Reader::ResetState() {
  format_->Close();
  open_ = false;
  const std::lock_guard lock(mutex_);
  state_ = State();
}

constexpr uint32_t kStarted = 1, kFinished = 2, kProduced = 3, kWork = 4;  // fields of ReaderBaseState

std::string Reader::Serialized() const {
  if (!format_->single())
    Fail(TENON_UNIMPLEMENTED, "the state of a ", options_.op,
         ", which may be in the middle of a file, cannot be saved");
  WireWriter out;
  out.Varint(kStarted, static_cast<uint64_t>(state_.started));
  out.Varint(kFinished, static_cast<uint64_t>(state_.finished));
  out.Varint(kProduced, static_cast<uint64_t>(state_.produced));
  if (!state_.work.empty()) out.Bytes(kWork, state_.work);
  return out.bytes();
}

// What is refused leaves the reader as new.
void Reader::RestoreFrom(std::string_view text) {
  ResetState();
  if (!format_->single())
    Fail(TENON_UNIMPLEMENTED, "the state of a ", options_.op,
         ", which may be in the middle of a file, cannot be restored");
  State state;
  WireReader in(text);
  while (in.Next()) {
    if (in.field() == kStarted) state.started = static_cast<int64_t>(in.varint());
    else if (in.field() == kFinished) state.finished = static_cast<int64_t>(in.varint());
    else if (in.field() == kProduced) state.produced = static_cast<int64_t>(in.varint());
    else if (in.field() == kWork) state.work = in.delimited();
  }
  if (!in.ok())
    Fail(TENON_INVALID_ARGUMENT, "the state for the ", Describe(), " is no ReaderBaseState: ", text.size(),
         " bytes that cannot be read");
  if (state.started < 0 || state.finished < 0 || state.produced < 0)
    Fail(TENON_INVALID_ARGUMENT, "the state for the ", Describe(), " has a negative number");
  if (state.started != state.finished)
    Fail(TENON_INVALID_ARGUMENT, "the state for the ", Describe(), " has ", state.started, " files begun and ",
         state.finished, " finished; there is no position in one");
  const std::lock_guard lock(mutex_);
  state_ = std::move(state);
}

}  // namespace tenon::ops::input
