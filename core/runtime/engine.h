// Runs the Programs of a run (initialise, train, evaluate, generate) on one backend, over one
// state.
#ifndef TESSERA_CORE_RUNTIME_ENGINE_H_
#define TESSERA_CORE_RUNTIME_ENGINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/compile/compile.h"
#include "core/kernels/interface/backend.h"
#include "core/program/program.h"
#include "core/program/rank_rules.h"
#include "core/runtime/executor.h"

namespace tessera {

// A state of the run, as a rank's device stores it.
struct StateInfo {
  std::string path;
  // The path of the recorded state; `path` may be a slice of that. Checkpoints use this path.
  std::string origin;
  Role role = Role::kParameter;
  TensorType type;  // the backend's dtype (f64 on the reference); padded local shape
  ArenaAddress address;
  // The rule for the part of the recorded state that each rank holds. If not set, all ranks hold
  // all of it.
  std::optional<PartRule> part;
  // Set, in addition to `part`, if the state is a member of a flat group: see ProgramValue::flat.
  // In an engine, `type` and `address` are then those of the elements that its rank holds.
  std::optional<FlatRule> flat;
};

// Returns the states of a run, without caches, in the order in which its Programs list them.
std::vector<StateInfo> StatesOf(const CompiledRun& run);

// Allocates the arena of a memory space. `guarded` is as for Device::Allocate.
using ArenaAllocator = std::function<absl::StatusOr<std::unique_ptr<DeviceMemory>>(
    MemorySpace space, int64_t bytes, bool guarded)>;

struct EngineOptions {
  // If set, accessing the byte after the planned end of an arena faults.
  bool guarded = false;
  // The initial value of every byte of the arenas. If negative, the bytes are not initialised.
  int fill = -1;
  // If null, the device allocates all arenas. Not called for an arena of 0 bytes.
  ArenaAllocator allocate;
  // Set if allocating and freeing the shared arena is collective: returns the same status on all
  // ranks, an error if any of them passes one. Called before the shared arena is allocated, and
  // again before Create returns.
  std::function<absl::Status(const absl::Status&)> agree;
  RankPosition rank;
};

// Owns the arenas and an executor for each Program. The backend must outlive it. One thread at a
// time.
class Engine {
 public:
  // Allocates the arenas and binds every kernel. Returns ResourceExhausted if memory is lacking.
  static absl::StatusOr<std::unique_ptr<Engine>> Create(CompiledRun run, Backend* backend,
                                                        const EngineOptions& options);
  static absl::StatusOr<std::unique_ptr<Engine>> Create(CompiledRun run, Backend* backend) {
    return Create(std::move(run), backend, EngineOptions());
  }

  const CompiledRun& run() const { return run_; }
  const std::vector<StateInfo>& states() const { return states_; }
  bool HasProgram(absl::string_view program) const;
  Backend& backend() { return *backend_; }
  const EngineOptions& options() const { return options_; }

  // Values of inputs, outputs and states are those of this rank's padded part, in row-major order.
  //
  // Inputs are converted to the dtype in which the backend keeps them. NotFound if the Program has
  // no such input; InvalidArgument if the number of elements differs.
  absl::Status SetInput(absl::string_view program, absl::string_view input,
                        absl::Span<const int32_t> values);
  absl::Status SetInput(absl::string_view program, absl::string_view input,
                        absl::Span<const double> values);
  // The same with the bytes of elements of `dtype`.
  absl::Status SetInput(absl::string_view program, absl::string_view input, DType dtype,
                        absl::Span<const char> bytes);
  // Sets the input if the Program has it; otherwise does nothing, because only some models read
  // seeds and steps.
  absl::Status SetScalarIfRead(absl::string_view program, absl::string_view input, int64_t value);

  // Runs one step of a Program and returns when it has ended.
  absl::Status Run(absl::string_view program);

  // Reads an output after Run, converted to double.
  absl::Status ReadOutput(absl::string_view program, absl::string_view output,
                          absl::Span<double> values);

  // Copy bytes [byte_offset, byte_offset + size) of a state, in the device's dtype and layout.
  absl::Status ReadState(const StateInfo& state, int64_t byte_offset, absl::Span<char> bytes);
  absl::Status WriteState(const StateInfo& state, int64_t byte_offset,
                          absl::Span<const char> bytes);

  // Set and read all elements of a state or cache of a Program, converted from or to double.
  absl::Status SetStateValues(absl::string_view program, absl::string_view path,
                              absl::Span<const double> values);
  absl::Status ReadStateValues(absl::string_view program, absl::string_view path,
                               absl::Span<double> values);

  // Copy raw bytes of an arena, for tools that inspect memory.
  absl::Status ReadArena(ArenaAddress address, absl::Span<char> bytes);
  absl::Status WriteArena(ArenaAddress address, absl::Span<const char> bytes);

  // Returns the bytes of the arenas that are resident in the host's memory.
  int64_t ResidentArenaBytes() const;

  // Zeroes the caches of a Program. Call it before generating a new text.
  absl::Status ClearCaches(absl::string_view program);

  // Returns the executor of a Program, to time a step or to run its instructions one by one.
  Executor& executor(absl::string_view program);

 private:
  Engine() = default;

  absl::Status AllocatePrivateArenas();
  absl::Status AllocateArena(MemorySpace space);
  // Finds the addresses of the states, and makes the executors.
  absl::Status Bind();
  // Returns `mine`, or an error of another rank. All ranks must call it.
  absl::Status AgreeOnStatus(const absl::Status& mine) const;
  absl::StatusOr<DType> InputDType(absl::string_view program, absl::string_view input);
  // Returns the padded part of a value, or the elements that this rank holds if it is a member of a
  // flat group.
  TensorView PaddedViewOf(absl::string_view program, ProgramValueId value);
  // Copies `count` elements from staging_ to a value; errors call it `name`.
  absl::Status WriteValue(absl::string_view program, absl::string_view name, ProgramValueId value,
                          size_t count);
  // Returns the value of a state of a Program: its input, or its updated value if the input is not
  // read.
  absl::StatusOr<ProgramValueId> StateValue(absl::string_view program, absl::string_view path);
  absl::Status ReadValue(absl::string_view program, absl::string_view name, ProgramValueId value,
                         absl::Span<double> values);

  CompiledRun run_;
  Backend* backend_ = nullptr;
  EngineOptions options_;
  BySpace<std::unique_ptr<DeviceMemory>> arenas_;  // null if it has no bytes
  std::vector<StateInfo> states_;
  absl::flat_hash_map<std::string, std::unique_ptr<Executor>> executors_;
  std::vector<char> staging_;  // for conversions; grows to the largest input
};

}  // namespace tessera

#endif  // TESSERA_CORE_RUNTIME_ENGINE_H_
