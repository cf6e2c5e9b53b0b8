// The output of one rank on one stream, as lines that start with its number: "[1] step 3".
//
// Progress that a program writes over and over on one line, with carriage returns, becomes a line
// at most once a second, and its last state is always shown. A line of more than 64 KiB is split;
// all its lines but the first start with "[1]+ ".
#ifndef TESSERA_TOOLS_LAUNCH_RANK_OUTPUT_H_
#define TESSERA_TOOLS_LAUNCH_RANK_OUTPUT_H_

#include <chrono>
#include <deque>
#include <string>

#include "absl/strings/string_view.h"

namespace tessera::comm {

// Thread safety: one thread at a time.
class RankOutput {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Unless the output is numbered, no line has the rank before it, and nothing marks the lines of
  // one that was split.
  explicit RankOutput(int rank, bool is_numbered = true);

  // Takes the next bytes of the stream, and returns the text to print now: each line that they
  // complete, and progress if none was shown for a second. Keeps the rest for the next call. May
  // return "".
  std::string Feed(absl::string_view bytes, Time now);
  // Returns progress that was held back, as a line, once nothing has followed it for a second;
  // else "".
  std::string ShowStalled(Time now);
  // Returns when ShowStalled will have something to return; Time::max() if nothing is held back.
  Time next_stall() const;
  // Call when the stream ends. Returns what is left of it, as a line; may be "".
  std::string Finish();

  // The start of each line: "[1] ", or "".
  const std::string& prefix() const { return prefix_; }
  // The last lines without their prefix, each shortened to 1 KiB.
  const std::deque<std::string>& last_lines() const { return last_lines_; }

 private:
  // These append the lines to print to `text`.
  // Called for a newline.
  void EndLine(std::string* text);
  // Called for the first byte after a carriage return: what is on the line is a state of progress.
  void EndProgress(Time now, std::string* text);
  // Prints the longest possible part of a line that has become too long.
  void SplitLine(std::string* text);
  void ShowProgress(Time now, std::string* text);
  void Print(const std::string& line, std::string* text);
  // The newest state of the progress on this line; empty if the line has none.
  const std::string& progress() const;

  const std::string prefix_;
  const std::string split_prefix_;
  std::string line_;                // since the last newline or carriage return
  std::string progress_;            // before the last carriage return of this line
  std::string shown_;               // the progress of this line that was printed last
  bool has_progress_ = false;       // this line has a carriage return
  bool carriage_returned_ = false;  // the last byte; a newline may follow
  bool is_split_ = false;           // part of this line was printed
  Time last_progress_ = Time::min();
  Time last_feed_ = Time::min();
  std::deque<std::string> last_lines_;
};

}  // namespace tessera::comm

#endif  // TESSERA_TOOLS_LAUNCH_RANK_OUTPUT_H_
