#include "core/train/config/text_bounds.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

namespace tessera {
namespace {

using ::google::protobuf::io::Tokenizer;

// Ignores errors: the parser will find and report them.
class NoErrors : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int, google::protobuf::io::ColumnNumber, const std::string&) override {}
};

}  // namespace

absl::Status CheckConfigBounds(absl::string_view text, absl::string_view source) {
  if (text.size() > static_cast<size_t>(kMaxConfigBytes)) {
    return absl::InvalidArgumentError(absl::StrCat(
        source, ": is no configuration: it has more than ", kMaxConfigBytes, " bytes"));
  }
  google::protobuf::io::ArrayInputStream stream(text.data(), static_cast<int>(text.size()));
  NoErrors errors;
  Tokenizer tokenizer(&stream, &errors);
  // These are the options of TextFormat::Parser. With them, braces in strings and comments do not
  // count.
  tokenizer.set_comment_style(Tokenizer::SH_COMMENT_STYLE);
  tokenizer.set_allow_multiline_strings(true);
  int depth = 0;
  while (tokenizer.Next()) {
    const Tokenizer::Token& token = tokenizer.current();
    if (token.type != Tokenizer::TYPE_SYMBOL) continue;
    if (token.text == "}" || token.text == ">") --depth;
    if (token.text != "{" && token.text != "<") continue;
    if (++depth > kMaxConfigDepth) {
      return absl::InvalidArgumentError(absl::StrCat(source, ":", token.line + 1,
                                                     ": is nested more than ", kMaxConfigDepth,
                                                     " messages deep"));
    }
  }
  return absl::OkStatus();
}

}  // namespace tessera
