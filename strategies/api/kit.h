// The C++ kit over the plugin interface (strategy.h): an author writes a class.
//
//   class Replicated : public tessera::strategy::Strategy {
//    public:
//     absl::StatusOr<Plan> MakePlan(const Request& request, Host& host) override {
//       ASSIGN_OR_RETURN(const ModelInfo model, host.Model());
//       PlanBuilder plan;
//       plan.Axis("data");
//       plan.SplitBatch(model);
//       return plan.Build();
//     }
//   };
//   TESSERA_STRATEGY(Replicated, {.name = "replicated", .version = "1.0"});
//
// A plugin that uses the kit links the messages without descriptors (//strategies/api:messages), so
// that they do not collide with those of the host.
#ifndef TESSERA_STRATEGIES_API_KIT_H_
#define TESSERA_STRATEGIES_API_KIT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/status/status_macros.h"
#include "strategies/api/flat_groups.h"
#include "strategies/api/messages/strategy.pb.h"
#include "strategies/api/model_info.h"
#include "strategies/api/plan_builder.h"
#include "strategies/api/strategy.h"

namespace tessera::strategy {

// A run's request to a strategy. The host has checked the values of options by their types and
// ranges.
class Request {
 public:
  explicit Request(PlanRequest message) : message_(std::move(message)) {}

  int ranks() const { return message_.ranks(); }
  int64_t memory_limit_bytes() const { return message_.memory_limit_bytes(); }  // 0: no limit
  int64_t micro_batches() const { return message_.micro_batches(); }
  // Rows of the global batch; if it is open, the default.
  int64_t batch() const { return message_.batch(); }
  // Returns whether the user leaves a setting open, so that the Plan may decide it. Since 2.1.
  bool MayDecide(PlanRequest::Setting setting) const;
  // Returns the numbers of micro-batches that a Plan for so many rows may have, in ascending order;
  // only that of the run, if it is not open.
  std::vector<int64_t> MicroBatchCounts(int64_t batch) const;
  const Cluster& cluster() const { return message_.cluster(); }
  // Returns how many consecutive ranks may keep together what is gathered over all: those of a
  // host; or 2, if hosts have one rank or do not divide the ranks; 0 if there are no such parts of
  // them.
  int64_t NodeRanks() const;
  const PlanRequest& message() const { return message_; }

  // The value of an option that the strategy declares.
  const std::string& Text(const std::string& option) const;
  bool Bool(const std::string& option) const { return Text(option) == "true"; }
  int64_t Int(const std::string& option) const;  // also of bytes
  double Number(const std::string& option) const;
  double Mebibytes(const std::string& option) const { return Number(option) / (1 << 20); }
  // Returns the dtype that an option with the values "f32", "bf16" and "f16" names.
  TypeProto::DType DType(const std::string& option) const;

 private:
  PlanRequest message_;
};

// The services of the host, for the length of one call. Thread-safe.
class Host {
 public:
  explicit Host(const TesseraHost* host) : host_(*host) {}

  // Returns the Graphs of the run, as the model recorded them or as a Plan rewrites them.
  absl::StatusOr<RunGraphs> Graphs(TesseraContext* context = nullptr) const {
    return Graphs(DescribeGraphs(), context);
  }
  absl::StatusOr<RunGraphs> Graphs(const DescribeGraphs& request,
                                   TesseraContext* context = nullptr) const;
  // Opens a context with the Graphs at another batch size; 0: the run's.
  absl::StatusOr<TesseraContext*> OpenContext(int64_t batch, int64_t sequence) const;
  void CloseContext(TesseraContext* context) const { host_.close_context(&host_, context); }

  // Returns the parameters, inputs and blocks of these Graphs.
  absl::StatusOr<ModelInfo> Model(TesseraContext* context = nullptr) const;
  // Returns the same, with the dimensions along which parameters may be split, for which the host
  // describes all operators.
  absl::StatusOr<ModelInfo> ModelWithSplits(TesseraContext* context = nullptr) const;

  absl::StatusOr<OperatorDescriptions> Describe(const DescribeOperators& request,
                                                TesseraContext* context = nullptr) const;
  absl::StatusOr<Prices> Price(const PriceOperators& request,
                               TesseraContext* context = nullptr) const;
  absl::StatusOr<Prices> Price(const PriceCollectives& request) const;
  absl::StatusOr<Prices> Price(const PriceRedistributions& request) const;

