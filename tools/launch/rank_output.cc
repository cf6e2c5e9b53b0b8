#include "tools/launch/rank_output.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace tessera::comm {
namespace {

constexpr size_t kMaxLineBytes = 64 << 10;
constexpr size_t kLastLines = 10;
constexpr size_t kLastLineBytes = 1024;
constexpr std::chrono::seconds kProgressInterval{1};

// Returns the length of the longest prefix of `line` that does not end within a UTF-8 character.
size_t CompleteCharacters(absl::string_view line) {
  size_t start = line.size();
  for (int back = 0; start > 0 && back < 4; ++back) {
    const auto byte = static_cast<unsigned char>(line[--start]);
    if ((byte & 0xc0) == 0x80) continue;  // not the first byte of a character
    const size_t length = byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
    return start + length > line.size() ? start : line.size();
  }
  return line.size();  // not UTF-8
}

}  // namespace

RankOutput::RankOutput(int rank, bool is_numbered)
    : prefix_(is_numbered ? absl::StrCat("[", rank, "] ") : ""),
      split_prefix_(is_numbered ? absl::StrCat("[", rank, "]+ ") : "") {}

std::string RankOutput::Feed(absl::string_view bytes, Time now) {
  std::string text;
  last_feed_ = now;
  for (const char c : bytes) {
    if (c == '\n') {
      EndLine(&text);
    } else if (c == '\r') {
      carriage_returned_ = true;
    } else {
      if (carriage_returned_) EndProgress(now, &text);
      line_.push_back(c);
      if (line_.size() >= kMaxLineBytes) SplitLine(&text);
    }
  }
  return text;
}

std::string RankOutput::Finish() {
  std::string text;
  if (!line_.empty() || !progress_.empty()) EndLine(&text);
  return text;
}

const std::string& RankOutput::progress() const {
  static const std::string& none = *new std::string();
  if (!has_progress_ && !carriage_returned_) return none;
  return line_.empty() ? progress_ : line_;
}

RankOutput::Time RankOutput::next_stall() const {
  const bool is_shown = progress().empty() || progress() == shown_;
  return is_shown ? Time::max() : last_feed_ + kProgressInterval;
}

std::string RankOutput::ShowStalled(Time now) {
  std::string text;
  if (next_stall() <= now) ShowProgress(now, &text);
  return text;
}

void RankOutput::ShowProgress(Time now, std::string* text) {
  last_progress_ = now;
  shown_ = progress();
  Print(shown_, text);
}

void RankOutput::EndLine(std::string* text) {
  // An empty rest of a line ends the progress before it, or a line that was split exactly here.
  const std::string& rest = line_.empty() ? progress_ : line_;
  const bool is_printed = rest.empty() ? is_split_ : rest == shown_;
  if (!is_printed) Print(rest, text);
  line_.clear();
  progress_.clear();
  shown_.clear();
  has_progress_ = carriage_returned_ = is_split_ = false;
}

void RankOutput::EndProgress(Time now, std::string* text) {
  carriage_returned_ = false;
  has_progress_ = true;
  if (line_.empty()) return;
  progress_ = std::exchange(line_, "");
  if (progress_ == shown_) return;
  if (last_progress_ != Time::min() && now - last_progress_ < kProgressInterval) return;
  ShowProgress(now, text);
}

void RankOutput::SplitLine(std::string* text) {
  const size_t size = CompleteCharacters(line_);
  Print(line_.substr(0, size), text);
  line_.erase(0, size);
  is_split_ = true;
}

void RankOutput::Print(const std::string& line, std::string* text) {
  absl::StrAppend(text, is_split_ ? split_prefix_ : prefix_, line, "\n");
  last_lines_.push_back(
      line.size() <= kLastLineBytes ? line : absl::StrCat(line.substr(0, kLastLineBytes), "..."));
  if (last_lines_.size() > kLastLines) last_lines_.pop_front();
}

}  // namespace tessera::comm
