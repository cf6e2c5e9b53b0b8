// Runs one Program on one rank. Kernels are bound and addresses are computed once; then each step
// walks over an array of bound instructions.
#ifndef TESSERA_CORE_RUNTIME_EXECUTOR_H_
#define TESSERA_CORE_RUNTIME_EXECUTOR_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/ids/table.h"
#include "core/kernels/interface/backend.h"
#include "core/program/collective_waits.h"
#include "core/program/program.h"
#include "core/program/ranks/own_parts.h"
#include "core/program/ranks/rank_binding.h"
#include "core/runtime/collectives.h"
#include "core/tensor/tensor_view.h"

namespace tessera {

// When an instruction ran, in nanoseconds of the backend's clock. A collective begins when it is
// started, and ends when the executor's wait for it returns.
struct InstructionTime {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
};

// The first byte of each arena; may be null for an arena of 0 bytes.
using Arenas = BySpace<char*>;

// The rank that runs a Program, and its connection to the other ranks of the Program's mesh.
struct RankPosition {
  int rank = 0;
  // Runs the collectives. May be null if the Program has none; otherwise it must outlive the
  // executor.
  Collectives* collectives = nullptr;
};

// Executes a Program's instructions on one rank. Kernels work on the elements that the rank holds
// of their operands. If these are fewer than the padded shapes, the rank has kernel requests of its
// own, each bound once. A kernel is skipped if the rank holds nothing of its outputs. If the rank
// holds nothing of an input, the outputs, which are partial, are filled with the identity of their
// reduction.
//
// The executor's thread issues all instructions in the Program's order. Each of the Program's
// streams has a stream of the backend, which runs its kernels and copies. Collectives are started
// and make progress meanwhile; WaitsForCollectives says when the thread waits for them.
//
// Not thread-safe. Program, backend, arenas and collectives must outlive it.
class Executor {
 public:
  // Binds every kernel of the Program, evaluates its rules for the rank, and finds the groups of
  // its collectives. Each arena must have at least the bytes of program.arenas. If the Program has
  // collectives, all ranks must create their executors in the same order.
  static absl::StatusOr<std::unique_ptr<Executor>> Create(const Program* program, Backend* backend,
                                                          const Arenas& arenas,
                                                          const RankPosition& rank);
  ~Executor();

  // Runs a step and waits for its end on all streams. The executor itself allocates nothing. An
  // error names the instruction.
  absl::Status Run();

  // Runs a step and records when each instruction ran: times()[i] is that of instruction i.
  absl::Status RunTimed();
  const Table<InstructionId, InstructionTime>& times() const { return times_; }
  int64_t step_begin_ns() const { return step_begin_ns_; }
  int64_t step_end_ns() const { return step_end_ns_; }

  // Runs instruction i alone and returns when it has ended, for tools that inspect memory between
  // instructions.
  absl::Status RunInstruction(InstructionId i);

  const Program& program() const { return *program_; }
  const RankBinding& binding() const { return *binding_; }
  const OwnParts& own_parts() const { return *own_parts_; }
  // Returns a view of the elements of a value that this rank holds, at the address at which it
  // reads them.
  TensorView ViewOf(ProgramValueId value) const;

 private:
  struct Bound;
  struct InstructionEvents;
  // A request of this rank with its kernel.
  struct OwnKernel {
    KernelRequest request;
    std::unique_ptr<BoundKernel> kernel;
  };
  Executor() = default;

  // Returns the shape of what collectives and copies move of a value: its padding too, which
  // members of a flat group do not have.
  const Shape& MovedShapeOf(ProgramValueId value) const;
  // Returns the bytes of that shape.
  ArenaRange MemoryOf(ProgramValueId value) const;
  // Appends the bound instruction to bound_. Must be called for all instructions in order.
  absl::Status BindInstruction(InstructionId id);
  absl::Status BindKernel(const Instruction& instruction, Bound& bound);
  // Returns the kernel of the planned request. It is bound once for all instructions that run it.
  absl::StatusOr<BoundKernel*> FindOrBindPlanned(const Instruction& instruction);
  // Binds a kernel for a request with the shapes that this rank holds.
  absl::Status BindOwnKernel(const Instruction& instruction, Bound& bound);
  // Binds the fills that replace an instruction if this rank holds nothing of an input.
  absl::Status BindIdentities(const Instruction& instruction, Bound& bound);
  absl::Status BindCollective(InstructionId id, Bound& bound);
  absl::Status CreateStreams();
  absl::Status CreateTimers();

  // Waits for what the instruction needs, issues it, and records its event if another stream waits
  // for it.
  absl::Status Issue(InstructionId i);
  // Starts an instruction on its stream, without any wait.
  absl::Status Start(InstructionId i);
  absl::Status WaitForCollective(InstructionId i);
  absl::Status WaitForCollectivesAtEnd();
  // Returns `status`, with the name of the instruction if it is an error.
  absl::Status NamingInstruction(InstructionId i, const absl::Status& status) const;

  const Program* program_ = nullptr;
  Backend* backend_ = nullptr;
  Arenas arenas_;
  Collectives* collectives_ = nullptr;
  MeshCoordinates coordinates_;  // of this rank
  std::unique_ptr<RankBinding> binding_;
  std::unique_ptr<OwnParts> own_parts_;
  Table<StreamId, std::unique_ptr<Stream>> streams_;
  Table<KernelId, std::unique_ptr<BoundKernel>> kernels_;  // null: unused
  std::map<std::string, OwnKernel> own_kernels_;           // by kernel and request
  std::vector<std::unique_ptr<BoundKernel>> identities_;
  Table<InstructionId, Bound> bound_;
  CollectiveWaits waits_;
  Table<InstructionId, InstructionEvents> timers_;  // empty until RunTimed
  std::unique_ptr<Event> step_begin_, step_end_;
  bool timed_ = false;
  Table<InstructionId, InstructionTime> times_;
  int64_t step_begin_ns_ = 0;
  int64_t step_end_ns_ = 0;
};

}  // namespace tessera

#endif  // TESSERA_CORE_RUNTIME_EXECUTOR_H_
