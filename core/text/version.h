// The version of Tessera. NEWS.md says what each version has. The interface of strategy plugins has
// a version of its own (strategies/api/strategy.h).
#ifndef TESSERA_CORE_TEXT_VERSION_H_
#define TESSERA_CORE_TEXT_VERSION_H_

#include <string>

#include "absl/strings/str_cat.h"

namespace tessera {

inline constexpr char kVersion[] = "0.1.0";

// Returns the line that --version of every program prints: "tessera 0.1.0\n".
inline std::string VersionLine() { return absl::StrCat("tessera ", kVersion, "\n"); }

}  // namespace tessera

#endif  // TESSERA_CORE_TEXT_VERSION_H_