  // Reads a Plan from its text form.
  absl::StatusOr<Plan> ReadPlan(absl::string_view text) const;
  absl::StatusOr<Plan> Complete(const Plan& plan, TesseraContext* context = nullptr) const;
  // Returns the exact memory, bytes and collectives of candidate Plans, and their estimated times.
  absl::StatusOr<LoweredPlans> Lower(const LowerPlans& request,
                                     TesseraContext* context = nullptr) const;
  absl::StatusOr<StepCost> Lower(const Plan& plan, TesseraContext* context = nullptr) const;
  absl::StatusOr<ProgramProto> Program(const MakeProgram& request,
                                       TesseraContext* context = nullptr) const;
  absl::StatusOr<PassDescriptions> Passes() const;

  // Reports progress. If the strategy takes too long, the host uses the best Plan reported so far.
  void Report(const Progress& progress) const;
  bool cancelled() const { return host_.cancelled(&host_) != 0; }
  // Says why the Plan that this call returns is as it is; the last explanation counts. A host
  // before 2.1 ignores it.
  void Explain(const Explanation& explanation) const;
  void Log(absl::string_view line) const { host_.log(&host_, line.data(), line.size()); }

 private:
  absl::StatusOr<std::string> Call(TesseraService service, TesseraContext* context,
                                   absl::string_view request) const;
  template <typename Result>
  absl::StatusOr<Result> Call(TesseraService service, TesseraContext* context,
                              absl::string_view request) const;

  const TesseraHost& host_;
};

// Each call runs in a process of its own (strategy.h): members that a call changes are as before in
// the next one.
class Strategy {
 public:
  virtual ~Strategy() = default;

  // Returns a Plan; the host completes its open decisions. An error names the part of the request
  // that does not fit.
  virtual absl::StatusOr<Plan> MakePlan(const Request& request, Host& host) = 0;

  // Returns the cost of a training step under a completed Plan. By default this is the host's
  // estimate.
  virtual absl::StatusOr<StepCost> Estimate(const Request& request, const Plan& plan, Host& host) {
    return host.Lower(plan);
  }

  // Returns "" if a Plan that was saved is still the one that the strategy would make for the
  // request, and otherwise one line that says what has changed. The Plan is completed; the host has
  // found that it fits the Graphs, the ranks and the memory limit.
  virtual absl::StatusOr<std::string> Check(const Request& request, const Plan& plan, Host& host) {
    return "";
  }

  // Runs one of the strategy's own passes over the Program of a Graph.
  virtual absl::StatusOr<ProgramProto> RunPass(const PassRequest& request, Host& host) {
    return absl::UnimplementedError("the strategy has no passes");
  }
};

struct Option {
  // See TesseraOption; "" is the default.
  std::string name, type = "", default_value = "", help = "";
};

struct Description {
  std::string name, version, summary = "";
  std::vector<Option> options = {};
  std::vector<std::string> passes = {};
  // The least minor version of the interface that the strategy needs: the newest `since` of the
  // services that it uses.
  int needs_minor = 0;
};

// The functions that a strategy may leave to the host.
struct Overrides {
  bool estimate = false;
  bool check = false;
};

// Returns those that a class overrides.
template <typename Class>
constexpr Overrides OverridesOf() {
  return {.estimate = !std::is_same_v<decltype(&Class::Estimate), decltype(&Strategy::Estimate)>,
          .check = !std::is_same_v<decltype(&Class::Check), decltype(&Strategy::Check)>};
}

// Returns the table that `tessera_strategy` returns for a class of strategies. Never destroyed.
const TesseraStrategy* Export(const Description& description, std::unique_ptr<Strategy> strategy,
                              Overrides overrides);

#define TESSERA_STRATEGY(Class, ...)                                             \
  extern "C" const TesseraStrategy* tessera_strategy(void) {                     \
    static const TesseraStrategy* const strategy = ::tessera::strategy::Export(  \
        ::tessera::strategy::Description __VA_ARGS__, std::make_unique<Class>(), \
        ::tessera::strategy::OverridesOf<Class>());                              \
    return strategy;                                                             \
  }                                                                              \
  static_assert(true)

}  // namespace tessera::strategy

#endif  // TESSERA_STRATEGIES_API_KIT_H_
