// A table that compares strategies in 80 columns.
//
// Thread safety: immutable after the last AddRow.
#ifndef TESSERA_TOOLS_FIGURES_STRATEGY_TABLE_H_
#define TESSERA_TOOLS_FIGURES_STRATEGY_TABLE_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace tessera {

// The columns of a terminal that all tables fit into.
inline constexpr size_t kTableWidth = 80;

// A cell without a value.
inline constexpr char kNoValue[] = "-";

// Returns the text in lines of at most `width` columns, each broken at a space or, with `separator`
// ':', before a colon; a longer word is broken anywhere. `width` is at least 1. Columns are
// characters of UTF-8.
std::vector<std::string> Wrap(absl::string_view text, size_t width, char separator = ' ');

// A row for each figure, and a column for each strategy. If the strategies do not fit side by side,
// they stand in blocks one below the other, each with the labels of its rows. No line has more than
// 80 columns: long labels and remarks continue on another line. A row without any value is left out
// of its block.
class StrategyTable {
 public:
  struct Column {
    std::string label;                 // of the strategy
    std::vector<std::string> remarks;  // below the label, each on lines of its own
  };

  // Each strategy has one cell for each title; all titles may be "".
  StrategyTable(std::vector<Column> columns, std::vector<std::string> titles)
      : columns_(std::move(columns)), titles_(std::move(titles)) {}

  // cells[s][t] is that of strategy s below title t: at most 16 characters.
  void AddRow(std::string label, std::vector<std::vector<std::string>> cells);

  // Returns the blocks, with an empty line between two.
  std::string ToString() const;

 private:
  struct Row {
    std::string label;
    std::vector<std::vector<std::string>> cells;
  };
  // The columns of strategies from `begin` on, and their widths by title.
  struct Block {
    size_t begin = 0;
    std::vector<std::vector<size_t>> widths;
  };

  size_t LabelWidth() const;
  // Returns the width of each cell of a strategy.
  std::vector<size_t> CellWidths(size_t strategy) const;
  std::vector<Block> Blocks() const;
  bool HasValue(const Row& row, const Block& block) const;
  std::vector<std::string> Head(const Block& block) const;
  std::string BlockText(const Block& block) const;

  const std::vector<Column> columns_;
  const std::vector<std::string> titles_;
  std::vector<Row> rows_;
};

}  // namespace tessera

#endif  // TESSERA_TOOLS_FIGURES_STRATEGY_TABLE_H_
