// One call of a plugin, with the services that it is given.
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

// The state of a call, shared by the caller and the thread that runs the plugin, which may be left
// behind. Thread-safe.
class PluginCall {
 public:
  PluginCall(std::shared_ptr<const PlanningContext> context, PluginCallOptions options);

  const TesseraHost& host() const { return table_; }

  // Runs a function of the plugin on this thread. Returns its result, or what is wrong with it.
  absl::StatusOr<std::string> Run(const Plugin& plugin, TesseraStrategyFunction function,
                                  const std::string& request);

  // Asks the plugin to stop.
  void Cancel() { cancelled_ = true; }
  bool cancelled() const { return cancelled_ || (options_.stop && options_.stop()); }
  // From now on services refuse; returns when none of them runs.
  void Close();

  // The best Plan that the plugin has reported.
  std::optional<Plan> best();

  // The services, as the table's functions call them. `context` is null for that of the run.
  using Service = absl::StatusOr<std::string> (*)(const PlanningContext& context,
                                                  const std::string& request);
  absl::StatusOr<std::string> Serve(TesseraContext* context, const std::string& request,
                                    Service service);
  absl::StatusOr<TesseraContext*> Open(const std::string& request);
  void CloseContext(TesseraContext* context);
  absl::Status Report(const std::string& request);
  void Log(const std::string& line);

 private:
  // The context of a handle; null if there is none.
  std::shared_ptr<const PlanningContext> Find(const TesseraContext* handle);

  const std::shared_ptr<const PlanningContext> context_;
  const PluginCallOptions options_;
  TesseraHost table_;
  std::atomic<bool> cancelled_{false};
  // Held by services while they run, and alone by Close. Not annotated: a shared lock.
  std::shared_mutex running_;
  bool closed_ = false;  // guarded by running_
  Mutex mutex_;
  // A context's address is its handle.
  std::vector<std::shared_ptr<const PlanningContext>> opened_ ABSL_GUARDED_BY(mutex_);
  std::optional<Plan> best_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tessera

#endif  // TESSERA_STRATEGIES_HOST_PLUGIN_CALL_H_
