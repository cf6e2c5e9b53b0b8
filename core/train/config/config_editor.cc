#include "core/train/config/config_editor.h"

#include <utf8.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/status/check.h"
#include "core/status/status_macros.h"
#include "core/text/byte_order_mark.h"
#include "core/text/first_error.h"
#include "core/text/nearest_name.h"
#include "core/train/config/model_type.h"
#include "core/train/config/text_bounds.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/text_format.h"

namespace tessera {
namespace {

using ::google::protobuf::Any;
using ::google::protobuf::Descriptor;
using ::google::protobuf::FieldDescriptor;
using ::google::protobuf::Message;
using ::google::protobuf::Reflection;
using ::google::protobuf::TextFormat;

constexpr char kTypePrefix[] = "type.googleapis.com";

// protobuf's functions use std::string.
std::string ToStdString(absl::string_view text) { return std::string(text.data(), text.size()); }

bool IsMessage(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
}
bool IsAny(const FieldDescriptor& field) {
  return IsMessage(field) && field.message_type()->full_name() == "google.protobuf.Any";
}

// Copies the fields in `named`, which are those that the text of `from` set.
void CopyNamed(const Message& from, const TextFormat::ParseInfoTree& named, Message* to,
               Message* model) {
  const Descriptor& descriptor = *from.GetDescriptor();
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const FieldDescriptor* field = descriptor.field(i);
    const int first = field->is_repeated() ? 0 : -1;
    if (named.GetLocation(field, first).line < 0) continue;
    if (IsMessage(*field) && !field->is_repeated()) {
      const TextFormat::ParseInfoTree* inner = named.GetTreeForNested(field, -1);
      const Message& message = from.GetReflection()->GetMessage(from, field);
      if (inner == nullptr) continue;
      if (!IsAny(*field)) {
        CopyNamed(message, *inner, to->GetReflection()->MutableMessage(to, field), nullptr);
      } else if (model != nullptr) {
        const std::unique_ptr<Message> unpacked(model->New());
        unpacked->ParseFromString(static_cast<const Any&>(message).value());
        CopyNamed(*unpacked, *inner, model, nullptr);
      }
      continue;
    }
    const std::unique_ptr<Message> only(from.New());
    only->CopyFrom(from);
    for (int j = 0; j < descriptor.field_count(); ++j) {
      if (j != i) only->GetReflection()->ClearField(only.get(), descriptor.field(j));
    }
    to->GetReflection()->ClearField(to, field);
    to->MergeFrom(*only);
  }
}

TextFormat::Printer MakePrinter() {
  TextFormat::Printer printer;
  printer.SetUseUtf8StringEscaping(true);
  return printer;
}

// A scalar, or an element of a list, as protobuf's text form writes it.
std::string ValueText(const Message& message, const FieldDescriptor& field, int index) {
  std::string text;
  MakePrinter().PrintFieldValueToString(message, &field, index, &text);
  return text;
}

std::vector<std::string> ListTexts(const Message& message, const FieldDescriptor& field) {
  const int size = message.GetReflection()->FieldSize(message, &field);
  std::vector<std::string> texts;
  texts.reserve(size);
  for (int i = 0; i < size; ++i) {
    texts.push_back(ValueText(message, field, i));
  }
  return texts;
}

void PrintFields(const Message& message, const std::string& indent, const Message* model,
                 std::string* out) {
  const Descriptor& descriptor = *message.GetDescriptor();
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const FieldDescriptor& field = *descriptor.field(i);
    if (IsAny(field)) {
      if (model == nullptr) continue;
      absl::StrAppend(out, indent, field.name(), " {\n", indent, "  [", kTypePrefix, "/",
                      model->GetDescriptor()->full_name(), "] {\n");
      PrintFields(*model, indent + "    ", nullptr, out);
      absl::StrAppend(out, indent, "  }\n", indent, "}\n");
    } else if (field.is_repeated()) {
      absl::StrAppend(out, indent, field.name(), ": [",
                      absl::StrJoin(ListTexts(message, field), ", "), "]\n");
    } else if (IsMessage(field)) {
      absl::StrAppend(out, indent, field.name(), " {\n");
      PrintFields(message.GetReflection()->GetMessage(message, &field), indent + "  ", nullptr,
                  out);
      absl::StrAppend(out, indent, "}\n");
    } else {
      absl::StrAppend(out, indent, field.name(), ": ", ValueText(message, field, -1), "\n");
    }
  }
}

