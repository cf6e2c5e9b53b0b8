// Runs an operator on the ranks of a mesh, each on its shards of the inputs and without
// communication, as a Program does.
#ifndef TESSERA_TESTS_OPERATORS_DISTRIBUTED_USE_H_
#define TESSERA_TESTS_OPERATORS_DISTRIBUTED_USE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/kernels/interface/backend.h"
#include "core/layout/layout.h"
#include "core/layout/mesh.h"
#include "core/layout/mesh_layout.h"
#include "core/tensor/random.h"
#include "tests/operators/array.h"
#include "tests/operators/cases.h"

namespace tessera::operator_tests {

// The layouts in which an operator's use is computed on a mesh.
struct UseLayouts {
  std::vector<MeshLayout> inputs;
  std::vector<MeshLayout> outputs;

  std::string ToString(const Mesh& mesh) const;
};

// Returns the signatures that an operator declares, except those in parts.
std::vector<Signature> WithoutCommunication(const Operator& op, const OpTypes& types);

UseLayouts AllBroadcast(const PreparedCase& prepared, const Mesh& mesh);
// Returns `layouts` with those of a signature along `axis`.
UseLayouts With(UseLayouts layouts, int axis, const Signature& signature);

// Returns the layouts of all pairs of signatures on a mesh of two axes. The signature of the second
// axis is one for the padded local types after the first axis. Pairs that make a value a sum along
// one axis and a maximum along the other are no layouts, and are left out.
std::vector<UseLayouts> LayoutsOnTwoAxes(const PreparedCase& prepared, const Mesh& mesh);

// One rank's part of an operator's use: the types and regions of its shards of all values.
struct LocalPart {
  std::vector<TensorType> inputs, outputs;
  std::vector<Region> input_regions, output_regions;

  Attributes AttributesOf(const PreparedCase& prepared) const {
    return prepared.op->LocalAttributes(prepared.attributes,
                                        {inputs, outputs, input_regions, output_regions});
  }
};

// A rank's shard of one value.
struct Shard {
  TensorType type;
  Region region;
};
Shard ShardOf(const TensorType& global, const MeshLayout& layout, const Mesh& mesh, int rank);

LocalPart PartOf(const PreparedCase& prepared, const UseLayouts& layouts, const Mesh& mesh,
                 int rank);

// Returns the elements of each rank's shard of input i. Partial values are drawn from `stream`, so
// that they reduce to the true one: most differ from each other, and some are the identity of the
// reduction, several times the true maximum, other values of the tensor, or finite terms of an
// infinite sum.
std::vector<std::vector<double>> Distribute(const PreparedCase& prepared, int i,
                                            const MeshLayout& layout, const Mesh& mesh,
                                            RandomStream stream);

// Returns what the ranks' partial values of one element reduce to; NaN if one of them is NaN.
double Reduced(AxisLayout::Reduction reduction, absl::Span<const double> shares);
// Returns the partial value that changes no other one.
double IdentityOf(AxisLayout::Reduction reduction, DType dtype);

// The work of one rank. `first` is the part of rank 0, whose shards have the padded shapes.
enum class RankWork {
  kKernel,    // the operator runs
  kNothing,   // the rank has nothing of any output
  kIdentity,  // the rank lacks an input: its outputs become the identities of their reductions
};
RankWork WorkOf(const Operator& op, const LocalPart& part, const LocalPart& first);

// Returns what the operator computes from a rank's shards of its inputs. InvalidArgument or
// Internal if it does not take them, or if its outputs have other types than the part's.
absl::StatusOr<std::vector<Array>> RunPart(Backend& reference, const PreparedCase& prepared,
                                           const LocalPart& part, absl::Span<const Array> inputs);

// Runs the operator on all ranks of the mesh, and compares their outputs with the global ones.
// Returns what is wrong; "" if nothing is. `draw` numbers the draws of partial values.
std::string CheckDistributed(Backend& reference, const PreparedCase& prepared,
                             const UseLayouts& layouts, const Mesh& mesh,
                             absl::Span<const Array> global, int draw = 0);

}  // namespace tessera::operator_tests

#endif  // TESSERA_TESTS_OPERATORS_DISTRIBUTED_USE_H_
