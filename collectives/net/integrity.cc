#include "collectives/net/integrity.h"

#include "absl/strings/str_cat.h"

namespace tessera::comm {

std::string IntegrityName(Integrity integrity) {
  switch (integrity) {
    case Integrity::kNone:
      return "none";
    case Integrity::kControl:
      return "control";
    case Integrity::kAll:
      return "all";
  }
  return "?";
}

absl::StatusOr<Integrity> ParseIntegrity(absl::string_view name) {
  for (const Integrity each : {Integrity::kNone, Integrity::kControl, Integrity::kAll}) {
    if (name == IntegrityName(each)) return each;
  }
  return absl::InvalidArgumentError(absl::StrCat("'", name, "' is none of control, all and none"));
}

}  // namespace tessera::comm
