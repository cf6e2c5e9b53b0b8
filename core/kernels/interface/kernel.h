// A kernel: one implementation of one operator on one backend.
//
// This folder holds no code of any backend. Every kernel is called through this interface.
#ifndef TESSERA_CORE_KERNELS_INTERFACE_KERNEL_H_
#define TESSERA_CORE_KERNELS_INTERFACE_KERNEL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/graph/attributes.h"
#include "core/kernels/interface/device.h"
#include "core/kernels/interface/random_draw.h"
#include "core/layout/layout.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor_view.h"

namespace tessera {

// The processor on which kernels run. Workspaces and the choice of kernels depend on it and on the
// number of threads.
struct Processor {
  std::string name;  // e.g. "AMD EPYC 9B14, avx3_zen4": the same string for the same kind
  int threads = 1;
};

// An elementwise operator that is applied to an output of the main operator before it is stored.
// Its input 0 is the result so far; its other inputs follow the main operator's own inputs, in
// order.
struct Epilogue {
  std::string op;
  Attributes attributes;
  int extra_inputs = 0;
  int output = 0;

  // Returns text like "+gelu{approximate="tanh"}"; with the output, if it is not the first:
  // "+cast[1]{dtype=f32}".
  std::string ToString() const;

  friend bool operator==(const Epilogue& a, const Epilogue& b) {
    return a.op == b.op && a.attributes == b.attributes && a.extra_inputs == b.extra_inputs &&
           a.output == b.output;
  }
};

// A request for a kernel. Its text is the key of a kernel choice, of a price and of a trace entry.
struct KernelRequest {
  std::string op;
  Attributes attributes;
  std::vector<TensorType> inputs;  // local shapes; with epilogues, their extra inputs too
  std::vector<TensorType> outputs;
  std::vector<Epilogue> epilogues;  // empty unless instructions were fused
  int threads = 1;

  // "matmul{transpose_b=true} f32[1024, 768] f32[2304, 768] -> f32[1024, 2304] threads=2"
  std::string Key() const;
};

// Returns whether an epilogue is a cast by which an output that the operator's rule gives 16 bits
// is stored in f32. A kernel that computes in f32 then does not round that output.
bool StoresInF32(const KernelRequest& request, const Epilogue& epilogue);

// One call of a kernel. Inputs and outputs are row-major unless the kernel takes strides. An output
// overlaps an input only as Operator::InPlace allows.
struct KernelCall {
  const KernelRequest& request;
  absl::Span<const TensorView> inputs;
  absl::Span<const TensorView> outputs;
  void* workspace = nullptr;  // 64-byte aligned, uninitialised
  int64_t workspace_bytes = 0;
  const RandomDraw* draw = nullptr;  // if the operator draws random numbers
  Stream* stream = nullptr;          // the device's stream on which to issue the work
  // For each operand, its region of the global tensor. Empty if every operand is all of its tensor.
  absl::Span<const Region> input_regions = {};
  absl::Span<const Region> output_regions = {};
};

// A kernel bound to one request: a library's primitive is built once, when this is made. Run()
// allocates no memory, and issues its work on the call's stream. Not thread-safe.
class BoundKernel {
 public:
  virtual ~BoundKernel() = default;
  virtual absl::Status Run(const KernelCall& call) = 0;
};

// An implementation of an operator. Kernels have static lifetime; const methods are thread-safe.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual absl::string_view op() const = 0;
  // Distinguishes it from the operator's other kernels: "onednn", "highway", "loops".
  virtual absl::string_view name() const = 0;
  // Returns whether it can run this request (dtypes, attributes, epilogues).
  virtual bool Accepts(const KernelRequest& request) const = 0;
  // Return whether input i or output i may have any strides. Otherwise the tensor must be
  // row-major.
  virtual bool StridedInput(int i) const { return false; }
  virtual bool StridedOutput(int i) const { return false; }
  // Returns whether each element of the output depends only on the inputs' elements at its index. A
  // kernel with one input can then run in place on another kernel's output.
  virtual bool Elementwise() const { return false; }
  // Returns the bytes of scratch memory, which depend on the request and the processor only. The
  // memory plan provides this memory.
  virtual int64_t WorkspaceBytes(const KernelRequest& request, const Processor& processor) const {
    return 0;
  }
  // Returns whether a library uses the workspace; it may leave parts of it unwritten.
  virtual bool LibraryWorkspace() const { return false; }
  virtual absl::StatusOr<std::unique_ptr<BoundKernel>> Bind(const KernelRequest& request) const = 0;
};

// A kernel that is one function with nothing to prepare.
class FunctionKernel : public Kernel {
 public:
  using Function = absl::Status (*)(const KernelCall& call);
  struct Traits {
    bool (*accepts)(const KernelRequest& request) = nullptr;  // nullptr: everything
    bool elementwise = false;
    // Bit i: input (output) i may have any strides.
    uint32_t strided_inputs = 0;
    uint32_t strided_outputs = 0;
    // Bit i: output i may be stored in f32 where inputs have 16 bits (StoresInF32). The kernel
    // takes no other epilogues.
    uint32_t f32_outputs = 0;
    int64_t (*workspace_bytes)(const KernelRequest& request, const Processor& processor) = nullptr;
  };
  FunctionKernel(absl::string_view op, absl::string_view name, Function function, Traits traits)
      : op_(op), name_(name), function_(function), traits_(traits) {}

  absl::string_view op() const override { return op_; }
  absl::string_view name() const override { return name_; }
  bool Accepts(const KernelRequest& request) const override;
  bool StridedInput(int i) const override {
    return i < 32 && ((traits_.strided_inputs >> i) & 1) != 0;
  }
  bool StridedOutput(int i) const override {
    return i < 32 && ((traits_.strided_outputs >> i) & 1) != 0;
  }
  bool Elementwise() const override { return traits_.elementwise; }
  int64_t WorkspaceBytes(const KernelRequest& request, const Processor& processor) const override {
    return traits_.workspace_bytes == nullptr ? 0 : traits_.workspace_bytes(request, processor);
  }
  absl::StatusOr<std::unique_ptr<BoundKernel>> Bind(const KernelRequest& request) const override;

 private:
  absl::string_view op_;
  absl::string_view name_;
  Function function_;
  Traits traits_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_KERNELS_INTERFACE_KERNEL_H_
