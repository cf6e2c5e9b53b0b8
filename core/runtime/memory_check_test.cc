// The memory check finds planted faults: a kernel that writes too far, a live range that ends too
// soon, a planned end that nothing reaches.
#include "core/runtime/memory_check.h"

#include <memory>
#include <vector>

#include "core/kernels/host/host_backend.h"
#include "core/kernels/reference/backend.h"
#include "core/ops/ops.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

// Wraps a kernel of another backend.
class BorrowedKernel : public Kernel {
 public:
  explicit BorrowedKernel(const Kernel* kernel) : kernel_(kernel) {}
  absl::string_view op() const override { return kernel_->op(); }
  absl::string_view name() const override { return "borrowed"; }
  bool Accepts(const KernelRequest& request) const override { return kernel_->Accepts(request); }
  absl::StatusOr<std::unique_ptr<BoundKernel>> Bind(const KernelRequest& request) const override {
    return kernel_->Bind(request);
  }

 protected:
  const Kernel* kernel_;
};

// Does not write its workspace.
class UsesNoWorkspace : public BorrowedKernel {
 public:
  using BorrowedKernel::BorrowedKernel;
  int64_t WorkspaceBytes(const KernelRequest&, const Processor&) const override { return 4096; }
};

// Also writes one element past the end of its output.
class WritesTooFar : public BorrowedKernel {
 public:
  using BorrowedKernel::BorrowedKernel;

  absl::StatusOr<std::unique_ptr<BoundKernel>> Bind(const KernelRequest& request) const override {
    class Bound : public BoundKernel {
     public:
      explicit Bound(std::unique_ptr<BoundKernel> kernel) : kernel_(std::move(kernel)) {}
      absl::Status Run(const KernelCall& call) override {
        absl::Status status = kernel_->Run(call);
        call.outputs[0].As<double>()[call.outputs[0].elements()] = 1;
        return status;
      }

     private:
      std::unique_ptr<BoundKernel> kernel_;
    };
    auto bound = kernel_->Bind(request);
    if (!bound.ok()) return bound.status();
    return std::make_unique<Bound>(*std::move(bound));
  }
};

// The reference backend, with the kernel of one operator replaced.
template <typename Planted>
class PlantedBackend : public HostBackend {
 public:
  explicit PlantedBackend(absl::string_view op) {
    for (const Kernel* kernel : reference_->kernels()) {
      if (kernel->op() == op) {
        planted_ = std::make_unique<Planted>(kernel);
        kernels_.push_back(planted_.get());
      } else {
        kernels_.push_back(kernel);
      }
    }
  }
  absl::string_view name() const override { return "planted"; }
  absl::Span<const Kernel* const> kernels() const override { return kernels_; }
  Processor processor() const override { return reference_->processor(); }
  DType Realize(DType dtype) const override { return reference_->Realize(dtype); }

 private:
  std::unique_ptr<Backend> reference_ = MakeReferenceBackend();
  std::unique_ptr<Kernel> planted_;
  std::vector<const Kernel*> kernels_;
};

// p' = p + x * exp(x * p), y = the sum of x * exp(x * p)
Graph SmallGraph() {
  Graph graph("step");
  Tensor x = graph.Input("x", {DType::kF32, {8}});
  Tensor p = graph.Parameter("p", {8}, Initializer::Constant(0));
  Tensor product = Multiply(x, p);
  Tensor z = Multiply(product, Exp(product));
  graph.SetState("p", Add(p, z));
  graph.SetOutput("y", ReduceSum(z, {0}));
  return graph;
}

absl::Status SetX(Engine& engine) {
  return engine.SetInput("step", "x", std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8});
}

std::unique_ptr<Engine> MakeEngine(Backend& backend, CompiledRun run) {
  auto engine = Engine::Create(std::move(run), &backend);
  EXPECT_TRUE(engine.ok()) << engine.status();
  const std::vector<double> p = {.1, .2, .3, .4, .5, .6, .7, .8};
  EXPECT_TRUE((*engine)->SetStateValues("step", "p", p).ok());
  return *std::move(engine);
}

CompiledRun Compile(Backend& backend) {
  auto run = CompileRun({SmallGraph()}, Plan(), backend);
  EXPECT_TRUE(run.ok()) << run.status();
  return *std::move(run);
}

