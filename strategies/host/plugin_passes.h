// Runs the passes of strategy plugins.
#ifndef TESSERA_STRATEGIES_HOST_PLUGIN_PASSES_H_
#define TESSERA_STRATEGIES_HOST_PLUGIN_PASSES_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

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
  // Services for the passes use `catalogue` and `context`; the catalogue must outlive the object.
  // `options` applies to each run of a pass. `note` receives a line for the user about each plugin
  // that does not come with the program; it may be null.
  LoadedPasses(const KernelCatalogue* catalogue, std::shared_ptr<const PlanningContext> context,
               PluginCallOptions options = {},
               std::function<void(const std::string& line)> note = nullptr)
      : catalogue_(*catalogue),
        context_(std::move(context)),
        options_(std::move(options)),
        note_(std::move(note)) {}

  // Adds a plugin, such as one that was loaded by its path.
  void Add(const Plugin& plugin) { plugins_.insert_or_assign(plugin.name(), plugin); }

  // Plugins that were not added are found by their names (FindPluginOfPlan). NotFound if the plugin
  // cannot be found; InvalidArgument if the Plan does not name it by a plain name, or if the pass
  // does not return a Program; FailedPrecondition if the name or the version of the plugin differs
  // from the Plan's, or if it has no such pass; DeadlineExceeded if it takes longer than its limit,
  // or is stopped.
  absl::StatusOr<Program> Run(const PassChoice::PluginPass& pass, const Program& program) override;

 private:
  absl::StatusOr<const Plugin*> FindOrLoad(const std::string& name);

  const KernelCatalogue& catalogue_;
  const std::shared_ptr<const PlanningContext> context_;
  const PluginCallOptions options_;
  const std::function<void(const std::string& line)> note_;
  std::map<std::string, Plugin> plugins_;  // by name
};

}  // namespace tessera

#endif  // TESSERA_STRATEGIES_HOST_PLUGIN_PASSES_H_
