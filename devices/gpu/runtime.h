// SPDX-License-Identifier: Apache-2.0
// What the shared half of a GPU plugin needs of a vendor: its driver (Runtime) and one opened GPU (Card).
//
// CUDA and ROCm implement it over the driver's library, which they open by name on first use; emulation/ over the
// host's threads. Nothing here is an op or a tensor. Products, convolutions and compiling at run time are optional
// parts (libraries.h), asked for by Card::library().
//
// Errors. A status of UNAVAILABLE means that the GPU is lost to this process (a sticky error): every later call fails.
// RESOURCE_EXHAUSTED: no memory. Everything else is the fault of the call. Texts name the driver's function and error.
// Threads. Any thread may call anything, after Activate() on that thread; streams take work in the order of the calls.
#ifndef TENON_DEVICES_GPU_RUNTIME_H_
#define TENON_DEVICES_GPU_RUNTIME_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tenon/sdk/outcome.h"

namespace tenon::gpu {

using sdk::Fault;
using sdk::Outcome;
using sdk::TakeStatus;
using sdk::ToStatus;

// The vendor's own handles under names that tell them apart.
using Stream = struct StreamTag*;
using Module = struct ModuleTag*;
using Function = struct FunctionTag*;
using Event = struct EventTag*;
using CapturedGraph = struct CapturedGraphTag*;

// What is known of a GPU before it is used.
struct CardFacts {
  std::string name;           // of the model
  int32_t number = 0;         // the driver's
  int32_t dl_device_type = 0;  // DLPack's: 2 CUDA, 10 ROCm, 1 the host's memory
  uint64_t memory_bytes = 0;
  int32_t processors = 1;  // multiprocessors, compute units
  int32_t warp = 32;       // of the hardware
  int32_t major = 0, minor = 0;   // compute capability; 0: none
  std::string architecture;       // "sm_90", "gfx90a"
  double flops = 0, bytes_per_second = 0, link_bytes_per_second = 0;  // peaks; 0: unknown
  uint64_t most_shared_bytes = 48 * 1024;  // of a block
};

// Device code as a compiler gave it, for LoadModule.
struct Image {
  const void* data = nullptr;
  uint64_t bytes = 0;
  const char* names =
      "\n";  // of the kernels in it, a line each, behind an empty one; with no more than that they are not known
};

struct Grid {
  uint32_t blocks[3] = {1, 1, 1};
  uint32_t threads = 1;
};

class Card {
 public:
  virtual ~Card() = default;
  const CardFacts& facts() const { return facts_; }
  // Makes this GPU the calling thread's.
  virtual Outcome Activate() = 0;

  // Device memory, at least 256-byte aligned. With a stream: in its order, both ways.
  virtual Outcome Allocate(uint64_t bytes, Stream stream, void** out_data) = 0;
  virtual void Free(void* data, Stream stream) = 0;
  // Gives back what was freed and is kept for later, as far as streams that were found idle are past it.
  virtual void Trim() {}
  // Memory of the host that this GPU and its peers reach by the same address.
  virtual Outcome AllocatePinned(uint64_t bytes, void** out_data) = 0;
  virtual void FreePinned(void* data) = 0;
  // A word for WaitForWord, on any GPU of this runtime, where streams do not wait for words of pinned memory; host,
  // kernels' streams and WriteWord reach it too. NULL: they do.
  virtual Outcome AllocateWaited(uint64_t** out_word) {
    *out_word = nullptr;
    return {};
  }
  virtual void FreeWaited(uint64_t* /*word*/) {}
  // Whether it is memory of this GPU, whoever allocated it.
  virtual bool IsDeviceMemory(const void* address) = 0;
  virtual Outcome MemoryInUse(uint64_t* out_free, uint64_t* out_total) = 0;
  // Lets kernels and copies of this GPU reach the peer's memory; does nothing where they cannot.
  virtual Outcome EnablePeer(Card& peer) = 0;

