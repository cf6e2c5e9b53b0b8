// One call of a plugin, with the host's services for it.
#ifndef TESSERA_STRATEGIES_HOST_PLUGIN_CALL_H_
#define TESSERA_STRATEGIES_HOST_PLUGIN_CALL_H_

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/proto/strategy.pb.h"
#include "core/sync/mutex.h"
#include "strategies/api/strategy.h"
#include "strategies/host/plan_with.h"
#include "strategies/host/planning_context.h"
#include "strategies/host/plugin.h"

namespace tessera {

// The state of a call. The caller shares it with the thread that runs the plugin, which may outlive
// the caller. Thread-safe.
class PluginCall {
 public:
  PluginCall(std::shared_ptr<const PlanningContext> context, PluginCallOptions options);

  const TesseraHost& host() const { return table_; }

  // Runs a function of the plugin on this thread. Returns its result or error.
  absl::StatusOr<std::string> Run(const Plugin& plugin, TesseraStrategyFunction function,
                                  const std::string& request);

  // Asks the plugin to stop.
  void Cancel() { cancelled_ = true; }
  bool cancelled() const { return cancelled_ || (options_.stop && options_.stop()); }
  // Makes all later calls of services fail, and waits until none is running.
  void Close();

  // Returns the best Plan that the plugin has reported.
  std::optional<Plan> best();

  // The services, which the functions of the host's table call. `context` is null for the run's
  // context.
  using Service = absl::StatusOr<std::string> (*)(const PlanningContext& context,
                                                  const std::string& request);
  absl::StatusOr<std::string> Serve(TesseraContext* context, const std::string& request,
                                    Service service);
  absl::StatusOr<TesseraContext*> Open(const std::string& request);
  void CloseContext(TesseraContext* context);
  absl::Status Report(const std::string& request);
  void Log(const std::string& line);

 private:
  // Returns the context of a handle; null if there is none.
  std::shared_ptr<const PlanningContext> Find(const TesseraContext* handle);

  const std::shared_ptr<const PlanningContext> context_;
  const PluginCallOptions options_;
  TesseraHost table_;
  std::atomic<bool> cancelled_{false};
  // Services hold it shared while they run; Close holds it exclusively. Not annotated, since it is
  // a shared lock.
  std::shared_mutex running_;
  bool closed_ = false;  // guarded by running_
  Mutex mutex_;
  // A context's address is its handle.
  std::vector<std::shared_ptr<const PlanningContext>> opened_ ABSL_GUARDED_BY(mutex_);
  std::optional<Plan> best_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tessera

#endif  // TESSERA_STRATEGIES_HOST_PLUGIN_CALL_H_
