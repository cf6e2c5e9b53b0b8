#include "core/plan/rewrite/recomputed_ops.h"

#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "core/plan/graph/parameter_cast.h"
#include "core/status/status_macros.h"
#include "core/text/nearest_name.h"
#include "core/text/path_pattern.h"
#include "core/text/quote.h"

namespace tessera {
namespace {

// Calls `visit` with each scope around a path, from the outermost one, and with the path itself.
template <typename Visit>
void VisitScopes(absl::string_view path, const Visit& visit) {
  for (size_t dot = path.find('.'); dot != absl::string_view::npos; dot = path.find('.', dot + 1)) {
    visit(path.substr(0, dot));
  }
  visit(path);
}

// The patterns of a Plan. Paths without "*" are looked up, so that a Plan may list every block of a
// large model.
class ScopePatterns {
 public:
  static absl::StatusOr<ScopePatterns> Parse(absl::Span<const std::string> texts) {
    ScopePatterns result;
    for (const std::string& text : texts) {
      absl::StatusOr<PathPattern> pattern = PathPattern::Parse(text);
      if (!pattern.ok()) {
        return absl::InvalidArgumentError(absl::StrCat("recompute: ", pattern.status().message()));
      }
      for (const std::string& path : pattern->paths()) result.exact_.emplace(path, false);
      result.patterns_.push_back({text, *std::move(pattern), false});
    }
    return result;
  }

  // Returns whether a pattern matches the path or a scope around it, and remembers which ones do.
  bool Match(absl::string_view path) {
    bool matches = false;
    VisitScopes(path, [&](absl::string_view scope) {
      const auto found = exact_.find(scope);
      if (found == exact_.end()) return;
      found->second = true;
      matches = true;
    });
    for (Pattern& each : patterns_) {
      if (!each.pattern.has_wildcards() || each.pattern.MatchingScope(path) == 0) continue;
      each.matched = true;
      matches = true;
    }
    return matches;
  }

  // Returns the error that a pattern has matched nothing yet, if there is one.
  absl::Status CheckAllMatched(const Graph& graph) const {
    for (const Pattern& each : patterns_) {
      const bool matched =
          each.matched || absl::c_any_of(each.pattern.paths(), [this](const std::string& path) {
            return exact_.at(path);
          });
      if (!matched) return Unmatched(graph, each);
    }
    return absl::OkStatus();
  }

 private:
  struct Pattern {
    std::string text;
    PathPattern pattern;
    bool matched = false;  // with a "*"
  };

  static absl::Status Unmatched(const Graph& graph, const Pattern& unmatched) {
    std::vector<std::string> known(graph.blocks().begin(), graph.blocks().end());
    for (const Op& op : graph.ops()) {
      if (op.phase == Phase::kForward) known.push_back(op.path);
    }
    const std::string blocks =
        graph.blocks().empty()
            ? "it has no blocks"
            : absl::StrCat("its blocks are ", absl::StrJoin(graph.blocks(), ", "),
                           ", and scopes and operators in a block have paths below it");
    return absl::InvalidArgumentError(absl::StrCat(
        "recompute: graph '", graph.name(),
        "' has no block, scope or operator of the forward pass ", Quote(unmatched.text), "; ",
        blocks, unmatched.pattern.has_wildcards() ? "" : DidYouMean(unmatched.text, known)));
  }

  absl::flat_hash_map<std::string, bool> exact_;  // whether it has matched
  std::vector<Pattern> patterns_;
};

// Returns the block that an op belongs to, or whose scope has its path.
BlockId HomeOf(const Op& op, const absl::flat_hash_map<std::string, BlockId>& blocks) {
  BlockId home = op.block;
  if (home != kNone) return home;
  VisitScopes(op.path, [&](absl::string_view scope) {
    const auto found = blocks.find(scope);
    if (found != blocks.end()) home = found->second;
  });
  return home;
}

}  // namespace

absl::StatusOr<RecomputedOps> FindRecomputedOps(const Graph& graph,
                                                absl::Span<const std::string> paths) {
  const size_t count = graph.ops().size();
  RecomputedOps result{Table<OpId, BlockId>(count, kNone), Table<OpId, bool>(count, false),
                       Table<OpId, BlockId>(count, kNone)};
  if (paths.empty()) return result;
  ASSIGN_OR_RETURN(ScopePatterns patterns, ScopePatterns::Parse(paths));
  Table<BlockId, bool> is_whole;
  absl::flat_hash_map<std::string, BlockId> blocks;
  for (const BlockId block : graph.blocks().ids()) {
    blocks.emplace(graph.blocks()[block], block);
    is_whole.push_back(patterns.Match(graph.blocks()[block]));
  }
  for (const OpId id : graph.ops().ids()) {
    const Op& op = graph.op(id);
    result.home[id] = HomeOf(op, blocks);
    if (op.block != kNone && is_whole[op.block]) result.whole_block[id] = op.block;
    if (op.phase != Phase::kForward) continue;
    bool named = patterns.Match(op.path);
    if (!op.slice_of.empty()) named = patterns.Match(op.slice_of.str()) || named;
    const bool in_whole_block = result.home[id] != kNone && is_whole[result.home[id]];
    result.by_itself[id] = named && !in_whole_block && !IsParameterCast(graph, op);
  }
  RETURN_IF_ERROR(patterns.CheckAllMatched(graph));
  return result;
}

}  // namespace tessera
