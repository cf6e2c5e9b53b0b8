// A call of a plugin with a time limit.
#ifndef TESSERA_STRATEGIES_HOST_LIMITED_CALL_H_
#define TESSERA_STRATEGIES_HOST_LIMITED_CALL_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/proto/plan.pb.h"
#include "strategies/api/strategy.h"
#include "strategies/host/plan_with.h"
#include "strategies/host/planning_context.h"
#include "strategies/host/plugin.h"

namespace tessera {

// One thread at a time.
class LimitedCall {
 public:
  LimitedCall(std::shared_ptr<const PlanningContext> context, const PluginCallOptions& options);

  // Runs a function of the plugin on a thread of its own, once. Returns its result, or Cancelled if
  // it exceeded its time limit or the user wants to end. In that case the thread keeps running
  // detached, and owns everything that it uses.
  absl::StatusOr<std::string> Run(const Plugin& plugin, TesseraStrategyFunction function,
                                  const std::string& request);

  // Returns whether `result` is from a call that did not end in time, rather than from the plugin.
  bool WasStopped(const absl::Status& result) const;

  // Returns the best Plan that the plugin has reported.
  std::optional<Plan> best() const;

 private:
  struct Running;

  const PluginCallOptions options_;
  const std::shared_ptr<Running> running_;
};

}  // namespace tessera

#endif  // TESSERA_STRATEGIES_HOST_LIMITED_CALL_H_
