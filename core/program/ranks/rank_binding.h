// The rules of a Program, evaluated for one rank.
#ifndef TESSERA_CORE_PROGRAM_RANKS_RANK_BINDING_H_
#define TESSERA_CORE_PROGRAM_RANKS_RANK_BINDING_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/ids/table.h"
#include "core/kernels/interface/backend.h"
#include "core/layout/layout.h"
#include "core/program/program.h"

namespace tessera {

// The elements that the rank at given coordinates of the mesh holds of each value of a Program. The
// Program must outlive it. Thread safety: immutable after construction.
class RankBinding {
 public:
  RankBinding(const Program* program, absl::Span<const int> coordinates)
      : RankBinding(program, coordinates, PartsOfFlats(*program)) {}
  // The same, with what PartsOfFlats returns: for several ranks of one Program.
  RankBinding(const Program* program, absl::Span<const int> coordinates,
              const Table<FlatId, PartId>& parts_of_flats);
  // Returns the part rule of the values with each flat rule; kNone if they have none.
  static Table<FlatId, PartId> PartsOfFlats(const Program& program);

  // Returns the shape of the rank's part: a prefix of the value's padded shape.
  const Shape& ShapeOf(ProgramValueId value) const;
  // Returns the strides of the rank's part: those of the value, unless it is packed.
  Strides StridesOf(ProgramValueId value) const;
  // Returns the address of the rank's first byte of the value; after planning.
  ArenaAddress AddressOf(ProgramValueId value) const;
  // Returns the region of the global tensor, or of the member of a flat group, that the value is.
  Region RegionOf(ProgramValueId value) const;
  // Returns the random numbers that an instruction draws.
  RandomDraw DrawOf(const Instruction& instruction) const;
  // Returns whether a value may differ between ranks.
  bool Differs(ProgramValueId value) const {
    return program_.values[value].part != kNone || program_.values[value].flat != kNone;
  }

 private:
  // Returns by how many elements a value begins after its offset.
  int64_t ShiftOf(const ProgramValue& value) const;

  const Program& program_;
  const MeshCoordinates coordinates_;
  Table<PartId, Box> parts_;
  // The number of the member's elements on this rank before the group
  // is split, the range of them that the rank holds, and their position in the group's buffer.
  Table<FlatId, int64_t> member_sizes_;
  Table<FlatId, FlatGroup::Range> held_, positions_;
  Table<FlatId, Shape> flat_shapes_;
};

// How a rank runs an instruction's kernel, depending on the shapes of its own operands.
enum class LocalWork {
  kPlanned,   // by the planned request: all operands have their padded shapes
  kOwn,       // by a request for the rank's own shapes
  kIdentity,  // it holds nothing of an input: outputs get the identity of what they are partial
              // over
  kNothing,   // it holds nothing of any output
};
LocalWork LocalWorkOf(const Program& program, const Instruction& instruction,
                      const RankBinding& rank);

// Returns the request for an instruction's kernel on operands with the rank's own shapes.
KernelRequest LocalRequest(const Program& program, const Instruction& instruction,
                           const RankBinding& rank);

// Returns the kernel for a rank's own request: that of `planned` if it accepts the request,
// otherwise the default kernel. NotFound if there is none.
absl::StatusOr<const Kernel*> LocalKernel(const KernelCatalogue& catalogue,
                                          const PlannedKernel& planned,
                                          const KernelRequest& request);

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_RANKS_RANK_BINDING_H_
