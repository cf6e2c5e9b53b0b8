// Checks the memory plan against the memory that kernels really read and write, instead of the
// operands that instructions declare.
#ifndef TESSERA_CORE_RUNTIME_MEMORY_CHECK_H_
#define TESSERA_CORE_RUNTIME_MEMORY_CHECK_H_

#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/compile/compile.h"
#include "core/runtime/engine.h"

namespace tessera {

// Sets the inputs of a step of an engine.
using SetInputs = std::function<absl::Status(Engine&)>;

// Returns the same Programs with fences (red zones): `fence_bytes` of unused memory, a multiple of
// kBufferAlignment, on both sides of every buffer. Memory is planned again, so buffers get other
// addresses than in `run`, and arenas are larger.
absl::StatusOr<CompiledRun> WithFences(const CompiledRun& run, int64_t fence_bytes);

// Runs a step of `program` on an engine that was made from WithFences(..., fence_bytes). While a
// buffer is live, its fences hold a pattern. At the start and the end of its live range, it is
// filled with NaNs (integers: their largest value). Returns DataLoss, with the name of the buffer,
// if a fence was changed.
absl::Status RunFenced(Engine& engine, absl::string_view program, int64_t fence_bytes,
                       const SetInputs& set_inputs);

// Returns DataLoss, with the name of the first difference, unless both engines have the same bits
// in every state of `b` and every output of `program`. Padding may differ.
absl::Status CompareBits(Engine& a, Engine& b, absl::string_view program);

// Runs a step of `program` as planned, from the states of `engine`, in an arena of exactly the
// Program's size, which is filled with a pattern and followed by an inaccessible page. Returns
// DataLoss if the last byte of the buffer that ends at the planned peak was not written. Buffers
// that need not be written to their end, such as workspaces, are exempt.
absl::Status RunGuarded(Engine& engine, absl::string_view program, const SetInputs& set_inputs);

// Makes all these checks: runs a step of `program` on `engine` and, from the same states, guarded
// and fenced, and compares the bits of the results with those of the fenced step. Takes about three
// times the arena's memory.
absl::Status CheckMemory(Engine& engine, absl::string_view program, const SetInputs& set_inputs);

}  // namespace tessera

#endif  // TESSERA_CORE_RUNTIME_MEMORY_CHECK_H_
