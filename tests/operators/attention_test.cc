// The kernels of attention that multiply pairs of bf16, on every instruction set that can run them:
// where the processor has no instructions for bf16, they are no candidates and no other test runs
// them.
#include "core/kernels/cpu/attention.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/cost/kernel_times/kernel_errors.h"
#include "core/kernels/cpu/testing/kernels.h"
#include "gtest/gtest.h"

namespace tessera::cpu {
namespace {

struct Sizes {
  int64_t batch, queries, keys, heads, head_dim;
  bool causal;
};

// Blocks are of 32 queries and 64 keys; a pair is padded if head_dim, keys or queries are odd.
constexpr Sizes kSizes[] = {
    {1, 256, 256, 2, 64, true}, {1, 256, 256, 2, 64, false}, {2, 33, 33, 2, 17, true},
    {1, 65, 129, 2, 15, false}, {1, 97, 97, 1, 80, true},    {2, 7, 3, 2, 5, false},
    {1, 1, 1, 2, 1, true},
};

// The operands of both operators, in bf16, and attributes for them.
struct Operands {
  TestTensor q, k, v, output_gradient;
  Attributes attributes;
  TensorType lse;

  explicit Operands(const Sizes& s)
      : q(ToBF16(RandomTensor({s.batch, s.queries, s.heads, s.head_dim}, 1))),
        k(ToBF16(RandomTensor({s.batch, s.keys, s.heads, s.head_dim}, 2))),
        v(ToBF16(RandomTensor({s.batch, s.keys, s.heads, s.head_dim}, 3))),
        output_gradient(ToBF16(RandomTensor({s.batch, s.queries, s.heads, s.head_dim}, 4))),
        attributes(
            {{"causal", s.causal}, {"scale", 1 / std::sqrt(static_cast<double>(s.head_dim))}}),
        lse(F32({s.batch, s.heads, s.queries})) {}

  Use Forward() const { return {"attention", attributes, {&q, &k, &v}, {q.type, lse}}; }
  // `forward`: the outputs of Forward().
  Use Backward(const std::vector<TestTensor>& forward) const {
    return {"attention_grad",
            attributes,
            {&output_gradient, &q, &k, &v, &forward[0], &forward[1]},
            {q.type, k.type, v.type}};
  }
};

bool MultipliesBFloat16() { return absl::EndsWith(Cpu().processor().name, "+BF16"); }

class AttentionTest : public TargetTest {
 protected:
  void SetUp() override {
    TargetTest::SetUp();
    if (TargetName(GetParam()) == "AVX3" && !MultipliesBFloat16()) {
      GTEST_SKIP() << "the processor does not multiply bf16";
    }
    AddBFloat16AttentionKernels(list_);
  }

  const Kernel& KernelOf(absl::string_view op) const {
    for (const Kernel* kernel : list_.kernels()) {
      if (kernel->op() == op) return *kernel;
    }
    ADD_FAILURE() << op;
    return *list_.kernels()[0];
  }

  // Runs the kernel of pairs with 2 threads.
  std::vector<TestTensor> Run(const Use& use, int threads = 2) const {
    return std::move(RunKernel(KernelOf(use.op), use, threads, '\xff').outputs);
  }

