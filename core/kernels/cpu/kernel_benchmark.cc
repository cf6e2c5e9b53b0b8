// Measures the kernels of a step of GPT-2 124M with batch 4 x 256, and convolutions.
//
//   ./bazelw run //core/kernels/cpu:kernel_benchmark -- [--threads=2] [--processor_time]
//       [--benchmark_filter=attention]
//
// A kernel that computes is compared with the product of large square matrices, and one that moves
// data with a large array that is read and written in place. Both are measured in the same run.
// "of_ceiling" is the fraction of that rate (more than 1 is possible if the data fits into the
// caches). Rates are those of the fastest run, because other work on the machine can only make a
// run slower.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "benchmark/benchmark.h"
#include "core/kernels/cpu/backend.h"
#include "core/status/check.h"
#include "core/tensor/half.h"

namespace tessera {
namespace {

bool use_processor_time = false;

double Now() {
  timespec time;
  clock_gettime(use_processor_time ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

struct Use {
  std::string name;
  KernelRequest request;
  double flops = 0;                                // 0: bound by memory
  std::vector<std::pair<int, int>> in_place = {};  // (input, output)
  std::vector<Strides> strides = {};               // of inputs, then outputs; empty: row-major
  absl::string_view kernel = "";                   // "": the default
};

double BytesOf(const KernelRequest& request) {
  double bytes = 0;
  for (const TensorType& type : request.inputs) bytes += static_cast<double>(NumBytes(type));
  for (const TensorType& type : request.outputs) bytes += static_cast<double>(NumBytes(type));
  return bytes;
}

// A bound kernel with its own memory, which can run any number of times.
class Ready {
 public:
  Ready(Backend& backend, const Use& use) : request_(use.request) {
    const Kernel* kernel = nullptr;
    for (const Kernel* candidate : CandidateKernels(backend, request_)) {
      if (kernel == nullptr && (use.kernel.empty() || candidate->name() == use.kernel)) {
        kernel = candidate;
      }
    }
    TESSERA_CHECK(kernel != nullptr) << "no kernel for " << request_.Key();
    size_t i = 0;
    for (const TensorType& type : request_.inputs) inputs_.push_back(View(backend, type, use, i++));
    for (const TensorType& type : request_.outputs) {
      outputs_.push_back(View(backend, type, use, i++));
    }
    for (const auto& [input, output] : use.in_place) outputs_[output].data = inputs_[input].data;
    draw_ = DrawOf(request_.outputs[0].shape, request_.attributes);
    workspace_bytes_ = kernel->WorkspaceBytes(request_, backend.processor());
    workspace_ = Memory(backend, workspace_bytes_);
    auto bound = kernel->Bind(request_);
    TESSERA_CHECK(bound.ok()) << bound.status();
    bound_ = *std::move(bound);
  }

  double SecondsOfRun() {
    const double start = Now();
    const absl::Status status =
        bound_->Run({request_, inputs_, outputs_, workspace_, workspace_bytes_,
                     draw_.has_value() ? &*draw_ : nullptr});
    const double seconds = Now() - start;
    TESSERA_CHECK(status.ok()) << status;
    return seconds;
  }

 private:
  void* Memory(Backend& backend, int64_t bytes) {
    auto memory = backend.Allocate(bytes, /*guarded=*/false);
    TESSERA_CHECK(memory.ok()) << memory.status();
    owned_.push_back(*std::move(memory));
    return owned_.back()->data();
  }

  TensorView View(Backend& backend, const TensorType& type, const Use& use, size_t i) {
    const Strides strides = use.strides.empty() || use.strides[i].empty()
                                ? RowMajorStrides(type.shape)
                                : use.strides[i];
    const int64_t elements = ExtentInElements(type.shape, strides);
    TensorView view{Memory(backend, elements * SizeOf(type.dtype)), type.dtype, type.shape,
                    strides};
    for (int64_t e = 0; e < elements; ++e) {
      if (type.dtype == DType::kF32)
        view.As<float>()[e] = static_cast<float>(e * 7 % 61) / 64 + 0.01f;
      if (type.dtype == DType::kBF16) {
        view.As<BFloat16>()[e] = BFloat16(static_cast<float>(e * 7 % 61) / 64 + 0.01f);
      }
      if (type.dtype == DType::kI32) view.As<int32_t>()[e] = static_cast<int32_t>(e * 997 % 50257);
      if (type.dtype == DType::kI64) view.As<int64_t>()[e] = 1;
      if (type.dtype == DType::kU8) view.As<uint8_t>()[e] = 1;
    }
    return view;
  }

  KernelRequest request_;
  std::vector<std::unique_ptr<DeviceMemory>> owned_;
  std::vector<TensorView> inputs_, outputs_;
  void* workspace_ = nullptr;
  int64_t workspace_bytes_ = 0;
  std::optional<RandomDraw> draw_;
  std::unique_ptr<BoundKernel> bound_;
};

TensorType F32(const Shape& shape) { return {DType::kF32, shape}; }
TensorType I32(const Shape& shape) { return {DType::kI32, shape}; }

KernelRequest Request(const std::string& op, const Attributes& attributes,
                      const std::vector<TensorType>& inputs,
                      const std::vector<TensorType>& outputs) {
  KernelRequest request;
  request.op = op;
  request.attributes = attributes;
  request.inputs = inputs;
  request.outputs = outputs;
  return request;
}

Use Product(const std::string& name, int64_t m, int64_t n, int64_t k, bool transpose_a,
            bool transpose_b, DType dtype = DType::kF32) {
  return {absl::StrCat("matmul/", name),
          Request("matmul", {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}},
                  {{dtype, transpose_a ? Shape{k, m} : Shape{m, k}},
                   {dtype, transpose_b ? Shape{n, k} : Shape{k, n}}},
                  {{dtype, {m, n}}}),
          2.0 * static_cast<double>(m * n * k)};
}

// Adds the product of a linear layer and those of its gradients. Those of bf16 use the default
// kernel.
void AddLinear(const std::string& name, int64_t rows, int64_t in, int64_t out,
               std::vector<Use>& uses) {
  for (absl::string_view kernel : {"onednn", "onednn_gemm", ""}) {
    const DType dtype = kernel.empty() ? DType::kBF16 : DType::kF32;
    const std::string by = absl::StrCat(name, "/", kernel.empty() ? "bf16" : kernel);
    for (Use use : {Product(by, rows, out, in, false, true, dtype),
                    Product(by + "/dx", rows, in, out, false, false, dtype),
                    Product(by + "/dw", out, in, rows, true, false, dtype)}) {
      use.kernel = kernel;
      uses.push_back(use);
    }
  }
}

void AddProducts(std::vector<Use>& uses) {
  AddLinear("qkv", 1024, 768, 2304, uses);
  AddLinear("projection", 1024, 768, 768, uses);
  AddLinear("fc1", 1024, 768, 3072, uses);
  AddLinear("fc2", 1024, 3072, 768, uses);
  for (absl::string_view kernel : {"onednn", "onednn_gemm"}) {
    Use fused = Product(absl::StrCat("fc1+bias+gelu/", kernel), 1024, 3072, 768, false, true);
    fused.kernel = kernel;
    fused.request.epilogues = {{"add", {}, 1}, {"gelu", {{"approximate", std::string("tanh")}}, 0}};
    fused.request.inputs.push_back(F32({3072}));
    uses.push_back(fused);
  }
  for (absl::string_view kernel : {"onednn", "highway"}) {
    Use small = Product(absl::StrCat("small/", std::string(kernel)), 16, 64, 64, false, true);
    small.kernel = kernel;
    uses.push_back(small);
  }
}

void AddHead(std::vector<Use>& uses) {
  constexpr int64_t kRows = 1024, kColumns = 768, kWords = 50257;
  const double product = 2.0 * kRows * kColumns * kWords;
  for (absl::string_view kernel : {"onednn", "onednn_gemm", ""}) {
    const DType dtype = kernel.empty() ? DType::kBF16 : DType::kF32;
    const absl::string_view by = kernel.empty() ? "bf16" : kernel;
    const TensorType x = {dtype, {kRows, kColumns}}, w = {dtype, {kWords, kColumns}},
                     row = F32({kRows});
    const TensorType targets = I32({kRows}), logits = F32({kRows, kWords});
    const auto add = [&](absl::string_view name, const KernelRequest& request, double products) {
      uses.push_back({absl::StrCat(name, by), request, products * product, {}, {}, kernel});
    };
    const Attributes keeps = {{"keep_logits", true}};
    add("linear_log_sum_exp/", Request("linear_log_sum_exp", {}, {x, w, targets}, {row, row}), 1);
    add("linear_log_sum_exp/kept/",
        Request("linear_log_sum_exp", keeps, {x, w, targets}, {row, row, logits}), 1);
    add("linear_log_sum_exp_grad/",
        Request("linear_log_sum_exp_grad", {}, {row, row, x, w, targets, row}, {x, w}), 3);
    add("linear_log_sum_exp_grad/kept/",
        Request("linear_log_sum_exp_grad", keeps, {row, row, x, w, targets, row, logits}, {x, w}),
        2);
  }
}

// Adds a use by each kernel that accepts it.
void AddCandidates(Backend& backend, Use use, std::vector<Use>& uses) {
  const std::string name = use.name;
  for (const Kernel* kernel : CandidateKernels(backend, use.request)) {
    use.kernel = kernel->name();
    use.name = absl::StrCat(name, "/", use.kernel);
    uses.push_back(use);
  }
}

// Adds a 3 x 3 convolution of pictures of size x size pixels, with its gradients.
void AddConvolution(Backend& backend, int64_t size, int64_t in, int64_t out, DType dtype,
                    std::vector<Use>& uses) {
  constexpr int64_t kBatch = 8;
  const std::vector<int64_t> ones = {1, 1}, of_x = {kBatch, size, size, in}, of_w = {out, 3, 3, in};
  const TensorType x = {dtype, {kBatch, size, size, in}}, y = {dtype, {kBatch, size, size, out}};
  const TensorType w = {dtype, {out, 3, 3, in}};
  const auto add = [&](const char* op, const TensorType& a, const TensorType& b,
                       const TensorType& c, const char* attribute, const AttributeValue& value) {
    Attributes attributes = {{"stride", ones}, {"padding", ones}, {"dilation", ones}};
    attributes.Set(attribute, value);
    AddCandidates(backend,
                  {absl::StrCat(op, "/", size, "x", in, "x", out, "/", DTypeName(dtype)),
                   Request(op, attributes, {a, b}, {c}),
                   18.0 * static_cast<double>(kBatch * size * size * in * out)},
                  uses);
  };
  add("convolution", x, w, y, "groups", int64_t{1});
  add("convolution_grad_data", y, w, x, "shape", of_x);
  add("convolution_grad_weight", y, x, w, "shape", of_w);
}

// Adds the uses of the default kernels in f32, and of all candidates in bf16.
void AddAttention(Backend& backend, int64_t batch, int64_t seq, DType dtype,
                  std::vector<Use>& uses) {
  constexpr int64_t kHeads = 12, kDim = 64;
  const TensorType q = {dtype, {batch, seq, kHeads, kDim}}, lse = F32({batch, kHeads, seq});
  // Parts of a [batch, seq, heads, 3, head_dim] tensor, as in models/gpt.
  const Strides part = {seq * 3 * kHeads * kDim, 3 * kHeads * kDim, 3 * kDim, 1};
  const Attributes attributes = {{"causal", true}, {"scale", 0.125}};
  // The forward pass has two products of half a matrix, the backward pass five.
  const double product = static_cast<double>(batch * kHeads * seq * seq * kDim);
  const std::string shape = absl::StrCat(batch, "x", seq);
  const Use forward = {"attention/" + shape,
                       Request("attention", attributes, {q, q, q}, {q, lse}),
                       2 * product,
                       {},
                       {part, part, part, {}, {}}};
  const Use backward = {"attention_grad/" + shape,
                        Request("attention_grad", attributes, {q, q, q, q, q, lse}, {q, q, q}),
                        5 * product,
                        {},
                        {{}, part, part, part, {}, {}, part, part, part}};
  for (Use use : {forward, backward}) {
    if (dtype == DType::kF32) {
      uses.push_back(use);
      continue;
    }
    absl::StrAppend(&use.name, "/", DTypeName(dtype));
    AddCandidates(backend, use, uses);
  }
}

void AddRows(std::vector<Use>& uses) {
  const TensorType x = F32({1024, 768}), wide = F32({1024, 3072}), c = F32({768});
  const TensorType row = F32({1024});
  const Attributes tanh = {{"approximate", std::string("tanh")}};
  const Attributes erf = {{"approximate", std::string("none")}};
  uses.push_back({"gelu/tanh", Request("gelu", tanh, {wide}, {wide})});
  uses.push_back({"gelu_grad/tanh", Request("gelu_grad", tanh, {wide, wide}, {wide})});
  uses.push_back({"gelu/erf", Request("gelu", erf, {wide}, {wide})});
  uses.push_back({"gelu_grad/erf", Request("gelu_grad", erf, {wide, wide}, {wide})});
  uses.push_back({"layer_norm", Request("layer_norm", {{"eps", 1e-5}}, {x, c, c}, {x, row, row})});
  uses.push_back(
      {"layer_norm_grad", Request("layer_norm_grad", {}, {x, x, c, row, row}, {x, c, c})});
  uses.push_back({"add/residual", Request("add", {}, {x, x}, {x})});
  uses.push_back({"add/bias", Request("add", {}, {wide, F32({3072})}, {wide}), 0, {{0, 0}}});
  uses.push_back({"multiply/scalar", Request("multiply", {}, {wide, F32({})}, {wide}), 0});
  const std::vector<int64_t> rows = {0};
  uses.push_back({"reduce_sum/rows", Request("reduce_sum", {{"axes", rows}, {"keep_dims", false}},
                                             {wide}, {F32({3072})})});
  uses.push_back({"softmax", Request("softmax", {{"axis", int64_t{1}}}, {wide}, {wide})});
  const TensorType scalar = {DType::kI64, {}};
  uses.push_back(
      {"dropout", Request("dropout", {{"probability", 0.1}, {"random_path", std::string("a")}},
                          {wide, scalar, scalar}, {wide})});
  uses.push_back(
      {"copy/transposed", Request("copy", {}, {wide}, {wide}), 0, {}, {{1, 1024}, {3072, 1}}});
}

void AddParameters(std::vector<Use>& uses) {
  const TensorType table = F32({50257, 768}), scalar = F32({});
  uses.push_back({"embedding_grad", Request("embedding_grad", {{"rows", int64_t{50257}}},
                                            {F32({1024, 768}), I32({1024})}, {table})});
  uses.push_back({"sum_squares", Request("sum_squares", {}, {table}, {scalar})});
  uses.push_back({"all_finite", Request("all_finite", {}, {table}, {{DType::kU8, {}}})});
  uses.push_back(
      {"adamw_update",
       Request("adamw_update",
               {{"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}, {"weight_decay", 0.1}},
               {table, table, table, table, scalar, scalar, {DType::kI64, {}}, {DType::kU8, {}}},
               {table, table, table}),
       0,
       {{0, 0}, {2, 1}, {3, 2}}});
  uses.push_back({"sgd_update",
                  Request("sgd_update", {{"momentum", 0.9}, {"weight_decay", 0.1}},
                          {table, table, table, scalar, scalar, {DType::kU8, {}}}, {table, table}),
                  0,
                  {{0, 0}, {2, 1}}});
}

double BestSeconds(Backend& backend, Use use, int runs) {
  use.request.threads = backend.processor().threads;
  Ready ready(backend, use);
  double best = ready.SecondsOfRun();
  for (int i = 0; i < runs; ++i) best = std::min(best, ready.SecondsOfRun());
  return best;
}

void Register(Backend& backend, const Use& use, double ceiling) {
  benchmark::RegisterBenchmark(use.name.c_str(),
                               [&backend, use, ceiling](benchmark::State& state) {
                                 Use on_threads = use;
                                 on_threads.request.threads = backend.processor().threads;
                                 Ready ready(backend, on_threads);
                                 double best = ready.SecondsOfRun();
                                 for (auto _ : state) {
                                   const double seconds = ready.SecondsOfRun();
                                   best = std::min(best, seconds);
                                   state.SetIterationTime(seconds);
                                 }
                                 const bool computes = use.flops > 0;
                                 // Rows of an embedding that no token selects cost nothing.
                                 const double work = computes ? use.flops : BytesOf(use.request);
                                 const double rate = work / best / 1e9;
                                 state.counters[computes ? "GFLOP/s" : "GB/s"] = rate;
                                 state.counters["of_ceiling"] = rate / ceiling;
                               })
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
}

void RegisterAll(Backend& backend) {
  const double flops = 2.0 * 2048 * 2048 * 2048 /
                       BestSeconds(backend, Product("", 2048, 2048, 2048, false, false), 20) / 1e9;
  const TensorType large = F32({64 << 20});
  const Use negate = {"", Request("negate", {}, {large}, {large}), 0, {{0, 0}}};
  const double bytes =
      2.0 * static_cast<double>(NumBytes(large)) / BestSeconds(backend, negate, 10) / 1e9;
  std::printf(
      "%s, %d threads: product of 2048 x 2048 %.0f GFLOP/s, 256 MiB negated in place %.1f GB/s\n",
      backend.processor().name.c_str(), backend.processor().threads, flops, bytes);
  std::vector<Use> uses;
  AddProducts(uses);
  AddHead(uses);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    AddAttention(backend, 4, 256, dtype, uses);
    AddAttention(backend, 1, 1024, dtype, uses);
    AddConvolution(backend, 112, 64, 128, dtype, uses);
    AddConvolution(backend, 28, 256, 256, dtype, uses);
  }
  AddRows(uses);
  AddParameters(uses);
  for (const Use& use : uses) Register(backend, use, use.flops > 0 ? flops : bytes);
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  int threads = static_cast<int>(std::thread::hardware_concurrency());
  for (int i = 1; i < argc; ++i) {
    const absl::string_view argument = argv[i];
    if (absl::StartsWith(argument, "--threads=")) {
      threads = std::atoi(argv[i] + 10);
    } else if (argument == "--processor_time") {
      tessera::use_processor_time = true;
    } else {
      std::fprintf(stderr,
                   "unknown argument '%s'; known: --threads=N, --processor_time, --benchmark_*\n",
                   argv[i]);
      return 1;
    }
  }
  const std::unique_ptr<tessera::Backend> backend = tessera::MakeCpuBackend(threads);
  tessera::RegisterAll(*backend);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
