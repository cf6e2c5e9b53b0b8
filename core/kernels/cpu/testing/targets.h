// Runs the vector kernels with a chosen instruction set, for tests that run all instruction sets
// that are compiled in and supported by this processor.
#ifndef TESSERA_CORE_KERNELS_CPU_TESTING_TARGETS_H_
#define TESSERA_CORE_KERNELS_CPU_TESTING_TARGETS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace tessera::cpu {

// Highway's numbers of the targets that this processor can run.
std::vector<int64_t> RunnableTargets();
std::string TargetName(int64_t target);

// A test whose parameter is the target that kernels run with.
class TargetTest : public ::testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override;
  void TearDown() override;
};

// TargetName with the signature of a test suite's name generator.
inline std::string NameOfTarget(const ::testing::TestParamInfo<int64_t>& info) {
  return TargetName(info.param);
}

}  // namespace tessera::cpu

#endif  // TESSERA_CORE_KERNELS_CPU_TESTING_TARGETS_H_
