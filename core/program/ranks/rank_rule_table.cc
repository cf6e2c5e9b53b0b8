#include "core/program/ranks/rank_rule_table.h"

#include <vector>

namespace tessera {
namespace {

template <typename Rule>
int32_t Intern(const Rule& rule, std::vector<Rule>& table,
               absl::flat_hash_map<Rule, int32_t>& entered) {
  const auto [entry, added] = entered.try_emplace(rule, static_cast<int32_t>(table.size()));
  if (added) table.push_back(rule);
  return entry->second;
}

}  // namespace

RankRuleTable::RankRuleTable(Program* program) : program_(*program) {
  for (const PartRule& part : program_.parts) {
    parts_.emplace(part, static_cast<int32_t>(parts_.size()));
  }
  for (const FlatRule& flat : program_.flats) {
    flats_.emplace(flat, static_cast<int32_t>(flats_.size()));
  }
}

int32_t RankRuleTable::Enter(const PartRule& part) {
  if (part.extent == part.global && part.layout == MeshLayout(part.layout.num_axes())) return kNone;
  return Intern(part, program_.parts, parts_);
}

int32_t RankRuleTable::Enter(const FlatRule& flat) { return Intern(flat, program_.flats, flats_); }

}  // namespace tessera
