#include "tools/figures/strategy_table.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tessera {
namespace {

// With these, two strategies with two cells each fit side by side.
constexpr size_t kMostLabelWidth = 34;
constexpr size_t kMostHeadWidth = 20;  // up to which a label or a remark widens its column
constexpr size_t kBetweenStrategies = 3;
constexpr size_t kBetweenCells = 2;
constexpr size_t kIndent = 4;  // of the other lines of a row's label

bool BeginsCharacter(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; }

size_t Columns(absl::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), BeginsCharacter));
}

// Returns the number of bytes of the first `columns` characters, or of all.
size_t BytesOf(absl::string_view text, size_t columns) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (BeginsCharacter(text[i]) && columns-- == 0) return i;
  }
  return text.size();
}

std::string PadLeft(absl::string_view text, size_t width) {
  return absl::StrCat(std::string(width - std::min(width, Columns(text)), ' '), text);
}

std::string PadRight(absl::string_view text, size_t width) {
  return absl::StrCat(text, std::string(width - std::min(width, Columns(text)), ' '));
}

size_t WidthOf(const std::vector<size_t>& cells) {
  return std::accumulate(cells.begin(), cells.end(), kBetweenCells * (cells.size() - 1));
}

// Returns the lines of a row's label. The spaces that it begins with indent all of them.
std::vector<std::string> LabelLines(const std::string& label) {
  const size_t indent = std::min(label.find_first_not_of(' '), label.size());
  const absl::string_view text = absl::string_view(label).substr(indent);
  std::vector<std::string> lines = Wrap(text, kMostLabelWidth - indent - kIndent);
  if (Columns(label) <= kMostLabelWidth) lines = {std::string(text)};
  for (size_t i = 0; i < lines.size(); ++i) {
    lines[i].insert(0, std::string(indent + (i == 0 ? 0 : kIndent), ' '));
  }
  return lines;
}

// Returns the lines of a remark, which rather breaks after a colon.
std::vector<std::string> RemarkLines(absl::string_view remark, size_t width) {
  const size_t colon = remark.find(": ");
  if (Columns(remark) <= width || colon == absl::string_view::npos) return Wrap(remark, width);
  std::vector<std::string> lines = Wrap(remark.substr(0, colon + 1), width);
  for (std::string& line : Wrap(remark.substr(colon + 2), width)) lines.push_back(std::move(line));
  return lines;
}

}  // namespace

std::vector<std::string> Wrap(absl::string_view text, size_t width, char separator) {
  std::vector<std::string> lines;
  while (Columns(text) > width) {
    // A space at the end of the line is not part of it.
    const size_t most = BytesOf(text, width);
    const size_t found = text.substr(0, most + 1).rfind(separator);
    const size_t end = found == absl::string_view::npos || found == 0 ? most : found;
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
    if (separator == ' ') text = absl::StripLeadingAsciiWhitespace(text);
  }
  if (!text.empty() || lines.empty()) lines.emplace_back(text);
  return lines;
}

void StrategyTable::AddRow(std::string label, std::vector<std::vector<std::string>> cells) {
  const bool has_value = absl::c_any_of(cells, [](const std::vector<std::string>& of_strategy) {
    return absl::c_any_of(of_strategy, [](const std::string& cell) { return cell != kNoValue; });
  });
  if (has_value) rows_.push_back({std::move(label), std::move(cells)});
}

size_t StrategyTable::LabelWidth() const {
  size_t width = 0;
  for (const Row& row : rows_) {
    for (const std::string& line : LabelLines(row.label)) width = std::max(width, Columns(line));
  }
  return width;
}

std::vector<size_t> StrategyTable::CellWidths(size_t strategy) const {
  std::vector<size_t> widths;
  for (size_t t = 0; t < titles_.size(); ++t) {
    size_t width = Columns(titles_[t]);
    for (const Row& row : rows_) width = std::max(width, Columns(row.cells[strategy][t]));
    widths.push_back(width);
  }
  const Column& column = columns_[strategy];
  size_t head = Columns(column.label);
  for (const std::string& remark : column.remarks) head = std::max(head, Columns(remark));
  head = std::min(head, kMostHeadWidth);
  if (head > WidthOf(widths)) widths.back() += head - WidthOf(widths);
  return widths;
}

