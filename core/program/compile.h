// Graphs + Plan -> completed Plan + Programs, with all memory planned and nothing allocated.
#ifndef TESSERA_CORE_PROGRAM_COMPILE_H_
#define TESSERA_CORE_PROGRAM_COMPILE_H_

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
  Plan plan;                       // completed: fingerprints, passes, kernels
  std::vector<Graph> graphs;       // as the Plan rewrote them
  std::vector<Program> programs;   // one for each Graph, in order
  int64_t state_bytes = 0;         // state lies first in its arenas, at offsets that never change
  SpaceBytes arenas;               // of each memory space the peak: the largest of the Programs'
  std::vector<std::string> notes;  // for the user: kernels that had to be chosen anew, and the like

  int64_t arena_bytes() const { return arenas.total(); }
  const Program* FindProgram(absl::string_view name) const;  // nullptr if there is none
};

// Runs the passes that strategy plugins bring.
class PluginPasses {
 public:
  virtual ~PluginPasses() = default;
  // Returns the Program that the pass makes of this one, whose buffers have no addresses yet.
  // Errors name the plugin and the pass.
  virtual absl::StatusOr<Program> Run(const PassChoice& pass, const Program& program) = 0;
};

// Compiles the Graphs of one run (names must differ; states of one path must have one type). `plan`
// may be open: parts, passes and kernels that it leaves out are filled in. Its parts for other
// Graphs are not used, so a saved Plan can be replayed for some of its Graphs; a note names such
// parts if they have no fingerprint, as in a Plan that was written by hand.
//
// The Programs are for each of `ranks` ranks, arranged in the Plan's mesh. `plugin_passes` runs the
// passes of plugins; null: a Plan that lists one is an error.
absl::StatusOr<CompiledRun> CompileRun(const std::vector<Graph>& graphs, const Plan& plan,
                                       const KernelCatalogue& catalogue, int ranks = 1,
                                       PluginPasses* plugin_passes = nullptr);

// The same Programs with default kernels, for a search over Plans, as fast as they can be had: they
// are not verified, and the Plan lists nothing that it left open. A Plan with a pass of a plugin is
// an error.
absl::StatusOr<CompiledRun> CompileCandidate(const std::vector<Graph>& graphs, const Plan& plan,
                                             const KernelCatalogue& catalogue, int ranks);

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_COMPILE_H_
