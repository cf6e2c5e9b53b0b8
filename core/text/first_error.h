// Collects the first error of protobuf's parser, which otherwise prints all errors.
#ifndef TESSERA_CORE_TEXT_FIRST_ERROR_H_
#define TESSERA_CORE_TEXT_FIRST_ERROR_H_

#include <string>

#include "google/protobuf/io/tokenizer.h"

namespace tessera {

// Keeps the first error of a parser. Pass it to TextFormat::Parser::RecordErrorsTo. Thread safety:
// one thread at a time.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override {
    if (!message_.empty()) return;
    message_ = message;
    line_ = line + 1;
    column_ = column;
  }
  int line() const { return line_; }                       // from 1; 0 if there is no error
  int column() const { return column_; }                   // from 0, as protobuf's tokenizer counts
  const std::string& message() const { return message_; }  // "" if there is no error

 private:
  std::string message_;
  int line_ = 0, column_ = 0;
};

}  // namespace tessera

#endif  // TESSERA_CORE_TEXT_FIRST_ERROR_H_
