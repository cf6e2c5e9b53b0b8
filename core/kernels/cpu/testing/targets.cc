#include "core/kernels/cpu/testing/targets.h"

#include "core/kernels/cpu/targets.h"
// After the above.
#include "hwy/targets.h"

namespace tessera::cpu {
namespace {

// 0: the best one.
void ChooseTarget(int64_t target) {
  hwy::SetSupportedTargetsForTest(target);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace

std::vector<int64_t> RunnableTargets() { return hwy::SupportedAndGeneratedTargets(); }

std::string TargetName(int64_t target) { return hwy::TargetName(target); }

void TargetTest::SetUp() { ChooseTarget(GetParam()); }
void TargetTest::TearDown() { ChooseTarget(0); }

}  // namespace tessera::cpu
