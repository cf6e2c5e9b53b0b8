#include "core/program/ranks/rank_binding.h"

#include <algorithm>

namespace tessera {
namespace {

bool Empty(const Shape& shape) { return NumElements(shape) == 0; }

}  // namespace

Table<FlatId, PartId> RankBinding::PartsOfFlats(const Program& program) {
  Table<FlatId, PartId> parts(program.flats.size(), kNone);
  if (parts.empty()) return parts;
  for (const ProgramValue& value : program.values) {
    if (value.flat != kNone && value.part != kNone) parts[value.flat] = value.part;
  }
  return parts;
}

RankBinding::RankBinding(const Program* program, absl::Span<const int> coordinates,
                         const Table<FlatId, PartId>& parts_of_flats)
    : program_(*program), coordinates_(coordinates.begin(), coordinates.end()) {
  for (const PartRule& part : program_.parts) {
    parts_.push_back(part.At(program_.mesh, coordinates));
  }
  for (const FlatId i : program_.flats.ids()) {
    const FlatRule& flat = program_.flats[i];
    const PartId part = parts_of_flats[i];
    member_sizes_.push_back(part != kNone ? NumElements(parts_[part].extent)
                                          : flat.group->InGathered(flat.member).size());
  }
  for (const FlatId i : program_.flats.ids()) {
    const FlatRule& flat = program_.flats[i];
    held_.push_back(flat.HeldAt(program_.mesh, coordinates, member_sizes_[i]));
    positions_.push_back(flat.InPartAt(program_.mesh, coordinates, member_sizes_[i]));
    flat_shapes_.push_back({held_.back().size()});
  }
}

const Shape& RankBinding::ShapeOf(ProgramValueId value) const {
  const ProgramValue& v = program_.values[value];
  if (v.flat != kNone) return flat_shapes_[v.flat];
  return v.part == kNone ? v.type.shape : parts_[v.part].extent;
}

Strides RankBinding::StridesOf(ProgramValueId value) const {
  const ProgramValue& v = program_.values[value];
  return v.packed ? RowMajorStrides(ShapeOf(value)) : v.strides;
}

int64_t RankBinding::ShiftOf(const ProgramValue& value) const {
  if (value.flat != kNone) {
    if (value.sliced_from == kNone) return positions_[value.flat].begin;
    return held_[value.flat].size() == 0 ? 0 : held_[value.flat].begin;
  }
  if (value.sliced_from == kNone) return 0;
  const ProgramValue& base = program_.values[value.sliced_from];
  if (base.sliced_from != kNone) return ShiftOf(base);
  const Box& slice = parts_[value.part];
  if (slice.empty()) return 0;
  int64_t shift = 0;
  for (size_t d = 0; d < slice.start.size(); ++d) {
    const int64_t start = base.part == kNone ? 0 : parts_[base.part].start[d];
    shift += (slice.start[d] - start) * base.strides[d];
  }
  return shift;
}

ArenaAddress RankBinding::AddressOf(ProgramValueId value) const {
  const ProgramValue& v = program_.values[value];
  return program_.AddressOf(value) + ShiftOf(v) * SizeOf(v.type.dtype);
}

Region RankBinding::RegionOf(ProgramValueId value) const {
  const ProgramValue& v = program_.values[value];
  if (v.flat != kNone) return {{held_[v.flat].begin}, {member_sizes_[v.flat]}};
  const Shape& global = v.part == kNone ? v.type.shape : program_.parts[v.part].global;
  Region region{Shape(global.size(), 0), global};
  if (v.part != kNone) {
    region.start = parts_[v.part].start;
    region.value_start = program_.parts[v.part].start;
  }
  return region;
}

RandomDraw RankBinding::DrawOf(const Instruction& instruction) const {
  const DrawRule& draw = program_.draws[instruction.draw];
  RandomDraw drawn = draw.At(program_.mesh, coordinates_);
  const FlatId flat = program_.values[instruction.outputs[0]].flat;
  if (flat == kNone) return drawn;
  drawn.box = draw.part.At(program_.mesh, coordinates_).extent;
  drawn.first = held_[flat].begin;
  return drawn;
}

LocalWork LocalWorkOf(const Program& program, const Instruction& instruction,
                      const RankBinding& rank) {
  const auto holds_padded_shape = [&](ProgramValueId id) {
    return !rank.Differs(id) || rank.ShapeOf(id) == program.values[id].type.shape;
  };
  const auto holds_nothing = [&](ProgramValueId id) { return Empty(rank.ShapeOf(id)); };
  if (std::all_of(instruction.inputs.begin(), instruction.inputs.end(), holds_padded_shape) &&
      std::all_of(instruction.outputs.begin(), instruction.outputs.end(), holds_padded_shape)) {
    return LocalWork::kPlanned;
  }
  if (std::all_of(instruction.outputs.begin(), instruction.outputs.end(), holds_nothing)) {
    return LocalWork::kNothing;
  }
  const bool lacks_input =
      std::any_of(instruction.inputs.begin(), instruction.inputs.end(), [&](ProgramValueId id) {
        return holds_nothing(id) && !Empty(program.values[id].type.shape);
      });
  const bool identity = lacks_input && !program.KernelOf(instruction).op->TakesEmptyInputs();
  return identity ? LocalWork::kIdentity : LocalWork::kOwn;
}

KernelRequest LocalRequest(const Program& program, const Instruction& instruction,
                           const RankBinding& rank) {
  const PlannedKernel& planned = program.KernelOf(instruction);
  KernelRequest request = planned.request;
  // A kernel sees only its local operands; regions are passed with the call.
  std::vector<Region> inputs, outputs;
  const auto set = [&](ProgramValueId id, TensorType& type, std::vector<Region>& regions) {
    type.shape = rank.ShapeOf(id);
    Region& region = regions.emplace_back();
    region.start = Shape(type.shape.size(), 0);
    region.global = type.shape;
  };
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    set(instruction.inputs[i], request.inputs[i], inputs);
  }
  for (size_t i = 0; i < request.outputs.size(); ++i) {
    set(instruction.outputs[i], request.outputs[i], outputs);
  }
  request.attributes = planned.op->LocalAttributes(
      planned.request.attributes, {request.inputs, request.outputs, inputs, outputs});
  return request;
}

absl::StatusOr<const Kernel*> LocalKernel(const KernelCatalogue& catalogue,
                                          const PlannedKernel& planned,
                                          const KernelRequest& request) {
  if (planned.kernel->Accepts(request)) return planned.kernel;
  return DefaultKernel(catalogue, request);
}

}  // namespace tessera
