#include "tools/train/report/cost_report.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/cost/step_cost.h"
#include "core/program/stream_names.h"
#include "core/text/counted.h"
#include "core/text/human_units.h"

namespace tessera {
namespace {

constexpr int kLabel = 32;

// Returns a row of a table, with right-aligned cells after the label.
std::string Row(absl::string_view label, const std::vector<std::string>& cells) {
  std::string row = absl::StrFormat("%-*s", kLabel, label);
  for (const std::string& cell : cells) absl::StrAppendFormat(&row, " %11s", cell);
  return row + "\n";
}

// Buffers of one kind.
struct Buffers {
  int64_t count = 0;
  int64_t largest = 0;
  int64_t total = 0;

  void Add(int64_t bytes) {
    ++count;
    largest = std::max(largest, bytes);
    total += bytes;
  }
  std::vector<std::string> Cells() const {
    return {absl::StrCat(count), FormatBytes(largest), FormatBytes(total)};
  }
};

// Parameters that are stored as one flat array.
struct Unit {
  std::vector<std::string> members;  // paths
  int64_t bytes = 0;                 // gathered
};

std::vector<Unit> UnitsOf(const Program& train) {
  std::vector<Unit> units;
  std::map<const FlatGroup*, size_t> index_of;
  for (const ProgramState& state : train.states) {
    if (state.role != Role::kParameter || state.input == kNone) continue;
    const ProgramValue& value = train.value(state.input);
    if (value.flat == kNone) continue;
    const FlatGroup& group = *train.flats[value.flat].group;
    const auto [found, is_new] = index_of.try_emplace(&group, units.size());
    if (is_new) units.push_back({{}, group.elements() * SizeOf(value.type.dtype)});
    units[found->second].members.push_back(state.origin);
  }
  return units;
}

bool IsNumber(absl::string_view part) { return absl::c_all_of(part, absl::ascii_isdigit); }

// The scope of a unit, with "*" for numbers: "blocks.*"; the outermost scopes of its members if no
// scope has all of them: "wte, wpe, ln_f".
std::string ScopeOf(const Unit& unit) {
  std::vector<std::string> common = absl::StrSplit(unit.members.front(), '.');
  std::vector<std::string> outermost;
  for (const std::string& member : unit.members) {
    const std::vector<std::string> parts = absl::StrSplit(member, '.');
    const size_t shorter = std::min(common.size(), parts.size());
    size_t same = 0;
    while (same < shorter && common[same] == parts[same]) ++same;
    common.resize(same);
    if (!absl::c_linear_search(outermost, parts.front())) outermost.push_back(parts.front());
  }
  constexpr size_t kShown = 3;
  if (common.empty()) {
    const bool all = outermost.size() <= kShown;
    outermost.resize(std::min(outermost.size(), kShown));
    return absl::StrCat(absl::StrJoin(outermost, ", "), all ? "" : ", ...");
  }
  for (std::string& part : common) {
    if (IsNumber(part)) part.assign(1, '*');
  }
  return absl::StrJoin(common, ".");
}

std::string GatherOf(const Unit& unit, const Plan& plan) {
  for (const GroupChoice& group : plan.stages(0).group()) {
    const std::vector<absl::string_view> paths = absl::StrSplit(group.path(), '|');
    if (!absl::c_linear_search(paths, unit.members.front())) continue;
    if (group.gather() == GroupChoice::ONCE) return "gathered once";
    return absl::StrCat("gathered in each phase", group.again_over().empty() ? "" : " over ",
                        group.again_over());
  }
  return "";
}

std::string UnitRows(const Plan& plan, const Program& train) {
  std::vector<std::pair<std::pair<std::string, std::string>, Buffers>> kinds;  // scope, gather
  for (const Unit& unit : UnitsOf(train)) {
    std::pair<std::string, std::string> kind = {ScopeOf(unit), GatherOf(unit, plan)};
    auto found = absl::c_find_if(kinds, [&](const auto& known) { return known.first == kind; });
    if (found == kinds.end()) found = kinds.insert(found, {std::move(kind), Buffers()});
    found->second.Add(unit.bytes);
  }
  std::string rows;
  for (const auto& [kind, buffers] : kinds) {
    const std::string row =
        Row(absl::StrCat(buffers.count == 1 ? "unit " : "units ", kind.first), buffers.Cells());
    rows += absl::StrCat(row.substr(0, row.size() - 1), "  ", kind.second, "\n");
  }
  return rows;
}

double SecondsOf(const StepCost& cost, absl::string_view category) {
  for (const StepCost::Time& time : cost.times()) {
    if (time.category() == category) return time.seconds();
  }
  return 0;
}

std::string BytesPerSecond(double rate) {
  return absl::StrCat(FormatBytes(static_cast<int64_t>(rate)), "/s");
}

// Returns where the prices of these seconds are from; "" if none was measured.
std::string SourcesText(double measured, double interpolated, double all) {
  if (measured + interpolated <= 0) return "";
  return absl::StrFormat(
      "%.0f%% measured here, %.0f%% interpolated from other sizes, %.0f%% by rates",
      100 * measured / all, 100 * interpolated / all,
      100 * std::max(0.0, 1 - (measured + interpolated) / all));
}

// NCCL's model has latencies of its own.
std::string LinkText(const Link& link, bool nccl) {
  return absl::StrCat(nccl ? "" : absl::StrFormat("%.3g us and ", 1e6 * link.latency_seconds()),
                      BytesPerSecond(link.bytes_per_second()));
}

}  // namespace

std::string PlanTable(const Plan& plan, const Program& train) {
  Buffers gathers, reductions, others, from_host, to_host;
  for (const Instruction& instruction : train.instructions) {
    const std::string& on = train.streams[instruction.stream];
    if (on == kFromHostStream || on == kToHostStream) {
      (on == kToHostStream ? to_host : from_host)
          .Add(NumBytes(train.value(instruction.inputs[0]).type));
    }
    if (!train.Communicates(instruction)) continue;
    const CollectiveRequest& request = train.collectives[instruction.collective];
    Buffers& kind = on == kParameterStream ? gathers : on == kGradientStream ? reductions : others;
    kind.Add(request.elements * SizeOf(request.dtype));
  }
  std::string table =
      Row(absl::StrCat("plan on {", train.mesh.ToString(), "}"), {"count", "largest", "total"});
  table += UnitRows(plan, train);
  if (gathers.count > 0) table += Row("gathers of parameters", gathers.Cells());
  if (reductions.count > 0) table += Row("reductions of gradients", reductions.Cells());
  if (others.count > 0) table += Row("other collectives", others.Cells());
  if (from_host.count > 0) table += Row("copies from the host", from_host.Cells());
  if (to_host.count > 0) table += Row("copies to the host", to_host.Cells());
  return table;
}

std::string EstimateTable(const StepCost& estimated, absl::string_view cluster) {
  std::string table = Row("estimated for a step", {"calls", "sent", "time", "exposed"});
  for (const StepCost::Collective& collective : estimated.collectives()) {
    table +=
        Row(NameOf(collective),
            {absl::StrCat(collective.calls()), FormatBytes(collective.bytes()),
             FormatSeconds(collective.seconds()), FormatSeconds(collective.exposed_seconds())});
  }
  return table + StepTimeLine(estimated, cluster);
}

std::string StepTimeLine(const StepCost& estimated, absl::string_view cluster) {
  std::string parts;
  if (estimated.collectives_size() > 0) {
    parts = absl::StrCat(": computation ", FormatSeconds(estimated.computation_seconds()),
                         ", exposed communication ", FormatSeconds(estimated.exposed_seconds()));
  }
  std::string lines =
      absl::StrCat("step ", FormatSeconds(estimated.step_seconds()), parts, " (for ",
                   cluster.empty() ? "a cluster without a name" : cluster, ")\n");
  double communication = 0;
  for (const StepCost::Collective& each : estimated.collectives()) communication += each.seconds();
  const std::string computation_prices =
      SourcesText(estimated.measured_seconds(), estimated.interpolated_seconds(),
                  estimated.computation_seconds());
  const std::string communication_prices =
      SourcesText(estimated.measured_communication_seconds(),
                  estimated.interpolated_communication_seconds(), communication);
  if (!computation_prices.empty()) {
    absl::StrAppend(&lines, "prices of the computation: ", computation_prices, "\n");
  }
  if (!communication_prices.empty()) {
    absl::StrAppend(&lines, "prices of the communication: ", communication_prices, "\n");
  }
  return lines;
}

std::string ClusterRatesLine(const Cluster& cluster, const GroupSite& site,
                             absl::string_view origin) {
  std::string text =
      absl::StrCat("rates: matmul ", FormatCount(cluster.f32_flops_per_second(), "FLOP/s"));
  const auto add_dtype = [&text](absl::string_view dtype, double rate) {
    if (rate > 0) absl::StrAppend(&text, " (", dtype, " ", FormatCount(rate, "FLOP/s"), ")");
  };
  add_dtype("bf16", cluster.bf16_flops_per_second());
  add_dtype("f16", cluster.f16_flops_per_second());
  if (!cluster.product_rates().empty()) {
    absl::StrAppendFormat(&text, " of which products reach %.0f%% to %.0f%%",
                          100 * cluster.product_rates().begin()->share_of_peak(),
                          100 * cluster.product_rates().rbegin()->share_of_peak());
  }
  absl::StrAppend(&text, ", memory ", BytesPerSecond(cluster.memory_bytes_per_second()));
  const std::set<int> hosts(site.host_of.begin(), site.host_of.end());
  const bool nccl = site.backend == CollectiveBackend::kNccl;
  if (nccl) absl::StrAppend(&text, "; NCCL's model");
  if (hosts.size() < site.host_of.size()) {
    absl::StrAppend(&text, "; within a host ", LinkText(cluster.within_host(), nccl));
  }
  if (hosts.size() > 1) {
    absl::StrAppend(&text, "; between hosts ", LinkText(cluster.between_hosts(), nccl));
  }
  return absl::StrCat(text, " (", origin, ")\n");
}

std::string CostTable(const StepCost& estimated, const StepCost& measured, int64_t steps) {
  std::string table = Row("a step", {"estimated", "measured"});
  const auto add = [&table](absl::string_view label, double estimate, double measurement) {
    table += Row(label, {FormatSeconds(estimate), FormatSeconds(measurement)});
  };
  for (const StepCost::Time& time : estimated.times()) {
    add(time.category(), time.seconds(), SecondsOf(measured, time.category()));
  }
  add("exposed communication", estimated.exposed_seconds(), measured.exposed_seconds());
  add("all", estimated.step_seconds(), measured.step_seconds());
  table += Row("collectives of a step",
               {"calls", "sent", "estimated", "exposed", "measured", "exposed", "hidden"});
  for (const StepCost::Collective& collective : estimated.collectives()) {
    const std::string name = NameOf(collective);
    const StepCost::Collective* const ran = FindCollective(measured, name);
    const double seconds = ran == nullptr ? 0 : ran->seconds();
    const double exposed = ran == nullptr ? 0 : ran->exposed_seconds();
    table += Row(
        name, {absl::StrCat(collective.calls()), FormatBytes(collective.bytes()),
               FormatSeconds(collective.seconds()), FormatSeconds(collective.exposed_seconds()),
               FormatSeconds(seconds), FormatSeconds(exposed), FormatSeconds(seconds - exposed)});
  }
  absl::StrAppend(&table, "measured in ", Counted(steps, "step"),
                  ", the mean of all ranks; a collective lasts until its result is needed\n");
  return table;
}

}  // namespace tessera
