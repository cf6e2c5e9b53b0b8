#include "tools/train/rank/standard_output.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/posix/stdout_status.h"
#include "core/text/text_stream.h"

namespace tessera {
namespace {

thread_local std::FILE* output = nullptr;  // null: stdout
thread_local bool notes_to_standard_error = false;

}  // namespace

void DiscardOutput() {
  static std::FILE* const nowhere = std::fopen("/dev/null", "w");
  if (nowhere != nullptr) output = nowhere;
}

std::FILE* Output() { return output == nullptr ? stdout : output; }

void PrintText(absl::string_view text) { absl::FPrintF(Output(), "%s", Printable(text)); }

void PrintLine(absl::string_view text) {
  PrintText(absl::StrCat(text, "\n"));
  std::fflush(Output());
}

void PrintNotes(const std::vector<std::string>& notes) {
  std::FILE* const out = notes_to_standard_error && output == nullptr ? stderr : Output();
  for (const std::string& note : notes) {
    absl::FPrintF(out, "%s", Printable(absl::StrCat("note: ", note, "\n")));
  }
  std::fflush(out);
}

void PrintNotesToStandardError() { notes_to_standard_error = true; }

bool IsTerminal() { return output == nullptr && isatty(STDOUT_FILENO) != 0; }

int TerminalWidth() {
  winsize size = {};
  const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

absl::Status OutputStatus() { return output != nullptr ? absl::OkStatus() : StdoutStatus(); }

}  // namespace tessera
