// Each all-reduce has a latency, which is too long for a small gradient. One all-reduce of all
// gradients could start only after the backward pass. So gradients that are ready one after the
// other are reduced together, in buckets of bounded size. A bucket is one tensor. The instructions
// that compute the gradients write into it, and the reduced gradients are views of it, so nothing
// is copied. The gradients of a flat group, which are one array already, are reduced by themselves.
#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/ids/table.h"
#include "core/program/passes/communication.h"
#include "core/program/stream_names.h"

namespace tessera {
namespace {

// Joins reductions of gradients in the order in which they become ready. One bucket is open at a
// time; a reduction that does not fit closes it.
class Buckets {
 public:
  Buckets(int64_t first_cap, int64_t cap, Program& program)
      : first_cap_(first_cap), cap_(cap), program_(program) {}

  void Run() {
    FindTensors();
    for (const InstructionId i : program_.instructions.ids()) {
      if (IsReduction(i)) AddToBucket(i);
    }
    CloseBucket();
    Table<InstructionId, Instruction> kept;
    kept.reserve(program_.instructions.size());
    for (const InstructionId i : program_.instructions.ids()) {
      if (!removed_[i]) kept.push_back(std::move(program_.instructions[i]));
    }
    program_.instructions = std::move(kept);
  }

 private:
  // Returns whether instruction i reduces a gradient that this rank's kernels compute. The gradient
  // and the result must each be a full tensor in its own buffer.
  bool IsReduction(InstructionId i) const {
    const Instruction& instruction = program_.instructions[i];
    if (instruction.kind != InstructionKind::kCollective ||
        program_.streams[instruction.stream] != kGradientStream ||
        CollectiveOf(i).operation != CollectiveOperation::kAllReduce) {
      return false;
    }
    return CanMove(instruction.inputs[0]) && CanMove(instruction.outputs[0]) &&
           instruction.inputs[0] != instruction.outputs[0];
  }

  // Returns whether a value can be moved into a bucket: it fills its tensor and the tensor's
  // buffer, which holds nothing else and need not stay where it is.
  bool CanMove(ProgramValueId id) const {
    const ProgramValue& value = program_.values[id];
    const ProgramValueId tensor = program_.TensorOf(id);
    const bool is_bucket = !written_.contains(tensor);  // buckets were added after FindTensors
    if (is_bucket) return false;
    const ProgramValue& root = program_.values[tensor];
    return written_[tensor] && !fixed_[root.buffer] && !HoldsFlatGroup(tensor) &&
           value.offset == 0 && root.offset == 0 && IsRowMajor(value.type.shape, value.strides) &&
           IsRowMajor(root.type.shape, root.strides) && NumBytes(value.type) == BytesOf(root) &&
           program_.buffers[root.buffer].bytes == BytesOf(root) &&
           program_.buffers[root.buffer].space == MemorySpace::kDevice;
  }

  bool HoldsFlatGroup(ProgramValueId tensor) const {
    return std::any_of(within_[tensor].begin(), within_[tensor].end(),
                       [&](ProgramValueId id) { return program_.values[id].flat != kNone; });
  }

  static int64_t BytesOf(const ProgramValue& value) { return NumBytes(value.type); }

  const CollectiveRequest& CollectiveOf(InstructionId i) const {
    return program_.collectives[program_.instructions[i].collective];
  }

  // Finds the values within each tensor, the tensors that instructions write, the buffers that must
  // stay because of inputs, states and outputs, and the first readers of all tensors.
  void FindTensors() {
    const size_t values = program_.values.size();
    removed_.assign(program_.instructions.size(), false);
    fixed_.assign(program_.buffers.size(), false);
    written_.assign(values, false);
    first_reader_.assign(values, program_.instructions.end_id());
    within_.resize(values);
    for (const ProgramValueId id : program_.values.ids()) {
      within_[program_.TensorOf(id)].push_back(id);
    }
    const auto fix = [this](ProgramValueId id) {
      if (id != kNone) fixed_[program_.values[id].buffer] = true;
    };
    for (const NamedValue& input : program_.inputs) fix(input.value);
    for (const NamedValue& output : program_.outputs) fix(output.value);
    for (const ProgramState& state : program_.states) {
      fix(state.input);
      fix(state.updated);
    }
    for (const InstructionId i : program_.instructions.ids()) {
      const Instruction& instruction = program_.instructions[i];
      for (ProgramValueId id : instruction.outputs) written_[program_.TensorOf(id)] = true;
      for (ProgramValueId id : instruction.inputs) {
        InstructionId& first = first_reader_[program_.TensorOf(id)];
        first = std::min(first, i);
      }
    }
  }

