#include "core/cost/work_division.h"

#include <algorithm>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace tessera {
namespace {

// Returns the FLOPs of an op on all of its elements.
double FlopsOf(const Graph& graph, const Op& op) {
  if (op.phase == Phase::kUpdate) return 0;
  const std::vector<TensorType> inputs = graph.TypesOf(op.inputs);
  const std::vector<TensorType> outputs = graph.TypesOf(op.outputs);
  const OpCost cost = op.kind->Cost({inputs, outputs, op.attributes});
  return cost.flops - cost.recomputed_flops;
}

// Returns the FLOPs of a rank in forward and backward passes, without recomputation.
double FlopsOfRank(const Program& program) {
  double flops = 0;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.phase == Phase::kUpdate || instruction.recomputed) continue;
    flops += instruction.cost.flops - instruction.cost.recomputed_flops;
  }
  return flops;
}

// Returns whether all operands of a signature in a Plan are B along a mesh axis.
bool IsBroadcast(absl::string_view signature, absl::string_view axis) {
  for (absl::string_view clause : absl::StrSplit(signature, ';')) {
    clause = absl::StripLeadingAsciiWhitespace(clause);
    if (!absl::ConsumePrefix(&clause, axis) || !absl::ConsumePrefix(&clause, ":")) continue;
    return !absl::StrContains(clause, "S(") && !absl::StrContains(clause, 'P') &&
           !absl::StrContains(clause, "flat");
  }
  return true;
}

// Finds the input whose batch leaves ranks without rows, for a note to the user: that with the
// fewest rows, or units of rows, if they are fewer than the ranks that split them. Leaves both
// numbers 0 if there is none.
void FindBatchWithIdleRanks(const Graph& graph, const Program& program, WorkDivision* division) {
  absl::flat_hash_map<std::string, int> batch_dims;
  for (const GraphInput& input : graph.inputs()) {
    batch_dims[graph.value(input.value).path] = input.batch_dim;
  }
  for (const NamedValue& input : program.inputs) {
    const auto found = batch_dims.find(input.name);
    if (input.value == kNone || found == batch_dims.end() || found->second == kNone) continue;
    const PartId part = program.value(input.value).part;
    if (part == kNone) continue;
    const PartRule& rule = program.parts[part];
    int64_t rows = rule.extent[found->second], parts = 1;
    // Each axis splits what the axes before it leave, in whole units.
    for (const int axis : rule.layout.AxesSplitting(found->second)) {
      const int64_t unit = rule.layout.axis(axis).unit;
      rows = std::min(rows, (rule.extent[found->second] + unit - 1) / unit);
      parts *= program.mesh.axis(axis).size;
    }
    const bool all_ranks_have_rows = rows >= parts;
    const bool is_known_worse = division->rows > 0 && division->rows <= rows;
    if (all_ranks_have_rows || is_known_worse) continue;
    division->rows = rows;
    division->parts = parts;
  }
}

}  // namespace

WorkDivision DivisionOf(const Graph& recorded, const Graph& rewritten, const PlanPart& part,
                        const Program& program) {
  WorkDivision division;
  division.repeated.assign(program.mesh.num_axes(), 0);
  absl::flat_hash_map<std::string, double> flops_of;
  for (const Op& op : recorded.ops()) {
    const double op_flops = FlopsOf(recorded, op);
    division.flops += op_flops;
    if (op_flops > 0) flops_of[op.path] += op_flops;
  }
  const double rank_flops = FlopsOfRank(program);
  if (!(division.flops > 0) || !(rank_flops > 0)) return division;
  division.speedup = division.flops / rank_flops;
  for (const ComputeChoice& choice : part.compute()) {
    const auto found = flops_of.find(choice.path());
    if (found == flops_of.end()) continue;
    for (int axis = 0; axis < program.mesh.num_axes(); ++axis) {
      if (!IsBroadcast(choice.signature(), program.mesh.axis(axis).name)) continue;
      division.repeated[axis] += found->second / division.flops;
    }
  }
  FindBatchWithIdleRanks(rewritten, program, &division);
  return division;
}

}  // namespace tessera