TEST(MemoryCheck, PassesWhereAllIsWell) {
  const std::unique_ptr<Backend> backend = MakeReferenceBackend();
  const std::unique_ptr<Engine> engine = MakeEngine(*backend, Compile(*backend));
  const absl::Status status = CheckMemory(*engine, "step", SetX);
  EXPECT_TRUE(status.ok()) << status;
}

// Regression test: the check failed if the workspace was the last buffer in the arena.
TEST(MemoryCheck, PassesWhereAKernelLeavesItsWorkspaceUnused) {
  PlantedBackend<UsesNoWorkspace> backend("exp");
  const std::unique_ptr<Engine> engine = MakeEngine(backend, Compile(backend));
  const absl::Status status = CheckMemory(*engine, "step", SetX);
  EXPECT_TRUE(status.ok()) << status;
}

TEST(MemoryCheck, FindsAKernelThatWritesOneElementTooFar) {
  PlantedBackend<WritesTooFar> backend("exp");
  auto fenced = WithFences(Compile(backend), 64);
  ASSERT_TRUE(fenced.ok()) << fenced.status();
  const std::unique_ptr<Engine> engine = MakeEngine(backend, *std::move(fenced));
  const absl::Status status = RunFenced(*engine, "step", 64, SetX);
  EXPECT_THAT(status.ToString(), HasSubstr("something changed byte 1 past the end"));
  EXPECT_THAT(status.ToString(), HasSubstr("(exp)"));
}

TEST(MemoryCheck, FindsALiveRangeThatEndsOneInstructionTooSoon) {
  const std::unique_ptr<Backend> backend = MakeReferenceBackend();
  const CompiledRun run = Compile(*backend);
  const std::unique_ptr<Engine> engine = MakeEngine(*backend, run);
  ASSERT_TRUE(SetX(*engine).ok());
  ASSERT_TRUE(engine->Run("step").ok());
  int found = 0, shortened = 0;
  for (const BufferId b : run.programs[0].buffers.ids()) {
    auto fenced = WithFences(run, 64);
    ASSERT_TRUE(fenced.ok());
    Buffer& buffer = fenced->programs[0].buffers[b];
    const int32_t end = static_cast<int32_t>(run.programs[0].instructions.size());
    if (buffer.state || buffer.last - 1 < buffer.first || buffer.last == end) continue;
    --buffer.last;
    ++shortened;
    const std::unique_ptr<Engine> poisoned = MakeEngine(*backend, *std::move(fenced));
    ASSERT_TRUE(RunFenced(*poisoned, "step", 64, SetX).ok());
    if (!CompareBits(*engine, *poisoned, "step").ok()) ++found;
  }
  EXPECT_GE(shortened, 2);
  EXPECT_EQ(found, shortened);
}

TEST(MemoryCheck, FindsAPlannedEndThatNothingReaches) {
  const std::unique_ptr<Backend> backend = MakeReferenceBackend();
  CompiledRun run = Compile(*backend);
  run.programs[0].arenas[MemorySpace::kDevice] += kBufferAlignment;
  run.arenas = run.programs[0].arenas;
  const std::unique_ptr<Engine> engine = MakeEngine(*backend, std::move(run));
  EXPECT_FALSE(RunGuarded(*engine, "step", SetX).ok());
}

TEST(MemoryCheckDeathTest, WhatIsWrittenBehindTheArenaIsCaughtByThePageBehindIt) {
  PlantedBackend<WritesTooFar> backend("exp");
  // exp's output is the only buffer, so that it ends where the arena ends.
  Graph graph("step");
  graph.SetOutput("y", Exp(Fill(graph, {DType::kF32, {8}}, 1)));
  auto run = CompileRun({graph}, Plan(), backend);
  ASSERT_TRUE(run.ok()) << run.status();
  auto engine = Engine::Create(*std::move(run), &backend);
  ASSERT_TRUE(engine.ok()) << engine.status();
  EXPECT_DEATH({ (void)RunGuarded(**engine, "step", [](Engine&) { return absl::OkStatus(); }); },
               "");
}

}  // namespace
}  // namespace tessera