void AppendPaths(const Descriptor& descriptor, const std::string& scope, const Descriptor* model,
                 std::vector<std::string>* paths) {
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const FieldDescriptor& field = *descriptor.field(i);
    const std::string path = scope + field.name();
    if (IsAny(field)) {
      if (model != nullptr) AppendPaths(*model, path + ".", nullptr, paths);
    } else if (IsMessage(field)) {
      if (!field.is_repeated()) AppendPaths(*field.message_type(), path + ".", nullptr, paths);
    } else {
      paths->push_back(path);
    }
  }
}

bool IsUtf8(absl::string_view text) { return utf8::is_valid(text.begin(), text.end()); }

// Sets a scalar field by `set`, or appends to a list by `add`.
template <typename T>
void Store(Message* message, const FieldDescriptor& field, T value,
           void (Reflection::*set)(Message*, const FieldDescriptor*, T) const,
           void (Reflection::*add)(Message*, const FieldDescriptor*, T) const) {
  (message->GetReflection()->*(field.is_repeated() ? add : set))(message, &field, std::move(value));
}

absl::Status ValueError(absl::string_view value, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("'", value, "' is not ", what));
}

template <typename T>
absl::Status StoreInteger(Message* message, const FieldDescriptor& field, absl::string_view text,
                          void (Reflection::*set)(Message*, const FieldDescriptor*, T) const,
                          void (Reflection::*add)(Message*, const FieldDescriptor*, T) const) {
  T value;
  if (!absl::SimpleAtoi(text, &value)) {
    return ValueError(text, std::is_signed_v<T> ? "a whole number that fits"
                                                : "a whole number, 0 or more, that fits");
  }
  Store<T>(message, field, value, set, add);
  return absl::OkStatus();
}

absl::Status StoreValue(Message* message, const FieldDescriptor& field, absl::string_view text) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return StoreInteger<int32_t>(message, field, text, &Reflection::SetInt32,
                                   &Reflection::AddInt32);
    case FieldDescriptor::CPPTYPE_INT64:
      return StoreInteger<int64_t>(message, field, text, &Reflection::SetInt64,
                                   &Reflection::AddInt64);
    case FieldDescriptor::CPPTYPE_UINT32:
      return StoreInteger<uint32_t>(message, field, text, &Reflection::SetUInt32,
                                    &Reflection::AddUInt32);
    case FieldDescriptor::CPPTYPE_UINT64:
      return StoreInteger<uint64_t>(message, field, text, &Reflection::SetUInt64,
                                    &Reflection::AddUInt64);
    case FieldDescriptor::CPPTYPE_DOUBLE:
    case FieldDescriptor::CPPTYPE_FLOAT: {
      double value;
      if (!absl::SimpleAtod(text, &value)) return ValueError(text, "a number");
      if (field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) {
        Store<double>(message, field, value, &Reflection::SetDouble, &Reflection::AddDouble);
      } else {
        Store<float>(message, field, static_cast<float>(value), &Reflection::SetFloat,
                     &Reflection::AddFloat);
      }
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_BOOL: {
      bool value;
      if (!absl::SimpleAtob(text, &value)) return ValueError(text, "true or false");
      Store<bool>(message, field, value, &Reflection::SetBool, &Reflection::AddBool);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_ENUM: {
      const auto* value = field.enum_type()->FindValueByName(ToStdString(text));
      if (value == nullptr) {
        std::vector<std::string> names;
        names.reserve(field.enum_type()->value_count());
        for (int i = 0; i < field.enum_type()->value_count(); ++i) {
          names.push_back(field.enum_type()->value(i)->name());
        }
        return ValueError(text, absl::StrCat("one of ", absl::StrJoin(names, ", ")));
      }
      Store<const google::protobuf::EnumValueDescriptor*>(
          message, field, value, &Reflection::SetEnum, &Reflection::AddEnum);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_STRING:
      if (!IsUtf8(text)) return absl::InvalidArgumentError("this is not UTF-8 text");
      Store<std::string>(message, field, ToStdString(text), &Reflection::SetString,
                         &Reflection::AddString);
      return absl::OkStatus();
    case FieldDescriptor::CPPTYPE_MESSAGE:
      break;
  }
  return absl::InternalError("a message is not a value");
}

}  // namespace

struct ConfigEditor::FieldLocation {
  Message* message = nullptr;
  const FieldDescriptor* field = nullptr;
};

ConfigEditor::ConfigEditor(RunConfig defaults, const Message& default_model)
    : run_(std::make_unique<RunConfig>(std::move(defaults))), model_(default_model.New()) {
  run_->clear_model();
  model_->CopyFrom(default_model);
}

