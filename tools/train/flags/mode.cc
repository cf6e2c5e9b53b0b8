#include "tools/train/flags/mode.h"

namespace tessera {

std::string ModeName(Mode mode) { return AbslUnparseFlag(mode); }

bool AbslParseFlag(absl::string_view text, Mode* mode, std::string* error) {
  for (Mode candidate : {Mode::kTrain, Mode::kEvaluate, Mode::kPredict, Mode::kSample}) {
    if (text == AbslUnparseFlag(candidate)) {
      *mode = candidate;
      return true;
    }
  }
  *error = "none of train, evaluate, predict and sample";
  return false;
}

std::string AbslUnparseFlag(Mode mode) {
  switch (mode) {
    case Mode::kTrain:
      return "train";
    case Mode::kEvaluate:
      return "evaluate";
    case Mode::kPredict:
      return "predict";
    case Mode::kSample:
      return "sample";
  }
  return "";
}

}  // namespace tessera