std::vector<StrategyTable::Block> StrategyTable::Blocks() const {
  std::vector<Block> blocks;
  size_t used = 0;
  for (size_t s = 0; s < columns_.size(); ++s) {
    std::vector<size_t> widths = CellWidths(s);
    const size_t width = kBetweenStrategies + WidthOf(widths);
    if (blocks.empty() || used + width > kTableWidth) {
      blocks.push_back({s, {}});
      used = LabelWidth();
    }
    used += width;
    blocks.back().widths.push_back(std::move(widths));
  }
  return blocks;
}

bool StrategyTable::HasValue(const Row& row, const Block& block) const {
  for (size_t s = 0; s < block.widths.size(); ++s) {
    for (const std::string& cell : row.cells[block.begin + s]) {
      if (cell != kNoValue) return true;
    }
  }
  return false;
}

// Returns the lines of the labels, which end together, of the remarks, which begin together, and of
// the titles.
std::vector<std::string> StrategyTable::Head(const Block& block) const {
  std::vector<std::vector<std::string>> labels, remarks;
  size_t label_lines = 0, remark_lines = 0;
  for (size_t s = 0; s < block.widths.size(); ++s) {
    const size_t width = WidthOf(block.widths[s]);
    const Column& column = columns_[block.begin + s];
    labels.push_back(Wrap(column.label, width, ':'));
    remarks.emplace_back();
    for (const std::string& remark : column.remarks) {
      for (std::string& line : RemarkLines(remark, width)) {
        remarks.back().push_back(std::move(line));
      }
    }
    label_lines = std::max(label_lines, labels.back().size());
    remark_lines = std::max(remark_lines, remarks.back().size());
  }
  std::vector<std::string> lines(label_lines + remark_lines + 1, std::string(LabelWidth(), ' '));
  for (size_t s = 0; s < block.widths.size(); ++s) {
    std::vector<std::string> texts(label_lines - labels[s].size());
    texts.insert(texts.end(), labels[s].begin(), labels[s].end());
    texts.insert(texts.end(), remarks[s].begin(), remarks[s].end());
    texts.resize(label_lines + remark_lines);
    texts.emplace_back();
    for (size_t t = 0; t < titles_.size(); ++t) {
      absl::StrAppend(&texts.back(), std::string(t == 0 ? 0 : kBetweenCells, ' '),
                      PadLeft(titles_[t], block.widths[s][t]));
    }
    for (size_t i = 0; i < lines.size(); ++i) {
      absl::StrAppend(&lines[i], std::string(kBetweenStrategies, ' '),
                      PadLeft(texts[i], WidthOf(block.widths[s])));
    }
  }
  if (absl::StripAsciiWhitespace(lines.back()).empty()) lines.pop_back();
  return lines;
}

std::string StrategyTable::BlockText(const Block& block) const {
  std::vector<std::string> lines = Head(block);
  for (const Row& row : rows_) {
    if (!HasValue(row, block)) continue;
    for (const std::string& line : LabelLines(row.label)) {
      lines.push_back(PadRight(line, LabelWidth()));
    }
    for (size_t s = 0; s < block.widths.size(); ++s) {
      absl::StrAppend(&lines.back(), std::string(kBetweenStrategies, ' '));
      for (size_t t = 0; t < titles_.size(); ++t) {
        absl::StrAppend(&lines.back(), std::string(t == 0 ? 0 : kBetweenCells, ' '),
                        PadLeft(row.cells[block.begin + s][t], block.widths[s][t]));
      }
    }
  }
  std::string text;
  for (const std::string& line : lines) {
    absl::StrAppend(&text, absl::StripTrailingAsciiWhitespace(line), "\n");
  }
  return text;
}

std::string StrategyTable::ToString() const {
  return absl::StrJoin(Blocks(), "\n", [this](std::string* text, const Block& block) {
    absl::StrAppend(text, BlockText(block));
  });
}

}  // namespace tessera
