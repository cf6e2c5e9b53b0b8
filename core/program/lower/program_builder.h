// Builds the values and instructions of a Program. Each tensor gets its own buffer; its views, and
// the tensors that it is assembled from, are ranges of that buffer.
#ifndef TESSERA_CORE_PROGRAM_LOWER_PROGRAM_BUILDER_H_
#define TESSERA_CORE_PROGRAM_LOWER_PROGRAM_BUILDER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/ids/table.h"
#include "core/program/kernels/kernel_chooser.h"
#include "core/program/program.h"
#include "core/program/ranks/rank_rule_table.h"

namespace tessera {

// Not thread-safe. The chooser must outlive it.
class ProgramBuilder {
 public:
  ProgramBuilder(std::string name, Mesh mesh, KernelChooser* chooser);

  const Program& program() const { return program_; }
  Program& program() { return program_; }
  const ProgramValue& value(ProgramValueId id) const { return program_.values[id]; }
  // Returns the tensor that contains the value, or the value itself.
  ProgramValueId Root(ProgramValueId value) const { return program_.TensorOf(value); }
  // Instructions that are added from now on belong to this phase.
  void set_phase(Phase phase) { phase_ = phase; }
  Phase phase() const { return phase_; }

  // Returns the id of the rule, which is added to the Program if it is new; kNone if all ranks hold
  // all of the tensor.
  PartId FindOrAddPart(const PartRule& part) { return rules_.FindOrAdd(part); }
  FlatId FindOrAddFlat(const FlatRule& flat) { return rules_.FindOrAdd(flat); }

  // Makes room for as many instructions and values, so that a Program of many is never in memory
  // twice while it grows.
  void Reserve(size_t instructions, size_t values);
  // Adds a value in a buffer of its own.
  ProgramValueId AddTensor(std::string path, TensorType type, Role role, PartId part);
  // Marks `gradient` as the gradient of the parameter whose input value is `parameter`.
  void SetGradientOf(ProgramValueId gradient, ProgramValueId parameter) {
    program_.values[gradient].gradient_of = parameter;
  }
  // Adds a tensor of the same type in the same bytes as `tensor`, which must not be read any more
  // after the new tensor is written.
  ProgramValueId AddInSameBytes(ProgramValueId tensor, std::string path);
  // Adds a view of `base`.
  ProgramValueId AddView(std::string path, TensorType type, ProgramValueId base,
                         const ViewPlacement& placement, Role role, PartId part);
  // Adds a view that is each rank's slice of `base`, or of a copy of it where a slice of `base`
  // cannot be expressed.
  absl::StatusOr<ProgramValueId> Slice(std::string path, TensorType type, ProgramValueId base,
                                       PartId part);

  // Returns the range that each rank holds of a member of a flat group, as a slice of `base`, which
  // is all of the member, or of a copy of it. `part` is the member's part, as in a flat value.
  absl::StatusOr<ProgramValueId> FlatSlice(std::string path, ProgramValueId base,
                                           const FlatRule& flat, PartId part);

  // Adds an instruction and records what it reads and writes.
  void Emit(Instruction instruction);
  // Adds an instruction that computes `work`. Inputs that its kernel accepts in row-major order
  // only are copied first.
  absl::Status EmitKernel(KernelWork work, Instruction instruction);
  // Adds a copy from `source` to `target`, an existing value.
  absl::Status EmitCopy(ProgramValueId source, ProgramValueId target);
  absl::Status EmitCollective(const CollectiveRequest& request, absl::string_view stream,
                              ProgramValueId input, ProgramValueId output);

  // Adds a tensor all of whose elements are `value`, and returns it.
  absl::StatusOr<ProgramValueId> EmitFill(const std::string& path, const TensorType& type,
                                          double value);
  absl::StatusOr<ProgramValueId> EmitZeros(const std::string& path, const TensorType& type) {
    return EmitFill(path, type, 0);
  }
  // Adds a copy of a value in a buffer of its own, and returns it.
  absl::StatusOr<ProgramValueId> EmitCopyOf(ProgramValueId id);
  // The Ensure functions return the value itself if it has the property, and otherwise a copy that
  // has it. The copy is emitted once; later callers share it.
  //
  // The value is row-major, with its padding.
  absl::StatusOr<ProgramValueId> EnsureRowMajor(ProgramValueId id);
  // The value has its padding: it is not packed.
  absl::StatusOr<ProgramValueId> EnsurePadded(ProgramValueId id);
  // The value is at an address that is the same on all ranks: it is no slice.
  absl::StatusOr<ProgramValueId> EnsureUnsliced(ProgramValueId id);

