// Formats a number with its noun: "1 step", "2 steps".
//
// Thread safety: pure functions.
#ifndef TESSERA_CORE_TEXT_COUNTED_H_
#define TESSERA_CORE_TEXT_COUNTED_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace tessera {

// Returns the number and the noun, with `ending` appended to the noun unless the number is 1.
inline std::string Counted(int64_t number, absl::string_view noun, absl::string_view ending = "s") {
  return absl::StrCat(number, " ", noun, number == 1 ? "" : ending);
}

}  // namespace tessera

#endif  // TESSERA_CORE_TEXT_COUNTED_H_
