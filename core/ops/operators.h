// Every operator by its own function, for the files of this folder: the list, and gradient rules
// that record other operators. Others ask FindOperator (operator_list.h) or record through ops.h.
#ifndef TESSERA_CORE_OPS_OPERATORS_H_
#define TESSERA_CORE_OPS_OPERATORS_H_

#include "core/graph/operator.h"

namespace tessera {

const Operator& AddOperator();
const Operator& SubtractOperator();
const Operator& MultiplyOperator();
const Operator& DivideOperator();
const Operator& MaximumOperator();
const Operator& MinimumOperator();
const Operator& ExpOperator();
const Operator& LogOperator();
const Operator& SqrtOperator();
const Operator& RsqrtOperator();
const Operator& ReciprocalOperator();
const Operator& NegateOperator();
const Operator& SquareOperator();
const Operator& TanhOperator();
const Operator& SigmoidOperator();
const Operator& ReluOperator();
const Operator& ReluGradOperator();
const Operator& GeluOperator();
const Operator& GeluGradOperator();
const Operator& SelectOperator();
const Operator& CastOperator();
const Operator& ValidMaskOperator();
const Operator& DropoutOperator();

const Operator& ReshapeOperator();
const Operator& TransposeOperator();
const Operator& SplitOperator();
const Operator& ExpandOperator();
const Operator& ConcatOperator();
const Operator& CopyOperator();

const Operator& MatMulOperator();

const Operator& SoftmaxOperator();
const Operator& SoftmaxGradOperator();
const Operator& LayerNormOperator();
const Operator& LayerNormGradOperator();
const Operator& ReduceSumOperator();
const Operator& ReduceMaxOperator();
const Operator& ReduceMaxGradOperator();
const Operator& SumSquaresOperator();
const Operator& EmbeddingOperator();
const Operator& EmbeddingGradOperator();

const Operator& AttentionOperator();
const Operator& AttentionGradOperator();
const Operator& AttentionDecodeOperator();

const Operator& LinearLogSumExpOperator();
const Operator& LinearLogSumExpGradOperator();

const Operator& FillOperator();
const Operator& RandomNormalOperator();

const Operator& AllFiniteOperator();
const Operator& SgdUpdateOperator();
const Operator& AdamwUpdateOperator();

}  // namespace tessera

#endif  // TESSERA_CORE_OPS_OPERATORS_H_
