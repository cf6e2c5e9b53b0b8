// Lowers flat groups. The members of a group are ranges of one buffer, which is gathered and
// reduced as a whole.
#ifndef TESSERA_CORE_PROGRAM_LOWER_LOWER_FLAT_H_
#define TESSERA_CORE_PROGRAM_LOWER_LOWER_FLAT_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/program/lower/flat_storage.h"
#include "core/program/lower/program_builder.h"

namespace tessera {

// Adds the values and instructions of flat groups to a Program. Not thread-safe. Builder and
// storage must outlive it.
class FlatLowering {
 public:
  FlatLowering(ProgramBuilder* builder, const FlatStorage* storage)
      : builder_(*builder), storage_(*storage) {}

  // The properties of the value that is added for a member.
  struct Member {
    std::string path;
    DType dtype;
    Role role;
    PartId part;  // the member's part over the mesh axes that the group is not split over
  };

  // Adds the input value of a state, or its updated value. Both use the same bytes.
  ProgramValueId AddState(const Member& member, const FlatPosition& position, bool updated);
  // Adds a member of a group in a buffer of its own.
  ProgramValueId AddValue(const Member& member, const FlatPosition& position);

  // Returns this rank's elements of a member, as a slice of `full`, all of the member.
  absl::StatusOr<ProgramValueId> TakeRange(ProgramValueId full, const Member& member,
                                           const FlatPosition& position);

  // Adds a view with the result of an elementwise operator on `members`, which have the same
  // position in their groups. The operator runs once for all members of the group, on this rank's
  // part of it as one array.
  absl::StatusOr<ProgramValueId> FindOrCompute(const KernelWork& work,
                                               absl::Span<const ProgramValueId> members,
                                               const Member& output, const FlatPosition& position);

  // Adds a view with `member`, summed over an axis over which all of its group is partial. The
  // rank's part of the group is reduced once, as one array.
  absl::StatusOr<ProgramValueId> FindOrAllReduce(ProgramValueId member, const Member& output,
                                                 const FlatPosition& position, int axis,
                                                 absl::string_view stream);

  // Says when an array is gathered. The last `kept` of the group's axes are gathered once for the
  // step; the others are gathered in `period`.
  struct When {
    int kept = 0;
    int period = 0;
  };
  static constexpr int kStep = -1;
  // Adds a view with all elements of the flat value `member`. The first call for a group and period
  // gathers the group, on `stream`; the others share the gathered array.
  absl::StatusOr<ProgramValueId> FindOrGather(ProgramValueId member, const FlatPosition& position,
                                              PartId part, const When& when,
                                              absl::string_view stream);

  // The gradients of a group that are reduced together.
  struct Gradients {
    std::vector<ProgramValueId> values;  // by member; kNone: a member counts as zeros
    std::vector<PartId> parts;    // of the results, over the axes that the group is not split over
    ProgramValueId parameter;     // the input value of one of the group's parameters
    std::vector<int> other_axes;  // axes over which all values are partial as well
  };
  // Returns one flat value for each member of a group: the sum of the member's gradients over the
  // group's axis and `other_axes`. kNone for a member without a gradient.
  absl::StatusOr<std::vector<ProgramValueId>> Reduce(int group, const Gradients& gradients,
                                                     absl::string_view stream);

 private:
  // Adds a tensor that holds this rank's part of a group.
  ProgramValueId AddTensor(const std::string& path, DType dtype, Role role, int group);
  // Adds a view of `tensor`, an array of the group, that is the rank's elements of a member.
  ProgramValueId AddMember(const Member& member, const FlatPosition& position,
                           ProgramValueId tensor);
  FlatRule RuleOf(const FlatPosition& position) const;
  // Emits one array that holds the members of a group, with zeros in the gaps.
  absl::StatusOr<ProgramValueId> EmitAssembled(int group, absl::Span<const ProgramValueId> values,
                                               DType dtype, const std::string& path);
  int64_t RanksOver(absl::Span<const int> axes) const;
  CollectiveRequest RequestOf(CollectiveOperation operation, int64_t elements, DType dtype,
                              absl::Span<const int> axes) const;

  ProgramBuilder& builder_;
  const FlatStorage& storage_;
  // The states of groups. Key: group, buffer, and whether it is the updated state.
  absl::flat_hash_map<std::pair<std::pair<int, int>, bool>, ProgramValueId> states_;
  absl::flat_hash_map<std::pair<ProgramValueId, int>, ProgramValueId>
      gathered_;  // by tensor and period
  // The results that were computed from the tensors that are the key.
  struct Computed {
    std::string op;
    Attributes attributes;
    ProgramValueId tensor;
  };
  absl::flat_hash_map<Operands, std::vector<Computed>> computed_;
  absl::flat_hash_map<std::pair<ProgramValueId, int>, ProgramValueId>
      all_reduced_;  // by tensor and axis
};

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_LOWER_LOWER_FLAT_H_
