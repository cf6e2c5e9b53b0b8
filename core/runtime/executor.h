// Runs one Program on one rank: each of its kernels is made ready once, every address is known, and
// a step is a walk over an array.
#ifndef TESSERA_CORE_RUNTIME_EXECUTOR_H_
#define TESSERA_CORE_RUNTIME_EXECUTOR_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/kernels/interface/backend.h"
#include "core/program/own_parts.h"
#include "core/program/program.h"
#include "core/program/rank_binding.h"
#include "core/runtime/collectives.h"
#include "core/tensor/tensor_view.h"

namespace tessera {

// When an instruction ran, in nanoseconds of the backend's clock. A collective begins when it is
// started and ends when the executor has seen that it has ended.
struct InstructionTime {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
};

// The first byte of each arena; may be null if it has no bytes.
using Arenas = BySpace<char*>;

// The rank that runs a Program, among those of the Program's mesh.
struct RankPosition {
  int rank = 0;
  // The other ranks; may be null if the Program has no collectives, otherwise it must outlive the
  // executor.
  Collectives* collectives = nullptr;
};

// Kernels work on what the rank holds of their operands. If that is less than the padded shapes, it
// has requests of its own, each made ready once; a kernel of which it holds no output is skipped,
// and one of which it holds no input gives the identity of what its outputs are partial over.
//
// The executor's thread issues all instructions in the Program's order. Kernels and copies go to a
// stream of the backend for each of the Program's; collectives are started and make progress
// meanwhile, until an instruction that waits for one, or that follows it on its stream, is due.
//
// Not thread-safe. Program, backend, arenas and collectives must outlive it.
class Executor {
 public:
  // Binds every kernel of the Program, evaluates its rules for the rank, and finds the groups of
  // its collectives. `arenas` are the first bytes of memory of at least program.arenas bytes. With
  // collectives, all ranks create their executors in the same order.
  static absl::StatusOr<std::unique_ptr<Executor>> Create(const Program* program, Backend* backend,
                                                          const Arenas& arenas,
                                                          const RankPosition& rank);
  ~Executor();

  // Runs the step and waits for its end on all streams. Allocates nothing of its own. An error
  // names the instruction.
  absl::Status Run();

  // Runs the step and notes when each instruction ran; times()[i] is instruction i's.
  absl::Status RunTimed();
  const std::vector<InstructionTime>& times() const { return times_; }
  int64_t step_begin_ns() const { return step_begin_ns_; }
  int64_t step_end_ns() const { return step_end_ns_; }

  // Runs instruction i alone and returns when it has ended: for tools that look in between.
  absl::Status RunInstruction(int i);

  const Program& program() const { return *program_; }
  const RankBinding& binding() const { return *binding_; }
  const OwnParts& own_parts() const { return *own_parts_; }
  // Returns the elements of a value that this rank holds, where it reads them.
  TensorView ViewOf(int32_t value) const;

 private:
  struct Bound;
  struct InstructionEvents;
  // A request of this rank with its kernel.
  struct OwnKernel {
    KernelRequest request;
    std::unique_ptr<BoundKernel> kernel;
  };
  Executor() = default;

  absl::Status Bind(const Instruction& instruction);
  absl::Status BindKernel(const Instruction& instruction, Bound& bound);
  // Binds the kernel of the planned request, for all instructions that run it.
  absl::StatusOr<BoundKernel*> PlannedKernelOf(const Instruction& instruction);
  // The same for a request of this rank.
  absl::Status BindOwnKernel(const Instruction& instruction, Bound& bound);
  // Binds what writes the identities of an instruction of which this rank holds no input.
  absl::Status BindIdentities(const Instruction& instruction, Bound& bound);
  absl::Status BindCollective(const Instruction& instruction, Bound& bound);
  // Decides before which instructions the thread waits for collectives.
  void PlanWaits();
  absl::Status CreateStreams();
  absl::Status CreateTimers();

  // Waits, issues instruction i, and records its event if another stream waits for it.
  absl::Status Issue(int i);
  absl::Status Start(int i);
  absl::Status WaitForCollective(int i);
  absl::Status WaitForCollectivesAtEnd();
  absl::Status At(int i, const absl::Status& status) const;

  const Program* program_ = nullptr;
  Backend* backend_ = nullptr;
  Arenas arenas_;
  Collectives* collectives_ = nullptr;
  MeshCoordinates coordinates_;  // of this rank
  std::unique_ptr<RankBinding> binding_;
  std::unique_ptr<OwnParts> own_parts_;
  std::vector<std::unique_ptr<Stream>> streams_;       // by the Program's streams
  std::vector<std::unique_ptr<BoundKernel>> kernels_;  // by index in Program::kernels; null: unused
  std::map<std::string, OwnKernel> own_kernels_;       // by kernel and request
  std::vector<std::unique_ptr<BoundKernel>> identities_;
  std::vector<Bound> bound_;               // by instruction
  std::vector<int32_t> unfinished_;        // collectives that the end of the step awaits
  std::vector<InstructionEvents> timers_;  // by instruction; empty until RunTimed
  std::unique_ptr<Event> step_begin_, step_end_;
  bool timed_ = false;
  std::vector<InstructionTime> times_;
  int64_t step_begin_ns_ = 0;
  int64_t step_end_ns_ = 0;
};

}  // namespace tessera

#endif  // TESSERA_CORE_RUNTIME_EXECUTOR_H_
