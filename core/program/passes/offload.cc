// Device memory limits the size of a model that can be trained, but most of its contents are not in
// use at any one time. Tensors that are seldom used, such as moments, can be kept in host memory. A
// copy may take longer than a use, so it begins some uses earlier, on a stream of its own.
#include "core/program/passes/offload.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "core/ids/table.h"
#include "core/program/kernels/copy_instruction.h"
#include "core/program/passes/offload_uses.h"
#include "core/program/stream_names.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

using Period = OffloadUses::Period;

// The values of a second tensor that correspond to the values of a first one. Each is added to the
// Program when it is first requested.
class Counterparts {
 public:
  Counterparts(Program* program, ProgramValueId tensor, ProgramValueId other,
               absl::string_view suffix)
      : program_(*program), tensor_(tensor), other_(other), suffix_(suffix) {}

  ProgramValueId FindOrAdd(ProgramValueId id) {
    if (id == tensor_) return other_;
    const auto known = known_.find(id);
    if (known != known_.end()) return known->second;
    ProgramValue copy = program_.values[id];
    if (copy.sliced_from != kNone) copy.sliced_from = FindOrAdd(copy.sliced_from);
    const ProgramValue& other = program_.values[other_];
    absl::StrAppend(&copy.path, suffix_);
    copy.buffer = other.buffer;
    copy.offset += other.offset - program_.values[tensor_].offset;
    copy.within = other_;
    return known_[id] = program_.values.push_back(std::move(copy));
  }

 private:
  Program& program_;
  const ProgramValueId tensor_, other_;
  const std::string suffix_;
  absl::flat_hash_map<ProgramValueId, ProgramValueId> known_;
};

constexpr char kStaged[] = ".staged", kOffloaded[] = ".offloaded";

// Moves the chosen tensors to host memory, and inserts the copies to and from the device.
class Offloading {
 public:
  Offloading(const Offload& offload, KernelChooser& chooser, Program& program)
      : distance_(offload.distance),
        kernels_(&chooser, &program),
        program_(program),
        uses_(offload, program) {}

  absl::Status Run() {
    for (const Offloaded& tensor : uses_.tensors()) {
      if (!tensor.is_state()) {
        MoveGradient(tensor);
      } else {
        RETURN_IF_ERROR(MoveState(tensor));
      }
    }
    for (const ProgramValueId id : program_.values.ids()) {
      const auto moved = updated_in_.find(program_.TensorOf(id));
      if (moved != updated_in_.end()) program_.values[id].buffer = moved->second;
    }
    InsertCopies();
    return absl::OkStatus();
  }

 private:
  // An instruction to insert before the instruction that was at `position`.
  struct Insertion {
    InstructionId position;
    Instruction instruction;
  };

  InstructionId end() const { return program_.instructions.end_id(); }
  const std::string& PathOf(ProgramValueId value) const { return program_.value(value).path; }
  BufferId BufferOf(ProgramValueId value) const { return program_.value(value).buffer; }

  BufferId AddBuffer(std::string path, int64_t bytes, MemorySpace space) {
    Buffer buffer;
    buffer.path = std::move(path);
    buffer.bytes = bytes;
    buffer.space = space;
    return program_.buffers.push_back(std::move(buffer));
  }

  // Adds a tensor like `like` at the start of `buffer`; if `buffer` is kNone, in a new buffer in
  // `space`.
  ProgramValueId AddTensor(ProgramValueId like, std::string path, BufferId buffer,
                           MemorySpace space) {
    ProgramValue tensor = program_.values[like];
    if (buffer == kNone) buffer = AddBuffer(path, NumBytes(tensor.type), space);
    tensor.path = std::move(path);
    tensor.strides = RowMajorStrides(tensor.type.shape);
    tensor.buffer = buffer;
    tensor.offset = 0;
    tensor.within = tensor.sliced_from = kNone;
    tensor.packed = false;
    return program_.values.push_back(std::move(tensor));
  }

  // Records a copy on `stream`, to be inserted before the instruction at `position`.
  void AddCopy(InstructionId position, ProgramValueId from, ProgramValueId to,
               absl::string_view stream, Phase phase) {
    Instruction copy;
    copy.path = PathOf(to);
    copy.kind = InstructionKind::kCopy;
    copy.stream = program_.FindOrAddStream(stream);
    copy.inputs = {from};
    copy.outputs = {to};
    copy.phase = phase;
    copy.cost.bytes = 2.0 * static_cast<double>(NumBytes(program_.value(from).type));
    insertions_.push_back({position, std::move(copy)});
  }

