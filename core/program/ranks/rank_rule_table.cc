#include "core/program/ranks/rank_rule_table.h"

#include <vector>

#include "core/ids/id.h"
#include "core/ids/table.h"

namespace tessera {
namespace {

template <typename Rule>
Id<Rule> FindOrAddRule(const Rule& rule, Table<Id<Rule>, Rule>& table,
                       absl::flat_hash_map<Rule, Id<Rule>>& entered) {
  const auto [entry, added] = entered.try_emplace(rule, table.end_id());
  if (added) table.push_back(rule);
  return entry->second;
}

}  // namespace

RankRuleTable::RankRuleTable(Program* program) : program_(*program) {
  for (const PartId id : program_.parts.ids()) {
    parts_.emplace(program_.parts[id], id);
  }
  for (const FlatId id : program_.flats.ids()) {
    flats_.emplace(program_.flats[id], id);
  }
}

PartId RankRuleTable::FindOrAdd(const PartRule& part) {
  if (part.extent == part.global && part.layout == MeshLayout(part.layout.num_axes())) return kNone;
  return FindOrAddRule(part, program_.parts, parts_);
}

FlatId RankRuleTable::FindOrAdd(const FlatRule& flat) {
  return FindOrAddRule(flat, program_.flats, flats_);
}

}  // namespace tessera
