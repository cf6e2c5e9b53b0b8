// Tries combinations of layouts of one use of an operator on the ranks of one axis.
#ifndef TESSERA_TESTS_OPERATORS_SIGNATURES_SIGNATURE_TRIAL_H_
#define TESSERA_TESTS_OPERATORS_SIGNATURES_SIGNATURE_TRIAL_H_

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "core/kernels/interface/backend.h"
#include "core/layout/layout.h"
#include "core/layout/mesh.h"
#include "tests/operators/array.h"
#include "tests/operators/cases.h"
#include "tests/operators/distributed_use.h"

namespace tessera::operator_tests {

// Indices of layouts, one for each operand.
using LayoutIndices = std::vector<int>;

// Layouts of the outputs that are right for one combination of input layouts.
struct Outcome {
  // By output, the layout that says what each rank computes: B, or a split.
  LayoutIndices computed;
  // By output, the layouts in which the ranks hold the true value: `computed`, and partial ones
  // if that is B.
  std::vector<LayoutIndices> right;
};

// One use on one number of ranks, with one draw of partial values. Thread safety: none.
class SignatureTrial {
 public:
  // The layouts that operands may have; those of an output begin with B.
  struct Layouts {
    std::vector<std::vector<AxisLayout>> inputs, outputs;
  };

  // `reference` and `prepared` must outlive the trial. `global` are the true outputs.
  SignatureTrial(Backend* reference, const PreparedCase* prepared, absl::Span<const Array> global,
                 Layouts layouts, int ranks, int draw);

  // Returns every outcome that the shape rule allows for these inputs, with all of its layouts. The
  // local attributes of an operator may depend on the layout of its first output only.
  std::vector<Outcome> Possible(const LayoutIndices& inputs) const;

  // Removes the layouts of `outcome` that are not right. Returns whether some output has none left.
  bool LeavesNothing(const LayoutIndices& inputs, Outcome& outcome) const;

 private:
  // A value in one layout: each rank's shard, and the elements of an input.
  struct Held {
    std::vector<Shard> shards;
    std::vector<Array> arrays;
    std::vector<std::vector<int64_t>> indices;  // of an output's elements in the global one
  };
  // A rank's outputs; without any if they are the identities of their reductions.
  using RankOutputs = std::vector<std::vector<double>>;

  Held HoldInput(int input, const AxisLayout& layout, int draw) const;
  Held HoldOutput(int output, const AxisLayout& layout) const;
  LocalPart PartOf(const LayoutIndices& inputs, const LayoutIndices& computed, int rank) const;
  // Returns whether the operator takes the ranks' parts.
  bool Run(const LayoutIndices& inputs, const LayoutIndices& computed,
           std::vector<RankOutputs>& outputs) const;
  bool IsRight(int output, int layout, const std::vector<RankOutputs>& outputs) const;
  bool IsClose(int output, int64_t index, double value) const;

  Backend* const reference_;
  const PreparedCase* const prepared_;
  const Layouts layouts_;
  const Mesh mesh_;
  std::vector<std::vector<double>> global_;          // by output
  std::vector<double> magnitudes_;                   // the root mean square of each output
  std::vector<std::vector<Held>> inputs_, outputs_;  // by operand and layout
};

}  // namespace tessera::operator_tests

#endif  // TESSERA_TESTS_OPERATORS_SIGNATURES_SIGNATURE_TRIAL_H_
