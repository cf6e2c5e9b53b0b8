#include "tools/launch/rank_output.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace tessera::comm {
namespace {

constexpr size_t kMaxLineBytes = 64 << 10;  // longer ones are cut
constexpr size_t kLastLines = 10;
constexpr std::chrono::seconds kProgressInterval{1};

}  // namespace

RankOutput::RankOutput(int rank) : prefix_(absl::StrCat("[", rank, "] ")) {}

std::string RankOutput::Feed(absl::string_view bytes, Time now) {
  std::string text;
  for (const char c : bytes) {
    if (c == '\n') {
      EndLine(&text);
    } else if (c == '\r') {
      carriage_returned_ = true;
    } else {
      if (carriage_returned_) EndProgress(&text, now);
      line_.push_back(c);
      if (line_.size() >= kMaxLineBytes) EndLine(&text);
    }
  }
  return text;
}

std::string RankOutput::Finish() {
  std::string text;
  if (!line_.empty() || !progress_.empty()) EndLine(&text);
  return text;
}

// Behind progress an empty line is only the end of it.
void RankOutput::EndLine(std::string* text) {
  Print(line_.empty() && !progress_.empty() ? progress_ : line_, text);
  line_.clear();
  progress_.clear();
  carriage_returned_ = false;
}

void RankOutput::EndProgress(std::string* text, Time now) {
  carriage_returned_ = false;
  if (line_.empty()) return;
  progress_ = std::exchange(line_, "");
  if (last_progress_ != Time::min() && now - last_progress_ < kProgressInterval) return;
  last_progress_ = now;
  Print(progress_, text);
  progress_.clear();
}

void RankOutput::Print(const std::string& line, std::string* text) {
  absl::StrAppend(text, prefix_, line, "\n");
  last_lines_.push_back(line);
  if (last_lines_.size() > kLastLines) last_lines_.pop_front();
}

}  // namespace tessera::comm
