// What one rank writes on one stream, cut into lines that start with its rank: "[1] step 3".
//
// Progress that a program writes over and over on one line, with carriage returns, becomes a line a
// second at most, and the last one.
#ifndef TESSERA_TOOLS_LAUNCH_RANK_OUTPUT_H_
#define TESSERA_TOOLS_LAUNCH_RANK_OUTPUT_H_

#include <chrono>
#include <deque>
#include <string>

#include "absl/strings/string_view.h"

namespace tessera::comm {

// One thread at a time.
class RankOutput {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit RankOutput(int rank);

  // The whole lines that `bytes` complete, to be printed; may be empty.
  std::string Feed(absl::string_view bytes, Time now);
  // What is left when the stream ends, as a line; may be empty.
  std::string Finish();

  // The last lines, without the rank.
  const std::deque<std::string>& last_lines() const { return last_lines_; }

 private:
  void EndLine(std::string* text);
  void EndProgress(std::string* text, Time now);
  void Print(const std::string& line, std::string* text);

  const std::string prefix_;
  std::string line_;                // since the last end of a line or of progress
  std::string progress_;            // that has not been printed
  bool carriage_returned_ = false;  // and what came next is not known yet
  Time last_progress_ = Time::min();
  std::deque<std::string> last_lines_;
};

}  // namespace tessera::comm

#endif  // TESSERA_TOOLS_LAUNCH_RANK_OUTPUT_H_
