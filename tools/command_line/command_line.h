// Command lines of our programs, on Abseil's flags, with errors that name the remedy and a --help
// in groups.
#ifndef TESSERA_TOOLS_COMMAND_LINE_COMMAND_LINE_H_
#define TESSERA_TOOLS_COMMAND_LINE_COMMAND_LINE_H_

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tessera {

// A flag of a program: an ABSL_FLAG whose help is a line or two.
struct FlagEntry {
  const char* name;
  // The text behind the "=" in --help: N for whole numbers, X for others; "" for a bool.
  const char* value;
  std::vector<const char*> aliases = {};  // names that other tools have for it
};
struct FlagGroup {
  const char* title;
  std::vector<FlagEntry> flags;
};

// A flag of the command line.
struct GivenFlag {
  std::string name;  // the flag's own, not an alias
  std::string value;
};

struct ParsedFlags {
  // Whether --help or --version was passed; the arguments after it were not read.
  bool help = false;
  bool version = false;
  std::vector<GivenFlag> given;
  std::vector<std::string> rest;
};

// How to treat an argument that is not a flag.
enum class Rest {
  kError,
  kBegins,  // it and all that follow are returned unread
};

// Returns the remedy for a name that is no flag, "" if it knows none.
using FlagHint = std::function<std::string(absl::string_view name)>;

// Sets the flags of `groups` from arguments: --name=value, --name value, and --name or --noname for
// a bool. A value that looks like a flag needs the first form. InvalidArgument names the flag and
// the remedy. If a flag is given again, the last one counts. Every program has --help and --version
// too, and prints VersionLine() (core/text/version.h) for the latter.
absl::StatusOr<ParsedFlags> ParseFlags(const std::vector<std::string>& arguments,
                                       const std::vector<FlagGroup>& groups, Rest rest,
                                       const FlagHint& hint = nullptr);

// Additions to a flag's line in --help, beside the help of its ABSL_FLAG.
struct FlagNote {
  std::string more;                          // is appended to the help
  std::optional<std::string> default_value;  // in place of the ABSL_FLAG's default; "": none
  std::optional<std::string> help = {};      // in place of the ABSL_FLAG's help
};

// Returns the groups for --help, with the default of each flag that has one, and a last group with
// --help and --version. `notes` is by the flag's name.
std::string FlagsHelp(const std::vector<FlagGroup>& groups,
                      const std::map<std::string, FlagNote>& notes = {});

}  // namespace tessera

#endif  // TESSERA_TOOLS_COMMAND_LINE_COMMAND_LINE_H_
