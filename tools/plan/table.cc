#include "tools/plan/table.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/text/human_units.h"
#include "tools/figures/recommendation.h"
#include "tools/figures/strategy_table.h"

namespace tessera {
namespace {

constexpr char kNothing[] = "-";

// Returns seconds with a unit; "0 s" for none.
std::string Seconds(double seconds) { return seconds > 0 ? FormatSeconds(seconds) : "0 s"; }

// Three digits or more: "0.42", "12.3", "1285".
std::string Days(double days) {
  return absl::StrFormat("%.*f", days < 9.995 ? 2 : days < 99.95 ? 1 : 0, days);
}

std::string Spare(const Figures& figures) {
  if (figures.limit_bytes <= 0) return kNothing;
  const int64_t spare = figures.limit_bytes - figures.peak_bytes;
  return spare < 0 ? absl::StrCat("-", FormatBytes(-spare)) : FormatBytes(spare);
}

using Row = std::vector<std::string>;

Row TitlesOf(const SampleUnit& unit, double tokens) {
  Row titles = {"ranks", "step", unit.Rate(), "MFU"};
  if (tokens > 0) titles.emplace_back("days");
  for (const char* title : {"peak", "spare", "sent", "exposed"}) titles.emplace_back(title);
  return titles;
}

Row RowOf(const Figures& figures, double tokens) {
  Row row = {absl::StrCat(figures.ranks), Seconds(figures.cost.step_seconds()),
             FormatCount(figures.units_per_second), absl::StrFormat("%.1f%%", 100 * figures.mfu)};
  if (tokens > 0) row.push_back(Days(figures.DaysFor(tokens)));
  row.insert(row.end(), {FormatBytes(figures.peak_bytes), Spare(figures),
                         figures.sent_bytes > 0 ? FormatBytes(figures.sent_bytes) : kNothing,
                         Seconds(figures.cost.exposed_seconds())});
  return row;
}

// Returns settings by which steps of one command may differ, as flags: "with ..."; "" for those of
// most steps.
std::string Settings(int64_t micro_batches, const std::string& recompute) {
  constexpr int64_t kFewScopes = 3;  // that are named
  std::vector<std::string> settings;
  if (micro_batches > 1) settings.push_back(absl::StrCat("--micro_batches=", micro_batches));
  const int64_t scopes = absl::c_count(recompute, '|') + 1;
  if (scopes > kFewScopes) {
    settings.push_back(absl::StrCat("--recompute of ", scopes, " scopes"));
  } else if (recompute != "none") {
    settings.push_back(absl::StrCat("--recompute=", recompute));
  }
  return settings.empty() ? "" : absl::StrCat("with ", absl::StrJoin(settings, " "));
}

// Returns the lines below a row. `batch` is that of most steps, `limit_bytes` that of the title.
std::vector<std::string> Remarks(const Figures& figures, int64_t batch, int64_t limit_bytes) {
  std::vector<std::string> remarks;
  if (figures.limit_is_set && figures.limit_bytes != limit_bytes) {
    remarks.push_back(absl::StrCat("may use ", FormatBytes(figures.limit_bytes)));
  }
  if (figures.batch != batch) {
    remarks.push_back(absl::StrCat("with --batch=", figures.batch, ": another training"));
  }
  if (std::string settings = Settings(figures.micro_batches, figures.recompute);
      !settings.empty()) {
    remarks.push_back(std::move(settings));
  }
  if (figures.least.has_value() && figures.least->bytes < figures.peak_bytes) {
    const auto& [bytes, micro_batches, recompute] = *figures.least;
    remarks.push_back(
        absl::StrCat("needs ", FormatBytes(bytes), " ", Settings(micro_batches, recompute)));
  }
  return remarks;
}

// Returns the first step that was planned; null if none was.
const Figures* FirstPlanned(absl::Span<const Figures> all) {
  const auto found = absl::c_find_if(all, [](const Figures& each) { return each.planned(); });
  return found == all.end() ? nullptr : &*found;
}

// Returns the width of each column of rows of the same number of cells.
std::vector<size_t> WidthsOf(const std::vector<Row>& rows) {
  std::vector<size_t> widths(rows.front().size());
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  return widths;
}

std::string Line(const Row& row, const std::vector<size_t>& widths) {
  std::string line;
  for (size_t i = 0; i < row.size(); ++i) {
    absl::StrAppendFormat(&line, "%*s", static_cast<int>(widths[i]) + (i > 0 ? 2 : 0), row[i]);
  }
  return absl::StrCat(line, "\n");
}

}  // namespace

std::string PlanTitle(const std::string& step, const std::string& cluster,
                      absl::Span<const Figures> all) {
  const Figures* const first = FirstPlanned(all);
  if (first == nullptr) return "";
  std::vector<std::string> lines = {step, absl::StrCat("for ", cluster)};
  if (first->limit_bytes > 0) {
    std::string memory = absl::StrCat("a rank may use ", FormatBytes(first->limit_bytes));
    const std::string together = absl::StrCat(lines.back(), "; ", memory);
    if (together.size() <= kTableWidth) {
      lines.back() = together;
    } else {
      lines.back() += ";";
      lines.push_back(std::move(memory));
    }
  }
  std::string title;
  for (const std::string& line : lines) {
    absl::StrAppend(&title, absl::StrJoin(Wrap(line, kTableWidth), "\n"), "\n");
  }
  return title;
}

std::string FiguresTable(absl::Span<const Figures> all, double tokens) {
  const Figures* const first = FirstPlanned(all);
  if (first == nullptr) return "";
  std::vector<Row> rows = {TitlesOf(first->unit, tokens)};
  std::vector<int64_t> batches;
  for (const Figures& each : all) {
    if (!each.planned()) continue;
    rows.push_back(RowOf(each, tokens));
    batches.push_back(each.batch);
  }
  const int64_t batch = MostFrequentBatch(batches);
  const std::vector<size_t> widths = WidthsOf(rows);
  std::string table;
  const Figures* before = nullptr;
  size_t row = 1;
  for (const Figures& each : all) {
    if (before == nullptr || before->label != each.label) {
      absl::StrAppend(&table, before == nullptr ? "" : "\n", each.label, "\n",
                      Line(rows.front(), widths));
    }
    before = &each;
    if (!each.planned()) {
      absl::StrAppendFormat(&table, "%*d  %s\n", static_cast<int>(widths[0]), each.ranks,
                            "could not be planned");
      continue;
    }
    absl::StrAppend(&table, Line(rows[row++], widths));
    for (const std::string& remark : Remarks(each, batch, first->limit_bytes)) {
      absl::StrAppendFormat(&table, "%*s  %s\n", static_cast<int>(widths[0]), "", remark);
    }
  }
  return table;
}

}  // namespace tessera
