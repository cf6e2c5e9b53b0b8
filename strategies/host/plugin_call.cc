#include "strategies/host/plugin_call.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "core/plan/check.h"
#include "core/status/status_macros.h"
#include "core/train/record/plan_text.h"
#include "strategies/api/status_codes.h"

namespace tessera {
namespace {

// The largest result that is read. A Plan of GPT-3 175B that lists every path has a few MiB.
constexpr size_t kMaxResultBytes = size_t{1} << 30;
constexpr size_t kMaxMessageBytes = 2000;

// Passes a result, or the message of an error, to a plugin's sink. Returns the code of the status.
int32_t PutResult(const absl::StatusOr<std::string>& result, const TesseraSink* sink) {
  const absl::string_view text =
      result.ok() ? absl::string_view(*result) : result.status().message();
  if (sink != nullptr && sink->put != nullptr) sink->put(sink->state, text.data(), text.size());
  return strategy::ToCode(result.status());
}

// Returns the call to which a host belongs: plugins pass the host to each of its functions, and its
// `state` points to the call.
PluginCall& CallOf(const TesseraHost* host) { return *static_cast<PluginCall*>(host->state); }

std::string Bytes(const char* data, size_t size) {
  return data == nullptr ? std::string() : std::string(data, size);
}

// A service in the form of the C interface.
template <PluginCall::Service service>
int32_t ServiceFunction(const TesseraHost* host, TesseraContext* context, const char* request,
                        size_t size, const TesseraSink* sink) {
  return PutResult(CallOf(host).Serve(context, Bytes(request, size), service), sink);
}

// Parses a request of the plugin.
template <typename Message>
absl::StatusOr<Message> ParseRequest(const std::string& bytes) {
  Message message;
  if (message.ParseFromString(bytes)) return message;
  return absl::InvalidArgumentError(
      absl::StrCat("the request is not a ", Message::descriptor()->name(), " message"));
}

absl::StatusOr<std::string> GraphsService(const PlanningContext& context,
                                          const std::string& request) {
  ASSIGN_OR_RETURN(const strategy::DescribeGraphs message,
                   ParseRequest<strategy::DescribeGraphs>(request));
  ASSIGN_OR_RETURN(const strategy::RunGraphs result, context.Graphs(message));
  return result.SerializeAsString();
}

absl::StatusOr<std::string> DescribeService(const PlanningContext& context,
                                            const std::string& request) {
  ASSIGN_OR_RETURN(const strategy::DescribeOperators message,
                   ParseRequest<strategy::DescribeOperators>(request));
  ASSIGN_OR_RETURN(const strategy::OperatorDescriptions result, context.Describe(message));
  return result.SerializeAsString();
}

absl::StatusOr<std::string> ReadPlanService(const PlanningContext&, const std::string& request) {
  ASSIGN_OR_RETURN(const Plan plan, ParsePlanText(request));
  return plan.SerializeAsString();
}

absl::StatusOr<std::string> CompleteService(const PlanningContext& context,
                                            const std::string& request) {
  ASSIGN_OR_RETURN(const Plan plan, ParseRequest<Plan>(request));
  RETURN_IF_ERROR(CheckPlanForm(plan));
  ASSIGN_OR_RETURN(const Plan completed, context.Complete(plan));
  return completed.SerializeAsString();
}

absl::StatusOr<std::string> ProgramService(const PlanningContext& context,
                                           const std::string& request) {
  ASSIGN_OR_RETURN(const strategy::MakeProgram message,
                   ParseRequest<strategy::MakeProgram>(request));
  RETURN_IF_ERROR(CheckPlanForm(message.plan()));
  ASSIGN_OR_RETURN(const ProgramProto program, context.Program(message));
  return program.SerializeAsString();
}

template <typename Request>
absl::StatusOr<std::string> PriceService(const PlanningContext& context,
                                         const std::string& request) {
  ASSIGN_OR_RETURN(const Request message, ParseRequest<Request>(request));
  ASSIGN_OR_RETURN(const strategy::Prices prices, context.Price(message));
  return prices.SerializeAsString();
}

absl::StatusOr<std::string> PassesService(const PlanningContext&, const std::string&) {
  return DescribePasses().SerializeAsString();
}

int32_t LowerFunction(const TesseraHost* host, TesseraContext* context, const char* request,
                      size_t size, const TesseraSink* sink) {
  return PutResult(CallOf(host).Lower(context, Bytes(request, size)), sink);
}

int32_t OpenFunction(const TesseraHost* host, const char* request, size_t size,
                     TesseraContext** opened, const TesseraSink* sink) {
  absl::StatusOr<TesseraContext*> context = CallOf(host).Open(Bytes(request, size));
  if (context.ok()) *opened = *context;
  return PutResult(context.ok() ? absl::StatusOr<std::string>("") : context.status(), sink);
}

void CloseFunction(const TesseraHost* host, TesseraContext* context) {
  CallOf(host).CloseContext(context);
}

int32_t ReportFunction(const TesseraHost* host, TesseraContext*, const char* request, size_t size,
                       const TesseraSink* sink) {
  const absl::Status status = CallOf(host).Report(Bytes(request, size));
  return PutResult(status.ok() ? absl::StatusOr<std::string>("") : status, sink);
}

int32_t ExplainFunction(const TesseraHost* host, TesseraContext*, const char* request, size_t size,
                        const TesseraSink* sink) {
  const absl::Status status = CallOf(host).Explain(Bytes(request, size));
  return PutResult(status.ok() ? absl::StatusOr<std::string>("") : status, sink);
}

int32_t CancelledFunction(const TesseraHost* host) { return CallOf(host).cancelled() ? 1 : 0; }

void LogFunction(const TesseraHost* host, const char* line, size_t size) {
  CallOf(host).Log(Bytes(line, size));
}

// The result of a plugin's function, as its sink receives it.
struct Result {
  std::string bytes;
  bool too_long = false;
};

void TakeResult(void* state, const char* data, size_t size) {
  Result& result = *static_cast<Result*>(state);
  result.too_long = size > kMaxResultBytes;
  if (!result.too_long) result.bytes = Bytes(data, size);
}

}  // namespace

std::string OneLine(absl::string_view text) {
  std::string line(absl::StripAsciiWhitespace(text.substr(0, kMaxMessageBytes)));
  std::replace_if(line.begin(), line.end(), absl::ascii_iscntrl, ' ');
  return line;
}

PluginCall::PluginCall(std::shared_ptr<const PlanningContext> context, RecordGraphs record,
                       PluginListener* listener)
    : context_(std::move(context)),
      record_(std::move(record)),
      listener_(*listener),
      table_{sizeof(TesseraHost),
             TESSERA_STRATEGY_MAJOR,
             TESSERA_STRATEGY_MINOR,
             this,
             OpenFunction,
             CloseFunction,
             ServiceFunction<GraphsService>,
             ServiceFunction<DescribeService>,
             ServiceFunction<PriceService<strategy::PriceOperators>>,
             ServiceFunction<PriceService<strategy::PriceCollectives>>,
             ServiceFunction<PriceService<strategy::PriceRedistributions>>,
             ServiceFunction<ReadPlanService>,
             ServiceFunction<CompleteService>,
             LowerFunction,
             ServiceFunction<ProgramService>,
             ServiceFunction<PassesService>,
             ReportFunction,
             CancelledFunction,
             LogFunction,
             ExplainFunction} {}

absl::StatusOr<std::string> PluginCall::Run(const Plugin& plugin, TesseraStrategyFunction function,
                                            const std::string& request) {
  Result result;
  const TesseraSink sink = {sizeof(TesseraSink), &result, TakeResult};
  const auto error = [&plugin](absl::StatusCode code, absl::string_view fault) {
    return absl::Status(code, absl::StrCat("strategy ", plugin.name(), ": ", fault));
  };
  int32_t code = TESSERA_INTERNAL;
  try {
    code = function(&plugin.table(), &table_, request.data(), request.size(), &sink);
  } catch (const std::exception& thrown) {
    return error(absl::StatusCode::kInternal,
                 absl::StrCat("threw an exception: ", OneLine(thrown.what())));
  } catch (...) {
    return error(absl::StatusCode::kInternal, "threw an exception");
  }
  if (code != TESSERA_OK) {
    const std::string message = OneLine(result.bytes);
    return error(
        strategy::ToStatusCode(code),
        message.empty() ? absl::StrCat("failed with code ", code, " and no message") : message);
  }
  if (result.too_long) {
    return error(absl::StatusCode::kInvalidArgument, "returned more than 1 GiB");
  }
  return std::move(result.bytes);
}

absl::StatusOr<std::string> PluginCall::Serve(TesseraContext* context, const std::string& request,
                                              Service service) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const PlanningContext> found, Find(context));
  return service(*found, request);
}

