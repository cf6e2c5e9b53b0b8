#include "core/train/config/model_type.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace tessera {
namespace {

// Splits a text in protobuf's text form into tokens, just well enough to find braces and names.
class Scanner {
 public:
  explicit Scanner(absl::string_view text) : text_(text) {}

  // Returns the next token: a name, a string, or one other character; "" at the end.
  absl::string_view Next() {
    SkipSpace();
    begin_ = position_;
    if (position_ == text_.size()) return "";
    const char first = text_[position_++];
    if (first == '"' || first == '\'') {
      while (position_ < text_.size() && text_[position_] != first)
        position_ += text_[position_] == '\\' ? 2 : 1;
      position_ = std::min(position_ + 1, text_.size());
    } else if (IsNamePart(first)) {
      while (position_ < text_.size() && IsNamePart(text_[position_])) ++position_;
    }
    return text_.substr(begin_, position_ - begin_);
  }
  size_t begin() const { return begin_; }  // of the last token
  size_t end() const { return position_; }

 private:
  static bool IsNamePart(char c) { return absl::ascii_isalnum(c) || c == '_'; }

  void SkipSpace() {
    while (position_ < text_.size()) {
      if (text_[position_] == '#') {
        position_ = std::min(text_.find('\n', position_), text_.size());
      } else if (absl::ascii_isspace(text_[position_])) {
        ++position_;
      } else {
        return;
      }
    }
  }

  const absl::string_view text_;
  size_t begin_ = 0, position_ = 0;
};

bool IsOpening(absl::string_view token) { return token == "{" || token == "<"; }
bool IsClosing(absl::string_view token) { return token == "}" || token == ">"; }

}  // namespace

std::string WithModelType(absl::string_view text, absl::string_view type) {
  std::string result;
  size_t copied = 0;
  const auto insert = [&](size_t offset, absl::string_view more) {
    absl::StrAppend(&result, text.substr(copied, offset - copied), more);
    copied = offset;
  };
  Scanner scanner(text);
  int depth = 0;
  bool of_model = false;  // whether the next message of depth 1 is the model's
  bool first = false;     // whether the last token opened the model's message
  bool added = false;     // whether a brace is to be closed with the model's message
  for (absl::string_view token = scanner.Next(); !token.empty(); token = scanner.Next()) {
    if (first && token != "[" && token != "type_url" && token != "value" && !IsClosing(token)) {
      insert(scanner.begin(), absl::StrCat("[", type, "] { "));
      added = true;
    }
    first = false;
    if (IsOpening(token)) {
      first = of_model && depth == 0;
      ++depth;
    } else if (IsClosing(token)) {
      --depth;
      if (depth == 0 && added) insert(scanner.begin(), "} ");
      if (depth == 0) added = false;
    } else if (depth == 0 && token != ":") {
      of_model = token == "model";
    }
  }
  insert(text.size(), "");
  return result;
}

}  // namespace tessera
