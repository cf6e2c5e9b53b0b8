// Lowers redistributions of one value, without a Graph.
#ifndef TESSERA_CORE_PROGRAM_TESTING_REDISTRIBUTION_PROGRAM_H_
#define TESSERA_CORE_PROGRAM_TESTING_REDISTRIBUTION_PROGRAM_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "core/kernels/interface/backend.h"
#include "core/layout/mesh_layout.h"
#include "core/layout/redistribution/redistribution.h"
#include "core/program/kernels/kernel_chooser.h"
#include "core/program/lower/lower_redistribution.h"
#include "core/program/lower/program_builder.h"
#include "core/program/memory/assign_buffers.h"
#include "core/program/memory/memory_plan.h"
#include "core/program/program.h"
#include "core/program/verify/verify.h"
#include "core/status/status_macros.h"

namespace tessera {

// Returns a planned and verified Program "test" that brings its input "x" from layout `from` to
// each layout in `to`. Output "y<i>" is the value in layout to[i].
inline absl::StatusOr<Program> RedistributionProgram(const TensorType& type, const MeshLayout& from,
                                                     const std::vector<MeshLayout>& to,
                                                     RedistributionFinder& finder,
                                                     const KernelCatalogue& catalogue) {
  const Mesh& mesh = finder.mesh();
  KernelChooser chooser(&catalogue, KernelChoices());
  ProgramBuilder builder("test", mesh, &chooser);
  const PartRule tensor = PartRule::All(type.shape, mesh.num_axes());
  const ProgramValueId x =
      builder.AddTensor("x", {type.dtype, LocalShape(from, type.shape, mesh)}, Role::kInput,
                        builder.FindOrAddPart(tensor.With(from)));
  builder.program().inputs.push_back({"x", x});
  builder.MarkAsResult(x);
  Redistributor redistributor(&builder, finder);
  for (size_t i = 0; i < to.size(); ++i) {
    ASSIGN_OR_RETURN(ProgramValueId y,
                     redistributor.Redistribute(x, tensor, from, to[i], "activations"));
    ASSIGN_OR_RETURN(y, builder.EmitCopyOf(y));
    builder.MarkAsResult(y);
    builder.program().outputs.push_back({absl::StrCat("y", i), y});
  }
  Program program = std::move(builder.program());
  RETURN_IF_ERROR(AssignBuffers(chooser, program));
  StateLayout states;
  RETURN_IF_ERROR(states.Add(program));
  PlanMemory(states, program);
  RETURN_IF_ERROR(VerifyProgram(program));
  return program;
}

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_TESTING_REDISTRIBUTION_PROGRAM_H_