  bool Reads(const Instruction& instruction, ProgramValueId tensor) const {
    return std::any_of(instruction.inputs.begin(), instruction.inputs.end(),
                       [&](ProgramValueId id) { return program_.TensorOf(id) == tensor; });
  }

  // Copies `home`, which has the contents of `tensor`, to the device, and makes the instructions of
  // a period read the copy. Returns the copy; kNone if no instruction of the period reads it. The
  // copy is not inserted before instruction `earliest`.
  ProgramValueId AddStagedCopy(const Offloaded& tensor, ProgramValueId home, const Period& period,
                               InstructionId earliest) {
    ProgramValueId staged;
    std::vector<Counterparts> counterparts;
    for (size_t i = period.first; i <= period.last; ++i) {
      Instruction& instruction = program_.instructions[uses_.PositionOf(tensor.uses[i])];
      if (!Reads(instruction, tensor.tensor)) continue;
      if (staged == kNone) {
        staged = AddTensor(tensor.tensor, absl::StrCat(PathOf(tensor.tensor), kStaged), kNone,
                           MemorySpace::kDevice);
        // An update in place may write the copy before the first instruction that reads it.
        const UseId first_use = tensor.uses[period.first];
        const InstructionId position = std::max(uses_.BeginOfCopyFor(first_use), earliest);
        AddCopy(position, home, staged, kFromHostStream, instruction.phase);
        counterparts.emplace_back(&program_, tensor.tensor, staged, kStaged);
      }
      for (ProgramValueId& id : instruction.inputs) {
        if (program_.TensorOf(id) == tensor.tensor) id = counterparts[0].FindOrAdd(id);
      }
    }
    return staged;
  }

  // Makes the first instruction of the first stream at or after `position` wait for the copy that
  // writes `kept`. Only after this wait is the memory of the copied tensor known to be free.
  void AddWaitFrom(InstructionId position, ProgramValueId kept) {
    while (position < end() && program_.instructions[position].stream != kFirstStream) ++position;
    if (position < end()) program_.instructions[position].after.push_back(kept);
  }

  // Adds the buffer of a state that is only written. Its updated value may be a part of a larger
  // buffer, which the state does not take.
  BufferId AddHome(const Offloaded& tensor) {
    const ProgramValue& updated = program_.value(program_.states[tensor.states[0]].updated);
    const Buffer& buffer = program_.buffers[BufferOf(tensor.updated)];
    const int64_t bytes = updated.flat != kNone ? buffer.bytes : NumBytes(updated.type);
    return AddBuffer(buffer.path, bytes, MemorySpace::kOffloadHost);
  }

  // Moves a state (or all states of a flat group) to host memory, with copies to the device for
  // each period of its uses, and one of its updated value back.
  absl::Status MoveState(const Offloaded& tensor) {
    const bool is_read = tensor.tensor != kNone;
    const BufferId home = is_read ? BufferOf(tensor.tensor) : AddHome(tensor);
    program_.buffers[home].space = MemorySpace::kOffloadHost;
    InstructionId last_copy(0);  // the position of the last copy to the device
    ProgramValueId staged;
    if (is_read) {
      for (const Period& period : uses_.PeriodsOf(tensor)) {
        staged = AddStagedCopy(tensor, tensor.tensor, period, /*earliest=*/InstructionId(0));
        if (staged != kNone) last_copy = insertions_.back().position;
      }
    }
    if (tensor.updated == kNone) return absl::OkStatus();
    // The update of a flat group is in place, in the last period.
    if (is_read && BufferOf(tensor.updated) == home) {
      updated_in_[tensor.updated] =
          staged != kNone ? BufferOf(staged)
                          : AddBuffer(PathOf(tensor.updated), program_.buffers[home].bytes,
                                      MemorySpace::kDevice);
    }
    return CopyBack(tensor, home, last_copy);
  }

