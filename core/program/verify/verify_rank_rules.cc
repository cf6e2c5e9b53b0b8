#include "core/program/verify/verify_rank_rules.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/node_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/ids/table.h"
#include "core/program/ranks/rank_binding.h"
#include "core/program/ranks/rank_extents.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

class RankRuleVerifier {
 public:
  explicit RankRuleVerifier(const Program& program) : program_(program) {}

  absl::Status Run() {
    for (const PartRule& part : program_.parts) {
      const absl::Status status = CheckPart(part, program_.mesh);
      if (!status.ok()) return Error("the table of parts", status.message());
      locals_.push_back(part.LocalShape(program_.mesh));
    }
    for (const FlatRule& flat : program_.flats) {
      const absl::Status status = CheckFlat(flat, program_.mesh);
      if (!status.ok()) return Error("the table of flat rules", status.message());
    }
    for (const ProgramValueId id : program_.values.ids()) {
      const ProgramValue& value = program_.values[id];
      if (value.buffer == kNone) continue;
      if (value.flat != kNone) {
        RETURN_IF_ERROR(CheckFlatValue(value));
      } else if (value.part != kNone && locals_[value.part] != value.type.shape) {
        return Error(value.path,
                     absl::StrCat("is ", ShapeToString(value.type.shape), ", but holds ",
                                  program_.parts[value.part].ToString(program_.mesh), ", which is ",
                                  ShapeToString(locals_[value.part]), " on each rank"));
      }
      if (value.sliced_from != kNone) RETURN_IF_ERROR(CheckSlice(value));
      const bool is_shaped_view = value.within != kNone && value.flat == kNone;
      if (is_shaped_view && !HaveSameAddresses(value, program_.values[value.within])) {
        return Error(value.path, absl::StrCat("and ", program_.values[value.within].path,
                                              ", of which it is a view, are not both packed"));
      }
      if (value.packed) RETURN_IF_ERROR(CheckPacked(id));
    }
    RETURN_IF_ERROR(CheckOthersInFlatBuffers());
    for (const Instruction& instruction : program_.instructions) {
      for (const ProgramValueId id : instruction.outputs) {
        if (program_.values[id].sliced_from == kNone) continue;
        return Error(instruction.path,
                     absl::StrCat("writes ", program_.values[id].path, ", a slice of ",
                                  program_.values[program_.values[id].sliced_from].path));
      }
      if (instruction.kind == InstructionKind::kKernel) {
        RETURN_IF_ERROR(CheckKernel(instruction));
      } else {
        RETURN_IF_ERROR(CheckCollectiveOrCopy(instruction));
      }
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Error(absl::string_view where, absl::string_view fault) const {
    return absl::InternalError(absl::StrCat("program '", program_.name, "', ", where, ": ", fault));
  }

  // Returns whether every element that a view shares with its tensor has the same address in both,
  // on all ranks. That is so if both or neither are packed (ProgramValue::packed), or if packing
  // the one that is packed moves no element, because no rank's part has gaps.
  bool HaveSameAddresses(const ProgramValue& view, const ProgramValue& tensor) {
    if (view.packed == tensor.packed) return true;
    // An array, such as that of a gathered group, may have packed members.
    if (view.packed && tensor.part == kNone) return true;
    return !Ragged(view.packed ? view : tensor);
  }

  // Checks that the shape of a member of a flat group follows from its rule, and that its buffer
  // holds the group, at one offset, and no other group. Remembers the first member of each buffer
  // for CheckOthersInFlatBuffers.
  absl::Status CheckFlatValue(const ProgramValue& value) {
    const FlatRule& flat = program_.flats[value.flat];
    const Shape& local = flat.group->members()[flat.member].local;
    if (value.type.shape != Shape{flat.LocalElements()} || value.strides != Strides{1}) {
      return Error(value.path, absl::StrCat("is ", ShapeToString(value.type.shape), ", but up to ",
                                            flat.LocalElements(), " elements of its flat group"));
    }
    if (value.part != kNone && locals_[value.part] != local) {
      return Error(value.path, absl::StrCat("is a member ", ShapeToString(local),
                                            " of its flat group, but a part ",
                                            ShapeToString(locals_[value.part])));
    }
    const auto [known, added] = flat_parts_.try_emplace(value.flat, &value);
    if (!added && known->second->part != value.part &&
        !HoldSameElements(program_.PartOf(*known->second), program_.PartOf(value), program_.mesh)) {
      return Error(value.path, absl::StrCat("is another part of the same member of a flat group ",
                                            "than ", known->second->path));
    }
    if (value.sliced_from != kNone) return absl::OkStatus();  // it is in a buffer without a group
    const int64_t end = value.offset + flat.group->part() * SizeOf(value.type.dtype);
    if (end > program_.buffers[value.buffer].bytes) {
      return Error(value.path,
                   absl::StrCat("its flat group does not lie in buffer #", value.buffer.index()));
    }
    const auto [entry, first] = in_buffer_.try_emplace(value.buffer, &value);
    const ProgramValue& other = *entry->second;
    const FlatRule& other_flat = program_.flats[other.flat];
    const bool same = other_flat.group == flat.group || *other_flat.group == *flat.group;
    if (!same || other_flat.axes != flat.axes || other.offset != value.offset ||
        other.type.dtype != value.type.dtype) {
      return Error(value.path, absl::StrCat("is of another flat group than ", other.path,
                                            " in the same buffer, #", value.buffer.index()));
    }
    return absl::OkStatus();
  }

  // Checks that each value that is no member, but lies in the buffer of a flat group, such as the
  // array that a collective of the group reads, is a contiguous range of the group. Requires that
  // CheckFlatValue was called for all members.
  absl::Status CheckOthersInFlatBuffers() const {
    if (in_buffer_.empty()) return absl::OkStatus();
    for (const ProgramValue& value : program_.values) {
      const auto found = in_buffer_.find(value.buffer);
      if (value.flat != kNone || found == in_buffer_.end()) continue;
      const ProgramValue& member = *found->second;
      // The offset of every member is that of the group's first element.
      const int64_t begin = member.offset;
      const int64_t elements = program_.flats[member.flat].group->part();
      const int64_t end = begin + elements * SizeOf(member.type.dtype);
      if (value.offset < begin || value.offset + NumBytes(value.type) > end ||
          !IsRowMajor(value.type.shape, value.strides)) {
        return Error(value.path, absl::StrCat("is no range of the flat group of ", member.path,
                                              " in the same buffer, #", value.buffer.index()));
      }
    }
    return absl::OkStatus();
  }

  // Checks that a packed value is row-major, and that it is a range of an array, or all of the
  // packed tensor that it is a view of.
  absl::Status CheckPacked(ProgramValueId id) const {
    const ProgramValue& value = program_.values[id];
    if (!IsRowMajor(value.type.shape, value.strides) || value.flat != kNone) {
      return Error(value.path, "is packed, but not row-major");
    }
    if (value.within == kNone) return absl::OkStatus();
    const ProgramValue& tensor = program_.values[value.within];
    const bool array = !tensor.packed && tensor.part == kNone;
    if (array && IsRowMajor(tensor.type.shape, tensor.strides) && value.sliced_from == kNone) {
      return absl::OkStatus();
    }
    const auto elements_on = [&](absl::Span<const int> rank, const ProgramValue& v) {
      return NumElements(v.part == kNone ? v.type.shape
                                         : program_.parts[v.part].At(program_.mesh, rank).extent);
    };
    bool is_all_of_tensor = value.offset == tensor.offset && value.sliced_from == kNone;
    const ProgramValueId ids[] = {id, value.within};
    for (const MeshCoordinates& rank : RanksOfAllShapes(program_, ids)) {
      is_all_of_tensor = is_all_of_tensor && elements_on(rank, value) == elements_on(rank, tensor);
    }
    if (is_all_of_tensor) return absl::OkStatus();
    return Error(value.path, absl::StrCat("is packed, and not all of ", tensor.path,
                                          ", of which it is a view"));
  }

  // A rank updates only its range of a member of a flat group. Checks that a full tensor `base`,
  // out of which it reads that range, holds all of the member without gaps, in the order in which
  // the group counts elements.
  absl::Status CheckRangeOfMember(const ProgramValue& slice, const ProgramValue& base) {
    const FlatRule& flat = program_.flats[slice.flat];
    // No gap lies behind the elements of a rank whose part is shorter than those of others.
    const bool has_no_gaps =
        IsRowMajor(base.type.shape, base.strides) && (base.packed || !Ragged(base));
    const bool has_same_elements =
        slice.part == base.part ||
        HoldSameElements(program_.PartOf(slice), program_.PartOf(base), program_.mesh);
    if (base.sliced_from == kNone && has_no_gaps && slice.offset == base.offset &&
        has_same_elements && base.type.shape == flat.group->members()[flat.member].local) {
      return absl::OkStatus();
    }
    return Error(slice.path, absl::StrCat("is no range of a member of a flat group in ", base.path,
                                          ", which does not hold all of it in order"));
  }

  // Checks that a slice lies in its base, of which each rank reads the elements that its rule
  // gives.
  absl::Status CheckSlice(const ProgramValue& slice) {
    const ProgramValue& base = program_.values[slice.sliced_from];
    const auto error = [&](absl::string_view fault) {
      return Error(slice.path, absl::StrCat("is no slice of ", base.path, ": ", fault));
    };
    if (slice.buffer != base.buffer || base.flat != kNone || slice.within == kNone ||
        program_.TensorOf(slice.sliced_from) != slice.within) {
      return error("it does not lie within the same tensor");
    }
    if (slice.flat != kNone) return CheckRangeOfMember(slice, base);
    if (base.sliced_from != kNone) {
      return program_.values[base.sliced_from].sliced_from == kNone
                 ? CheckViewOfSlice(slice, base)
                 : error("that is a view of a slice");
    }
    if (base.packed || slice.packed) return error("it is packed");
    if (slice.offset != base.offset || slice.strides != base.strides) {
      return error("its offset or strides are others");
    }
    if (slice.part == kNone) return error("it holds the same on all ranks");
    const PartRule outer = program_.PartOf(base), inner = program_.PartOf(slice);
    bool within = outer.global == inner.global;
    // Equal pairs of rules are compared once.
    if (within && slices_.insert({base.part, slice.part}).second) {
      within = HoldsWithin(outer, inner, program_.mesh);
    }
    if (!within) {
      return error(absl::StrCat(inner.ToString(program_.mesh), " is not within ",
                                outer.ToString(program_.mesh)));
    }
    return absl::OkStatus();
  }

  // Checks that a view of a slice is inside the slice, and has a rule for ranks that hold less.
  absl::Status CheckViewOfSlice(const ProgramValue& view, const ProgramValue& slice) const {
    const auto end = [](const ProgramValue& value) {
      return value.offset +
             ExtentInElements(value.type.shape, value.strides) * SizeOf(value.type.dtype);
    };
    if (view.offset < slice.offset || end(view) > end(slice)) {
      return Error(view.path, absl::StrCat("reaches outside of ", slice.path));
    }
    const PartRule& part = program_.parts[slice.part];
    const auto held = [&](int rank) {  // no rank holds less than the last one
      return NumElements(part.At(program_.mesh, program_.mesh.CoordinatesOf(rank)).extent);
    };
    if (view.part == kNone && held(0) != held(program_.mesh.size() - 1)) {
      return Error(view.path, absl::StrCat("holds as much on all ranks; ", slice.path,
                                           ", of which it is a view, does not"));
    }
    return absl::OkStatus();
  }

  // Checks the operands of a collective or a copy, which move padding too: each must have the same
  // address and strides on all ranks.
  absl::Status CheckCollectiveOrCopy(const Instruction& instruction) {
    for (const Operands* operands : {&instruction.inputs, &instruction.outputs}) {
      for (const ProgramValueId id : *operands) {
        const ProgramValue& value = program_.values[id];
        const bool address_varies = value.sliced_from != kNone || value.flat != kNone;
        const bool strides_vary = value.packed && Ragged(value);
        if (!address_varies && !strides_vary) continue;
        return Error(instruction.path,
                     absl::StrCat("cannot work on ", value.path, ", which lies ",
                                  address_varies ? "elsewhere" : "in other strides",
                                  " on each rank; it needs a copy"));
      }
    }
    return absl::OkStatus();
  }

  // Checks that a kernel's operands fit each other on every rank, and that the kernel accepts their
  // strides.
  absl::Status CheckKernel(const Instruction& instruction) {
    const Kernel& kernel = *program_.KernelOf(instruction).kernel;
    bool differs_by_rank = false;
    for (const bool output : {false, true}) {
      const Operands& ids = output ? instruction.outputs : instruction.inputs;
      for (size_t i = 0; i < ids.size(); ++i) {
        const ProgramValue& value = program_.values[ids[i]];
        differs_by_rank = differs_by_rank || value.part != kNone || value.flat != kNone;
        const bool row_major =
            value.packed || (IsRowMajor(value.type.shape, value.strides) && !Ragged(value));
        const int index = static_cast<int>(i);
        if (row_major || (output ? kernel.StridedOutput(index) : kernel.StridedInput(index))) {
          continue;
        }
        return Error(instruction.path,
                     absl::StrCat("kernel '", kernel.name(), "' takes row-major operands; ",
                                  value.path, " is not on every rank and needs a packed copy"));
      }
    }
    return differs_by_rank ? CheckOnRanks(instruction) : absl::OkStatus();
  }

  // Checks that a kernel's operands fit each other if ranks hold different parts of them.
  absl::Status CheckOnRanks(const Instruction& instruction) {
    WorkOnRanks work = {instruction.kernel, {}};
    std::vector<ProgramValueId> operands;
    for (const Operands* ids : {&instruction.inputs, &instruction.outputs}) {
      for (const ProgramValueId id : *ids) {
        work.second.emplace_back(program_.values[id].part, program_.values[id].flat);
        operands.push_back(id);
      }
    }
    // Equal work is checked once.
    if (!seen_.insert(std::move(work)).second) return absl::OkStatus();
    for (const MeshCoordinates& rank : RanksOfAllShapes(program_, operands)) {
      const RankBinding& binding = ranks_.try_emplace(rank, &program_, rank).first->second;
      RETURN_IF_ERROR(CheckOnRank(instruction, binding, rank));
    }
    return absl::OkStatus();
  }

  // Returns whether some rank's part of a value is not row-major, unless the value is packed.
  bool Ragged(const ProgramValue& value) {
    if (value.part == kNone || value.flat != kNone) return false;
    const auto [entry, added] = ragged_.try_emplace(value.part, false);
    if (added) entry->second = program_.parts[value.part].Ragged(program_.mesh);
    return entry->second;
  }

  // Checks a kernel on one rank: that its local shapes fit each other, or that a rank that holds
  // nothing of an input has only partial outputs to set to an identity.
  absl::Status CheckOnRank(const Instruction& instruction, const RankBinding& binding,
                           const MeshCoordinates& rank) const {
    const LocalWork work = LocalWorkOf(program_, instruction, binding);
    if (work == LocalWork::kIdentity) {
      for (const ProgramValueId id : instruction.outputs) {
        const ProgramValue& value = program_.values[id];
        const bool partial = value.part != kNone && program_.parts[value.part].layout.partial();
        if (partial || NumElements(binding.ShapeOf(id)) == 0) continue;
        return Error(instruction.path, absl::StrCat("the rank at [", absl::StrJoin(rank, ", "),
                                                    "] holds nothing of an input, but ", value.path,
                                                    " is not partial"));
      }
    }
    if (work != LocalWork::kOwn) return absl::OkStatus();
    const KernelRequest request = LocalRequest(program_, instruction, binding);
    size_t inputs = request.inputs.size();
    for (const Epilogue& epilogue : request.epilogues) inputs -= epilogue.extra_inputs;
    const auto outputs =
        program_.KernelOf(instruction)
            .op->InferTypes(absl::MakeConstSpan(request.inputs).first(inputs), request.attributes);
    const auto error = [&](absl::string_view fault) {
      return Error(instruction.path, absl::StrCat("on the rank at [", absl::StrJoin(rank, ", "),
                                                  "] its operands do not fit: ", fault));
    };
    if (!outputs.ok()) return error(outputs.status().message());
    for (size_t j = 0; j < outputs->size(); ++j) {
      if ((*outputs)[j].shape == request.outputs[j].shape) continue;
      return error(absl::StrCat(program_.values[instruction.outputs[j]].path, " is ",
                                ShapeToString(request.outputs[j].shape), " and should be ",
                                ShapeToString((*outputs)[j].shape)));
    }
    return absl::OkStatus();
  }

  // A kernel, and each operand's rules.
  using WorkOnRanks = std::pair<KernelId, std::vector<std::pair<PartId, FlatId>>>;

  const Program& program_;
  absl::flat_hash_map<PartId, bool> ragged_;
  absl::flat_hash_set<WorkOnRanks> seen_;
  absl::node_hash_map<MeshCoordinates, RankBinding> ranks_;
  Table<PartId, Shape> locals_;
  absl::flat_hash_set<std::pair<PartId, PartId>> slices_;         // rules of a base and its slice
  absl::flat_hash_map<BufferId, const ProgramValue*> in_buffer_;  // its first flat value
  absl::flat_hash_map<FlatId, const ProgramValue*> flat_parts_;   // the first one of a flat rule
};

}  // namespace

absl::Status VerifyRankRules(const Program& program) { return RankRuleVerifier(program).Run(); }

}  // namespace tessera
