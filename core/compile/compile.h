// Graphs + Plan -> completed Plan + Programs, with all memory planned and nothing allocated.
#ifndef TESSERA_CORE_COMPILE_COMPILE_H_
#define TESSERA_CORE_COMPILE_COMPILE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/graph/graph.h"
#include "core/kernels/interface/backend.h"
#include "core/program/program.h"
#include "core/proto/plan.pb.h"

namespace tessera {

struct CompiledRun {
  Plan plan;  // completed: fingerprints, passes, redistributions, kernels
  // As the Plan rewrote them, but only their inputs, states and blocks.
  std::vector<Graph> graphs;
  std::vector<Program> programs;   // one for each Graph, in order
  int64_t state_bytes = 0;         // state lies first in its arenas, at offsets that never change
  SpaceBytes arenas;               // the peak of each memory space: the maximum over the Programs
  std::vector<std::string> notes;  // for the user, for example kernels that had to be chosen anew

  int64_t arena_bytes() const { return arenas.total(); }
  const Program* FindProgram(absl::string_view name) const;  // nullptr if there is none
};

// Runs the passes that strategy plugins bring.
class PluginPasses {
 public:
  virtual ~PluginPasses() = default;
  // Returns the Program after the pass. Its buffers have no addresses yet. Errors name the plugin
  // and the pass.
  virtual absl::StatusOr<Program> Run(const PassChoice::PluginPass& pass,
                                      const Program& program) = 0;
};

// Compiles the Graphs of one run. Their names must differ, and states with the same path must have
// the same type. `plan` may be open: missing parts, passes and kernels are filled in. Parts of the
// Plan for other Graphs are not used, so a saved Plan can be replayed for some of its Graphs. A
// note names those parts if they have no fingerprint, as in a Plan that was written by hand.
//
// The Programs are for each of `ranks` ranks, arranged in the Plan's mesh. `plugin_passes` runs the
// passes of plugins; if it is null, a Plan that lists one is an error.
absl::StatusOr<CompiledRun> CompileRun(const std::vector<Graph>& graphs, const Plan& plan,
                                       const KernelCatalogue& catalogue, int ranks = 1,
                                       PluginPasses* plugin_passes = nullptr);

// Returns the Graphs as CompileRun rewrites them, with all operators. A CompiledRun does not keep
// them, because they take more memory than its Programs.
absl::StatusOr<std::vector<Graph>> RewriteRun(const std::vector<Graph>& graphs, const Plan& plan,
                                              int ranks = 1);

}  // namespace tessera

#endif  // TESSERA_CORE_COMPILE_COMPILE_H_
