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
  const ProgramValue& value(int32_t id) const { return program_.values[id]; }
  // Returns the tensor that contains the value, or the value itself.
  int32_t Root(int32_t value) const { return program_.TensorOf(value); }
  // Instructions that are added from now on belong to this phase.
  void set_phase(Phase phase) { phase_ = phase; }
  Phase phase() const { return phase_; }

  // Returns the index of the rule in Program::parts; kNone if all ranks hold all of the tensor.
  int32_t EnterPart(const PartRule& part) { return rules_.Enter(part); }

  int32_t EnterFlat(const FlatRule& flat) { return rules_.Enter(flat); }

  // Makes room for as many instructions and values, so that a Program of many is never in memory
  // twice while it grows.
  void Reserve(size_t instructions, size_t values);
  // Adds a value in a buffer of its own.
  int32_t AddTensor(std::string path, TensorType type, Role role, int32_t part);
  // Marks `gradient` as the gradient of the parameter whose input value is `parameter`.
  void SetGradientOf(int32_t gradient, int32_t parameter) {
    program_.values[gradient].gradient_of = parameter;
  }
  // Adds a tensor of the same type in the same bytes as `tensor`, which must not be read any more
  // after the new tensor is written.
  int32_t AddOver(int32_t tensor, std::string path);
  // Adds a view of `base`.
  int32_t AddView(std::string path, TensorType type, int32_t base, const ViewPlacement& placement,
                  Role role, int32_t part);
  // Returns each rank's slice of `base`, or of a copy of it.
  absl::StatusOr<int32_t> Slice(std::string path, TensorType type, int32_t base, int32_t part);

  // Returns the range that each rank holds of a member of a flat group, as a slice of `base`, which
  // is all of the member, or of a copy of it. `part` is the member's part, as in a flat value.
  absl::StatusOr<int32_t> FlatSlice(std::string path, int32_t base, const FlatRule& flat,
                                    int32_t part);

  // Adds an instruction and records what it reads and writes.
  void Emit(Instruction instruction);
  // Adds an instruction that computes `work`. Inputs that its kernel accepts in row-major order
  // only are copied first.
  absl::Status EmitKernel(KernelWork work, Instruction instruction);
  absl::Status EmitCopy(int32_t source, int32_t target);
  absl::Status EmitCollective(const CollectiveRequest& request, absl::string_view stream,
                              int32_t input, int32_t output);

  // Returns a tensor all of whose elements are `value`.
  absl::StatusOr<int32_t> EmitFill(const std::string& path, const TensorType& type, double value);
  absl::StatusOr<int32_t> EmitZeros(const std::string& path, const TensorType& type) {
    return EmitFill(path, type, 0);
  }
  // Returns a copy of a value in a buffer of its own.
  absl::StatusOr<int32_t> Copy(int32_t id);
  // Returns the value with its padding in row-major order: itself, or a copy that later callers
  // share.
  absl::StatusOr<int32_t> RowMajor(int32_t id);
  // Returns the value with its padding: itself, or a shared copy if it is packed.
  absl::StatusOr<int32_t> Padded(int32_t id);
  // Returns the value at an address that is the same on all ranks: the value itself, or a copy if
  // it is a slice.
  absl::StatusOr<int32_t> Unsliced(int32_t id);

  // Makes `part` the range of the tensor `assembled` at `placement`. If possible, the instruction
  // that computes `part` is changed to write there; otherwise `part` is copied to a new value with
  // this path.
  absl::Status PutInto(int32_t assembled, int32_t part, const ViewPlacement& placement,
                       const std::string& path);
  // Adds a contiguous view of `base` that starts at `offset` elements. The view is packed if some
  // rank holds less than the padded part in a dimension that is not the leading one.
  int32_t AddPackedView(std::string path, const TensorType& type, int32_t base, int64_t offset,
                        Role role, int32_t part);
  // Makes `part` a packed view of the tensor `assembled`.
  absl::Status PutPacked(int32_t assembled, int32_t part, int64_t offset, const std::string& path);
  // Marks the tensor of a value as a result of the Program: it will not be moved into another
  // tensor.
  void Keep(int32_t value) { kept_[Root(value)] = true; }

 private:
  // A value in the memory of a tensor, with its strides after the tensor has moved.
  struct Moved {
    int32_t value;
    Strides strides;
  };

  int32_t AddValue(ProgramValue value);
  // A slice may be taken of a tensor or of a view, and a view may be taken of a slice.
  bool IsSlice(int32_t id) const;
  bool IsViewOfSlice(int32_t id) const;
  int32_t StreamOf(absl::string_view name);
  // If `packed`, the copy holds each rank's own part in row-major order, without padding.
  absl::StatusOr<int32_t> SharedCopy(int32_t id, bool packed = false);
  // Returns whether some rank's own part of the value is not row-major inside the padded part.
  bool Ragged(int32_t id);
  // Returns an operand for a kernel that takes no strides: the value itself, or a shared copy.
  absl::StatusOr<int32_t> Unstrided(int32_t id);

  // Changes the instruction that computes `part` (or computes the tensor of which `part` is a
  // reshaped view) so that it writes at `placement` in `assembled` instead of to its own memory. If
  // that is impossible, returns false and changes nothing.
  bool MoveInto(int32_t assembled, int32_t part, const ViewPlacement& placement);
  // Returns the strides of `root` and its views if `part`, one of them, gets `strides`; nullopt if
  // strides cannot express it.
  std::optional<std::vector<Moved>> MovedStrides(int32_t root, int32_t part,
                                                 const Strides& strides) const;
  // Returns whether a value is its whole tensor, with the elements in the same order.
  bool CoversRoot(int32_t id) const;
  // Returns the strides of `to`, a reshaped view of the same elements, if `from` has `strides`.
  std::optional<Strides> Reshaped(int32_t from, const Strides& strides, int32_t to) const;
  // Returns whether the instruction that writes a value (if any), and all instructions that read it
  // so far, accept any strides.
  bool AllowsStrides(int32_t id) const;
  bool TakesStrides(const Instruction& instruction, int input) const;

  Program program_;
  KernelTable kernels_;
  Phase phase_ = Phase::kForward;
  RankRuleTable rules_;
  absl::flat_hash_map<std::pair<int32_t, bool>, int32_t> copies_;  // shared; by value and packed
  absl::flat_hash_map<int32_t, bool> ragged_;                      // by part
  absl::flat_hash_map<int32_t, std::vector<int32_t>> views_;       // by tensor that has any
  std::vector<int32_t> producer_;                                  // by value: instruction
  std::vector<bool> row_major_;  // by value: an instruction that reads it accepts no other strides
  std::vector<bool> kept_;       // by tensor: it holds a result
};

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_LOWER_PROGRAM_BUILDER_H_