  // Copies the updated value of a state to its home, after the copies to the device.
  absl::Status CopyBack(const Offloaded& tensor, BufferId home, InstructionId last_copy) {
    const ProgramState& first = program_.states[tensor.states[0]];
    const bool flat = program_.value(first.updated).flat != kNone;
    if (flat) RETURN_IF_ERROR(CheckAllAreUpdated(tensor));
    const bool written = tensor.last_write != kNone;
    InstructionId position = end();
    if (written) position = std::max(uses_.PositionOf(tensor.last_write) + 1, last_copy);
    ProgramValueId source = flat ? tensor.updated : first.updated;
    if (!CanBeCopied(program_.value(source))) {
      source = AddTensor(source, absl::StrCat(first.path, ".kept"), kNone, MemorySpace::kDevice);
      ASSIGN_OR_RETURN(Instruction copy,
                       CopyInstruction(program_, kernels_, first.updated, source, Phase::kUpdate));
      insertions_.push_back({position, std::move(copy)});
    }
    const ProgramValueId kept = AddTensor(source, absl::StrCat(PathOf(source), kOffloaded), home,
                                          MemorySpace::kOffloadHost);
    AddCopy(position, source, kept, kToHostStream, Phase::kUpdate);
    Counterparts counterparts(&program_, tensor.updated, kept, kOffloaded);
    for (const ProgramStateId i : tensor.states) {
      ProgramState& state = program_.states[i];
      state.updated = flat ? counterparts.FindOrAdd(state.updated) : kept;
    }
    if (written) AddWaitFrom(uses_.Following(tensor.last_write, distance_ + 1), kept);
    return absl::OkStatus();
  }

  // Checks that all members of a flat group are updated, because they are copied back as one array.
  absl::Status CheckAllAreUpdated(const Offloaded& tensor) const {
    const ProgramState& first = program_.states[tensor.states[0]];
    const FlatGroup& group = *program_.flats[program_.value(first.updated).flat].group;
    const auto updated =
        std::count_if(tensor.states.begin(), tensor.states.end(), [&](ProgramStateId state) {
          return program_.states[state].updated != program_.states[state].input;
        });
    if (updated == group.num_members()) return absl::OkStatus();
    return absl::UnimplementedError(
        absl::StrCat("pass 'offload': program '", program_.name, "' updates ", updated, " of the ",
                     group.num_members(), " members of the group of ", first.path,
                     "; a group that is offloaded needs all or none"));
  }

  // Copies a gradient to host memory after it is written, and back for each period of its uses but
  // the first.
  void MoveGradient(const Offloaded& gradient) {
    const std::vector<Period> periods = uses_.PeriodsOf(gradient);
    if (periods.size() < 2) return;  // it is read soon, if at all
    const ProgramValueId tensor = gradient.tensor;
    const InstructionId writer = uses_.PositionOf(gradient.last_write);
    const ProgramValueId kept = AddTensor(tensor, absl::StrCat(PathOf(tensor), kOffloaded), kNone,
                                          MemorySpace::kOffloadHost);
    InstructionId position = writer + 1;
    if (program_.instructions[writer].stream != kFirstStream) {
      // The thread that issues the copy waits for the collective, so the copy is issued some uses
      // later.
      const InstructionId needed = uses_.BeginOfCopyFor(gradient.uses[periods[1].first]);
      position =
          std::max(position, std::min(uses_.Following(gradient.last_write, distance_), needed));
    }
    AddCopy(position, tensor, kept, kToHostStream, program_.instructions[writer].phase);
    AddWaitFrom(std::max(position, uses_.Following(gradient.last_write, distance_ + 1)), kept);
    for (size_t i = 1; i < periods.size(); ++i) AddStagedCopy(gradient, kept, periods[i], position);
    Counterparts counterparts(&program_, tensor, kept, kOffloaded);
    for (NamedValue& output : program_.outputs) {
      if (program_.TensorOf(output.value) == tensor)
        output.value = counterparts.FindOrAdd(output.value);
    }
  }

  // Inserts the recorded instructions at their positions.
  void InsertCopies() {
    std::stable_sort(
        insertions_.begin(), insertions_.end(),
        [](const Insertion& a, const Insertion& b) { return a.position < b.position; });
    Table<InstructionId, Instruction> ordered;
    ordered.reserve(program_.instructions.size() + insertions_.size());
    auto next = insertions_.begin();
    for (InstructionId i(0); i <= end(); ++i) {
      for (; next != insertions_.end() && next->position == i; ++next) {
        ordered.push_back(std::move(next->instruction));
      }
      if (i < end()) ordered.push_back(std::move(program_.instructions[i]));
    }
    program_.instructions = std::move(ordered);
  }

  const int32_t distance_;
  KernelTable kernels_;
  Program& program_;
  const OffloadUses uses_;
  absl::flat_hash_map<ProgramValueId, BufferId> updated_in_;  // buffers on the device, by tensor
  std::vector<Insertion> insertions_;
};

}  // namespace

absl::Status OffloadToHost(const Offload& offload, KernelChooser& chooser, Program& program) {
  return Offloading(offload, chooser, program).Run();
}

}  // namespace tessera
