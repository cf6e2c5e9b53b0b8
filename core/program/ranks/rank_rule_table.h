// The tables of a Program that hold the rules for what differs between ranks. Each rule is stored
// once.
#ifndef TESSERA_CORE_PROGRAM_RANKS_RANK_RULE_TABLE_H_
#define TESSERA_CORE_PROGRAM_RANKS_RANK_RULE_TABLE_H_

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "core/program/program.h"

namespace tessera {

// Adds rules to Program::parts and Program::flats. Nothing else may change these tables during its
// lifetime. Not thread-safe; the Program must outlive it.
class RankRuleTable {
 public:
  explicit RankRuleTable(Program* program);

  // Return the index of an equal rule, which is added if there is none. A part that is the whole
  // tensor on all ranks has no rule: returns kNone.
  PartId FindOrAdd(const PartRule& part);
  FlatId FindOrAdd(const FlatRule& flat);

 private:
  Program& program_;
  absl::flat_hash_map<PartRule, PartId> parts_;
  absl::flat_hash_map<FlatRule, FlatId> flats_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_RANKS_RANK_RULE_TABLE_H_
