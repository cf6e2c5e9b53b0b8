#include "core/train/data/readers/reader_list.h"

#include <sys/stat.h>

#include <cerrno>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/status/check.h"
#include "core/status/status_macros.h"
#include "core/status/with_message.h"
#include "core/text/nearest_name.h"
#include "core/train/data/readers/readers.h"

namespace tessera {
namespace {

std::vector<std::string> AllNames() {
  std::vector<std::string> names;
  for (const Reader* reader : AllReaders()) {
    names.insert(names.end(), reader->names.begin(), reader->names.end());
  }
  return names;
}

// Returns whether a reader's rows have all these fields, by name.
bool Provides(const Reader& reader, absl::Span<const BatchField> fields) {
  return reader.provides.empty() || absl::c_all_of(fields, [&](const BatchField& field) {
           return absl::c_linear_search(reader.provides, field.name);
         });
}

// Returns a text of each reader that `is_right` accepts, in one line.
template <typename Predicate>
std::string TextsOf(const Predicate& is_right, std::string Reader::*text) {
  std::vector<std::string> texts;
  for (const Reader* reader : AllReaders()) {
    if (is_right(*reader)) texts.push_back(reader->*text);
  }
  if (texts.size() > 1) texts.back() = absl::StrCat("or ", texts.back());
  return absl::StrJoin(texts, "; ");
}

// Returns an error if there is nothing at the path, or if it cannot be reached.
absl::Status CheckExists(const std::string& path) {
  struct stat info;
  if (path.empty() || IsNameOfData(path) || stat(path.c_str(), &info) == 0) {
    return absl::OkStatus();
  }
  if (errno != ENOENT) return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot be opened"));
  const std::string file = path.substr(path.rfind('/') + 1);
  return absl::NotFoundError(absl::StrCat(path, ": there is no such file or folder; --data takes ",
                                          DataHelp(), DidYouMean(file, AllNames())));
}

// Returns what an error calls the data.
std::string NameOf(const DataRequest& request) {
  return request.file.empty() ? "the text that comes with the program" : request.file;
}

}  // namespace

absl::Status CheckFieldsOf(const std::string& data, const DataRequest& request,
                           absl::Span<const BatchField> provided) {
  const absl::Status status = CheckFields(request.read, provided);
  return WithMessage(status, absl::StrCat(data, ": ", status.message()));
}

absl::Span<const Reader* const> AllReaders() {
  static const Reader* const list[] = {
#define TESSERA_READER(name) &name##Reader(),
#include "core/train/data/readers/readers.inc"
#undef TESSERA_READER
  };
  return list;
}

std::string DataHelp() {
  return TextsOf([](const Reader&) { return true; }, &Reader::takes);
}

bool IsNameOfData(absl::string_view file) {
  return absl::c_any_of(AllReaders(), [file](const Reader* reader) {
    return absl::c_linear_search(reader->names, file);
  });
}

const Reader& ReaderOf(const std::string& file) {
  for (const Reader* reader : AllReaders()) {
    if (absl::c_linear_search(reader->names, file)) return *reader;
  }
  for (const Reader* reader : AllReaders()) {
    if (reader->takes_path != nullptr && reader->takes_path(file)) return *reader;
  }
  TESSERA_CHECK(false) << "no reader takes " << file;
}

absl::StatusOr<UnreadData> OpenUnreadData(const DataRequest& request) {
  RETURN_IF_ERROR(CheckExists(request.file));
  const Reader& reader = ReaderOf(request.file);
  const auto is_right = [&](const Reader& other) { return Provides(other, request.read); };
  if (is_right(reader)) return reader.open(request);
  return absl::InvalidArgumentError(absl::StrCat(
      NameOf(request), ": the model reads ", FieldsText(request.read), " in each row, and rows of ",
      reader.name, " have ", absl::StrJoin(reader.provides, " and "), ": --data may be ",
      TextsOf(is_right, &Reader::takes)));
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenRowsToPredict(const DataRequest& request) {
  const auto is_right = [&](const Reader& reader) {
    return reader.open_to_predict != nullptr && Provides(reader, request.read);
  };
  RETURN_IF_ERROR(CheckExists(request.file));
  const bool is_name = IsNameOfData(request.file);
  for (const Reader* reader : AllReaders()) {
    const bool takes = is_name ? absl::c_linear_search(reader->names, request.file)
                               : reader->takes_path != nullptr && !request.file.empty();
    if (takes && is_right(*reader)) return reader->open_to_predict(request);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      NameOf(request), ": --mode=predict reads ", FieldsText(request.read), " in each row: --data ",
      "may be ", TextsOf(is_right, &Reader::takes_to_predict)));
}

}  // namespace tessera
