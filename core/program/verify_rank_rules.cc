#include "core/program/verify_rank_rules.h"

#include <algorithm>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

// Whether each rank's box of `slice` lies in its box of `base`: `slice` has the splits of `base`,
// and others within them.
bool SplitsFurther(const MeshLayout& slice, const MeshLayout& base, size_t dims) {
  for (int axis = 0; axis < base.num_axes(); ++axis) {
    const bool same = slice.axis(axis) == base.axis(axis);
    const bool further = base.axis(axis).broadcast() && slice.axis(axis).split();
    if (!same && !further) return false;
  }
  for (size_t d = 0; d < dims; ++d) {
    const auto inner = slice.AxesSplitting(static_cast<int>(d));
    const auto outer = base.AxesSplitting(static_cast<int>(d));
    if (outer.size() > inner.size() || !std::equal(outer.begin(), outer.end(), inner.begin())) {
      return false;
    }
  }
  return true;
}

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
    for (const ProgramValue& value : program_.values) {
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
    }
    for (const Instruction& instruction : program_.instructions) {
      for (const int32_t id : instruction.outputs) {
        if (program_.values[id].sliced_from == kNone) continue;
        return Error(instruction.path,
                     absl::StrCat("writes ", program_.values[id].path, ", a slice of ",
                                  program_.values[program_.values[id].sliced_from].path));
      }
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Error(absl::string_view where, absl::string_view what) const {
    return absl::InternalError(absl::StrCat("program '", program_.name, "', ", where, ": ", what));
  }

  // Checks a member of a flat group, and that its buffer has no other group.
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
    const int64_t end = value.offset + flat.group->part() * SizeOf(value.type.dtype);
    if (end > program_.buffers[value.buffer].bytes) {
      return Error(value.path,
                   absl::StrCat("its flat group does not lie in buffer #", value.buffer));
    }
    const auto [entry, first] = in_buffer_.try_emplace(value.buffer, &value);
    const ProgramValue& other = *entry->second;
    const FlatRule& other_flat = program_.flats[other.flat];
    if (other_flat.group != flat.group || other_flat.axis != flat.axis ||
        other.offset != value.offset || other.type.dtype != value.type.dtype) {
      return Error(value.path, absl::StrCat("is of another flat group than ", other.path,
                                            " in the same buffer, #", value.buffer));
    }
    return absl::OkStatus();
  }

  absl::Status CheckSlice(const ProgramValue& slice) const {
    const ProgramValue& base = program_.values[slice.sliced_from];
    const auto error = [&](absl::string_view what) {
      return Error(slice.path, absl::StrCat("is no slice of ", base.path, ": ", what));
    };
    if (slice.buffer != base.buffer || slice.flat != kNone || base.flat != kNone ||
        slice.within == kNone || program_.TensorOf(slice.sliced_from) != slice.within) {
      return error("it does not lie within the same tensor");
    }
    if (base.sliced_from != kNone) {
      if (program_.values[base.sliced_from].sliced_from == kNone) return absl::OkStatus();
      return error("that is a view of a slice");
    }
    if (slice.offset != base.offset || slice.strides != base.strides) {
      return error("its offset or strides are others");
    }
    if (slice.part == kNone) return error("it holds the same on all ranks");
    PartRule all;
    all.global = all.extent = base.type.shape;
    all.start = Shape(base.type.shape.size(), 0);
    all.layout = MeshLayout(program_.mesh.num_axes());
    const PartRule& from = base.part == kNone ? all : program_.parts[base.part];
    const PartRule& to = program_.parts[slice.part];
    if (to.global != from.global || to.start != from.start || to.extent != from.extent ||
        !SplitsFurther(to.layout, from.layout, to.global.size())) {
      return error(absl::StrCat(to.ToString(program_.mesh), " is not within ",
                                from.ToString(program_.mesh)));
    }
    return absl::OkStatus();
  }

  const Program& program_;
  std::vector<Shape> locals_;                                    // by part
  absl::flat_hash_map<int32_t, const ProgramValue*> in_buffer_;  // its first flat value
};

}  // namespace

absl::Status VerifyRankRules(const Program& program) { return RankRuleVerifier(program).Run(); }

}  // namespace tessera
