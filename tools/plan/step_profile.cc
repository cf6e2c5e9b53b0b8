#include "tools/plan/step_profile.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "core/cost/step_time.h"
#include "core/train/programs.h"
#include "tools/plan/layer_names.h"

namespace tessera {
namespace {

// Times are computed by additions in another order than begins and ends of each other.
constexpr double kSameTime = 1e-12;

// Returns the Graph of the step, without its operators.
const Graph& GraphOfStep(const Cell& cell) {
  const auto& graphs = cell.prepared.compiled.graphs;
  return *absl::c_find_if(graphs, [](const Graph& graph) { return graph.name() == kTrain; });
}

// Values in the order of their keys' first use.
template <typename Value>
class Sums {
 public:
  Value& operator[](const std::string& key) {
    const auto [found, is_new] = index_of_.try_emplace(key, values_.size());
    if (is_new) values_.emplace_back();
    return values_[found->second];
  }
  std::vector<Value> SortedBy(double (*seconds)(const Value&)) && {
    std::stable_sort(values_.begin(), values_.end(),
                     [seconds](const Value& a, const Value& b) { return seconds(a) > seconds(b); });
    return std::move(values_);
  }

 private:
  absl::flat_hash_map<std::string, size_t> index_of_;
  std::vector<Value> values_;
};

class Profiler {
 public:
  explicit Profiler(const Cell& cell)
      : program_(cell.step()),
        predicted_(cell.Predict()),
        overlap_(OverlapOf(program_, predicted_.times)),
        names_(GraphOfStep(cell)) {}

  StepProfile Run() && {
    FindNeighbours();
    StepProfile profile;
    for (const InstructionId i : program_.instructions.ids()) {
      AddToLayer(i);
      program_.Communicates(program_.instructions[i]) ? AddCollective(i) : AddComputation(i);
      if (!program_.Communicates(program_.instructions[i])) {
        profile.computation_seconds += SecondsOf(i);
      }
      profile.exposed_seconds += overlap_.exposed_seconds[i];
    }
    profile.step_seconds = StepSeconds(predicted_.times);
    profile.computing_seconds = overlap_.computation_seconds;
    const auto by_seconds = [](const WorkTime& work) { return work.seconds; };
    profile.layers =
        std::move(layers_).SortedBy([](const LayerTime& each) { return each.seconds(); });
    profile.kinds = std::move(kinds_).SortedBy(by_seconds);
    profile.requests = std::move(requests_).SortedBy(by_seconds);
    profile.collectives = std::move(collectives_).SortedBy(by_seconds);
    profile.waits =
        std::move(waits_).SortedBy([](const CollectiveWait& wait) { return wait.exposed; });
    return profile;
  }

 private:
  double SecondsOf(InstructionId i) const { return predicted_.times[i].seconds(); }
  const TimeSpan& SpanOf(InstructionId i) const { return predicted_.times[i]; }

  // Finds what each collective waits for, and what it delays.
  void FindNeighbours() {
    cause_.assign(program_.instructions.size(), InstructionId());
    delayed_ = cause_;
    Table<StreamId, InstructionId> last_of_stream(program_.streams.size(), InstructionId());
    Table<CollectiveId, InstructionId> last_of_request(program_.collectives.size(),
                                                       InstructionId());
    for (const InstructionId i : program_.instructions.ids()) {
      const Instruction& instruction = program_.instructions[i];
      InstructionId last = last_of_stream[instruction.stream];
      if (predicted_.priced.order == IssueOrder::kThread && i != InstructionId(0)) {
        last = Later(last, i - 1, SpanOf(i).begin);
      }
      for (const InstructionId wait : instruction.waits) {
        last = Later(last, wait, SpanOf(i).begin);
        const bool delays =
            program_.Communicates(program_.instructions[wait]) &&
            (delayed_[wait] == kNone || SpanOf(i).begin < SpanOf(delayed_[wait]).begin);
        if (delays) delayed_[wait] = i;
      }
      cause_[i] = last;
      last_of_stream[instruction.stream] = i;
    }
  }

  // Returns which of two instructions ends later, of those that have ended at a time.
  InstructionId Later(InstructionId a, InstructionId b, double at) const {
    if (b == kNone || SpanOf(b).end > at + kSameTime) return a;
    return a == kNone || SpanOf(a).end > at + kSameTime || SpanOf(b).end > SpanOf(a).end ? b : a;
  }

  void AddToLayer(InstructionId i) {
    const Instruction& instruction = program_.instructions[i];
    LayerTime& layer = layers_[names_.LayerOf(instruction.path)];
    if (layer.layer.empty()) {
      layer.layer = names_.LayerOf(instruction.path);
      layer.count = names_.CountOf(layer.layer);
    }
    if (program_.Communicates(instruction)) {
      layer.exposed += overlap_.exposed_seconds[i];
      return;
    }
    double& part = instruction.recomputed                  ? layer.recomputation
                   : instruction.phase == Phase::kForward  ? layer.forward
                   : instruction.phase == Phase::kBackward ? layer.backward
                                                           : layer.update;
    part += SecondsOf(i);
  }

  void Add(InstructionId i, std::string name, WorkTime* work) const {
    const Instruction& instruction = program_.instructions[i];
    if (work->calls == 0) work->name = std::move(name);
    ++work->calls;
    work->seconds += SecondsOf(i);
    work->exposed += overlap_.exposed_seconds[i];
    work->flops += instruction.cost.flops;
    work->bytes += instruction.cost.bytes;
    work->source = predicted_.priced.sources[i];
  }

  void AddComputation(InstructionId i) {
    const Instruction& instruction = program_.instructions[i];
    const std::string operation = program_.OperationOf(instruction);
    Add(i, operation, &kinds_[operation]);
    const std::string pattern = names_.PatternOf(instruction.path);
    const std::string key =
        absl::StrCat(pattern, " ", instruction.kernel == kNone ? -1 : instruction.kernel.index());
    Add(i, pattern, &requests_[key]);
  }

  void AddCollective(InstructionId i) {
    const Instruction& instruction = program_.instructions[i];
    const std::string operation = program_.collectives[instruction.collective].ToString();
    const std::string kind = program_.OperationOf(instruction);
    Add(i, kind, &kinds_[kind]);
    Add(i, operation, &collectives_[operation]);
    const std::string pattern = names_.PatternOf(instruction.path);
    CollectiveWait& wait = waits_[absl::StrCat(pattern, " ", operation)];
    if (wait.calls == 0) {
      wait.path = pattern;
      wait.operation = operation;
    }
    ++wait.calls;
    wait.seconds += SecondsOf(i);
    const double exposed = overlap_.exposed_seconds[i];
    wait.exposed += exposed;
    if (exposed <= longest_[pattern]) return;
    longest_[pattern] = exposed;
    wait.waits_for = PatternOf(cause_[i]);
    wait.delays = PatternOf(delayed_[i]);
  }

  std::string PatternOf(InstructionId i) const {
    return i == kNone ? "" : names_.PatternOf(program_.instructions[i].path);
  }

  const Program& program_;
  const PredictedStep predicted_;
  const Overlap overlap_;
  const LayerNames names_;
  Table<InstructionId, InstructionId> cause_, delayed_;  // kNone: nothing
  absl::flat_hash_map<std::string, double> longest_;     // exposed time, by pattern
  Sums<LayerTime> layers_;
  Sums<WorkTime> kinds_, requests_, collectives_;
  Sums<CollectiveWait> waits_;
};

}  // namespace

StepProfile ProfileOf(const Cell& cell) { return Profiler(cell).Run(); }

}  // namespace tessera
