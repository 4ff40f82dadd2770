// SPDX-License-Identifier: Apache-2.0
// A small host for tests of a package's host kernels: statuses, buffers, nodes, frames with resources, and files in
// memory that fail when told.
//
// Include it in one source of a test; it defines tenon_plugin_host. Not thread-safe.
#ifndef TENON_TESTS_FAKES_KERNEL_HOST_H_
#define TENON_TESTS_FAKES_KERNEL_HOST_H_

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/ext/files.h"
#include "tenon/plugin.h"
#include "tenon/sdk/span.h"

struct tenon_status {
  uint32_t code;
  std::string message;
};
struct tenon_buffer {
  int references = 1;
  std::vector<int64_t> dims;
  std::vector<std::max_align_t> memory;
};
struct tenon_resource {
  void* object = nullptr;
  void (*destroy)(void*) = nullptr;
  ~tenon_resource() {
    if (object != nullptr) destroy(object);
  }
};

namespace tenon::fakes {

inline std::string_view Text(tenon_span span) { return {span.size == 0 ? "" : span.data, span.size}; }
inline tenon_status* NewStatus(uint32_t code, std::string message) {
  return new tenon_status{code, std::move(message)};
}

// Owns a status that a plugin gave.
struct Outcome {
  Outcome(tenon_status* status) {  // NOLINT(google-explicit-constructor)
    if (status == nullptr) return;
    code = status->code;
    message = status->message;
    delete status;
  }
  bool ok() const { return code == TENON_OK; }
  uint32_t code = TENON_OK;
  std::string message;
};

// ---- Files in memory ----

class MemoryFiles {
 public:
  std::map<std::string, std::string, std::less<>> files;
  std::set<std::string, std::less<>> folders;
  // Counts what changes something. Operation number fail_at fails (1 is the first), and all later ones if crash.
  int operations = 0;
  int fail_at = 0;
  bool crash = false;
  // Asked before every call: a code other than TENON_OK fails it.
  std::function<uint32_t(std::string_view operation, std::string_view path)> on_call = nullptr;
  int calls = 0;           // of whatever kind
  bool cancelled = false;  // what kernels are told that ask
  std::set<std::string, std::less<>> writing;  // opened for writing, and not closed: nobody else opens them so