absl::Status ConfigEditor::MergeText(absl::string_view text, absl::string_view source) {
  // A text that exceeds the bounds may be cut off, so its byte order mark counts too.
  RETURN_IF_ERROR(CheckConfigBounds(text, source));
  text = SkipByteOrderMark(text);
  if (!IsUtf8(text)) return absl::InvalidArgumentError(absl::StrCat(source, ": is not UTF-8 text"));
  RunConfig parsed;
  TextFormat::Parser parser;
  TextFormat::ParseInfoTree named;
  FirstError error;
  parser.WriteLocationsTo(&named);
  parser.RecordErrorsTo(&error);
  const std::string ours = model_->GetDescriptor()->full_name();
  const std::string typed = WithModelType(text, absl::StrCat(kTypePrefix, "/", ours));
  if (!parser.ParseFromString(typed, &parsed)) {
    return absl::InvalidArgumentError(absl::StrCat(
        source, ":", error.line(), ": ", error.message(),
        absl::StrContains(error.message(), "Could not find type")
            ? absl::StrCat(" This program's model has the type ", kTypePrefix, "/", ours, ".")
            : ""));
  }
  if (parsed.has_model() && !parsed.model().type_url().empty()) {
    const std::vector<std::string> type = absl::StrSplit(parsed.model().type_url(), '/');
    if (type.back() != ours) {
      return absl::InvalidArgumentError(absl::StrCat(source, ": its model is a ", type.back(),
                                                     ", and this program trains a ", ours));
    }
  }
  CopyNamed(parsed, named, run_.get(), model_.get());
  return absl::OkStatus();
}

absl::Status ConfigEditor::Find(absl::string_view path, FieldLocation* location) const {
  const auto no_such_field = [&] {
    return absl::NotFoundError(
        absl::StrCat("there is no field '", path, "'", DidYouMean(path, FieldPaths())));
  };
  location->message = run_.get();
  location->field = nullptr;
  for (absl::string_view name : absl::StrSplit(path, '.')) {
    if (location->field != nullptr) {
      if (!IsMessage(*location->field) || location->field->is_repeated()) return no_such_field();
      location->message = IsAny(*location->field)
                              ? model_.get()
                              : location->message->GetReflection()->MutableMessage(
                                    location->message, location->field);
    }
    location->field = location->message->GetDescriptor()->FindFieldByName(ToStdString(name));
    if (location->field == nullptr) return no_such_field();
  }
  if (IsMessage(*location->field)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", path, "' is a group of fields: set those below it"));
  }
  return absl::OkStatus();
}

absl::Status ConfigEditor::Set(absl::string_view path, absl::string_view value) {
  FieldLocation location;
  RETURN_IF_ERROR(Find(path, &location));
  const auto with_path = [&](const absl::Status& status) {
    return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
  };
  if (!location.field->is_repeated()) {
    const absl::Status status = StoreValue(location.message, *location.field, value);
    return status.ok() ? status : with_path(status);
  }
  absl::string_view inner = value;
  if (absl::ConsumePrefix(&inner, "[") && !absl::ConsumeSuffix(&inner, "]")) {
    return with_path(ValueError(value, "a list such as [64;32]"));
  }
  const std::unique_ptr<Message> scratch(location.message->New());
  for (absl::string_view element : absl::StrSplit(inner, ';', absl::SkipWhitespace())) {
    const absl::Status status =
        StoreValue(scratch.get(), *location.field, absl::StripAsciiWhitespace(element));
    if (!status.ok()) return with_path(status);
  }
  location.message->GetReflection()->ClearField(location.message, location.field);
  location.message->MergeFrom(*scratch);
  return absl::OkStatus();
}

std::string ConfigEditor::Get(absl::string_view path) const {
  FieldLocation location;
  TESSERA_CHECK(Find(path, &location).ok()) << ToStdString(path);
  if (location.field->is_repeated()) {
    return absl::StrCat("[", absl::StrJoin(ListTexts(*location.message, *location.field), ";"),
                        "]");
  }
  if (location.field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    return location.message->GetReflection()->GetString(*location.message, location.field);
  }
  return ValueText(*location.message, *location.field, -1);
}

std::vector<std::string> ConfigEditor::FieldPaths() const {
  std::vector<std::string> paths;
  AppendPaths(*RunConfig::descriptor(), "", model_->GetDescriptor(), &paths);
  return paths;
}

RunConfig ConfigEditor::config() const {
  RunConfig config = *run_;
  config.mutable_model()->PackFrom(*model_);
  return config;
}

std::string ConfigEditor::ToText() const {
  std::string text;
  PrintFields(*run_, "", model_.get(), &text);
  return text;
}

}  // namespace tessera
