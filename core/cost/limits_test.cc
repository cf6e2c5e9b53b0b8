#include "core/cost/limits.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

Instruction WithCost(OpCost cost, bool recomputed) {
  Instruction instruction;
  instruction.cost = cost;
  instruction.recomputed = recomputed;
  return instruction;
}

TEST(LimitsTest, CountsWhatIsRecomputedOnlyOnce) {
  Program program;
  program.instructions.push_back(
      WithCost({.flops = 100, .recomputed_flops = 30, .bytes = 8}, false));
  program.instructions.push_back(WithCost({.flops = 10, .recomputed_flops = 0, .bytes = 40}, true));
  const ProgramWork work = WorkOf(program);
  EXPECT_EQ(work.model_flops, 70);
  EXPECT_EQ(work.executed_flops, 110);
  EXPECT_EQ(work.bytes, 48);
}

TEST(LimitsTest, EachInstructionHasItsOwnLimit) {
  Program program;
  program.instructions.push_back(
      WithCost({.flops = 100, .recomputed_flops = 0, .bytes = 8}, false));
  program.instructions.push_back(WithCost({.flops = 10, .recomputed_flops = 0, .bytes = 40}, true));
  const MachineRates rates = {.flops_per_second = 50, .bytes_per_second = 8};
  EXPECT_DOUBLE_EQ(LimitSeconds(program.instructions[InstructionId(0)], rates), 2);
  EXPECT_DOUBLE_EQ(LimitSeconds(program.instructions[InstructionId(1)], rates), 5);
  EXPECT_DOUBLE_EQ(LimitSeconds(program, rates), 7);
}

TEST(LimitsTest, TheDTypeOfMostMultiplications) {
  Program program;
  EXPECT_EQ(MatmulDType(program), DType::kF32);
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    PlannedKernel kernel;
    kernel.request.op = "matmul";
    kernel.request.inputs = {{dtype, {2, 2}}, {dtype, {2, 2}}};
    Instruction instruction = WithCost({.flops = 100}, false);
    instruction.kernel = program.kernels.push_back(kernel);
    program.instructions.push_back(instruction);
  }
  program.instructions[InstructionId(0)].cost.flops = 101;
  EXPECT_EQ(MatmulDType(program), DType::kF32);
  program.instructions[InstructionId(0)].cost.flops = 99;
  EXPECT_EQ(MatmulDType(program), DType::kBF16);
}

}  // namespace
}  // namespace tessera
