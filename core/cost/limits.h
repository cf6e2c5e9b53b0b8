// The minimum work of a Program, and a lower bound of the time that this machine needs for it.
//
// Thread safety: pure functions.
#ifndef TESSERA_CORE_COST_LIMITS_H_
#define TESSERA_CORE_COST_LIMITS_H_

#include "core/cost/machine.h"
#include "core/program/program.h"
#include "core/tensor/dtype.h"

namespace tessera {

struct ProgramWork {
  double model_flops = 0;     // without recomputation
  double executed_flops = 0;  // with recomputation
  double bytes = 0;           // every instruction's inputs read and outputs written once
};
ProgramWork WorkOf(const Program& program);

// Returns the dtype in which the Program's matmuls have most of their FLOPs: bf16 or f16, else f32.
DType MatmulDType(const Program& program);

// Returns the seconds of an instruction at its own limit: its FLOPs at the machine's rate or its
// bytes at the machine's bandwidth, whichever takes longer.
double LimitSeconds(const Instruction& instruction, const MachineRates& rates);
// Returns the sum over all instructions, recomputed ones included.
double LimitSeconds(const Program& program, const MachineRates& rates);

}  // namespace tessera

#endif  // TESSERA_CORE_COST_LIMITS_H_
