// One strategy, planned for a number of ranks of which none is started.
#ifndef TESSERA_TOOLS_PLAN_CELL_H_
#define TESSERA_TOOLS_PLAN_CELL_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/cost/instruction_prices.h"
#include "core/cost/step_time.h"
#include "core/ids/table.h"
#include "core/model/model.h"
#include "core/program/program.h"
#include "tools/train/flags/flags.h"
#include "tools/train/setup/configure.h"
#include "tools/train/setup/prepare.h"

namespace tessera {

// A strategy or a Plan, as the flags of a training run, with the number of ranks to plan for.
struct CellRequest {
  std::string label;  // in tables
  CommandLine line;
  int ranks = 1;               // kFewestRanks: the fewest on which it fits are searched (fit.h)
  bool limit_between = false;  // as in StrategyEntry
};
inline constexpr int kFewestRanks = 0;

// The prices of a step's instructions, and when each is predicted to run.
struct PredictedStep {
  PricedInstructions priced;
  Table<InstructionId, TimeSpan> times;
};

// The least memory that a search has found for a rank, which does not suffice.
struct LeastMemory {
  int64_t bytes = 0;
  int64_t micro_batches = 1;
  std::string recompute;
};

// A planned step. Movable; not thread-safe.
struct Cell {
  CellRequest request;
  // The backend that the Programs refer to is part of it.
  std::unique_ptr<ConfiguredRun> configured;
  PreparedRun prepared;
  MemoryBound memory;              // of a rank; no bound if nothing is known
  std::vector<std::string> notes;  // for the user
  // Set by a search in which nothing fits.
  std::optional<LeastMemory> least;

  const Program& step() const;
  // Bytes of a rank that count for the bound.
  int64_t peak_bytes() const { return memory.Bounded(prepared.compiled); }
  bool fits() const { return memory.bytes <= 0 || peak_bytes() <= memory.bytes; }
  PredictedStep Predict() const;
};

// Configures the run of a request. Errors are as for PlanCell.
absl::StatusOr<ConfiguredRun> ConfigureCell(const CellRequest& request,
                                            const ModelDefinition& model,
                                            std::vector<std::string>* notes);

// Plans and compiles the step, which need not fit in memory. Errors of the command line, and of
// files that it names, are InvalidArgument or NotFound, as for a training run.
absl::StatusOr<Cell> PlanCell(const CellRequest& request, const ModelDefinition& model);

// Returns the request with another value of a field of the configuration.
CellRequest WithField(CellRequest request, absl::string_view field, absl::string_view value);

}  // namespace tessera

#endif  // TESSERA_TOOLS_PLAN_CELL_H_
