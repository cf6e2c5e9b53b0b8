// The cost of the engine itself: a step of 10,000 instructions whose kernels do nothing, on one
// stream.
//
//   ./bazelw run //core/runtime:overhead_benchmark
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "core/kernels/host/host_backend.h"
#include "core/kernels/reference/backend.h"
#include "core/ops/ops.h"
#include "core/runtime/engine.h"

namespace tessera {
namespace {

constexpr int kInstructions = 10000;
constexpr int kSteps = 51;

absl::Status DoNothing(const KernelCall& call) { return absl::OkStatus(); }

// The reference backend, with a `negate` that does nothing.
class EmptyBackend : public HostBackend {
 public:
  absl::string_view name() const override { return "empty"; }
  absl::Span<const Kernel* const> kernels() const override { return kernels_; }
  Processor processor() const override { return reference_->processor(); }

 private:
  std::unique_ptr<Backend> reference_ = MakeReferenceBackend();
  FunctionKernel empty_{"negate", "empty", DoNothing, {}};
  std::vector<const Kernel*> kernels_ = {&empty_};
};

double Seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

int Main() {
  const auto begin = std::chrono::steady_clock::now();
  EmptyBackend backend;
  Graph graph("step");
  Tensor x = graph.Input("x", {DType::kF32, {1}});
  for (int i = 0; i < kInstructions; ++i) x = Negate(x);
  graph.SetOutput("y", x);
  absl::StatusOr<CompiledRun> run = CompileRun({graph}, Plan(), backend);
  if (!run.ok()) {
    std::fprintf(stderr, "error: %s\n", run.status().ToString().c_str());
    return 1;
  }
  const auto compiled = std::chrono::steady_clock::now();
  absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Create(*std::move(run), &backend);
  if (!engine.ok() || !(*engine)->SetInput("step", "x", std::vector<double>{1}).ok()) return 1;
  std::vector<double> seconds;
  for (int step = 0; step < kSteps; ++step) {
    const auto start = std::chrono::steady_clock::now();
    if (!(*engine)->Run("step").ok()) return 1;
    seconds.push_back(Seconds(std::chrono::steady_clock::now() - start));
  }
  std::sort(seconds.begin(), seconds.end());
  std::printf("%d instructions, compiled in %.0f ms\n", kInstructions,
              1e3 * Seconds(compiled - begin));
  std::printf("a step of empty kernels: %.3f ms (median of %d; %.0f ns an instruction)\n",
              1e3 * seconds[kSteps / 2], kSteps, 1e9 * seconds[kSteps / 2] / kInstructions);
  return 0;
}

}  // namespace
}  // namespace tessera

int main() { return tessera::Main(); }
