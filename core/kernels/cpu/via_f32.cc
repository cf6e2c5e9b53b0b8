#include "core/kernels/cpu/via_f32.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "core/kernels/cpu/aligned.h"
#include "core/kernels/cpu/convert_floats.h"
#include "core/kernels/cpu/parallel.h"
#include "core/status/status_macros.h"

namespace tessera::cpu {
namespace {

constexpr int64_t kGrain = 16384;

// Returns the request with f32 in place of bf16 and f16. Casts to f32 are left out.
KernelRequest Widened(const KernelRequest& request) {
  KernelRequest widened = request;
  widened.epilogues.clear();
  for (const Epilogue& epilogue : request.epilogues) {
    if (!StoresInF32(request, epilogue)) widened.epilogues.push_back(epilogue);
  }
  for (auto* types : {&widened.inputs, &widened.outputs}) {
    for (TensorType& type : *types) {
      if (IsHalf(type.dtype)) type.dtype = DType::kF32;
    }
  }
  return widened;
}

// Offsets in the workspace: the f32 copy of each operand (-1 if it needs none), then the workspace
// of the inner kernel.
struct Placement {
  std::vector<int64_t> inputs, outputs;
  int64_t end = 0;  // of the f32 copies

  explicit Placement(const KernelRequest& request) {
    AddOffsets(request.inputs, inputs);
    AddOffsets(request.outputs, outputs);
  }
  // Returns the bytes of the workspace, with those of the inner kernel.
  int64_t Bytes(int64_t inner) const { return inner == 0 ? end : Aligned(end) + inner; }

 private:
  void AddOffsets(const std::vector<TensorType>& types, std::vector<int64_t>& offsets) {
    for (const TensorType& type : types) {
      offsets.push_back(-1);
      const int64_t elements = NumElements(type.shape);
      if (!IsHalf(type.dtype) || elements == 0) continue;
      offsets.back() = Aligned(end);
      end = offsets.back() + elements * static_cast<int64_t>(sizeof(float));
    }
  }
};

class BoundViaF32 : public BoundKernel {
 public:
  BoundViaF32(const KernelRequest& request, KernelRequest widened,
              std::unique_ptr<BoundKernel> inner, int64_t inner_bytes)
      : placement_(request),
        widened_(std::move(widened)),
        inner_(std::move(inner)),
        inner_bytes_(inner_bytes) {
    views_.reserve(request.inputs.size() + request.outputs.size());
  }

  absl::Status Run(const KernelCall& call) override {
    char* const workspace = static_cast<char*>(call.workspace);
    std::vector<TensorView>& views = views_;
    views.clear();
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      views.push_back(FloatView(call.inputs[i], placement_.inputs[i], workspace));
    }
    for (size_t i = 0; i < call.outputs.size(); ++i) {
      views.push_back(FloatView(call.outputs[i], placement_.outputs[i], workspace));
    }
    const int threads = widened_.threads;
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      if (placement_.inputs[i] >= 0) Convert(threads, call.inputs[i], views[i], /*widen=*/true);
    }
    const auto all = absl::MakeConstSpan(views);
    KernelCall inner = {.request = widened_,
                        .inputs = all.first(call.inputs.size()),
                        .outputs = all.subspan(call.inputs.size()),
                        .workspace = workspace + Aligned(placement_.end),
                        .workspace_bytes = inner_bytes_,
                        .draw = call.draw,
                        .stream = call.stream,
                        .input_regions = call.input_regions,
                        .output_regions = call.output_regions};
    RETURN_IF_ERROR(inner_->Run(inner));
    for (size_t i = 0; i < call.outputs.size(); ++i) {
      if (placement_.outputs[i] < 0) continue;
      Convert(threads, call.outputs[i], views[call.inputs.size() + i], /*widen=*/false);
    }
    return absl::OkStatus();
  }

 private:
  static TensorView FloatView(const TensorView& view, int64_t offset, char* workspace) {
    if (!IsHalf(view.dtype)) return view;
    return {offset < 0 ? nullptr : workspace + offset, DType::kF32, view.shape, view.strides};
  }

  static void Convert(int threads, const TensorView& half, const TensorView& floats, bool widen) {
    ParallelFor(threads, half.elements(), kGrain, [&](int64_t begin, int64_t end) {
      void* const at = ElementAt(half.dtype, half.data, begin);
      float* const in_f32 = floats.As<float>() + begin;
      if (widen) {
        ToFloats(half.dtype, at, end - begin, in_f32);
      } else {
        FromFloats(half.dtype, in_f32, end - begin, at);
      }
    });
  }

  const Placement placement_;
  const KernelRequest widened_;
  const std::unique_ptr<BoundKernel> inner_;
  const int64_t inner_bytes_;
  std::vector<TensorView> views_;  // of the call that runs; a call allocates no memory
};

class ViaF32Kernel : public Kernel {
 public:
  ViaF32Kernel(absl::string_view name, std::unique_ptr<const Kernel> inner)
      : name_(name), inner_(std::move(inner)) {}

  absl::string_view op() const override { return inner_->op(); }
  absl::string_view name() const override { return name_; }

  bool Accepts(const KernelRequest& request) const override {
    bool has_halves = false;
    for (const auto* types : {&request.inputs, &request.outputs}) {
      for (const TensorType& type : *types) has_halves = has_halves || IsHalf(type.dtype);
    }
    return has_halves && inner_->Accepts(Widened(request));
  }

  bool LibraryWorkspace() const override { return inner_->LibraryWorkspace(); }
  int64_t WorkspaceBytes(const KernelRequest& request, const Processor& processor) const override {
    return Placement(request).Bytes(inner_->WorkspaceBytes(Widened(request), processor));
  }

  absl::StatusOr<std::unique_ptr<BoundKernel>> Bind(const KernelRequest& request) const override {
    KernelRequest widened = Widened(request);
    ASSIGN_OR_RETURN(std::unique_ptr<BoundKernel> inner, inner_->Bind(widened));
    const int64_t inner_bytes = inner_->WorkspaceBytes(widened, Processor());
    return std::make_unique<BoundViaF32>(request, std::move(widened), std::move(inner),
                                         inner_bytes);
  }

 private:
  absl::string_view name_;
  std::unique_ptr<const Kernel> inner_;
};

}  // namespace

std::unique_ptr<const Kernel> ViaF32(absl::string_view name, std::unique_ptr<const Kernel> inner) {
  return std::make_unique<ViaF32Kernel>(name, std::move(inner));
}

}  // namespace tessera::cpu
