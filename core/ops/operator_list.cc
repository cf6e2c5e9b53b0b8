#include "core/ops/operator_list.h"

#include "absl/container/flat_hash_map.h"
#include "core/ops/operators.h"

namespace tessera {

absl::Span<const Operator* const> AllOperators() {
  static const Operator* const list[] = {
#define TESSERA_OPERATOR(name) &name##Operator(),
#include "core/ops/operators.inc"
#undef TESSERA_OPERATOR
  };
  return list;
}

const Operator* FindOperator(absl::string_view name) {
  static const auto* const by_name = [] {
    auto* map = new absl::flat_hash_map<absl::string_view, const Operator*>();
    for (const Operator* kind : AllOperators()) map->emplace(kind->name(), kind);
    return map;
  }();
  auto it = by_name->find(name);
  return it == by_name->end() ? nullptr : it->second;
}

}  // namespace tessera
