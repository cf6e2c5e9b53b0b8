#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/model/token_fields.h"
#include "core/train/data/picture_dataset.h"
#include "core/train/data/readers/reader_list.h"
#include "core/train/data/testing/idx_files.h"
#include "core/train/data/testing/texts.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr int64_t kSequence = 7;
constexpr uint32_t kHeight = 2, kWidth = 3;

void Write(const std::string& path, const std::string& contents) {
  std::ofstream(path, std::ios::binary) << contents;
}

// Makes a folder of four pictures to train on and four to evaluate.
std::string WritePictures(const std::string& name) {
  const std::string folder = ::testing::TempDir() + "/" + name;
  std::filesystem::create_directories(folder);
  for (const std::string split : {"/train", "/t10k"}) {
    Write(folder + split + "-images-idx3-ubyte",
          IdxContents({4, kHeight, kWidth}, SomeBytes(4 * kHeight * kWidth)));
    Write(folder + split + "-labels-idx1-ubyte",
          IdxContents({4}, absl::string_view("\0\1\2\0", 4)));
  }
  return folder;
}

std::vector<BatchField> PictureFields() {
  return {{kPictures, {DType::kU8, {kHeight, kWidth, 1}}, 256},
          {kLabels, {DType::kI32, {}}, 3, 0, "model.classes"}};
}

// The inputs of a model that no file has.
std::vector<BatchField> RatingFields() {
  return {{"user", {DType::kI32, {}}, 5}, {"item", {DType::kI32, {}}, 9}};
}

DataRequest Request(const std::string& file, std::vector<BatchField> read) {
  return {.file = file, .read = std::move(read), .sequence = kSequence, .batch = 2};
}

// Returns data that each reader of the list takes. A reader that is added needs some here.
const std::map<std::string, DataRequest>& Examples() {
  static const auto* const examples = new std::map<std::string, DataRequest>{
      {"pictures", Request(WritePictures("pictures"), PictureFields())},
      {"text", Request(WriteText("readers_test.txt", MixedText(300)), TokenFields(kSequence, 256))},
      {"synthetic data", Request("synthetic", RatingFields())},
  };
  return *examples;
}

absl::StatusOr<std::unique_ptr<Dataset>> Open(const DataRequest& request) {
  absl::StatusOr<UnreadData> unread = OpenUnreadData(request);
  if (!unread.ok()) return unread.status();
  std::string checked;
  if (unread->file != nullptr) {
    absl::StatusOr<std::string> of_file = unread->check(*unread->file);
    if (!of_file.ok()) return of_file.status();
    checked = *of_file;
  }
  return unread->read(std::move(unread->file), checked);
}

std::string ErrorOf(const DataRequest& request) {
  const auto dataset = Open(request);
  EXPECT_FALSE(dataset.ok());
  std::string message(dataset.status().message());
  EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 0) << message;
  return message;
}

TEST(ReadersTest, EachSaysWhatItTakes) {
  std::set<std::string> names;
  for (const Reader* reader : AllReaders()) {
    SCOPED_TRACE(reader->name);
    EXPECT_TRUE(names.insert(reader->name).second);
    EXPECT_NE(reader->open, nullptr);
    EXPECT_TRUE(reader->takes_path != nullptr || !reader->names.empty());
    EXPECT_THAT(DataHelp(), HasSubstr(reader->takes));
    EXPECT_EQ(reader->takes_to_predict.empty(), reader->open_to_predict == nullptr);
    for (const std::string& name : reader->names) {
      EXPECT_TRUE(names.insert(name).second);
      EXPECT_THAT(reader->takes, HasSubstr(name));
      EXPECT_TRUE(IsNameOfData(name));
      EXPECT_EQ(&ReaderOf(name), reader);
    }
  }
}

