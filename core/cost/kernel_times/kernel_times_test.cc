#include "core/cost/kernel_times/kernel_times.h"

#include <limits>

#include "core/cost/kernel_times/testing/planted_kernels.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

TEST(KernelTimesTest, TheDefaultStaysUnlessAnotherIsMuchFaster) {
  EXPECT_EQ(BestOf({{"a", 1.0}}).kernel, "a");
  EXPECT_EQ(BestOf({{"a", 1.0}, {"b", 0.98}}).kernel, "a");
  EXPECT_EQ(BestOf({{"a", 1.0}, {"b", 0.9}, {"c", 0.8}}).kernel, "c");
  EXPECT_EQ(BestOf({{"a", 1.0}, {"b", kInfinite}}).kernel, "a") << "b was refused";
}

TEST(KernelTimesTest, TimesAreOfTheseKernelsInThisOrder) {
  const PlantedBackend backend("exp", {{"a"}, {"b"}});
  std::vector<const Kernel*> kernels;
  for (const Kernel* kernel : backend.kernels()) {
    if (kernel->op() == "exp") kernels.push_back(kernel);
  }
  EXPECT_TRUE(AreOf({{"a", 1}, {"b", 2}}, kernels));
  EXPECT_FALSE(AreOf({{"b", 1}, {"a", 2}}, kernels)) << "another one is the default";
  EXPECT_FALSE(AreOf({{"a", 1}}, kernels));
  EXPECT_FALSE(AreOf({{"a", 1}, {"b", 2}, {"c", 3}}, kernels));
}

TEST(KernelTimesTest, AKernelOfThePlanIsKeptAndOthersAreFilledIn) {
  const PlantedBackend backend("exp", {{"a"}, {"b"}});
  KernelTimes times;
  times.Set("one", {{"a", 2}, {"b", 1}});
  times.Set("two", {{"a", 2}, {"b", 1}});
  const KernelChoices choices = ChoicesBy(times, backend);
  Plan plan;
  FillInKernels(choices, plan);
  EXPECT_EQ(plan.kernels().DebugString(), choices.DebugString());

  plan.mutable_kernels()->mutable_choices(0)->set_kernel("a");
  plan.mutable_kernels()->mutable_choices()->RemoveLast();
  FillInKernels(choices, plan);
  ASSERT_EQ(plan.kernels().choices_size(), 2);
  EXPECT_EQ(plan.kernels().choices(0).kernel(), "a") << "the Plan's";
  EXPECT_EQ(plan.kernels().choices(1).request(), "two");
  EXPECT_EQ(plan.kernels().choices(1).kernel(), "b");

  plan.mutable_kernels()->set_processor("another");
  FillInKernels(KernelChoices(), plan);
  EXPECT_EQ(plan.kernels().processor(), "another") << "nothing is known here";
  FillInKernels(choices, plan);
  EXPECT_EQ(plan.kernels().DebugString(), choices.DebugString());
}

}  // namespace
}  // namespace tessera
