// The operands of a kernel instruction, as one rank passes them to the kernel.
#ifndef TESSERA_CORE_PROGRAM_RANKS_LOCAL_OPERANDS_H_
#define TESSERA_CORE_PROGRAM_RANKS_LOCAL_OPERANDS_H_

#include <functional>
#include <memory>
#include <vector>

#include "core/kernels/interface/random_draw.h"
#include "core/layout/layout.h"
#include "core/program/program.h"
#include "core/program/ranks/rank_binding.h"
#include "core/tensor/tensor_view.h"

namespace tessera {

struct LocalOperands {
  std::vector<TensorView> inputs, outputs;
  // Empty if no operand differs between ranks.
  std::vector<Region> input_regions, output_regions;
  std::unique_ptr<RandomDraw> draw;  // null unless the operator draws random numbers
};

// Returns the operands of an instruction of kind kKernel. `view` returns the rank's part of a value
// in memory.
LocalOperands OperandsOf(const Instruction& instruction, const RankBinding& rank,
                         const std::function<TensorView(ProgramValueId)>& view);

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_RANKS_LOCAL_OPERANDS_H_
