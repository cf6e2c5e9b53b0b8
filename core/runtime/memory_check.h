// Checks the memory plan against what kernels do to memory, not against what instructions declare.
#ifndef TESSERA_CORE_RUNTIME_MEMORY_CHECK_H_
#define TESSERA_CORE_RUNTIME_MEMORY_CHECK_H_

#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/program/compile.h"
#include "core/runtime/engine.h"

namespace tessera {

// Sets the inputs of a step of an engine.
using SetInputs = std::function<absl::Status(Engine&)>;

// The same Programs with `fence_bytes` (a multiple of kBufferAlignment) left free on both sides of
// every buffer.
absl::StatusOr<CompiledRun> WithFences(const CompiledRun& run, int64_t fence_bytes);

// Runs a step of `program` on an engine that was made from WithFences(..., fence_bytes). While a
// buffer is live its fences hold a pattern; when its live range begins and ends it is filled with
// NaNs (integers: their largest value). DataLoss names the first buffer whose fence was changed.
absl::Status RunFenced(Engine& engine, absl::string_view program, int64_t fence_bytes,
                       const SetInputs& set_inputs);

// DataLoss, naming the first that differs, unless both hold the same bits in every state that is
// kept and every output of `program`. Padding may differ.
absl::Status CompareBits(Engine& a, Engine& b, absl::string_view program);

// Runs a step of `program` as it is planned, in an arena of exactly the Program's size that holds a
// pattern and ends at a page that cannot be touched, from the states of `engine`. DataLoss unless
// the buffer that ends at the planned peak was written to its last byte, or is a workspace, whose
// end a kernel may leave unused.
absl::Status RunGuarded(Engine& engine, absl::string_view program, const SetInputs& set_inputs);

// All of the above: runs a step of `program` on `engine` and, from the same states, fenced and
// guarded; the results are the same bits. Takes about three times the arena's memory.
absl::Status CheckMemory(Engine& engine, absl::string_view program, const SetInputs& set_inputs);

}  // namespace tessera

#endif  // TESSERA_CORE_RUNTIME_MEMORY_CHECK_H_