absl::StatusOr<std::string> PluginCall::Lower(TesseraContext* context, const std::string& request) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const PlanningContext> found, Find(context));
  ASSIGN_OR_RETURN(const strategy::LowerPlans message, ParseRequest<strategy::LowerPlans>(request));
  const strategy::LoweredPlans lowered = found->Lower(message);
  if (found == context_) listener_.Lowered(message, lowered);
  return lowered.SerializeAsString();
}

absl::StatusOr<std::shared_ptr<const PlanningContext>> PluginCall::Find(
    const TesseraContext* handle) {
  if (handle == nullptr) return context_;
  MutexLock lock(&mutex_);
  for (const std::shared_ptr<const PlanningContext>& context : opened_) {
    if (static_cast<const void*>(context.get()) == handle) return context;
  }
  return absl::InvalidArgumentError("the planning context is not open");
}

absl::StatusOr<TesseraContext*> PluginCall::Open(const std::string& request) {
  if (!record_) return absl::UnimplementedError("this run has one batch size");
  ASSIGN_OR_RETURN(const strategy::OpenContext message,
                   ParseRequest<strategy::OpenContext>(request));
  if (message.batch() < 0 || message.sequence() < 0) {
    return absl::InvalidArgumentError("a batch and a sequence are 0 (those of the run) or more");
  }
  ASSIGN_OR_RETURN(std::vector<Graph> graphs, record_(message.batch(), message.sequence()));
  auto context =
      std::make_shared<const PlanningContext>(std::move(graphs), context_->planned_for());
  void* const handle = const_cast<PlanningContext*>(context.get());
  MutexLock opened(&mutex_);
  opened_.push_back(std::move(context));
  return static_cast<TesseraContext*>(handle);
}

void PluginCall::CloseContext(TesseraContext* context) {
  MutexLock lock(&mutex_);
  const auto is_closed = [context](const std::shared_ptr<const PlanningContext>& opened) {
    return static_cast<const void*>(opened.get()) == context;
  };
  opened_.erase(std::remove_if(opened_.begin(), opened_.end(), is_closed), opened_.end());
}

absl::Status PluginCall::Report(const std::string& request) {
  ASSIGN_OR_RETURN(const strategy::Progress progress, ParseRequest<strategy::Progress>(request));
  if (progress.has_best()) RETURN_IF_ERROR(CheckPlanForm(progress.best()));
  listener_.Report(progress);
  return absl::OkStatus();
}

absl::Status PluginCall::Explain(const std::string& request) {
  ASSIGN_OR_RETURN(const strategy::Explanation explanation,
                   ParseRequest<strategy::Explanation>(request));
  listener_.Explain(explanation);
  return absl::OkStatus();
}

}  // namespace tessera
