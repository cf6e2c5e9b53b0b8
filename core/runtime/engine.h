// A run's Programs (initialise, train, evaluate, generate) over one state, on one backend.
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
#include "core/kernels/interface/backend.h"
#include "core/program/compile.h"
#include "core/program/program.h"
#include "core/program/rank_rules.h"
#include "core/runtime/executor.h"

namespace tessera {

// A state of the run as it lies on the device of a rank.
struct StateInfo {
  std::string path;
  // The path of the recorded state that this is, or (`part`) a slice of. Checkpoints know it by
  // that.
  std::string origin;
  Role role = Role::kParameter;
  TensorType type;  // as kept on the backend: the reference keeps f64; the padded local shape
  ArenaAddress address;
  // The part of the recorded state that a rank holds; none: all ranks hold all of it.
  std::optional<PartRule> part;
  // Set, beside `part`, if the state is a member of a flat group: see ProgramValue::flat. In an
  // engine, `type` and `address` are those of the elements that its rank holds.
  std::optional<FlatRule> flat;
};

// The states of a run, caches left out, in the order in which its Programs name them.
std::vector<StateInfo> StatesOf(const CompiledRun& run);

// Allocates the arena of a memory space. `guarded` is as for Device::Allocate.
using ArenaAllocator = std::function<absl::StatusOr<std::unique_ptr<DeviceMemory>>(
    MemorySpace space, int64_t bytes, bool guarded)>;

struct EngineOptions {
  // The byte after the planned end of each arena cannot be touched.
  bool guarded = false;
  // The first value of every byte of the arenas; negative: not set.
  int fill = -1;
  // Null: the device allocates all arenas. Not called for an arena of no bytes.
  ArenaAllocator allocate;
  RankPosition rank;
};

// Owns the arenas; the backend must outlive it. One thread at a time.
class Engine {
 public:
  // Allocates the arenas and makes every kernel ready. ResourceExhausted if memory is lacking.
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
  // Sets it where the Program has such an input, else does nothing: seeds and steps are read by
  // some models only.
  absl::Status SetScalarIfRead(absl::string_view program, absl::string_view input, int64_t value);

  // Runs one step of a Program and returns when it has ended.
  absl::Status Run(absl::string_view program);

  // The value of an output after Run: floats as double, integers converted.
  absl::Status ReadOutput(absl::string_view program, absl::string_view output,
                          absl::Span<double> values);

  // Bytes [byte_offset, byte_offset + size) of a state, as it lies on the device.
  absl::Status ReadState(const StateInfo& state, int64_t byte_offset, absl::Span<char> bytes);
  absl::Status WriteState(const StateInfo& state, int64_t byte_offset,
                          absl::Span<const char> bytes);

  // All elements of a state or cache of a Program, converted from or to double.
  absl::Status SetStateValues(absl::string_view program, absl::string_view path,
                              absl::Span<const double> values);
  absl::Status ReadStateValues(absl::string_view program, absl::string_view path,
                               absl::Span<double> values);

  // Bytes of an arena as they are: for tools that look at memory itself.
  absl::Status ReadArena(ArenaAddress address, absl::Span<char> bytes);
  absl::Status WriteArena(ArenaAddress address, absl::Span<const char> bytes);

  // Bytes of the arenas that are resident in the host's memory.
  int64_t ResidentArenaBytes() const;

  // Zeroes the caches of a Program: before a new text is generated.
  absl::Status ClearCaches(absl::string_view program);

  // The executor of a Program: to time a step, or to look in between instructions.
  Executor& executor(absl::string_view program);

 private:
  Engine() = default;

  absl::Status AllocateArena(MemorySpace space);
  absl::StatusOr<DType> InputDType(absl::string_view program, absl::string_view input);
  // The padded part of a value; of a member of a flat group, what this rank holds.
  TensorView PaddedViewOf(absl::string_view program, int32_t value);
  // Copies `count` elements from staging_ to a value.
  absl::Status WriteValue(absl::string_view program, absl::string_view what, int32_t value,
                          size_t count);
  // The value of a state of a Program: its input, or the updated one if the input is not read.
  absl::StatusOr<int32_t> StateValue(absl::string_view program, absl::string_view path);
  absl::Status ReadValue(absl::string_view program, absl::string_view what, int32_t value,
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