  static MemoryFiles*& Current() {
    static MemoryFiles* current = nullptr;
    return current;
  }
  tenon_status* Asked(std::string_view operation, std::string_view path) {
    ++calls;
    const uint32_t code = on_call ? on_call(operation, path) : TENON_OK;
    if (code == TENON_OK) return nullptr;
    return NewStatus(code, std::string(operation) + " " + std::string(path) + ": refused by the test");
  }
  bool Fails() {
    ++operations;
    return fail_at > 0 && (operations == fail_at || (crash && operations > fail_at));
  }
};

struct OpenFile {
  std::string path;
  bool writes = false;
};

inline tenon_status* Broken(std::string_view what, std::string_view path) {
  return NewStatus(TENON_RESOURCE_EXHAUSTED, std::string(what) + " " + std::string(path) + ": no space left");
}

inline const tenon_files* Files() {
  static const tenon_files table = [] {
    tenon_files f = {};
    f.struct_size = sizeof(f);
    f.open_read = [](tenon_span path, tenon_file** out) -> tenon_status* {
      if (tenon_status* bad = MemoryFiles::Current()->Asked("open_read", Text(path))) return bad;
      if (MemoryFiles::Current()->files.count(Text(path)) == 0) {
        return NewStatus(TENON_NOT_FOUND, "open " + std::string(Text(path)) + ": no such file");
      }
      *out = reinterpret_cast<tenon_file*>(new OpenFile{std::string(Text(path))});
      return nullptr;
    };
    f.open_write = [](tenon_span path, tenon_file** out) -> tenon_status* {
      if (tenon_status* bad = MemoryFiles::Current()->Asked("open_write", Text(path))) return bad;
      if (MemoryFiles::Current()->Fails()) return Broken("open", Text(path));
      if (!MemoryFiles::Current()->writing.emplace(Text(path)).second) return NewStatus(TENON_ABORTED, "somebody writes " + std::string(Text(path)));
      MemoryFiles::Current()->files[std::string(Text(path))].clear();
      *out = reinterpret_cast<tenon_file*>(new OpenFile{std::string(Text(path)), true});
      return nullptr;
    };
    f.open_append = [](tenon_span path, tenon_file** out) -> tenon_status* {
      if (tenon_status* bad = MemoryFiles::Current()->Asked("open_append", Text(path))) return bad;
      if (MemoryFiles::Current()->Fails()) return Broken("open", Text(path));
      MemoryFiles::Current()->files.try_emplace(std::string(Text(path)));
      *out = reinterpret_cast<tenon_file*>(new OpenFile{std::string(Text(path))});
      return nullptr;
    };
    f.size = [](tenon_file* file, uint64_t* out) -> tenon_status* {
      *out = MemoryFiles::Current()->files[reinterpret_cast<OpenFile*>(file)->path].size();
      return nullptr;
    };
    f.read_at = [](tenon_file* file, uint64_t offset, void* target, uint64_t bytes) -> tenon_status* {
      const std::string& path = reinterpret_cast<OpenFile*>(file)->path;
      if (tenon_status* bad = MemoryFiles::Current()->Asked("read_at", path)) return bad;
      const std::string& text = MemoryFiles::Current()->files[path];
      if (offset > text.size() || bytes > text.size() - offset)
        return NewStatus(TENON_OUT_OF_RANGE, path + " is shorter");
      std::memcpy(target, text.data() + offset, bytes);
      return nullptr;
    };
    f.write = [](tenon_file* file, const void* source, uint64_t bytes) -> tenon_status* {
      const std::string& path = reinterpret_cast<OpenFile*>(file)->path;
      if (tenon_status* bad = MemoryFiles::Current()->Asked("write", path)) return bad;
      const bool fails = MemoryFiles::Current()->Fails();
      // A failing write leaves a part of its bytes.
      MemoryFiles::Current()->files[path].append(static_cast<const char*>(source), fails ? bytes / 2 : bytes);
      return fails ? Broken("write", path) : nullptr;
    };
    f.sync = [](tenon_file* file) -> tenon_status* {
      return MemoryFiles::Current()->Fails() ? Broken("sync", reinterpret_cast<OpenFile*>(file)->path) : nullptr;
    };
    f.close = [](tenon_file* file) -> tenon_status* {
      const OpenFile& open = *reinterpret_cast<OpenFile*>(file);
      if (open.writes && MemoryFiles::Current() != nullptr) MemoryFiles::Current()->writing.erase(open.path);
      delete reinterpret_cast<OpenFile*>(file);
      return nullptr;
    };
    f.rename = [](tenon_span from, tenon_span to) -> tenon_status* {
      MemoryFiles& memory = *MemoryFiles::Current();
      if (tenon_status* bad = memory.Asked("rename", Text(from))) return bad;
      if (memory.Fails()) return Broken("rename", Text(from));
      auto node = memory.files.extract(std::string(Text(from)));
      if (node.empty()) return NewStatus(TENON_NOT_FOUND, "rename " + std::string(Text(from)) + ": no such file");
      memory.files[std::string(Text(to))] = std::move(node.mapped());
      return nullptr;
    };
    f.remove = [](tenon_span path) -> tenon_status* {
      MemoryFiles& memory = *MemoryFiles::Current();
      if (tenon_status* bad = memory.Asked("remove", Text(path))) return bad;
      if (memory.Fails()) return Broken("remove", Text(path));
      if (memory.files.erase(std::string(Text(path))) + memory.folders.erase(std::string(Text(path))) == 0) {
        return NewStatus(TENON_NOT_FOUND, "remove " + std::string(Text(path)) + ": no such file");
      }
      return nullptr;
    };
    f.make_directory = [](tenon_span path) -> tenon_status* {
      if (MemoryFiles::Current()->Fails()) return Broken("make", Text(path));
      MemoryFiles::Current()->folders.insert(std::string(Text(path)));
      return nullptr;
    };
    f.sync_directory = [](tenon_span path) -> tenon_status* {
      return MemoryFiles::Current()->Fails() ? Broken("sync", Text(path)) : nullptr;
    };
    f.exists = [](tenon_span path) -> uint32_t {
      MemoryFiles& memory = *MemoryFiles::Current();
      ++memory.calls;
      return memory.files.count(Text(path)) + memory.folders.count(Text(path)) > 0 ? 1 : 0;
    };
    return f;
  }();
  return &table;
}

// What kernels get instead of the MemoryFiles, while it is not nullptr.
inline const tenon_files*& OtherFiles() {
  static const tenon_files* files = nullptr;
  return files;
}

// ---- The host's table ----

inline const tenon_host* Host() {
  static const tenon_host host = [] {
    tenon_host h = {};
    h.struct_size = sizeof(h);
    h.status_new = [](uint32_t code, tenon_span message) { return NewStatus(code, std::string(Text(message))); };
    h.status_code = [](const tenon_status* status) { return status->code; };
    h.status_message = [](const tenon_status* status) {
      return tenon_span{status->message.data(), status->message.size()};
    };
    h.status_release = [](tenon_status* status) { delete status; };
    h.buffer_retain = [](tenon_buffer* buffer) { ++buffer->references; };
    h.buffer_release = [](tenon_buffer* buffer) {
      if (--buffer->references == 0) delete buffer;
    };
    h.get_extension = [](tenon_span id) -> const void* {
      if (Text(id) != TENON_EXTENSION_FILES) return nullptr;
      if (OtherFiles() != nullptr) return OtherFiles();
      return MemoryFiles::Current() != nullptr ? Files() : nullptr;
    };
    return h;
  }();
  return &host;
}

// ---- Tensors ----

class Tensor {
 public:
  Tensor() = default;
  Tensor(uint32_t dtype, std::vector<int64_t> dims, const void* data, size_t bytes)
      : Tensor(dtype, std::move(dims), bytes) {
    if (bytes > 0) std::memcpy(buffer_->memory.data(), data, bytes);
  }
  // Uninitialised.
  Tensor(uint32_t dtype, std::vector<int64_t> dims, size_t bytes) : buffer_(new tenon_buffer) {
    buffer_->dims = std::move(dims);
    buffer_->memory.resize(bytes / sizeof(std::max_align_t) + 1);
    view_.dl.data = buffer_->memory.data();
    view_.dl.device_type = 1;
    view_.dl.ndim = static_cast<int32_t>(buffer_->dims.size());
    view_.dl.shape = buffer_->dims.data();
    view_.dtype = dtype;
    view_.byte_size = bytes;
    view_.flags = TENON_VIEW_HOST_VISIBLE;
    view_.buffer = buffer_;
  }
  // Shares the view's buffer.
  explicit Tensor(const tenon_tensor_view& view) : buffer_(view.buffer), view_(view) {
    ++buffer_->references;
    view_.dl.shape = buffer_->dims.data();
  }
  Tensor(Tensor&& other) noexcept : buffer_(std::exchange(other.buffer_, nullptr)), view_(other.view_) {}
  Tensor& operator=(Tensor&& other) noexcept {
    std::swap(buffer_, other.buffer_);
    std::swap(view_, other.view_);
    return *this;
  }
  ~Tensor() {
    if (buffer_ != nullptr) Host()->buffer_release(buffer_);
  }

