// Measures how the time to compile a run grows with the axes of its mesh: a small GPT on 8 to 256
// ranks, along every axis of which 2 ranks take turns at data parallel, tensor parallel and stored
// shards, so that gradients and weights are moved along most axes at once. Measures all of
// CompileRun, for one rank. Seconds are processor time, so that other load does not count.
//
//   ./bazelw run //tests/plans:axes_benchmark
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/compile/compile.h"
#include "core/kernels/cpu/backend.h"
#include "core/status/check.h"
#include "core/train/programs.h"
#include "google/protobuf/text_format.h"
#include "tests/plans/recorded_gpt.h"

namespace tessera {
namespace {

// A Plan for a mesh with axes "a0", "a1", ... of 2 ranks each.
class MixedPlan {
 public:
  explicit MixedPlan(int axes) : axes_(axes) {}

  Plan Make() const {
    const std::string heads = Along(kTensor, ": S(0)"), rows = Along(kTensor, ": S(1)");
    const std::string wide = Along(kShards, ": S(1)"), tall = Along(kShards, ": S(0)");
    std::string text = "stages { ";
    for (int i = 0; i < axes_; ++i) absl::StrAppend(&text, "mesh { name: 'a", i, "' size: 2 } ");
    Store("tokens|targets", {Along(kData, ": S(0)")}, text);
    Store("blocks.*.attn.qkv.bias|blocks.*.mlp.fc.bias", {heads}, text);
    Store("blocks.*.mlp.fc.weight|wte.weight", {heads, wide}, text);
    Store("blocks.*.attn.qkv.weight", {heads, Along(kShards, ": S(3)")}, text);
    Store("blocks.*.attn.proj.weight|blocks.*.mlp.proj.weight", {rows, tall}, text);
    Compute("blocks.*.attn.qkv.matmul|blocks.*.mlp.fc.matmul", ": B, S(0) -> S(2)", text);
    Compute("blocks.*.attn.proj.matmul|blocks.*.mlp.proj.matmul", ": S(2), S(1) -> P", text);
    Compute("embed.embedding", ": S(0), B -> P", text);
    Compute("loss.linear_log_sum_exp", ": B, S(0), B -> P(lse), P", text);
    Plan plan;
    TESSERA_CHECK(google::protobuf::TextFormat::ParseFromString(text + "}", &plan)) << text;
    return plan;
  }

 private:
  enum Role { kData, kTensor, kShards };

  // Returns `layout` along each axis of a role.
  std::vector<std::string> Layouts(Role role, const std::string& layout) const {
    std::vector<std::string> layouts;
    for (int i = role; i < axes_; i += 3) layouts.push_back(absl::StrCat("a", i, layout));
    return layouts;
  }
  std::string Along(Role role, const std::string& layout) const {
    return absl::StrJoin(Layouts(role, layout), ", ");
  }

  static void Store(const std::string& path, const std::vector<std::string>& layouts,
                    std::string& text) {
    absl::StrAppend(&text, "store { path: '", path, "' layout: '", absl::StrJoin(layouts, ", "),
                    "' } ");
  }

  void Compute(const std::string& path, const std::string& signature, std::string& text) const {
    absl::StrAppend(&text, "compute { path: '", path, "' signature: '",
                    absl::StrJoin(Layouts(kTensor, signature), "; "), "' } ");
  }

  const int axes_;
};

void Run() {
  constexpr int kRounds = 3;
  const std::unique_ptr<Backend> backend = MakeCpuBackend(1);
  std::printf("%5s %6s %13s %9s\n", "axes", "ranks", "instructions", "seconds");
  for (int axes = 3; axes <= 8; ++axes) {
    const int ranks = 1 << axes;
    const std::vector<Graph> graphs = RecordedGpt(/*layers=*/2, /*heads=*/8, /*channels=*/64,
                                                  /*vocabulary=*/512, /*context=*/16, ranks);
    const Plan plan = MixedPlan(axes).Make();
    double shortest = 1e9;
    size_t instructions = 0;
    for (int round = 0; round < kRounds; ++round) {
      const std::clock_t begin = std::clock();
      const auto run = CompileRun(graphs, plan, *backend, ranks);
      const std::clock_t end = std::clock();
      TESSERA_CHECK(run.ok()) << run.status();
      instructions = run->FindProgram(kTrain)->instructions.size();
      shortest = std::min(shortest, static_cast<double>(end - begin) / CLOCKS_PER_SEC);
    }
    std::printf("%5d %6d %13zu %9.2f\n", axes, ranks, instructions, shortest);
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace tessera

int main() { tessera::Run(); }
