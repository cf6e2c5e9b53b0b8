// The tool's output on stdout, which only one rank of a job has.
#ifndef TESSERA_TOOLS_TRAIN_RANK_STANDARD_OUTPUT_H_
#define TESSERA_TOOLS_TRAIN_RANK_STANDARD_OUTPUT_H_

#include <cstdio>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tessera {

// From now on the output of this thread is discarded.
void DiscardOutput();

// Returns the stream of this thread's output.
std::FILE* Output();

// Prints a text, without the control characters that names in files or texts of plugins may have
// (core/text/text_stream.h).
void PrintText(absl::string_view text);
// Prints a line in the same way, at once.
void PrintLine(absl::string_view text);

// Prints notes for the user, a line for each. On standard output, unless this thread has called
// PrintNotesToStandardError, because another program reads that.
void PrintNotes(const std::vector<std::string>& notes);
void PrintNotesToStandardError();

// Returns whether the output goes to a terminal.
bool IsTerminal();

// Returns the columns of the terminal that stdout is, 80 if they are not known.
int TerminalWidth();

// Flushes the output. Returns an error with the cause if anything could not be written so far.
absl::Status OutputStatus();

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_RANK_STANDARD_OUTPUT_H_
