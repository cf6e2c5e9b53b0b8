// A reader makes a dataset of what --data names.
//
// To add one: a line in readers.inc, and a file that defines its function. `--help`, the errors for
// data that no reader takes or that a model cannot read, and readers_test.cc go through the list.
#ifndef TESSERA_CORE_TRAIN_DATA_READERS_READER_H_
#define TESSERA_CORE_TRAIN_DATA_READERS_READER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/model/batch_field.h"
#include "core/train/data/data_file.h"
#include "core/train/data/dataset.h"

namespace tessera {

// Data as a configuration names them, and the model that reads them.
struct DataRequest {
  std::string file = {};  // a path, or a name; "" for the data that come with the program
  std::vector<BatchField> read = {};  // the inputs of a batch
  int64_t sequence = 1;               // the length of a row, for data whose rows have any length
  int64_t batch = 1;                  // rows of a batch
  uint64_t seed = 1;
};

// Data of which a rank has read the beginning at most.
struct UnreadData {
  // The file that one rank of each host checks for all; null if every rank reads the data itself.
  std::unique_ptr<DataFile> file = {};
  // Reads all of `file`. Returns one line, the argument `checked` of `read`.
  std::function<absl::StatusOr<std::string>(const DataFile& file)> check = {};
  // Makes the dataset, of `file` if there is one.
  std::function<absl::StatusOr<std::unique_ptr<Dataset>>(std::unique_ptr<DataFile> file,
                                                         std::string checked)>
      read = {};
};

struct Reader {
  std::string name;  // what its data are: "text"
  // The values that --data may have, for --help and errors: "a UTF-8 text, of which each byte is a
  // token".
  std::string takes;
  // Values of --data that are no paths: "fashion-mnist".
  std::vector<std::string> names = {};
  // Returns whether it reads this path, which may not exist; null for a reader of names alone.
  bool (*takes_path)(const std::string& path) = nullptr;
  // The fields of a row, by name; none if they are those that the model reads, whatever they are.
  std::vector<std::string> provides = {};
  // Whether tokens are bytes of a text, of which a language model can generate more.
  bool tokens_are_bytes = false;
  // Opens data whose rows have the fields that `request` reads, by name. Their types are compared
  // here if they are known before the data are read, and else in UnreadData::read.
  absl::StatusOr<UnreadData> (*open)(const DataRequest& request) = nullptr;
  // Opens rows without targets, of which a model predicts something; null if it reads none.
  absl::StatusOr<std::unique_ptr<Dataset>> (*open_to_predict)(const DataRequest& request) = nullptr;
  std::string takes_to_predict = {};  // as `takes`, for these
};

// Returns CheckFields for data with a name: its error begins with that of the data.
absl::Status CheckFieldsOf(const std::string& data, const DataRequest& request,
                           absl::Span<const BatchField> provided);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_DATA_READERS_READER_H_