 private:
  KernelList list_;
};

INSTANTIATE_TEST_SUITE_P(Targets, AttentionTest, ::testing::ValuesIn(RunnableTargets()),
                         NameOfTarget);

std::vector<float> Floats(const TestTensor& tensor) {
  return tensor.type.dtype == DType::kBF16 ? FromBF16(tensor) : tensor.values<float>();
}

// Expects no element further from the default kernel's than this share of the largest element.
void ExpectNear(const std::vector<TestTensor>& outputs, const Use& use, float bf16_share) {
  const std::vector<TestTensor> by_default = RunKernels(use, 2, "highway");
  for (size_t i = 0; i < by_default.size(); ++i) {
    const std::vector<float> values = Floats(outputs[i]), expected = Floats(by_default[i]);
    float largest = 0, difference = 0;
    for (size_t e = 0; e < expected.size(); ++e) {
      ASSERT_TRUE(std::isfinite(values[e])) << use.op << ", output " << i << ", element " << e;
      largest = std::max(largest, std::abs(expected[e]));
      difference = std::max(difference, std::abs(values[e] - expected[e]));
    }
    // The log-sum-exps are sums of products that are not rounded.
    const float share = outputs[i].type.dtype == DType::kBF16 ? bf16_share : 1e-6f;
    EXPECT_LE(difference, share * largest) << use.op << ", output " << i;
  }
}

TEST_P(AttentionTest, PairsOfBFloat16GiveTheResultsOfFloats) {
  for (const Sizes& sizes : kSizes) {
    SCOPED_TRACE(absl::StrCat(sizes.queries, " x ", sizes.keys, " of ", sizes.head_dim));
    const Operands operands(sizes);
    const Use forward = operands.Forward();
    const std::vector<TestTensor> outputs = Run(forward);
    ExpectNear(outputs, forward, 2.0f / 256);
    const Use backward = operands.Backward(outputs);
    ExpectNear(Run(backward), backward, 2.0f / 256);
  }
}

TEST_P(AttentionTest, ThreadsChangeNoBit) {
  const Operands operands({2, 300, 300, 3, 20, true});
  const Use forward = operands.Forward();
  const std::vector<TestTensor> outputs = Run(forward, 1);
  for (const Use& use : {forward, operands.Backward(outputs)}) {
    const std::vector<TestTensor> one = Run(use, 1), three = Run(use, 3);
    for (size_t i = 0; i < one.size(); ++i) {
      EXPECT_EQ(0, std::memcmp(one[i].memory->data(), three[i].memory->data(),
                               static_cast<size_t>(NumBytes(one[i].type))))
          << use.op << ", output " << i;
    }
  }
}

// Otherwise they would never be chosen.
TEST_P(AttentionTest, MeasurementWouldAcceptTheirErrors) {
  for (const Sizes& sizes : kSizes) {
    const Operands operands(sizes);
    const std::vector<TestTensor> outputs = Run(operands.Forward());
    for (const Use& use : {operands.Forward(), operands.Backward(outputs)}) {
      const KernelRequest request = RequestOf(use, 2);
      const auto by_default = DefaultKernel(Cpu(), request);
      ASSERT_TRUE(by_default.ok()) << by_default.status();
      const Kernel& kernel = KernelOf(use.op);
      EXPECT_TRUE(kernel.Accepts(request));
      const auto errors = ErrorsOf({*by_default, &kernel}, request, Cpu());
      ASSERT_TRUE(errors.ok()) << errors.status();
      EXPECT_TRUE(IsAccurateEnough((*errors)[1], (*errors)[0], DType::kBF16))
          << request.Key() << ": " << (*errors)[1] << ", by default " << (*errors)[0];
    }
  }
}

TEST_P(AttentionTest, PairsAreOfBFloat16Only) {
  const TensorType q = F32({1, 4, 1, 2}), lse = F32({1, 1, 4});
  KernelRequest request = {.op = "attention",
                           .attributes = {{"causal", true}, {"scale", 1.0}},
                           .inputs = {q, q, q},
                           .outputs = {q, lse},
                           .epilogues = {}};
  EXPECT_FALSE(KernelOf("attention").Accepts(request));
  for (TensorType& type : request.inputs) type.dtype = DType::kF16;
  request.outputs[0].dtype = DType::kF16;
  EXPECT_FALSE(KernelOf("attention").Accepts(request));
}

// The kernel of floats stays the default, and that of pairs is a candidate if the processor
// multiplies them.
TEST(AttentionCandidatesTest, FloatsAreTheDefault) {
  const Operands operands(kSizes[0]);
  const std::vector<const Kernel*> candidates =
      CandidateKernels(Cpu(), RequestOf(operands.Forward(), 2));
  ASSERT_EQ(candidates.size(), MultipliesBFloat16() ? 2 : 1);
  EXPECT_EQ(candidates[0]->name(), "highway");
}

}  // namespace
}  // namespace tessera::cpu
