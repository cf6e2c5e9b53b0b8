// A completed Plan by layer: how each unit of a model stores its parameters, gathers them, and
// keeps its activations.
//
// Thread safety: pure functions.
#ifndef TESSERA_TOOLS_REPORT_VIEW_PLAN_ROWS_H_
#define TESSERA_TOOLS_REPORT_VIEW_PLAN_ROWS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/compile/compile.h"
#include "core/graph/graph.h"

namespace tessera {

enum class Storage : uint8_t {
  kFull,            // every rank has all of the parameter and of its optimizer state
  kSplitOptimizer,  // every rank has all of the parameter; its optimizer state is split
  kSplit,           // along dimensions
  kFlat,            // as a member of a flat group
  kMixed,           // its slices differ
};

// A parameter of a unit.
struct ParameterCell {
  std::string name;  // its path within the unit
  Storage storage = Storage::kFull;
  std::string layout;  // "data: S(0)", "flat over data", "1 of 2 slices data: S(0), 1 B"
  std::string shape;   // of the full parameter: "f32[256, 64]"
  int64_t bytes = 0;   // of the full parameter
  int64_t slices = 1;

  friend bool operator==(const ParameterCell& a, const ParameterCell& b) = default;
};

enum class Recomputed : uint8_t { kNothing, kSome, kAll };

// A unit: a block of the Graph, or the parameters of one scope outside of all blocks.
struct PlanRow {
  // The unit's path; of several, the path with their numbers: "blocks.{0-3, 5}", or "blocks.*" if
  // these are all of the Graph's blocks.
  std::string label;
  int64_t units = 1;  // equal ones that this row is for
  std::vector<ParameterCell> cells;
  // Each flat group of its parameters: "12 parameters, gathered in each phase over data".
  std::vector<std::string> groups;
  Recomputed recomputed = Recomputed::kNothing;  // of its activations
  // The operators of the forward pass, by their paths within the unit, and their signatures.
  std::vector<std::pair<std::string, std::string>> operators;

  // Returns the sum over the cells of one unit.
  int64_t bytes() const;

  friend bool operator==(const PlanRow& a, const PlanRow& b) = default;
};

struct PlanRows {
  std::string mesh;           // "data: 2"; "" for one rank
  int64_t micro_batches = 1;  // of the training step
  std::string logits;         // "kept", "recomputed"; "" if the Plan does not say
  std::string precision;      // "bf16, reduced in f32"; "" as recorded
  std::vector<std::string> passes;
  std::vector<std::string> recompute;  // as the Plan says it
  int blocks = 0;                      // of the Graph
  std::vector<PlanRow> rows;           // in the order of the Graph's parameters
};

// Returns the rows of a run's completed Plan. Blocks that differ in nothing that a row shows share
// one. `recorded` is the Graph of the training step as the model recorded it; its name says which
// part of the Plan and which Program are those of the step.
PlanRows PlanRowsOf(const Graph& recorded, const CompiledRun& run);

}  // namespace tessera

#endif  // TESSERA_TOOLS_REPORT_VIEW_PLAN_ROWS_H_
