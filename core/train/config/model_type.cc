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
    begin_ = at_;
    if (at_ == text_.size()) return "";
    const char first = text_[at_++];
    if (first == '"' || first == '\'') {
      while (at_ < text_.size() && text_[at_] != first) at_ += text_[at_] == '\\' ? 2 : 1;
      at_ = std::min(at_ + 1, text_.size());
    } else if (IsNamePart(first)) {
      while (at_ < text_.size() && IsNamePart(text_[at_])) ++at_;
    }
    return text_.substr(begin_, at_ - begin_);
  }
  size_t begin() const { return begin_; }  // of the last token
  size_t end() const { return at_; }

 private:
  static bool IsNamePart(char c) { return absl::ascii_isalnum(c) || c == '_'; }

  void SkipSpace() {
    while (at_ < text_.size()) {
      if (text_[at_] == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (absl::ascii_isspace(text_[at_])) {
        ++at_;
      } else {
        return;
      }
    }
  }

  const absl::string_view text_;
  size_t begin_ = 0, at_ = 0;
};

bool IsOpening(absl::string_view token) { return token == "{" || token == "<"; }
bool IsClosing(absl::string_view token) { return token == "}" || token == ">"; }

}  // namespace

std::string WithModelType(absl::string_view text, absl::string_view type) {
  std::string result;
  size_t copied = 0;
  const auto insert = [&](size_t at, absl::string_view more) {
    absl::StrAppend(&result, text.substr(copied, at - copied), more);
    copied = at;
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