  template <class T>
  static Tensor Of(uint32_t dtype, std::vector<int64_t> dims, const std::vector<T>& values) {
    return Tensor(dtype, std::move(dims), values.data(), values.size() * sizeof(T));
  }
  static Tensor Strings(std::vector<int64_t> dims, const std::vector<std::string>& values) {
    std::string bytes(values.size() * sizeof(tenon_string_cell), '\0');
    for (size_t i = 0; i < values.size(); ++i) {
      const tenon_string_cell cell = {bytes.size(), values[i].size()};
      std::memcpy(bytes.data() + i * sizeof(cell), &cell, sizeof(cell));
      bytes += values[i];
    }
    return Tensor(TENON_DT_STRING, std::move(dims), bytes.data(), bytes.size());
  }

  const tenon_tensor_view& view() const { return view_; }
  tenon_tensor_view& view() { return view_; }
  uint32_t dtype() const { return view_.dtype; }
  std::vector<int64_t> dims() const { return buffer_->dims; }
  template <class T>
  std::vector<T> Values() const {
    int64_t count = 1;
    for (int64_t dim : buffer_->dims) count *= dim;
    const T* data = static_cast<const T*>(view_.dl.data);
    return std::vector<T>(data, data + count);
  }
  std::vector<std::string> Strings() const {
    std::vector<std::string> out;
    for (const tenon_string_cell& cell : Values<tenon_string_cell>()) {
      out.emplace_back(static_cast<const char*>(view_.dl.data) + cell.offset, cell.size);
    }
    return out;
  }

