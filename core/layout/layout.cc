#include "core/layout/layout.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tessera {

std::string AxisLayout::ToString() const {
  switch (kind) {
    case Kind::kBroadcast:
      return "B";
    case Kind::kSplit:
      return unit == 1 ? absl::StrCat("S(", dim, ")") : absl::StrCat("S(", dim, ", ", unit, ")");
    case Kind::kPartial:
      switch (reduction) {
        case Reduction::kSum:
          return "P";
        case Reduction::kMax:
          return "P(max)";
        case Reduction::kLogSumExp:
          return "P(lse)";
        case Reduction::kMin:
          return "P(min)";
      }
  }
  return "?";
}

std::string Signature::ToString() const {
  const auto print = [](std::string* out, const AxisLayout& layout) {
    absl::StrAppend(out, layout.ToString());
  };
  return absl::StrCat(absl::StrJoin(inputs, ", ", print), " -> ",
                      absl::StrJoin(outputs, ", ", print));
}

}  // namespace tessera
