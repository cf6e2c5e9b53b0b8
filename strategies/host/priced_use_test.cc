#include "strategies/host/priced_use.h"

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "core/ops/ops.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

// Records a layer norm of 6 rows of 10 columns.
Graph Norm() {
  Graph graph("norm");
  const Tensor x = graph.Input("x", {DType::kF32, {6, 10}});
  const Tensor weight = graph.Input("weight", {DType::kF32, {10}});
  const Tensor bias = graph.Input("bias", {DType::kF32, {10}});
  graph.SetOutput("y", LayerNorm(x, weight, bias, 1e-5));
  return graph;
}

const Mesh& TwoByThree() {
  static const Mesh* const mesh = new Mesh(Mesh::Create({{"a", 2}, {"b", 3}}).value());
  return *mesh;
}

absl::StatusOr<PricedUse> Priced(const Graph& graph, const std::string& signature) {
  return PricedUse::Of(graph, graph.ops()[OpId(0)], signature, TwoByThree());
}

std::string KernelLines(const PricedUse& use) {
  std::string lines;
  for (const PricedUse::Kernel& kernel : use.kernels) {
    absl::StrAppend(&lines, std::string(kernel.op.kind->name()), ":");
    for (const TensorType& type : kernel.local.inputs) {
      absl::StrAppend(&lines, " ", TypeToString(type));
    }
    absl::StrAppend(&lines, " ->");
    for (const TensorType& type : kernel.local.outputs) {
      absl::StrAppend(&lines, " ", TypeToString(type));
    }
    absl::StrAppend(&lines, "\n");
  }
  return lines;
}

// Returns those that communicate, or would if a rank had more elements.
std::string CompletionLines(const PricedUse& use) {
  std::string lines;
  for (const PricedUse::Completion& completion : use.completions) {
    if (completion.from == completion.to) continue;
    absl::StrAppend(&lines, TypeToString(completion.type), ": ",
                    completion.from.ToString(TwoByThree()), " -> ",
                    completion.to.ToString(TwoByThree()), "\n");
  }
  return lines;
}

TEST(PricedUseTest, AnOperatorThatIsWholeIsOneKernel) {
  const auto use = Priced(Norm(), "a: S(0), B, B -> S(0), S(0), S(0)");
  ASSERT_TRUE(use.ok()) << use.status();
  EXPECT_EQ(KernelLines(*use),
            "layer_norm: f32[3, 10] f32[10] f32[10] -> f32[3, 10] f32[3] f32[3]\n");
  EXPECT_EQ(use->completions.size(), 0);
}

TEST(PricedUseTest, AnOperatorInPartsIsTheirKernelsAndWhatRanksCompleteBetweenThem) {
  const auto use =
      Priced(Norm(), "a: S(0), B, B -> S(0), S(0), S(0); b: S(1), S(0), S(0) -> S(1), B, B");
  ASSERT_TRUE(use.ok()) << use.status();
  const std::string kernels = KernelLines(*use);
  EXPECT_THAT(kernels, HasSubstr("layer_norm_sum: f32[3, 4] -> f32[3]\n"));
  EXPECT_THAT(kernels, HasSubstr("layer_norm_squares: f32[3, 4] f32[3] -> f32[3]\n"));
  EXPECT_THAT(kernels,
              HasSubstr("layer_norm_apply: f32[3, 4] f32[3] f32[3] f32[4] f32[4] -> f32[3, 4]\n"));
  EXPECT_THAT(CompletionLines(*use), HasSubstr("f32[6]: a: S(0), b: P -> a: S(0)\n"));
}

TEST(PricedUseTest, ASignatureThatDoesNotFitIsRefused) {
  EXPECT_THAT(std::string(Priced(Norm(), "a: S(0), B -> S(0)").status().message()),
              HasSubstr("has 3 inputs and 3 outputs"));
  EXPECT_THAT(std::string(Priced(Norm(), "b: S(2), S(0), S(0) -> S(2), B, B").status().message()),
              HasSubstr("splits dimension 2 of f32[6, 10]"));
}

}  // namespace
}  // namespace tessera
