#include "core/cost/machine.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "core/status/status_macros.h"

namespace tessera {
namespace {

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int64_t RoundUp(int64_t bytes) {
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

// A kernel request of some size, and its amount of work (FLOPs, or bytes).
struct Problem {
  KernelRequest request;
  double work = 0;
  bool in_place = false;  // the output has the memory of input 0
};

int64_t OperandBytes(const Problem& problem) {
  int64_t bytes = 0;
  for (const TensorType& type : problem.request.inputs) bytes += RoundUp(NumBytes(type));
  if (problem.in_place) return bytes;
  for (const TensorType& type : problem.request.outputs) bytes += RoundUp(NumBytes(type));
  return bytes;
}

// A kernel call on memory of its own, filled with zeros.
class Trial {
 public:
  static absl::StatusOr<std::unique_ptr<Trial>> Create(Backend& backend, const Problem& problem) {
    std::unique_ptr<Trial> trial(new Trial(backend, problem.request));
    ASSIGN_OR_RETURN(const Kernel* kernel, DefaultKernel(backend, trial->request_));
    ASSIGN_OR_RETURN(trial->bound_, kernel->Bind(trial->request_));
    trial->workspace_bytes_ = kernel->WorkspaceBytes(trial->request_, backend.processor());
    RETURN_IF_ERROR(trial->Allocate(problem));
    return trial;
  }

  absl::Status Run() {
    RETURN_IF_ERROR(bound_->Run({request_, inputs_, outputs_, workspace_, workspace_bytes_}));
    return backend_.Synchronize();
  }

 private:
  Trial(Backend& backend, KernelRequest request)
      : backend_(backend), request_(std::move(request)) {}

  // Allocates and zeroes memory for operands and workspace, and makes their views.
  absl::Status Allocate(const Problem& problem) {
    const int64_t bytes = RoundUp(workspace_bytes_) + OperandBytes(problem);
    ASSIGN_OR_RETURN(memory_, backend_.Allocate(bytes, /*guarded=*/false));
    const std::vector<char> zeros(int64_t{1} << 20);
    for (int64_t offset = 0; offset < bytes; offset += static_cast<int64_t>(zeros.size())) {
      RETURN_IF_ERROR(
          backend_.CopyToDevice(static_cast<char*>(memory_->data()) + offset, zeros.data(),
                                std::min(bytes - offset, static_cast<int64_t>(zeros.size()))));
    }
    char* next = static_cast<char*>(memory_->data());
    const auto next_view = [&next](const TensorType& type) {
      TensorView view{next, type.dtype, type.shape, RowMajorStrides(type.shape)};
      next += RoundUp(NumBytes(type));
      return view;
    };
    for (const TensorType& type : request_.inputs) inputs_.push_back(next_view(type));
    for (const TensorType& type : request_.outputs) {
      outputs_.push_back(problem.in_place ? inputs_[0] : next_view(type));
    }
    workspace_ = next;
    return absl::OkStatus();
  }

  Backend& backend_;
  const KernelRequest request_;
  std::unique_ptr<BoundKernel> bound_;
  std::unique_ptr<DeviceMemory> memory_;
  std::vector<TensorView> inputs_, outputs_;
  void* workspace_ = nullptr;
  int64_t workspace_bytes_ = 0;
};

// An addition that takes longer is not tried with eight times the bytes. That is for slow backends:
// on a fast one that is busy, or slow for a moment, an eighth of the memory takes a tenth of this.
// If it counted as slow, the rate would be that of the caches.
constexpr double kShortAddition = 0.03;

// A function that makes a problem of the given size; each size has eight times the work of the
// previous one.
using AtSize = std::function<Problem(int size)>;

// Returns the highest work per second of several runs of the largest size for which there is time
// and memory: the next size is tried if a run takes less than `short_run`. There are several runs
// because other processes may slow down a single one.
absl::StatusOr<double> BestRate(Backend& backend, const AtSize& at_size, int sizes, double seconds,
                                double short_run, int64_t memory_bytes) {
  while (sizes > 1 && OperandBytes(at_size(sizes - 1)) > memory_bytes) --sizes;
  constexpr int kRunsToJudgeBy = 3;
  const double end = Now() + seconds;
  for (int size = 0;; ++size) {
    const Problem problem = at_size(size);
    ASSIGN_OR_RETURN(const std::unique_ptr<Trial> trial, Trial::Create(backend, problem));
    RETURN_IF_ERROR(trial->Run());  // the first touches memory and wakes threads
    double shortest = std::numeric_limits<double>::infinity();
    bool try_larger = false;
    for (int runs = 0; !try_larger && (runs < kRunsToJudgeBy || Now() < end); ++runs) {
      const double begin = Now();
      RETURN_IF_ERROR(trial->Run());
      shortest = std::min(shortest, Now() - begin);
      try_larger = runs + 1 >= kRunsToJudgeBy && size + 1 < sizes && shortest < short_run;
    }
    if (!try_larger) return problem.work / shortest;
  }
}

}  // namespace

absl::StatusOr<double> MeasureMatmul(Backend& backend, const MeasureOptions& options) {
  const DType dtype = backend.Realize(options.dtype);
  const int threads = backend.processor().threads;
  const auto matmul = [&](int size) {
    const int64_t n = int64_t{256} << size;
    const TensorType square = {dtype, {n, n}};
    const double edge = static_cast<double>(n);
    return Problem{{.op = "matmul",
                    .attributes = {{"transpose_a", false}, {"transpose_b", true}},
                    .inputs = {square, square},
                    .outputs = {square},
                    .epilogues = {},
                    .threads = threads},
                   2 * edge * edge * edge,
                   /*in_place=*/false};
  };
  return BestRate(backend, matmul, 4, options.matmul_seconds, options.matmul_seconds / 16,
                  options.memory_bytes);
}

absl::StatusOr<MachineRates> MeasureMachine(Backend& backend, const MeasureOptions& options) {
  const DType dtype = backend.Realize(DType::kF32);
  const int threads = backend.processor().threads;
  const auto add = [&](int size) {
    // Two vectors, which fit into the memory with the alignment of each.
    const int64_t bytes = options.memory_bytes >> (7 - 3 * size);
    const int64_t aligned = std::max<int64_t>(1024, bytes / kBufferAlignment * kBufferAlignment);
    const TensorType vector = {dtype, {aligned / SizeOf(dtype)}};
    return Problem{{.op = "add",
                    .attributes = {},
                    .inputs = {vector, vector},
                    .outputs = {vector},
                    .epilogues = {},
                    .threads = threads},
                   3 * static_cast<double>(NumBytes(vector)),
                   /*in_place=*/true};
  };
  MachineRates rates;
  ASSIGN_OR_RETURN(rates.flops_per_second, MeasureMatmul(backend, options));
  ASSIGN_OR_RETURN(rates.bytes_per_second, BestRate(backend, add, 3, options.memory_seconds,
                                                    kShortAddition, options.memory_bytes));
  return rates;
}

}  // namespace tessera
