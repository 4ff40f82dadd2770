// SPDX-License-Identifier: Apache-2.0
// A small host for tests of a package's host kernels: statuses, buffers, nodes, frames with resources, and files in
// memory that fail when told.
//
// Include it in one source of a test; it defines tenon_plugin_host. Not thread-safe.
#ifndef TENON_TESTS_FAKES_KERNEL_HOST_H_
#define TENON_TESTS_FAKES_KERNEL_HOST_H_

#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/ext/files.h"
#include "tenon/plugin.h"

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

  static MemoryFiles*& Current() {
    static MemoryFiles* current = nullptr;
    return current;
  }
  bool Fails() {
    ++operations;
    return fail_at > 0 && (operations == fail_at || (crash && operations > fail_at));
  }
};

struct OpenFile {
  std::string path;
};

inline tenon_status* Broken(std::string_view what, std::string_view path) {
  return NewStatus(TENON_RESOURCE_EXHAUSTED, std::string(what) + " " + std::string(path) + ": no space left");
}

inline const tenon_files* Files() {
  static const tenon_files table = [] {
    tenon_files f = {};
    f.struct_size = sizeof(f);
    f.open_read = [](tenon_span path, tenon_file** out) -> tenon_status* {
      if (MemoryFiles::Current()->files.count(Text(path)) == 0) {
        return NewStatus(TENON_NOT_FOUND, "open " + std::string(Text(path)) + ": no such file");
      }
      *out = reinterpret_cast<tenon_file*>(new OpenFile{std::string(Text(path))});
      return nullptr;
    };
    f.open_write = [](tenon_span path, tenon_file** out) -> tenon_status* {
      if (MemoryFiles::Current()->Fails()) return Broken("open", Text(path));
      MemoryFiles::Current()->files[std::string(Text(path))].clear();
      *out = reinterpret_cast<tenon_file*>(new OpenFile{std::string(Text(path))});
      return nullptr;
    };
    f.size = [](tenon_file* file, uint64_t* out) -> tenon_status* {
      *out = MemoryFiles::Current()->files[reinterpret_cast<OpenFile*>(file)->path].size();
      return nullptr;
    };
    f.read_at = [](tenon_file* file, uint64_t offset, void* target, uint64_t bytes) -> tenon_status* {
      const std::string& path = reinterpret_cast<OpenFile*>(file)->path;
      const std::string& text = MemoryFiles::Current()->files[path];
      if (offset > text.size() || bytes > text.size() - offset)
        return NewStatus(TENON_OUT_OF_RANGE, path + " is shorter");
      std::memcpy(target, text.data() + offset, bytes);
      return nullptr;
    };
    f.write = [](tenon_file* file, const void* source, uint64_t bytes) -> tenon_status* {
      const std::string& path = reinterpret_cast<OpenFile*>(file)->path;
      const bool fails = MemoryFiles::Current()->Fails();
      // A failing write leaves a part of its bytes.
      MemoryFiles::Current()->files[path].append(static_cast<const char*>(source), fails ? bytes / 2 : bytes);
      return fails ? Broken("write", path) : nullptr;
    };
    f.sync = [](tenon_file* file) -> tenon_status* {
      return MemoryFiles::Current()->Fails() ? Broken("sync", reinterpret_cast<OpenFile*>(file)->path) : nullptr;
    };
    f.close = [](tenon_file* file) -> tenon_status* {
      delete reinterpret_cast<OpenFile*>(file);
      return nullptr;
    };
    f.rename = [](tenon_span from, tenon_span to) -> tenon_status* {
      MemoryFiles& memory = *MemoryFiles::Current();
      if (memory.Fails()) return Broken("rename", Text(from));
      auto node = memory.files.extract(std::string(Text(from)));
      if (node.empty()) return NewStatus(TENON_NOT_FOUND, "rename " + std::string(Text(from)) + ": no such file");
      memory.files[std::string(Text(to))] = std::move(node.mapped());
      return nullptr;
    };
    f.remove = [](tenon_span path) -> tenon_status* {
      MemoryFiles& memory = *MemoryFiles::Current();
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
      return memory.files.count(Text(path)) + memory.folders.count(Text(path)) > 0 ? 1 : 0;
    };
    return f;
  }();
  return &table;
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
      return Text(id) == TENON_EXTENSION_FILES && MemoryFiles::Current() != nullptr ? Files() : nullptr;
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
  mutable std::deque<tenon_span> spans = {};
};
struct tenon_frame_context {
  std::vector<tenon::fakes::Tensor> outputs;
  std::vector<tenon_tensor_view*> output_views;
  std::vector<uint32_t> output_types;
  std::vector<std::unique_ptr<tenon_resource>>* resources;
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
    s.is_cancelled = [](tenon_frame*) -> uint32_t { return 0; };
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

// One step: runs kernels, and keeps its resources until it ends.
class Step {
 public:
  // Static outputs are allocated as scalars.
  Outcome Run(const tenon_kernel_registration& kernel, tenon_node node, const std::vector<const Tensor*>& inputs) {
    tenon_kernel* object = nullptr;
    tenon_create_args create = {};
    create.struct_size = sizeof(create);
    create.node_services = NodeServices();
    create.node = &node;
    create.services = CreateServices();
    create.context = reinterpret_cast<tenon_create_context*>(&handles_);
    if (kernel.create != nullptr) {
      if (tenon_status* status = kernel.create(&create, &object)) return status;
    }
    std::vector<const tenon_tensor_view*> views;
    for (const Tensor* input : inputs) views.push_back(&input->view());
    tenon_frame_context context;
    context.output_types = node.output_types;
    context.resources = &resources_;
    std::vector<tenon_tensor_view> output_views(node.output_types.size());
    for (size_t i = 0; i < output_views.size(); ++i) {
      context.outputs.emplace_back(node.output_types[i], std::vector<int64_t>{}, 16);
      output_views[i] = context.outputs.back().view();
    }
    for (tenon_tensor_view& view : output_views) context.output_views.push_back(&view);
    tenon_frame frame = {};
    frame.struct_size = sizeof(frame);
    frame.inputs = views.data();
    frame.outputs = context.output_views.data();
    frame.input_count = static_cast<int32_t>(views.size());
    frame.output_count = static_cast<int32_t>(output_views.size());
    frame.services = FrameServices();
    frame.context = &context;
    Outcome outcome = kernel.run(object, nullptr, &frame);
    if (kernel.destroy != nullptr) kernel.destroy(object);
    outputs = std::move(context.outputs);
    return outcome;
  }

  std::vector<Tensor> outputs;  // of the last kernel

 private:
  std::vector<std::unique_ptr<tenon_resource>> resources_;
  std::map<std::string, std::unique_ptr<tenon_resource>> handles_;
};

}  // namespace tenon::fakes

// Weak: several files of a test may include this one.
__attribute__((weak)) const tenon_host* tenon_plugin_host = tenon::fakes::Host();

#endif  // TENON_TESTS_FAKES_KERNEL_HOST_H_
