// One call of a plugin, with the host's services for it.
#ifndef TESSERA_STRATEGIES_HOST_PLUGIN_CALL_H_
#define TESSERA_STRATEGIES_HOST_PLUGIN_CALL_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/proto/strategy.pb.h"
#include "core/sync/mutex.h"
#include "strategies/api/strategy.h"
#include "strategies/host/planning_context.h"
#include "strategies/host/plugin.h"

namespace tessera {

// Receives what a plugin reports while it runs. Thread-safe.
class PluginListener {
 public:
  virtual ~PluginListener() = default;
  // CheckPlanForm accepts the best Plan, if there is one.
  virtual void Report(const strategy::Progress& progress) = 0;
  virtual void Log(const std::string& text) = 0;
  virtual void Explain(const strategy::Explanation& explanation) = 0;
  // The run's context lowered these Plans for the plugin.
  virtual void Lowered(const strategy::LowerPlans& request,
                       const strategy::LoweredPlans& lowered) = 0;
  // Returns whether the plugin shall stop.
  virtual bool cancelled() = 0;
};

// Thread-safe: a plugin may use the services from several threads.
class PluginCall {
 public:
  // `record` may be null. `listener` must outlive the object.
  PluginCall(std::shared_ptr<const PlanningContext> context, RecordGraphs record,
             PluginListener* listener);
  PluginCall(const PluginCall&) = delete;
  PluginCall& operator=(const PluginCall&) = delete;

  // Runs a function of the plugin on this thread. Returns its result, or its error, which names the
  // plugin.
  absl::StatusOr<std::string> Run(const Plugin& plugin, TesseraStrategyFunction function,
                                  const std::string& request);

  // The services, which the functions of the host's table call. `context` is null for the run's
  // context.
  using Service = absl::StatusOr<std::string> (*)(const PlanningContext& context,
                                                  const std::string& request);
  absl::StatusOr<std::string> Serve(TesseraContext* context, const std::string& request,
                                    Service service);
  absl::StatusOr<std::string> Lower(TesseraContext* context, const std::string& request);
  absl::StatusOr<TesseraContext*> Open(const std::string& request);
  void CloseContext(TesseraContext* context);
  absl::Status Report(const std::string& request);
  absl::Status Explain(const std::string& request);
  void Log(const std::string& text) { listener_.Log(text); }
  bool cancelled() { return listener_.cancelled(); }

 private:
  // Returns the context of a handle, or InvalidArgument.
  absl::StatusOr<std::shared_ptr<const PlanningContext>> Find(const TesseraContext* handle);

  const std::shared_ptr<const PlanningContext> context_;
  const RecordGraphs record_;
  PluginListener& listener_;
  const TesseraHost table_;
  Mutex mutex_;
  // A context's address is its handle.
  std::vector<std::shared_ptr<const PlanningContext>> opened_ ABSL_GUARDED_BY(mutex_);
};

// Returns a plugin's message as one line that can be shown.
std::string OneLine(absl::string_view text);

}  // namespace tessera

#endif  // TESSERA_STRATEGIES_HOST_PLUGIN_CALL_H_