 private:
  tenon_buffer* buffer_ = nullptr;
  tenon_tensor_view view_ = {};
};

}  // namespace tenon::fakes

// ---- Nodes and frames ----

struct tenon_node {
  std::map<std::string, std::string, std::less<>> strings;
  std::map<std::string, uint8_t, std::less<>> bools;
  std::map<std::string, uint32_t, std::less<>> types;
  std::vector<uint32_t> output_types;
  std::map<std::string, int64_t, std::less<>> ints = {};
  std::map<std::string, std::vector<uint32_t>, std::less<>> type_lists = {};
  std::map<std::string, std::vector<std::vector<int64_t>>, std::less<>> shape_lists = {};
  mutable std::deque<tenon_span> spans = {};
  mutable std::vector<tenon_shape> shapes = {};
};
struct tenon_frame_context {
  std::vector<tenon::fakes::Tensor> outputs;
  std::vector<tenon_tensor_view*> output_views;
  std::vector<uint32_t> output_types;
  std::vector<std::unique_ptr<tenon_resource>>* resources;
  tenon_done_function on_cancel = nullptr;
  void* on_cancel_argument = nullptr;
  bool cancelled = false;
};

namespace tenon::fakes {

inline const tenon_node_services* NodeServices() {
  static const tenon_node_services table = [] {
    tenon_node_services s = {};
    s.struct_size = sizeof(s);
    s.name = [](const tenon_node*) { return tenon_span TENON_SPAN("node"); };
    s.attr = [](const tenon_node* node, tenon_span name, tenon_attr_value* out) -> tenon_status* {
      const std::string_view key = Text(name);
      if (const auto at = node->strings.find(key); at != node->strings.end()) {
        node->spans.push_back({at->second.data(), at->second.size()});
        *out = {TENON_ATTR_STRING, 0, 1, &node->spans.back()};
      } else if (const auto flag = node->bools.find(key); flag != node->bools.end()) {
        *out = {TENON_ATTR_BOOL, 0, 1, &flag->second};
      } else if (const auto type = node->types.find(key); type != node->types.end()) {
        *out = {TENON_ATTR_TYPE, 0, 1, &type->second};
      } else if (const auto number = node->ints.find(key); number != node->ints.end()) {
        *out = {TENON_ATTR_INT, 0, 1, &number->second};
      } else if (const auto list = node->type_lists.find(key); list != node->type_lists.end()) {
        *out = {TENON_ATTR_TYPE | TENON_ATTR_LIST, 0, list->second.size(), list->second.data()};
      } else if (const auto shapes = node->shape_lists.find(key); shapes != node->shape_lists.end()) {
        node->shapes.clear();
        for (const auto& dims : shapes->second) node->shapes.push_back({dims.data(), static_cast<int32_t>(dims.size()), 0});
        *out = {TENON_ATTR_SHAPE | TENON_ATTR_LIST, 0, node->shapes.size(), node->shapes.data()};
      } else {
        return NewStatus(TENON_NOT_FOUND, "no attribute " + std::string(key));
      }
      return nullptr;
    };
    s.output_count = [](const tenon_node* node) { return static_cast<int32_t>(node->output_types.size()); };
    s.output_dtype = [](const tenon_node* node, int32_t i) { return node->output_types[static_cast<size_t>(i)]; };
    return s;
  }();
  return &table;
}

inline const tenon_frame_services* FrameServices() {
  static const tenon_frame_services table = [] {
    tenon_frame_services s = {};
    s.struct_size = sizeof(s);
    s.alloc_output = [](tenon_frame* frame, int32_t i, tenon_shape shape, uint64_t extra) -> tenon_status* {
      const uint32_t dtype = frame->context->output_types[static_cast<size_t>(i)];
      uint64_t bytes = dtype == TENON_DT_STRING || dtype == TENON_DT_COMPLEX128 ? 16 : 8;  // at most
      for (int32_t d = 0; d < shape.rank; ++d) bytes *= static_cast<uint64_t>(shape.dims[d]);
      Tensor& output = frame->context->outputs[static_cast<size_t>(i)];
      output = Tensor(dtype, std::vector<int64_t>(shape.dims, shape.dims + shape.rank), bytes + extra);
      *frame->outputs[i] = output.view();
      return nullptr;
    };
    s.alloc_tensor = [](tenon_frame*, uint32_t dtype, tenon_shape shape, uint64_t extra, tenon_tensor_view* out) -> tenon_status* {
      uint64_t bytes = dtype == TENON_DT_STRING ? sizeof(tenon_string_cell) : sdk::ElementSize(dtype);
      for (int32_t d = 0; d < shape.rank; ++d) bytes *= static_cast<uint64_t>(shape.dims[d]);
      const Tensor tensor(dtype, std::vector<int64_t>(shape.dims, shape.dims + shape.rank), bytes + extra);
      *out = tensor.view();
      out->byte_size = bytes;
      ++out->buffer->references;
      return nullptr;
    };
    s.set_output = [](tenon_frame* frame, int32_t i, const tenon_tensor_view* view) -> tenon_status* {
      frame->context->outputs[static_cast<size_t>(i)] = Tensor(*view);
      *frame->outputs[i] = frame->context->outputs[static_cast<size_t>(i)].view();
      return nullptr;
    };
    s.retain_input = [](tenon_frame* frame, int32_t i, tenon_tensor_view* out) -> tenon_status* {
      *out = *frame->inputs[i];
      ++out->buffer->references;
      return nullptr;
    };
    s.is_cancelled = [](tenon_frame* frame) -> uint32_t {
      return frame->context->cancelled || (MemoryFiles::Current() != nullptr && MemoryFiles::Current()->cancelled);
    };
    s.cancel_subscribe = [](tenon_frame* frame, tenon_done_function callback, void* argument) -> uint64_t {
      if (frame->context->cancelled) return 0;
      frame->context->on_cancel = callback;
      frame->context->on_cancel_argument = argument;
      return 1;
    };
    s.cancel_unsubscribe = [](tenon_frame* frame, uint64_t) -> uint32_t {
      return std::exchange(frame->context->on_cancel, nullptr) != nullptr;
    };
    s.input_resource = [](tenon_frame* frame, int32_t i, tenon_resource** out) -> tenon_status* {
      *out = *static_cast<tenon_resource**>(frame->inputs[i]->dl.data);
      return nullptr;
    };
    s.resource_object = [](tenon_frame*, tenon_resource* handle, tenon_status* (*create)(void*, void**), void* argument,
                           void (*destroy)(void*), void** out) -> tenon_status* {
      if (handle->object == nullptr) {
        if (create == nullptr) return NewStatus(TENON_NOT_FOUND, "no such resource");
        if (tenon_status* status = create(argument, &handle->object)) return status;
        handle->destroy = destroy;
      }
      *out = handle->object;
      return nullptr;
    };
    s.resource_destroy = [](tenon_frame*, tenon_resource* handle) -> tenon_status* {
      if (handle->object == nullptr) return NewStatus(TENON_NOT_FOUND, "no such resource");
      handle->destroy(std::exchange(handle->object, nullptr));
      return nullptr;
    };
    s.variable_is_initialized = [](tenon_frame*, tenon_resource* handle) -> uint32_t { return handle->object != nullptr; };
    s.step_resource = [](tenon_frame* frame, tenon_span, tenon_resource** out) -> tenon_status* {
      frame->context->resources->push_back(std::make_unique<tenon_resource>());
      *out = frame->context->resources->back().get();
      return nullptr;
    };
    return s;
  }();
  return &table;
}

// Handles by name, made when first asked for.
inline const tenon_create_services* CreateServices() {
  static const tenon_create_services table = [] {
    tenon_create_services s = {};
    s.struct_size = sizeof(s);
    s.resource_handle = [](tenon_create_context* context, tenon_span, tenon_span name, tenon_span, uint32_t,
                           tenon_resource** out) -> tenon_status* {
      auto& handles = *reinterpret_cast<std::map<std::string, std::unique_ptr<tenon_resource>>*>(context);
      auto& handle = handles[std::string(Text(name))];
      if (handle == nullptr) handle = std::make_unique<tenon_resource>();
      *out = handle.get();
      return nullptr;
    };
    return s;
  }();
  return &table;
}

// One run of a kernel: made, run, and ended when the kernel says so. Inputs live as long as it.
class Call {
 public:
  // Static outputs are allocated as scalars.
  Call(const tenon_kernel_registration& kernel, tenon_node node, const std::vector<const Tensor*>& inputs, void* handles,
       std::vector<std::unique_ptr<tenon_resource>>* resources)
      : kernel_(kernel), node_(std::move(node)) {
    for (const Tensor* input : inputs) inputs_.push_back(&input->view());
    context_.output_types = node_.output_types;
    context_.resources = resources;
    output_views_.resize(node_.output_types.size());
    for (size_t i = 0; i < output_views_.size(); ++i) {
      context_.outputs.emplace_back(node_.output_types[i], std::vector<int64_t>{}, 16);
      output_views_[i] = context_.outputs.back().view();
      // As in the engine, there is nothing of an output that the kernel makes.
      if ((kernel.dynamic_outputs >> std::min<size_t>(i, 63) & 1) != 0) output_views_[i] = {};
    }
    for (tenon_tensor_view& view : output_views_) context_.output_views.push_back(&view);
    frame_.struct_size = sizeof(frame_);
    frame_.inputs = inputs_.data();
    frame_.outputs = context_.output_views.data();
    frame_.input_count = static_cast<int32_t>(inputs_.size());
    frame_.output_count = static_cast<int32_t>(output_views_.size());
    frame_.services = FrameServices();
    frame_.context = &context_;
    Start(handles);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() {
    if (kernel_.destroy != nullptr && object_ != nullptr) kernel_.destroy(object_);
  }

  bool done() const { return ends_ > 0; }
  int ends() const { return ends_; }
  const Outcome& outcome() const { return outcome_; }
  std::vector<Tensor>& outputs() { return context_.outputs; }
  // As the step's cancellation would.
  void Cancel(uint32_t code = TENON_CANCELLED) {
    context_.cancelled = true;
    if (context_.on_cancel != nullptr) context_.on_cancel(context_.on_cancel_argument, NewStatus(code, "the step was cancelled"));
  }

 private:
  void Start(void* handles) {
    tenon_create_args create = {};
    create.struct_size = sizeof(create);
    create.node_services = NodeServices();
    create.node = &node_;
    create.services = CreateServices();
    create.context = static_cast<tenon_create_context*>(handles);
    if (kernel_.create != nullptr) {
      if (tenon_status* status = kernel_.create(&create, &object_)) return End(status);
    }
    if (kernel_.run != nullptr) return End(kernel_.run(object_, nullptr, &frame_));
    const auto done = [](void* self, tenon_status* status) { static_cast<Call*>(self)->End(status); };
    if (tenon_status* refused = kernel_.run_async(object_, nullptr, &frame_, done, this)) End(refused);
  }
  void End(tenon_status* status) {
    ++ends_;
    outcome_ = status;
  }

  const tenon_kernel_registration& kernel_;
  tenon_node node_;
  tenon_kernel* object_ = nullptr;
  std::vector<const tenon_tensor_view*> inputs_;
  tenon_frame_context context_;
  std::vector<tenon_tensor_view> output_views_;
  tenon_frame frame_ = {};
  int ends_ = 0;
  Outcome outcome_ = nullptr;
};

// One step: runs kernels, and keeps its resources until it ends.
class Step {
 public:
  Outcome Run(const tenon_kernel_registration& kernel, tenon_node node, const std::vector<const Tensor*>& inputs) {
    Call call(kernel, std::move(node), inputs, &handles_, &resources_);
    outputs = std::move(call.outputs());
    return call.outcome();
  }
  // A kernel that may end later.
  std::unique_ptr<Call> Start(const tenon_kernel_registration& kernel, tenon_node node, const std::vector<const Tensor*>& inputs) {
    return std::make_unique<Call>(kernel, std::move(node), inputs, &handles_, &resources_);
  }
  // As if the container were cleared.
  void ClearHandles() { handles_.clear(); }

  std::vector<Tensor> outputs;  // of the last kernel that was run

 private:
  std::vector<std::unique_ptr<tenon_resource>> resources_;
  std::map<std::string, std::unique_ptr<tenon_resource>> handles_;
};

}  // namespace tenon::fakes

// Weak: several files of a test may include this one.
__attribute__((weak)) const tenon_host* tenon_plugin_host = tenon::fakes::Host();

#endif  // TENON_TESTS_FAKES_KERNEL_HOST_H_
