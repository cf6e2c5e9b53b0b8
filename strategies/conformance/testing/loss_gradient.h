// The gradient with which the backward pass of a Program begins, for passes that change it.
#ifndef TESSERA_STRATEGIES_CONFORMANCE_TESTING_LOSS_GRADIENT_H_
#define TESSERA_STRATEGIES_CONFORMANCE_TESTING_LOSS_GRADIENT_H_

#include "strategies/api/kit.h"

namespace tessera::strategy {

// Returns the number of micro-batches; 0 if the batch is not split.
int MicroBatches(const ProgramProto& program);

// Replaces the gradient of the loss, which is 1, and so multiplies that of every parameter by
// `value`.
void SetLossGradient(double value, ProgramProto& program);

}  // namespace tessera::strategy

#endif  // TESSERA_STRATEGIES_CONFORMANCE_TESTING_LOSS_GRADIENT_H_
