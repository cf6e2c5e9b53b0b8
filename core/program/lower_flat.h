// Lowers flat groups: members are ranges of a buffer, which is gathered and reduced as one.
#ifndef TESSERA_CORE_PROGRAM_LOWER_FLAT_H_
#define TESSERA_CORE_PROGRAM_LOWER_FLAT_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/program/flat_storage.h"
#include "core/program/program_builder.h"

namespace tessera {

// Not thread-safe. Builder and storage must outlive it.
class FlatLowering {
 public:
  FlatLowering(ProgramBuilder* builder, const FlatStorage* storage)
      : builder_(*builder), storage_(*storage) {}

  // How a member's value is called and kept.
  struct Member {
    std::string path;
    DType dtype;
    Role role;
    int32_t part;  // over the other axes
  };

  // Adds the value of a state before the step, or after it: both lie in the same bytes.
  int32_t AddState(const Member& member, const FlatPosition& position, bool updated);
  // Adds a member of a group in a buffer of its own.
  int32_t AddValue(const Member& member, const FlatPosition& position);

  // Returns what an elementwise operator makes of members, which have one position in groups. It is
  // computed on the rank's part of the group as one array, once for all members.
  absl::StatusOr<int32_t> Compute(const KernelWork& work, absl::Span<const int32_t> members,
                                  const Member& output, const FlatPosition& position);

  // Returns `member`, summed over an axis over which all of its group is partial. The rank's part
  // of the group is reduced as one array.
  absl::StatusOr<int32_t> AllReduce(int32_t member, const Member& output,
                                    const FlatPosition& position, int axis,
                                    absl::string_view stream);

  // When an array is gathered: once for the step, or again in each period. `kept` axes are gathered
  // for the step, the last ones of the group's; the others in `period`.
  struct When {
    int kept = 0;
    int period = 0;
  };
  static constexpr int kStep = -1;
  // Returns all elements of `member`, which is flat. Its group is gathered on `stream`; members
  // that are read in the same period share the gathered array.
  absl::StatusOr<int32_t> Gather(int32_t member, const FlatPosition& position, int32_t part,
                                 const When& when, absl::string_view stream);

  // The gradients of a group that are reduced together.
  struct Gradients {
    std::vector<int32_t> values;  // by member; kNone: a member counts as zeros
    std::vector<int32_t> parts;   // of the results, over the other axes
    int32_t parameter = kNone;    // the input value of one of the group's parameters
    std::vector<int> other_axes;  // that all values are partial over
  };
  // Returns the flat values, one for each member of a group, that are the sums of the gradients
  // over the group's axis and the other ones; kNone for a member without one.
  absl::StatusOr<std::vector<int32_t>> Reduce(int group, const Gradients& gradients,
                                              absl::string_view stream);

 private:
  // A part of a group.
  int32_t AddTensor(const std::string& path, DType dtype, Role role, int group);
  int32_t AddMember(const Member& member, const FlatPosition& position, int32_t tensor);
  // The members of a group as one array, in which gaps are zeros.
  absl::StatusOr<int32_t> Assemble(int group, absl::Span<const int32_t> values, DType dtype,
                                   const std::string& path);
  CollectiveRequest RequestOf(CollectiveOperation operation, int64_t elements, DType dtype,
                              int axis) const;

  ProgramBuilder& builder_;
  const FlatStorage& storage_;
  // By group, buffer, and whether it is after the step.
  absl::flat_hash_map<std::pair<std::pair<int, int>, bool>, int32_t> states_;
  absl::flat_hash_map<std::pair<int32_t, int>, int32_t> gathered_;  // by tensor and period
  // By tensors that are read: what was computed of them.
  struct Computed {
    std::string op;
    Attributes attributes;
    int32_t tensor;
  };
  absl::flat_hash_map<std::vector<int32_t>, std::vector<Computed>> computed_;
  absl::flat_hash_map<std::pair<int32_t, int>, int32_t> all_reduced_;  // by tensor and axis
};

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_LOWER_FLAT_H_
