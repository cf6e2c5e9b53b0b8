// The tables of a Program that hold rules for what differs between ranks: each rule once.
#ifndef TESSERA_CORE_PROGRAM_RANK_RULE_TABLE_H_
#define TESSERA_CORE_PROGRAM_RANK_RULE_TABLE_H_

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "core/program/program.h"

namespace tessera {

// Enters rules in Program::parts and Program::flats, of which it is the only user meanwhile. Not
// thread-safe; the Program must outlive it.
class RankRuleTable {
 public:
  explicit RankRuleTable(Program* program);

  // Return the index of an equal rule, which is added if there is none. The part that is all of its
  // tensor on all ranks has no rule: kNone.
  int32_t Enter(const PartRule& part);
  int32_t Enter(const FlatRule& flat);

 private:
  Program& program_;
  absl::flat_hash_map<PartRule, int32_t> parts_;
  absl::flat_hash_map<FlatRule, int32_t> flats_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_RANK_RULE_TABLE_H_
