// Checks that a step allocates nothing between its first and last instruction, except inside calls
// of the named libraries.
#include <dlfcn.h>
#include <execinfo.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "core/runtime/engine.h"
#include "core/train/programs.h"
#include "gtest/gtest.h"
#include "models/gpt/gpt.h"
#include "tools/backends/backends.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TESSERA_TCMALLOC 0
#else
#define TESSERA_TCMALLOC 1
#include "gperftools/malloc_hook_c.h"
#endif

namespace {

std::atomic<bool> counting{false};
std::atomic<int> allocations{0};          // all
std::atomic<int> library_allocations{0};  // inside a library's calls
thread_local bool inside = false;

// The libraries that may allocate while they run a primitive or start a parallel region.
constexpr const char* kLibraries[] = {"libdnnl", "libgomp"};

// tcmalloc calls it for each allocation, whether by malloc, by new or by one of their kin.
[[maybe_unused]] void Count(const void*, size_t) {
  if (!counting.load(std::memory_order_relaxed) || inside) return;
  inside = true;
  allocations.fetch_add(1);
  void* frames[64];
  const int depth = backtrace(frames, 64);
  for (int i = 0; i < depth; ++i) {
    Dl_info info;
    if (dladdr(frames[i], &info) == 0 || info.dli_fname == nullptr) continue;
    bool known = false;
    for (const char* library : kLibraries) {
      known = known || std::strstr(info.dli_fname, library) != nullptr;
    }
    if (known) {
      library_allocations.fetch_add(1);
      break;
    }
  }
  inside = false;
}

}  // namespace

namespace tessera {
namespace {

// Counts the allocations of a test.
class Allocation : public testing::Test {
 protected:
  void SetUp() override {
#if TESSERA_TCMALLOC
    ASSERT_TRUE(MallocHook_AddNewHook(Count));
#else
    GTEST_SKIP() << "the sanitizer has a malloc of its own";
#endif
  }
  void TearDown() override {
#if TESSERA_TCMALLOC
    MallocHook_RemoveNewHook(Count);
#endif
  }
};

TEST_F(Allocation, AStepAllocatesNothing) {
  // The first backtrace loads a library.
  void* frame;
  backtrace(&frame, 1);

  GptConfig model_config;
  model_config.set_layers(2);
  model_config.set_heads(4);
  model_config.set_channels(64);
  model_config.set_vocabulary(128);
  model_config.set_context(32);
  model_config.set_dropout(0.1);
  auto model = CreateGpt(model_config);
  ASSERT_TRUE(model.ok());
  RunConfig config;
  config.set_steps(4);
  config.set_batch(4);
  config.set_sequence(32);
  config.set_micro_batches(2);
  config.set_recompute("block");
  OptimizerConfig& optimizer = *config.mutable_optimizer();
  optimizer.set_kind("adamw");
  optimizer.set_lr(1e-3);
  optimizer.set_schedule("constant");
  optimizer.set_beta1(0.9);
  optimizer.set_beta2(0.95);
  optimizer.set_eps(1e-8);
  optimizer.set_clip_norm(1);
  auto backend = MakeBackend("cpu", 2);
  ASSERT_TRUE(backend.ok());
  auto graphs = RecordRun(**model, config, RunGraphs::kAll);
  ASSERT_TRUE(graphs.ok()) << graphs.status();
  const Plan plan = PlanOfConfig(config, *graphs);
  auto run = CompileRun(*std::move(graphs), plan, **backend);
  ASSERT_TRUE(run.ok()) << run.status();
  auto engine = Engine::Create(*std::move(run), backend->get());
  ASSERT_TRUE(engine.ok()) << engine.status();
  ASSERT_TRUE((*engine)->SetScalarIfRead(kInitialise, "seed", 1).ok());
  ASSERT_TRUE((*engine)->Run(kInitialise).ok());
  const std::vector<int32_t> tokens(4 * 32, 7);
  for (int step = 1; step <= 4; ++step) {
    ASSERT_TRUE((*engine)->SetInput(kTrain, "tokens", tokens).ok());
    ASSERT_TRUE((*engine)->SetInput(kTrain, "targets", tokens).ok());
    ASSERT_TRUE((*engine)->SetInput(kTrain, "lr", std::vector<double>{1e-3}).ok());
    ASSERT_TRUE((*engine)->SetScalarIfRead(kTrain, "seed", 1).ok());
    ASSERT_TRUE((*engine)->SetScalarIfRead(kTrain, "step", step).ok());
    allocations = library_allocations = 0;
    counting = step > 1;
    const absl::Status status = (*engine)->Run(kTrain);
    counting = false;
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(allocations, library_allocations)
        << "step " << step << ": allocations outside of " << kLibraries[0] << ", " << kLibraries[1];
    if (step > 1) {
      std::printf("step %d: %d allocations, all of them inside %s or %s\n", step,
                  allocations.load(), kLibraries[0], kLibraries[1]);
    }
  }
}

// Regression: what `new` allocates was not counted if it is not malloc that `new` calls.
TEST_F(Allocation, TheCounterCounts) {
  allocations = library_allocations = 0;
  counting = true;
  void* volatile memory = std::malloc(100);
  std::string* volatile object = new std::string(100, 'a');
  void* volatile aligned = std::aligned_alloc(64, 128);
  counting = false;
  std::free(memory);
  delete object;
  std::free(aligned);
  EXPECT_EQ(allocations, 4);
  EXPECT_EQ(library_allocations, 0);
}

}  // namespace
}  // namespace tessera
