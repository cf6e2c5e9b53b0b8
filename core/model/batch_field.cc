#include "core/model/batch_field.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tessera {
namespace {

std::string FieldText(const BatchField& field) {
  return absl::StrCat(field.name, " ", TypeToString(field.type));
}

}  // namespace

const BatchField* FindField(absl::Span<const BatchField> fields, absl::string_view name) {
  for (const BatchField& field : fields) {
    if (field.name == name) return &field;
  }
  return nullptr;
}

std::string FieldsText(absl::Span<const BatchField> fields) {
  std::string text;
  for (size_t i = 0; i < fields.size(); ++i) {
    const bool last = i + 1 == fields.size();
    absl::StrAppend(&text, i == 0 ? "" : (last ? " and " : ", "), FieldText(fields[i]));
  }
  return text;
}

absl::Status CheckFields(absl::Span<const BatchField> read, absl::Span<const BatchField> provided) {
  for (const BatchField& field : read) {
    const BatchField* const found = FindField(provided, field.name);
    if (found == nullptr || found->type != field.type) {
      return absl::InvalidArgumentError(absl::StrCat("the model reads ", FieldText(field),
                                                     " in each row, and the data have ",
                                                     FieldsText(provided)));
    }
    if (field.limit == 0 || (found->limit > 0 && found->limit <= field.limit)) continue;
    const std::string setting =
        field.limited_by.empty() ? "the limit of the model" : field.limited_by;
    return absl::InvalidArgumentError(absl::StrCat(
        setting, " is ", field.limit, ": ", field.name, " of the data have ",
        found->limit > 0
            ? absl::StrCat(found->limit, " values, so it must be ", found->limit, " or more")
            : "any values"));
  }
  return absl::OkStatus();
}

}  // namespace tessera