  // Makes `part` the range of the tensor `assembled` at `placement`. If possible, the instruction
  // that computes `part` is changed to write there; otherwise `part` is copied to a new value with
  // this path.
  absl::Status PutInto(ProgramValueId assembled, ProgramValueId part,
                       const ViewPlacement& placement, const std::string& path);
  // Adds a contiguous view of `base` that starts at `offset` elements. The view is packed if some
  // rank holds less than the padded part in a dimension that is not the leading one.
  ProgramValueId AddPackedView(std::string path, const TensorType& type, ProgramValueId base,
                               int64_t offset, Role role, PartId part);
  // Makes `part` a packed view of the tensor `assembled`.
  absl::Status PutPacked(ProgramValueId assembled, ProgramValueId part, int64_t offset,
                         const std::string& path);
  // Marks the tensor of a value as a result of the Program: PutInto will not move it into another
  // tensor, but copy it.
  void MarkAsResult(ProgramValueId value) { kept_[Root(value)] = true; }

 private:
  // A value in the memory of a tensor, with its strides after the tensor has moved.
  struct Moved {
    ProgramValueId value;
    Strides strides;
  };

  // Adds a value that no instruction writes or reads yet.
  ProgramValueId AddValue(ProgramValue value);
  // A slice may be taken of a tensor or of a view, and a view may be taken of a slice.
  bool IsSlice(ProgramValueId id) const;
  bool IsViewOfSlice(ProgramValueId id) const;
  // Returns a row-major copy of a value, which all callers share. If `packed`, the copy holds each
  // rank's own part in row-major order, without padding.
  absl::StatusOr<ProgramValueId> FindOrEmitCopy(ProgramValueId id, bool packed = false);
  // Returns whether some rank's own part of the value is not row-major inside the padded part.
  bool Ragged(ProgramValueId id);
  // Returns an operand for a kernel that takes no strides: the value itself, or a shared copy,
  // which is packed if some rank's part would have gaps.
  absl::StatusOr<ProgramValueId> EnsureUnstrided(ProgramValueId id);

  // Tries to change the instruction that computes `part` (or computes the tensor of which `part` is
  // a reshaped view) so that it writes at `placement` in `assembled` instead of to its own memory.
  // If that is impossible, returns false and changes nothing.
  bool TryMoveInto(ProgramValueId assembled, ProgramValueId part, const ViewPlacement& placement);
  // Returns the strides of `root` and its views if `part`, one of them, gets `strides`; nullopt if
  // strides cannot express it.
  std::optional<std::vector<Moved>> MovedStrides(ProgramValueId root, ProgramValueId part,
                                                 const Strides& strides) const;
  // Returns whether a value is its whole tensor, with the elements in the same order.
  bool CoversRoot(ProgramValueId id) const;
  // Returns the strides of `to`, a reshaped view of the same elements, if `from` has `strides`.
  std::optional<Strides> ReshapedStrides(ProgramValueId from, const Strides& strides,
                                         ProgramValueId to) const;
  // Returns whether the instruction that writes a value (if any), and all instructions that read it
  // so far, accept any strides.
  bool AllowsStrides(ProgramValueId id) const;
  // Returns whether an instruction accepts any strides of an input.
  bool TakesStrides(const Instruction& instruction, int input) const;

  Program program_;
  KernelTable kernels_;
  Phase phase_ = Phase::kForward;
  RankRuleTable rules_;
  absl::flat_hash_map<std::pair<ProgramValueId, bool>, ProgramValueId>
      copies_;  // shared; by value and packed
  absl::flat_hash_map<PartId, bool> ragged_;
  absl::flat_hash_map<ProgramValueId, std::vector<ProgramValueId>>
      views_;  // by tensor that has any
  Table<ProgramValueId, InstructionId> producer_;
  Table<ProgramValueId, bool> row_major_;  // an instruction that reads it accepts no other strides
  Table<ProgramValueId, bool> kept_;       // by tensor: it holds a result
};

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_LOWER_PROGRAM_BUILDER_H_
