// The requirements of a run as text: a line for the model, and a table of its memory.
//
// Thread safety: pure functions.
#ifndef TESSERA_TOOLS_TRAIN_REPORT_REPORT_H_
#define TESSERA_TOOLS_TRAIN_REPORT_REPORT_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/compile/compile.h"
#include "core/graph/graph.h"
#include "core/model/sample_unit.h"
#include "core/train/config/run_config.pb.h"

namespace tessera {

// Returns the number of elements of all parameters of a run with these Graphs, over all ranks.
int64_t ParameterCount(absl::Span<const Graph> graphs);

// "gpt: 826K parameters, 16 sequences of 128 tokens a step, adamw". The Graphs are those of a run,
// and a row of its batch is of such units.
std::string StepLine(absl::string_view model, const RunConfig& config, const SampleUnit& unit,
                     absl::Span<const Graph> graphs);

// "gpt: 826K parameters, 16 sequences of 128 tokens a step, adamw, 1000 steps; 2 ranks, shm".
// `ranks` describes those of a job; "" for one process.
std::string ModelLine(absl::string_view model, const RunConfig& config, const SampleUnit& unit,
                      const CompiledRun& run, absl::string_view ranks);

// Returns the live bytes of each Program at its peak by category, and the peak of the run:
//
//   memory            initialise      train   evaluate   generate
//   parameters          3.16 MiB   3.16 MiB   3.16 MiB   3.16 MiB
//   ...
//   peak 45.1 MiB (47290880 bytes), of which 9.48 MiB is kept from step to step
//
// All ranks of a job need the same memory.
std::string MemoryTable(const CompiledRun& run, int ranks);

// Returns the output of --plan_only: the model, FLOPs and bytes of a step, the memory table, and
// whether it, or one of its ranks, fits in `available` bytes (0: not known) of `place`.
std::string PlanReport(absl::string_view model, const RunConfig& config, const SampleUnit& unit,
                       const CompiledRun& run, int ranks, int64_t available,
                       absl::string_view place = "this machine");

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_REPORT_REPORT_H_