  virtual Outcome CreateStream(int32_t priority, Stream* out_stream) = 0;
  virtual void DestroyStream(Stream stream) = 0;  // waits for its work
  virtual Outcome Synchronize(Stream stream) = 0;
  // OK while the GPU lives, whether busy or not. out_idle: whether the stream has done what it was given; may be NULL.
  virtual Outcome Health(Stream stream, bool* out_idle) = 0;

  // In the stream's order. Host memory of Copy is pinned.
  virtual Outcome Copy(void* target, const void* source, uint64_t bytes, Stream stream) = 0;
  // Between memory of two GPUs, of which this is one.
  virtual Outcome CopyBetween(void* target, Card& to, const void* source, Card& from, uint64_t bytes,
                              Stream stream) = 0;
  // unit: 1, 2 or 4 bytes of `value` again and again; count units.
  virtual Outcome Fill(void* target, uint32_t value, uint32_t unit, uint64_t count, Stream stream) = 0;
  // Of an aligned word that host and device see: what stands before is seen before. A wait, for a word of
  // AllocateWaited() or where there is none of pinned memory, ends when the word less at_least is not negative, as a
  // signed number.
  virtual Outcome WriteWord(uint64_t* word, uint64_t value, Stream stream) = 0;
  virtual Outcome WaitForWord(uint64_t* word, uint64_t at_least, Stream stream) = 0;
  // What the stream is given from now on begins when what the other one, of any library, was given so far has ended.
  virtual Outcome WaitForStream(Stream other, Stream stream) = 0;
  // HostCalls::Run(call) on a thread of the driver, which may call nothing of this interface. On a lost GPU at any
  // time, or never.
  virtual Outcome CallHost(uint64_t call, Stream stream) = 0;

  // Code for this GPU out of an image that may hold code for several (a fatbin, a code object, what a compiler gave).
  virtual Outcome LoadModule(const void* image, uint64_t bytes, Module* out_module) = 0;
  virtual void UnloadModule(Module module) = 0;
  // Ready to launch. Both may wait until the GPU is idle, and compile for a GPU that the image has no machine code for.
  virtual Outcome FindFunction(Module module, const char* name, Function* out_function) = 0;
  virtual Outcome Launch(Function function, const Grid& grid, const void* params, uint64_t params_bytes,
                         Stream stream) = 0;

  virtual Outcome CreateEvent(Event* out_event) = 0;
  virtual void DestroyEvent(Event event) = 0;
  virtual Outcome Record(Event event, Stream stream) = 0;
  // Whether it was recorded and has come.
  virtual bool HasCome(Event event) = 0;
  // Between two events that have come, in nanoseconds.
  virtual Outcome Elapsed(Event begin, Event end, double* out_nanoseconds) = 0;

  // Work given to the stream from now on is kept instead of done; EndCapture gives it as a graph, ready to launch again
  // and again.
  virtual Outcome BeginCapture(Stream stream) = 0;
  virtual Outcome EndCapture(Stream stream, CapturedGraph* out_graph, uint64_t* out_nodes) = 0;
  virtual Outcome LaunchGraph(CapturedGraph graph, Stream stream) = 0;
  virtual void DestroyGraph(CapturedGraph graph) = 0;

  // What compiles device code at run time, by name, version and target; "": nothing does, and Compile() says why.
  virtual std::string CompilerName() { return ""; }
  // The image of a source that includes headers of code/ and tenon/sdk (images.h). A status holds the compiler's log.
  virtual Outcome Compile(const std::string& source, std::vector<char>* out_image) = 0;

 protected:
  CardFacts facts_;
};

class Runtime {
 public:
  virtual ~Runtime() = default;
  // How many GPUs there are. A status says why there is none, and what would help.
  virtual Outcome Count(uint32_t* out_count) = 0;
  virtual Outcome Open(uint32_t index, std::unique_ptr<Card>* out_card) = 0;
  // The images of this plugin's kernels.
  virtual std::vector<Image> Images() = 0;
};

// The vendor's, defined by each plugin (and the emulation) once.
struct Vendor {
  const char* plugin;   // "tenon.cuda"
  const char* name;     // "CUDA", for texts
  std::unique_ptr<Runtime> (*make)(const struct Options& options);
};
extern const Vendor kVendor;

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_RUNTIME_H_
