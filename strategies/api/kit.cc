#include "strategies/api/kit.h"

#include <cstdlib>
#include <exception>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "strategies/api/status_codes.h"

namespace tessera::strategy {
namespace {

TesseraSink SinkOf(std::string* text) {
  return {sizeof(TesseraSink), text, [](void* state, const char* data, size_t size) {
            static_cast<std::string*>(state)->assign(data, size);
          }};
}

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

int64_t Elements(const TypeProto& type) {
  int64_t elements = 1;
  for (const int64_t size : type.shape()) elements *= size;
  return elements;
}

int64_t BytesOf(TypeProto::DType dtype) {
  switch (dtype) {
    case TypeProto::F64:
    case TypeProto::I64:
      return 8;
    case TypeProto::BF16:
    case TypeProto::F16:
      return 2;
    case TypeProto::U8:
      return 1;
    default:
      return 4;
  }
}

// Returns the block of each value that operators of the forward pass read; -1 if several blocks
// read it.
absl::flat_hash_map<int, int> BlocksOfReaders(const GraphProto& graph) {
  absl::flat_hash_map<int, int> blocks;
  for (const GraphProto::Op& op : graph.ops()) {
    if (op.phase() != GraphProto::FORWARD) continue;
    for (const int32_t input : op.inputs()) {
      const auto [found, added] = blocks.emplace(input, op.block());
      if (!added && found->second != op.block()) found->second = -1;
    }
  }
  return blocks;
}

void AddParameters(const GraphProto& graph, ModelInfo& model) {
  const absl::flat_hash_map<int, int> blocks = BlocksOfReaders(graph);
  for (const GraphProto::State& state : graph.states()) {
    if (state.role() != GraphProto::PARAMETER) continue;
    const auto block = blocks.find(state.input());
    ParameterInfo parameter;
    parameter.path = state.path();
    parameter.elements = Elements(state.type());
    parameter.bytes = parameter.elements * BytesOf(state.type().dtype());
    parameter.trainable = state.trainable();
    parameter.type = state.type();
    parameter.block = block == blocks.end() ? -1 : block->second;
    model.parameters.push_back(std::move(parameter));
  }
}

}  // namespace

const std::string& Request::Text(const std::string& option) const {
  static const std::string* const kNone = new std::string;
  for (const OptionValue& each : message_.options()) {
    if (each.key() == option) return each.value();
  }
  return *kNone;
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
  absl::StatusOr<std::string> bytes = Call(service, context, request);
  if (!bytes.ok()) return bytes.status();
  Result result;
  if (result.ParseFromString(*bytes)) return result;
  return absl::InternalError("the host's answer is not a message of this version");
}

absl::StatusOr<RunGraphs> Host::Graphs(TesseraContext* context) const {
  return Call<RunGraphs>(host_.graphs, context, "");
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
  absl::StatusOr<LoweredPlans> lowered = Lower(request, context);
  if (!lowered.ok()) return lowered.status();
  if (lowered->plans_size() != 1) return absl::InternalError("the host lowered another number");
  if (!lowered->plans(0).error().empty()) {
    return absl::InvalidArgumentError(lowered->plans(0).error());
  }
  return lowered->plans(0).cost();
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

const TesseraStrategy* Export(const Description& description, std::unique_ptr<Strategy> strategy,
                              bool estimates) {
  auto* const exported = new Exported{description, std::move(strategy), {}, {}, {}, {}};
  const Description& text = exported->description;
  for (const Option& option : text.options) {
    exported->options.push_back({sizeof(TesseraOption), option.name.c_str(), option.type.c_str(),
                                 option.default_value.c_str(), option.help.c_str(),
                                 option.minimum.c_str(), option.maximum.c_str()});
  }
  for (const TesseraOption& option : exported->options) {
    exported->option_pointers.push_back(&option);
  }
  for (const std::string& pass : text.passes) exported->passes.push_back(pass.c_str());
  exported->table = {sizeof(TesseraStrategy),
                     TESSERA_STRATEGY_MAJOR,
                     TESSERA_STRATEGY_MINOR,
                     exported,
                     text.name.c_str(),
                     text.version.c_str(),
                     text.summary.c_str(),
                     exported->option_pointers.data(),
                     exported->option_pointers.size(),
                     exported->passes.data(),
                     exported->passes.size(),
                     PlanFunction,
                     estimates ? EstimateFunction : nullptr,
                     exported->passes.empty() ? nullptr : PassFunction};
  return &exported->table;
}

ModelInfo DescribeModel(const RunGraphs& graphs) {
  ModelInfo model;
  absl::flat_hash_set<std::string> inputs;
  for (const GraphProto& graph : graphs.graphs()) {
    // The first Graph with blocks has all parameters; other Graphs may lack some.
    if (graph.blocks_size() > 0 && model.blocks.empty()) {
      model.blocks.assign(graph.blocks().begin(), graph.blocks().end());
      model.parameters.clear();
    }
    if (model.parameters.empty()) AddParameters(graph, model);
    for (const GraphProto::Input& input : graph.inputs()) {
      const std::string& path = graph.values(input.value()).path();
      if (inputs.insert(path).second) model.inputs.push_back({path, input.batch_dim()});
    }
  }
  return model;
}

void SplitBatch(const ModelInfo& model, absl::Span<const std::string> axes, Stage& stage) {
  for (const InputInfo& input : model.inputs) {
    if (input.batch_dim < 0) continue;
    StoreChoice* const store = stage.add_store();
    store->set_path(input.path);
    store->set_layout(absl::StrJoin(axes, ", ", [&](std::string* out, const std::string& axis) {
      absl::StrAppend(out, axis, ": S(", input.batch_dim, ")");
    }));
  }
}

}  // namespace tessera::strategy
