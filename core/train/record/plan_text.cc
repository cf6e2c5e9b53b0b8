#include "core/train/record/plan_text.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/plan/check.h"
#include "core/status/status_macros.h"
#include "core/text/byte_order_mark.h"
#include "core/text/first_error.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/text_format.h"

namespace tessera {
namespace {

using ::google::protobuf::io::Tokenizer;

constexpr char kOfPass[] = "PassChoice\" has no field";
constexpr char kNoEnum[] = "Expected integer or identifier";

// A field of Plan format 1, part of the parser's error where it is, and what format 2 has instead.
struct FormerField {
  absl::string_view name, error, now;
};
constexpr FormerField kFormerFields[] = {
    {"operator", "has no field", "compute { path: \"...\" signature: \"...\" }"},
    {"layout", "GroupChoice", "over: \"data\", for each axis, the outer split first"},
    {"gather", kNoEnum,
     "gather: EACH_PHASE, ONCE or AFTER_UPDATE; for 'each phase over A', again_over: \"A\""},
    {"reduce", kNoEnum, "reduce: AFTER_LAST or EACH_MICRO_BATCH"},
    {"block", "GroupChoice", "split_at_rows: true, or split_at_multiples_of: 1024"},
    {"parameters", kNoEnum, "parameters: BF16, without quotes"},
    {"reduction", kNoEnum, "reduction: BF16, without quotes"},
    {"outputs", kNoEnum, "outputs: BF16, without quotes"},
    {"passes", "found \"{\"", "passes: \"fuse\""},
    {"name", kOfPass, "the name as a field, such as pass { offload {} }"},
    {"cap", kOfPass, "pass { bucket_gradients { cap_mib: 25 } }"},
    {"first", kOfPass, "pass { bucket_gradients { first_mib: 1 } }"},
    {"distance", kOfPass, "pass { prefetch_gathers { distance: 1 } }"},
    {"in_flight", kOfPass, "pass { limit_gathers { in_flight: 2 } }"},
    {"tensors", kOfPass, "pass { offload { tensors: PARAMETERS tensors: GRADIENTS } }"},
    {"options", kOfPass, "pass { plugin { name: \"...\" pass: \"...\" options { ... } } }"},
    {"plugin", "Expected \"{\"", "plugin { name: \"...\" version: \"...\" pass: \"...\" }"},
    {"plugin_version", kOfPass, "plugin { name: \"...\" version: \"...\" pass: \"...\" }"},
};

// Returns the last name before the error: that of the field with the error.
std::string FieldOf(const FirstError& error, const std::string& text) {
  google::protobuf::io::ArrayInputStream stream(text.data(), static_cast<int>(text.size()));
  FirstError ignored;
  Tokenizer tokenizer(&stream, &ignored);
  tokenizer.set_comment_style(Tokenizer::SH_COMMENT_STYLE);  // as TextFormat::Parser does
  tokenizer.set_allow_multiline_strings(true);
  std::string name;
  while (tokenizer.Next()) {
    const Tokenizer::Token& token = tokenizer.current();
    if (std::pair(token.line + 1, token.column) >= std::pair(error.line(), error.column())) break;
    if (token.type == Tokenizer::TYPE_IDENTIFIER) name = token.text;
  }
  return name;
}

// Returns the parser's error, or what to write instead of a field of format 1.
std::string Explain(const FirstError& error, const std::string& text) {
  const std::string field = FieldOf(error, text);
  for (const FormerField& former : kFormerFields) {
    if (former.name != field || !absl::StrContains(error.message(), former.error)) continue;
    return absl::StrCat("'", field, "' is of Plan format 1: write ", former.now);
  }
  return error.message();
}

}  // namespace

absl::StatusOr<Plan> ParsePlanText(const std::string& file) {
  const std::string text(SkipByteOrderMark(file));
  Plan plan;
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  if (!parser.ParseFromString(text, &plan)) {
    return absl::InvalidArgumentError(
        absl::StrCat("is no Plan: line ", error.line(), ": ", Explain(error, text)));
  }
  RETURN_IF_ERROR(CheckPlanForm(plan));
  return plan;
}

}  // namespace tessera
