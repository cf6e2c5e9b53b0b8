// A call of a plugin in a process of its own, with a time limit.
//
// The process is a copy of this one (core/posix/child_process.h), so the host's services are there
// without being sent. What the function writes to memory, its threads, and whatever else it does to
// its process end with it. Only the costs of Plans that the run's context lowered there are sent
// back to it, so that no later call waits for the same Plans again.
#ifndef TESSERA_STRATEGIES_HOST_LIMITED_CALL_H_
#define TESSERA_STRATEGIES_HOST_LIMITED_CALL_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/posix/child_process.h"
#include "core/proto/plan.pb.h"
#include "core/proto/strategy.pb.h"
#include "strategies/api/strategy.h"
#include "strategies/host/plan_with.h"
#include "strategies/host/planning_context.h"
#include "strategies/host/plugin.h"

namespace tessera {

// A function of a plugin, as messages name it.
struct PluginFunction {
  std::string name;
  TesseraStrategyFunction function = nullptr;
};

// One thread at a time.
class LimitedCall {
 public:
  LimitedCall(std::shared_ptr<const PlanningContext> context, const PluginCallOptions& options)
      : context_(std::move(context)), options_(options) {}

  // Runs a function of the plugin, once. Returns its result; Cancelled if it exceeded its time
  // limit or the user wants to end; Internal if it ended its process, with the plugin, the function
  // and the signal or exit code in the message; Unavailable, with the plugin and the function in
  // the message, if no process can be started.
  absl::StatusOr<std::string> Run(const Plugin& plugin, const PluginFunction& function,
                                  const std::string& request);

  // Returns whether `result` is from a call that did not end in time, rather than from the plugin.
  bool WasStopped(const absl::Status& result) const {
    return absl::IsCancelled(result) && was_stopped_;
  }

  // Returns whether the plugin was asked to stop.
  bool was_stopped() const { return was_stopped_; }
  // Returns the best Plan that the plugin has reported.
  const std::optional<Plan>& best() const { return best_; }
  // Returns the plugin's last explanation; an empty one if it has given none.
  const strategy::Explanation& explanation() const { return explanation_; }

 private:
  // Waits for the result of the process.
  absl::StatusOr<std::string> Wait(const Plugin& plugin, const PluginFunction& function,
                                   ChildProcess& process);
  // Handles a message of the process. Returns the result of the function if it is one.
  std::optional<absl::StatusOr<std::string>> HandleMessage(const Plugin& plugin,
                                                           const ChildProcess::Message& message);
  // Shows the newest progress, if it is time to and it is not what was shown last.
  void ShowProgress();
  void Log(const Plugin& plugin, const std::string& text) const;

  const std::shared_ptr<const PlanningContext> context_;
  const PluginCallOptions options_;
  bool was_stopped_ = false;
  std::optional<Plan> best_;
  strategy::Explanation explanation_;
  std::optional<strategy::Progress> unshown_;
  ChildProcess::Clock::time_point shown_ = ChildProcess::Clock::now();
  std::optional<std::pair<double, std::string>> shown_progress_;
};

}  // namespace tessera

#endif  // TESSERA_STRATEGIES_HOST_LIMITED_CALL_H_
