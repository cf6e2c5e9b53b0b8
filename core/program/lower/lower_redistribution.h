// Lowers redistributions: collectives, copies and views that bring a value from one layout on the
// mesh to another.
#ifndef TESSERA_CORE_PROGRAM_LOWER_LOWER_REDISTRIBUTION_H_
#define TESSERA_CORE_PROGRAM_LOWER_LOWER_REDISTRIBUTION_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/layout/mesh_layout.h"
#include "core/layout/redistribution/redistribution.h"
#include "core/program/lower/packed_parts.h"
#include "core/program/lower/program_builder.h"
#include "core/program/rank_rules.h"

namespace tessera {

// Adds the instructions of redistributions to a Program. Not thread-safe. Builder and finder must
// outlive it.
class Redistributor {
 public:
  Redistributor(ProgramBuilder* builder, RedistributionFinder& finder)
      : builder_(*builder), finder_(finder) {}

  // Adds the instructions that bring the value `id` from layout `from` to layout `to`, and returns
  // the new value. `tensor` describes what all ranks together hold of the value. Collectives run on
  // `stream`. Each rank's part has the shape that `to` gives it, even if it is empty.
  absl::StatusOr<ProgramValueId> Redistribute(ProgramValueId id, const PartRule& tensor,
                                              const MeshLayout& from, const MeshLayout& to,
                                              absl::string_view stream);
  // Returns the price of that redistribution, in seconds.
  absl::StatusOr<double> Seconds(ProgramValueId id, const PartRule& tensor, const MeshLayout& from,
                                 const MeshLayout& to);

 private:
  // One step of the redistribution of a part of `tensor`.
  struct Step {
    const RedistributionStep& step;
    const PartRule& tensor;
    absl::string_view stream;
    Shape shape;  // padded local shape after the step
    PartId part;  // the rule of the part after the step
  };

  // Returns `id`, which holds the elements of `part`, or a view of it with the shapes of `part`.
  absl::StatusOr<ProgramValueId> WithShapesOf(const PartRule& part, ProgramValueId id);

  // Each emits the instructions of a step on the value `id`, and returns the result.
  absl::StatusOr<ProgramValueId> EmitStep(const Step& step, ProgramValueId id);
  absl::StatusOr<ProgramValueId> AllGather(const Step& step, ProgramValueId id);
  absl::StatusOr<ProgramValueId> ReduceLogSumExp(const Step& step, ProgramValueId id);
  absl::StatusOr<ProgramValueId> AllToAll(const Step& step, ProgramValueId id);
  absl::StatusOr<ProgramValueId> ZeroElsewhere(const Step& step, ProgramValueId id);

  // Emit a reduction with the step's result: EmitReduction() an all-reduce or a reduce-scatter.
  absl::StatusOr<ProgramValueId> EmitReduction(const Step& step, Reduction reduction,
                                               ProgramValueId id);
  absl::StatusOr<ProgramValueId> EmitAllReduce(const Step& step, Reduction reduction,
                                               ProgramValueId id, PartId part);
  // Emits the elementwise operator `op`.
  absl::StatusOr<ProgramValueId> EmitElementwise(absl::string_view op, Operands inputs,
                                                 PartId part);

  // Returns the parts of a tensor that `split` splits along the axes of the step.
  PackedParts PartsOf(const Shape& tensor, const MeshLayout& split, const Step& step) const;
  // Returns the parts of a value in one contiguous value, one after another, each padded with
  // zeros.
  absl::StatusOr<ProgramValueId> Pack(ProgramValueId id, const PackedParts& parts);
  // Returns a value of the step's shape, assembled from its parts, which are consecutive in `id`.
  absl::StatusOr<ProgramValueId> Unpack(const Step& step, ProgramValueId id,
                                        const PackedParts& parts);
  // Copies elements between the tensor `full` and `packed`, its parts.
  absl::Status CopyParts(ProgramValueId full, ProgramValueId packed, const PackedParts& parts,
                         bool to_packed);

  CollectiveRequest RequestOf(const Step& step, CollectiveOperation operation, int64_t elements,
                              ProgramValueId id) const;

  ProgramBuilder& builder_;
  RedistributionFinder& finder_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_LOWER_LOWER_REDISTRIBUTION_H_
