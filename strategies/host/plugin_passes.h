// Runs the passes of strategy plugins.
#ifndef TESSERA_STRATEGIES_HOST_PLUGIN_PASSES_H_
#define TESSERA_STRATEGIES_HOST_PLUGIN_PASSES_H_

#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "core/compile/compile.h"
#include "core/kernels/interface/backend.h"
#include "strategies/host/plan_with.h"
#include "strategies/host/planning_context.h"
#include "strategies/host/plugin.h"

namespace tessera {

// Loads a plugin when a Plan first names one of its passes. One thread at a time.
class LoadedPasses : public PluginPasses {
 public:
  // Plugins are searched for beside the program `argv0` (find_plugin.h). Services for the passes
  // use `catalogue` and `context`; the catalogue must outlive the object. `options` applies to each
  // run of a pass.
  LoadedPasses(std::string argv0, const KernelCatalogue* catalogue,
               std::shared_ptr<const PlanningContext> context, PluginCallOptions options = {})
      : argv0_(std::move(argv0)),
        catalogue_(*catalogue),
        context_(std::move(context)),
        options_(std::move(options)) {}

  // Adds a plugin, such as one that was loaded by its path.
  void Add(const Plugin& plugin) { plugins_.insert_or_assign(plugin.name(), plugin); }

  // NotFound if the plugin cannot be found; FailedPrecondition if its version differs from the
  // Plan's, or if it has no such pass; InvalidArgument if the pass does not return a Program;
  // DeadlineExceeded if it takes longer than its limit, or is stopped.
  absl::StatusOr<Program> Run(const PassChoice& pass, const Program& program) override;

 private:
  absl::StatusOr<const Plugin*> Find(const std::string& name);

  const std::string argv0_;
  const KernelCatalogue& catalogue_;
  const std::shared_ptr<const PlanningContext> context_;
  const PluginCallOptions options_;
  std::map<std::string, Plugin> plugins_;  // by name
};

}  // namespace tessera

#endif  // TESSERA_STRATEGIES_HOST_PLUGIN_PASSES_H_
