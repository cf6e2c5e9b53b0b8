// A Program's rules, evaluated for one rank.
#ifndef TESSERA_CORE_PROGRAM_RANK_BINDING_H_
#define TESSERA_CORE_PROGRAM_RANK_BINDING_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/kernels/interface/backend.h"
#include "core/layout/layout.h"
#include "core/program/program.h"

namespace tessera {

// The elements that the rank at some coordinates of the mesh holds of the values of a Program,
// which must outlive this. Thread safety: immutable after construction.
class RankBinding {
 public:
  RankBinding(const Program* program, absl::Span<const int> coordinates);

  // The shape of what the rank holds: a prefix of the value's padded shape.
  const Shape& ShapeOf(int32_t value) const;
  // Its strides: those of the value, unless it is packed.
  Strides StridesOf(int32_t value) const;
  // Its first byte; after planning.
  ArenaAddress AddressOf(int32_t value) const;
  // Which part it is of the global tensor, or of the member of a flat group.
  Region RegionOf(int32_t value) const;
  // The random numbers that an instruction draws.
  RandomDraw DrawOf(const Instruction& instruction) const;
  // Whether a value may differ between ranks.
  bool Differs(int32_t value) const {
    return program_.values[value].part != kNone || program_.values[value].flat != kNone;
  }

 private:
  // Elements by which a value begins behind its offset.
  int64_t ShiftOf(const ProgramValue& value) const;

  const Program& program_;
  const MeshCoordinates coordinates_;
  std::vector<Box> parts_;  // by index in Program::parts
  // By index in Program::flats: the elements that the other axes leave, those of them that the
  // rank holds, and their position in the group's buffer.
  std::vector<int64_t> left_;
  std::vector<FlatGroup::Range> held_, positions_;
  std::vector<Shape> flat_shapes_;
};

// How a rank runs an instruction's kernel, by the shapes that it holds of the operands.
enum class LocalWork {
  kPlanned,   // all operands have their padded shapes: by the planned request
  kOwn,       // by a request of its own
  kIdentity,  // it holds nothing of an input: outputs get the identity of what they are partial
              // over
  kNothing,   // it holds nothing of any output
};
LocalWork LocalWorkOf(const Program& program, const Instruction& instruction,
                      const RankBinding& rank);

// The request for an instruction's kernel on operands of a rank's own shapes.
KernelRequest LocalRequest(const Program& program, const Instruction& instruction,
                           const RankBinding& rank);

// The kernel for a rank's own request instead of `planned`: the same one if it accepts the request,
// otherwise the default. NotFound if there is none.
absl::StatusOr<const Kernel*> LocalKernel(const KernelCatalogue& catalogue,
                                          const PlannedKernel& planned,
                                          const KernelRequest& request);

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_RANK_BINDING_H_