TEST(ReadersTest, EachReadsItsData) {
  for (const Reader* reader : AllReaders()) {
    SCOPED_TRACE(reader->name);
    const auto example = Examples().find(reader->name);
    ASSERT_NE(example, Examples().end()) << "this test needs an example of its data";
    const DataRequest& request = example->second;
    EXPECT_EQ(&ReaderOf(request.file), reader);
    const auto dataset = Open(request);
    ASSERT_TRUE(dataset.ok()) << dataset.status();
    std::vector<std::string> provided;
    for (const BatchField& field : (*dataset)->fields()) provided.push_back(field.name);
    EXPECT_TRUE(reader->provides.empty() || provided == reader->provides);
    EXPECT_TRUE(CheckFields(request.read, (*dataset)->fields()).ok());
    EXPECT_GT((*dataset)->EvaluationRows(), 0);
  }
}

TEST(ReadersTest, AnErrorNamesTheDataAndTheModelThatDoNotFit) {
  for (const Reader* reader : AllReaders()) {
    if (reader->provides.empty()) continue;  // has whatever a model reads
    SCOPED_TRACE(reader->name);
    DataRequest request = Examples().at(reader->name);
    request.read = RatingFields();
    EXPECT_EQ(ErrorOf(request),
              absl::StrCat(request.file,
                           ": the model reads user i32[] and item i32[] in each row, and rows of ",
                           reader->name, " have ", reader->provides[0], " and ",
                           reader->provides[1], ": --data may be synthetic, for random rows"));
  }
}

TEST(ReadersTest, AnErrorOfOtherTypesNamesTheData) {
  DataRequest pictures = Examples().at("pictures");
  pictures.read[0].type.shape = {5, 5, 1};
  EXPECT_EQ(ErrorOf(pictures),
            pictures.file +
                ": the model reads pictures u8[5, 5, 1] in each row, and the data have "
                "pictures u8[2, 3, 1] and labels i32[]");
  DataRequest text = Examples().at("text");
  text.read = TokenFields(kSequence, 100, "model.vocabulary");
  EXPECT_EQ(ErrorOf(text),
            text.file +
                ": model.vocabulary is 100: tokens of the data have 256 values, so it must "
                "be 256 or more");
}

TEST(ReadersTest, AnErrorOfAPathWithNothingListsWhatThereCouldBe) {
  const std::vector<BatchField> tokens = TokenFields(kSequence, 256);
  EXPECT_EQ(ErrorOf(Request("/nowhere/fashon-mnist", tokens)),
            absl::StrCat("/nowhere/fashon-mnist: there is no such file or folder; --data takes ",
                         DataHelp(), "; did you mean 'fashion-mnist'?"));
  EXPECT_THAT(ErrorOf(Request("/nowhere/much", tokens)),
              AllOf(HasSubstr("; --data takes "), Not(HasSubstr("did you mean"))));
  const std::string file = Examples().at("text").file;
  EXPECT_EQ(ErrorOf(Request(file + "/x", tokens)), file + "/x: cannot be opened: Not a directory");
}

TEST(ReadersTest, RowsToPredict) {
  const DataRequest& example = Examples().at("pictures");
  DataRequest request = Request(example.file + "/t10k-images-idx3-ubyte", {example.read[0]});
  const auto error_of = [](const DataRequest& wrong) {
    return std::string(OpenRowsToPredict(wrong).status().message());
  };
  const auto rows = OpenRowsToPredict(request);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ((*rows)->EvaluationRows(), 4);
  request.read[0].type.shape[0] = 9;
  EXPECT_THAT(error_of(request),
              StartsWith(request.file + ": the model reads pictures u8[9, 3, 1] in each row"));
  request.file = example.file;
  EXPECT_THAT(error_of(request),
              StartsWith(example.file + ": is a folder: --mode=predict takes a file of pictures"));
  request.read = {RatingFields()[0]};
  EXPECT_EQ(error_of(request), request.file +
                                   ": --mode=predict reads user i32[] in each row: --data may be "
                                   "synthetic, for random rows");
  request.file = "synthetic";
  EXPECT_TRUE(OpenRowsToPredict(request).ok());
}

}  // namespace
}  // namespace tessera
