// Runs one Program: each of its kernels is made ready once, every address is known, and a step is a
// walk over an array.
#ifndef TESSERA_CORE_RUNTIME_EXECUTOR_H_
#define TESSERA_CORE_RUNTIME_EXECUTOR_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/kernels/interface/backend.h"
#include "core/program/program.h"

namespace tessera {

// When an instruction ran, in nanoseconds of a steady clock.
struct InstructionTime {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
};

// Not thread-safe. Program, backend and arena must outlive it.
class Executor {
 public:
  // Binds every kernel of the Program. `arena` is the first byte of device memory of at least
  // program.arena_bytes.
  static absl::StatusOr<std::unique_ptr<Executor>> Create(const Program* program, Backend* backend,
                                                          void* arena);
  ~Executor();

  // Runs the step and waits for its end. Allocates nothing of its own. An error names the
  // instruction.
  absl::Status Run();

  // Runs the step and notes when each instruction ran; times()[i] is instruction i's.
  absl::Status RunTimed();
  const std::vector<InstructionTime>& times() const { return times_; }
  int64_t step_begin_ns() const { return step_begin_ns_; }
  int64_t step_end_ns() const { return step_end_ns_; }

  // Runs instruction i alone: for tools that look in between.
  absl::Status RunInstruction(int i);

  const Program& program() const { return *program_; }
  void* AddressOf(int32_t value) const;

 private:
  struct Bound;
  Executor() = default;

  const Program* program_ = nullptr;
  Backend* backend_ = nullptr;
  char* arena_ = nullptr;
  std::vector<std::unique_ptr<BoundKernel>> kernels_;  // by index in Program::kernels
  std::vector<Bound> bound_;                           // by instruction
  std::vector<InstructionTime> times_;
  int64_t step_begin_ns_ = 0;
  int64_t step_end_ns_ = 0;
};

}  // namespace tessera

#endif  // TESSERA_CORE_RUNTIME_EXECUTOR_H_
