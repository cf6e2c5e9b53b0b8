#include "tools/compare/strategy_entry.h"

#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "core/posix/program_files.h"
#include "core/status/status_macros.h"
#include "core/status/with_message.h"
#include "core/text/plain_name.h"
#include "strategies/host/find_plugin.h"

namespace tessera {
namespace {

constexpr char kPlanEnding[] = ".textproto";

absl::Status Malformed(absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("--strategies: '", text, "' ", why,
                                                 ": an entry is [LABEL=]NAME[:OPTION=VALUE...], "
                                                 "such as fsdp:reshard=no"));
}

absl::StatusOr<StrategyEntry> ParseEntry(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, ':');
  StrategyEntry entry;
  entry.name = parts[0];
  const size_t equals = parts[0].find('=');
  if (equals != std::string::npos) {
    entry.label = parts[0].substr(0, equals);
    entry.name = parts[0].substr(equals + 1);
    if (entry.label.empty()) return Malformed(text, "has an empty label");
  } else {
    absl::string_view label = text;
    const size_t slash = parts[0].rfind('/');
    if (slash != std::string::npos) label.remove_prefix(slash + 1);
    absl::ConsumeSuffix(&label, kPlanEnding);
    entry.label = std::string(label);
  }
  if (entry.name.empty()) return Malformed(text, "names no strategy");
  for (size_t i = 1; i < parts.size(); ++i) {
    const size_t at = parts[i].find('=');
    if (at == 0 || at == std::string::npos) {
      return Malformed(text, absl::StrCat("has the option '", parts[i], "'"));
    }
    entry.options.push_back(parts[i]);
  }
  return entry;
}

// Returns the file of a Plan of docs/plans, which comes with the program; "" if there is none.
std::string FindBundledPlan(const std::string& name) {
  if (!IsPlainName(name)) return "";  // a path
  return FindProgramFile(absl::StrCat("tessera/docs/plans/", name, kPlanEnding)).value_or("");
}

}  // namespace

absl::StatusOr<std::vector<StrategyEntry>> ParseStrategies(absl::Span<const std::string> texts) {
  std::vector<StrategyEntry> entries;
  std::set<std::string> labels;
  for (const std::string& text : texts) {
    ASSIGN_OR_RETURN(StrategyEntry entry, ParseEntry(text));
    if (!labels.insert(entry.label).second) {
      return Malformed(text, absl::StrCat("is the second entry with the label ", entry.label));
    }
    entries.push_back(std::move(entry));
  }
  if (!entries.empty()) return entries;
  return absl::InvalidArgumentError("--strategies is empty: name one or more, such as ddp,fsdp");
}

absl::Status SetStrategy(const StrategyEntry& entry, CommandLine* line) {
  const bool is_bundled = absl::c_linear_search(BundledStrategies(), entry.name);
  std::string plan = absl::EndsWith(entry.name, kPlanEnding) ? entry.name : "";
  if (plan.empty() && !is_bundled) plan = FindBundledPlan(entry.name);
  if (plan.empty()) {
    line->strategy = entry.name;
    line->strategy_options = entry.options;
    return absl::OkStatus();
  }
  line->plan = plan;
  if (entry.options.empty()) return absl::OkStatus();
  return Malformed(entry.label, "is a Plan, which has no options");
}

absl::Status NamedStatus(const std::string& label, const absl::Status& status) {
  return WithMessage(status, absl::StrCat(label, ": ", status.message()));
}

}  // namespace tessera