  // Adds a reduction to the open bucket, or to a new one if it does not fit.
  void AddToBucket(InstructionId i) {
    const Instruction& instruction = program_.instructions[i];
    const int64_t bytes = BytesOf(program_.values[instruction.inputs[0]]);
    const int64_t cap = closed_ == 0 ? first_cap_ : cap_;
    const bool fits = !members_.empty() && bytes_ + bytes <= cap && i < deadline_ &&
                      SameKind(CollectiveOf(members_[0]), CollectiveOf(i)) &&
                      !HasMember(instruction.inputs[0]);
    if (!fits) {
      CloseBucket();
      if (!IsReduction(i)) return;  // it reduces a result of that bucket along another axis
    }
    members_.push_back(i);
    bytes_ += bytes;
    deadline_ = std::min(deadline_, first_reader_[program_.TensorOf(instruction.outputs[0])]);
  }

  // Returns whether a member of the bucket is this tensor already.
  bool HasMember(ProgramValueId id) const {
    return std::any_of(members_.begin(), members_.end(), [&](InstructionId member) {
      return program_.TensorOf(program_.instructions[member].inputs[0]) == program_.TensorOf(id);
    });
  }

  // Returns whether two requests differ in nothing but the number of elements.
  static bool SameKind(CollectiveRequest a, const CollectiveRequest& b) {
    a.elements = b.elements;
    return a == b;
  }

  // Replaces the members of the open bucket by one all-reduce, at the position of the last of them,
  // and opens an empty bucket. A single member stays as it is.
  void CloseBucket() {
    if (members_.size() > 1) {
      const std::string path = absl::StrCat("gradients.bucket.", closed_);
      CollectiveRequest request = CollectiveOf(members_[0]);
      request.elements = 0;
      for (const InstructionId member : members_) request.elements += CollectiveOf(member).elements;
      const ProgramValueId input = AddTensor(path, request);
      const ProgramValueId output = AddTensor(absl::StrCat(path, ".all_reduce"), request);
      Instruction& last = program_.instructions[members_.back()];
      // Gives the bucket's memory its category.
      const ProgramValueId first = program_.instructions[members_[0]].inputs[0];
      for (ProgramValueId bucket : {input, output}) {
        program_.values[bucket].gradient_of = program_.values[first].gradient_of;
      }
      int64_t offset = 0;
      for (const InstructionId member : members_) {
        const Instruction& instruction = program_.instructions[member];
        const int64_t bytes = BytesOf(program_.values[instruction.inputs[0]]);
        MoveInto(program_.TensorOf(instruction.inputs[0]), input, offset);
        MoveInto(program_.TensorOf(instruction.outputs[0]), output, offset);
        offset += bytes;
        if (member != members_.back()) {
          last.cost.bytes += instruction.cost.bytes;
          last.cost.flops += instruction.cost.flops;
          removed_[member] = true;
        }
      }
      last.path = program_.values[output].path;
      last.inputs = {input};
      last.outputs = {output};
      last.collective = program_.FindOrAddCollective(request);
    }
    if (!members_.empty()) ++closed_;
    members_.clear();
    bytes_ = 0;
    deadline_ = program_.instructions.end_id();
  }

  // Adds a tensor for a bucket, in a buffer of its own.
  ProgramValueId AddTensor(std::string path, const CollectiveRequest& request) {
    ProgramValue value;
    value.type = {request.dtype, {request.elements}};
    value.strides = RowMajorStrides(value.type.shape);
    value.role = Role::kGradient;
    Buffer buffer;
    buffer.path = path;
    buffer.bytes = NumBytes(value.type);
    value.path = std::move(path);
    value.buffer = program_.buffers.push_back(std::move(buffer));
    return program_.values.push_back(std::move(value));
  }

  // Moves a tensor, with all values within it, into a bucket.
  void MoveInto(ProgramValueId tensor, ProgramValueId bucket, int64_t offset) {
    for (ProgramValueId id : within_[tensor]) {
      ProgramValue& value = program_.values[id];
      value.buffer = program_.values[bucket].buffer;
      value.offset += offset;
      value.within = bucket;
    }
  }

  const int64_t first_cap_, cap_;  // bytes
  Program& program_;
  Table<ProgramValueId, std::vector<ProgramValueId>>
      within_;                           // by tensor: its values, itself among them
  Table<ProgramValueId, bool> written_;  // by tensor
  Table<BufferId, bool> fixed_;
  Table<ProgramValueId, InstructionId> first_reader_;  // by tensor; the end if there is none
  Table<InstructionId, bool> removed_;
  // The open bucket.
  std::vector<InstructionId> members_;  // all-reduces
  int64_t bytes_ = 0;
  InstructionId deadline_;  // the first reader of a member
  int closed_ = 0;          // the number of buckets that were closed
};

}  // namespace

void BucketGradients(const GradientBuckets& buckets, Program& program) {
  Buckets(buckets.first_bytes, buckets.cap_bytes, program).Run();
}

}  // namespace tessera
