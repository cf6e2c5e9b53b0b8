// Command lines of our programs, over Abseil's flags: errors that say what would be right, and a
// --help in groups.
#ifndef TESSERA_TOOLS_COMMAND_LINE_COMMAND_LINE_H_
#define TESSERA_TOOLS_COMMAND_LINE_COMMAND_LINE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tessera {

// A flag of a program: an ABSL_FLAG whose help is a line or two.
struct FlagEntry {
  const char* name;
  const char* value;  // what stands behind the "=" in --help: N for whole numbers, X for others; ""
                      // for a bool
};
struct FlagGroup {
  const char* title;
  std::vector<FlagEntry> flags;
};

struct GivenFlag {
  std::string name;
  std::string value;
};

struct ParsedFlags {
  bool help = false;             // then nothing else was looked at
  std::vector<GivenFlag> given;  // in their order
  std::vector<std::string> rest;
};

// What an argument that is no flag is.
enum class Rest {
  kError,
  kBegins,  // the first of the rest, which is not looked at
};

// Sets the flags of `groups` from arguments: --name=value, --name value, and --name or --noname for
// a bool. InvalidArgument names the flag, and says what would be right. A flag may be given again;
// the last one counts.
absl::StatusOr<ParsedFlags> ParseFlags(const std::vector<std::string>& arguments,
                                       const std::vector<FlagGroup>& groups, Rest rest);

// The groups, for --help. `more` goes behind the help of the flag `of`.
std::string FlagsHelp(const std::vector<FlagGroup>& groups, absl::string_view of = "",
                      absl::string_view more = "");

}  // namespace tessera

#endif  // TESSERA_TOOLS_COMMAND_LINE_COMMAND_LINE_H_
