#include "strategies/api/kit.h"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "strategies/api/status_codes.h"

namespace tessera::strategy {
namespace {

// Returns a sink that sets `text`, which must outlive it.
TesseraSink SinkOf(std::string* text) {
  return {sizeof(TesseraSink), text, [](void* state, const char* data, size_t size) {
            static_cast<std::string*>(state)->assign(data, size);
          }};
}

// Passes bytes to a sink of the host.
void Put(const TesseraSink* sink, absl::string_view bytes) {
  sink->put(sink->state, bytes.data(), bytes.size());
}

// A Strategy and its description, in the form that the C interface needs.
struct Exported {
  Description description;
  std::unique_ptr<Strategy> strategy;
  std::vector<TesseraOption> options;
  std::vector<const TesseraOption*> option_pointers;
  std::vector<const char*> passes;
  TesseraStrategy table;
};

// Calls a method of the strategy with a message, and passes its result to the sink. Catches
// exceptions.
template <typename Message, typename Method>
int32_t Serve(const char* request, size_t size, const TesseraSink* sink, const Method& method) {
  absl::Status status;
  try {
    Message message;
    if (!message.ParseFromArray(request, static_cast<int>(size))) {
      status = absl::InvalidArgumentError("the host's request is not a message of this version");
    } else if (auto result = method(std::move(message)); result.ok()) {
      Put(sink, result->SerializeAsString());
    } else {
      status = result.status();
    }
  } catch (const std::exception& error) {
    status = absl::InternalError(absl::StrCat("threw an exception: ", error.what()));
  } catch (...) {
    status = absl::InternalError("threw an exception");
  }
  if (!status.ok()) Put(sink, status.message());
  return ToCode(status);
}

// Returns null, which is the default of a table's member, if the text is empty.
const char* OrNull(const std::string& text) { return text.empty() ? nullptr : text.c_str(); }

Strategy& StrategyOf(const TesseraStrategy* table) {
  return *static_cast<Exported*>(table->state)->strategy;
}

int32_t PlanFunction(const TesseraStrategy* self, const TesseraHost* host, const char* request,
                     size_t size, const TesseraSink* sink) {
  return Serve<PlanRequest>(request, size, sink, [&](PlanRequest message) {
    Host services(host);
    return StrategyOf(self).MakePlan(Request(std::move(message)), services);
  });
}

int32_t EstimateFunction(const TesseraStrategy* self, const TesseraHost* host, const char* request,
                         size_t size, const TesseraSink* sink) {
  return Serve<EstimateRequest>(request, size, sink, [&](const EstimateRequest& message) {
    Host services(host);
    return StrategyOf(self).Estimate(Request(message.request()), message.plan(), services);
  });
}

int32_t PassFunction(const TesseraStrategy* self, const TesseraHost* host, const char* request,
                     size_t size, const TesseraSink* sink) {
  return Serve<PassRequest>(request, size, sink, [&](const PassRequest& message) {
    Host services(host);
    return StrategyOf(self).RunPass(message, services);
  });
}

int32_t CheckFunction(const TesseraStrategy* self, const TesseraHost* host, const char* request,
                      size_t size, const TesseraSink* sink) {
  return Serve<CheckRequest>(
      request, size, sink, [&](const CheckRequest& message) -> absl::StatusOr<CheckResult> {
        Host services(host);
        CheckResult result;
        ASSIGN_OR_RETURN(
            *result.mutable_changed(),
            StrategyOf(self).Check(Request(message.request()), message.plan(), services));
        return result;
      });
}

}  // namespace

const std::string& Request::Text(const std::string& option) const {
  static const std::string* const kNone = new std::string;
  for (const OptionValue& known : message_.options()) {
    if (known.key() == option) return known.value();
  }
  return *kNone;
}

std::vector<int64_t> Request::MicroBatchCounts(int64_t batch) const {
  if (!MayDecide(PlanRequest::MICRO_BATCHES)) return {std::max<int64_t>(1, micro_batches())};
  const int64_t rows = batch / std::max(1, ranks());
  std::vector<int64_t> counts = {1};
  for (int64_t count = 2; count <= rows; ++count) {
    if (batch % count == 0 && rows % count == 0) counts.push_back(count);
  }
  return counts;
}

int64_t Request::NodeRanks() const {
  for (const int64_t node : {int64_t{cluster().ranks_per_host()}, int64_t{2}}) {
    if (node > 1 && node < ranks() && ranks() % node == 0) return node;
  }
  return 0;
}

bool Request::MayDecide(PlanRequest::Setting setting) const {
  return std::find(message_.open().begin(), message_.open().end(), setting) !=
         message_.open().end();
}

int64_t Request::Int(const std::string& option) const {
  int64_t value = 0;
  return absl::SimpleAtoi(Text(option), &value) ? value : 0;
}

double Request::Number(const std::string& option) const {
  double value = 0;
  return absl::SimpleAtod(Text(option), &value) ? value : 0;
}

TypeProto::DType Request::DType(const std::string& option) const {
  const std::string& text = Text(option);
  return text == "bf16" ? TypeProto::BF16 : text == "f16" ? TypeProto::F16 : TypeProto::F32;
}

absl::StatusOr<std::string> Host::Call(TesseraService service, TesseraContext* context,
                                       absl::string_view request) const {
  if (service == nullptr) return absl::UnimplementedError("this host lacks the service");
  std::string result;
  const TesseraSink sink = SinkOf(&result);
  const int32_t code = service(&host_, context, request.data(), request.size(), &sink);
  if (code != TESSERA_OK) return absl::Status(ToStatusCode(code), result);
  return result;
}

template <typename Result>
absl::StatusOr<Result> Host::Call(TesseraService service, TesseraContext* context,
                                  absl::string_view request) const {
  ASSIGN_OR_RETURN(const std::string bytes, Call(service, context, request));
  Result result;
  if (result.ParseFromString(bytes)) return result;
  return absl::InternalError("the host's answer is not a message of this version");
}

absl::StatusOr<RunGraphs> Host::Graphs(const DescribeGraphs& request,
                                       TesseraContext* context) const {
  return Call<RunGraphs>(host_.graphs, context, request.SerializeAsString());
}

absl::StatusOr<ModelInfo> Host::Model(TesseraContext* context) const {
  ASSIGN_OR_RETURN(const RunGraphs graphs, Graphs(context));
  return DescribeModel(graphs);
}

absl::StatusOr<ModelInfo> Host::ModelWithSplits(TesseraContext* context) const {
  ASSIGN_OR_RETURN(const RunGraphs graphs, Graphs(context));
  ModelInfo model = DescribeModel(graphs);
  DescribeOperators request;
  request.set_graph(model.graph);
  ASSIGN_OR_RETURN(const OperatorDescriptions operators, Describe(request, context));
  for (const GraphProto& graph : graphs.graphs()) {
    if (graph.name() == model.graph) RETURN_IF_ERROR(SetSplitDimensions(graph, operators, model));
  }
  return model;
}

absl::StatusOr<TesseraContext*> Host::OpenContext(int64_t batch, int64_t sequence) const {
  strategy::OpenContext request;
  request.set_batch(batch);
  request.set_sequence(sequence);
  const std::string bytes = request.SerializeAsString();
  std::string message;
  const TesseraSink sink = SinkOf(&message);
  TesseraContext* context = nullptr;
  const int32_t code = host_.open_context(&host_, bytes.data(), bytes.size(), &context, &sink);
  if (code != TESSERA_OK) return absl::Status(ToStatusCode(code), message);
  return context;
}

absl::StatusOr<OperatorDescriptions> Host::Describe(const DescribeOperators& request,
                                                    TesseraContext* context) const {
  return Call<OperatorDescriptions>(host_.describe_operators, context, request.SerializeAsString());
}

absl::StatusOr<Prices> Host::Price(const PriceOperators& request, TesseraContext* context) const {
  return Call<Prices>(host_.price_operators, context, request.SerializeAsString());
}

absl::StatusOr<Prices> Host::Price(const PriceCollectives& request) const {
  return Call<Prices>(host_.price_collectives, nullptr, request.SerializeAsString());
}

absl::StatusOr<Prices> Host::Price(const PriceRedistributions& request) const {
  return Call<Prices>(host_.price_redistributions, nullptr, request.SerializeAsString());
}

absl::StatusOr<Plan> Host::ReadPlan(absl::string_view text) const {
  return Call<Plan>(host_.read_plan, nullptr, text);
}

absl::StatusOr<Plan> Host::Complete(const Plan& plan, TesseraContext* context) const {
  return Call<Plan>(host_.complete_plan, context, plan.SerializeAsString());
}

absl::StatusOr<LoweredPlans> Host::Lower(const LowerPlans& request, TesseraContext* context) const {
  return Call<LoweredPlans>(host_.lower_plans, context, request.SerializeAsString());
}

absl::StatusOr<StepCost> Host::Lower(const Plan& plan, TesseraContext* context) const {
  LowerPlans request;
  *request.add_plans() = plan;
  ASSIGN_OR_RETURN(const LoweredPlans lowered, Lower(request, context));
  if (lowered.plans_size() != 1) return absl::InternalError("the host lowered another number");
  if (!lowered.plans(0).error().empty()) {
    return absl::InvalidArgumentError(lowered.plans(0).error());
  }
  return lowered.plans(0).cost();
}

absl::StatusOr<ProgramProto> Host::Program(const MakeProgram& request,
                                           TesseraContext* context) const {
  return Call<ProgramProto>(host_.make_program, context, request.SerializeAsString());
}

absl::StatusOr<PassDescriptions> Host::Passes() const {
  return Call<PassDescriptions>(host_.passes, nullptr, "");
}

void Host::Report(const Progress& progress) const {
  Call(host_.report_progress, nullptr, progress.SerializeAsString()).IgnoreError();
}

void Host::Explain(const Explanation& explanation) const {
  if (!TESSERA_HAS(&host_, explain_plan)) return;
  Call(host_.explain_plan, nullptr, explanation.SerializeAsString()).IgnoreError();
}

const TesseraStrategy* Export(const Description& description, std::unique_ptr<Strategy> strategy,
                              Overrides overrides) {
  auto* const exported = new Exported{description, std::move(strategy), {}, {}, {}, {}};
  const Description& text = exported->description;
  for (const Option& option : text.options) {
    exported->options.push_back({sizeof(TesseraOption), option.name.c_str(), OrNull(option.type),
                                 OrNull(option.default_value), option.help.c_str()});
  }
  for (const TesseraOption& option : exported->options) {
    exported->option_pointers.push_back(&option);
  }
  for (const std::string& pass : text.passes) exported->passes.push_back(pass.c_str());
  exported->table = {sizeof(TesseraStrategy),
                     TESSERA_STRATEGY_MAJOR,
                     text.needs_minor,
                     exported,
                     text.name.c_str(),
                     text.version.c_str(),
                     text.summary.c_str(),
                     exported->option_pointers.data(),
                     exported->option_pointers.size(),
                     exported->passes.data(),
                     exported->passes.size(),
                     PlanFunction,
                     overrides.estimate ? EstimateFunction : nullptr,
                     exported->passes.empty() ? nullptr : PassFunction,
                     overrides.check ? CheckFunction : nullptr};
  return &exported->table;
}

}  // namespace tessera::strategy
