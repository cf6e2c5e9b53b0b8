// Reads TensorBoard's event files, for tests: a second implementation of the format.
#ifndef TESSERA_CORE_TRAIN_RECORD_TESTING_READ_EVENTS_H_
#define TESSERA_CORE_TRAIN_RECORD_TESTING_READ_EVENTS_H_

#include <map>
#include <string>
#include <vector>

#include "core/train/record/tensorboard_event.pb.h"

namespace tessera {

// Returns the paths of a folder's event files, in the order in which TensorBoard reads them.
std::vector<std::string> EventFilesIn(const std::string& folder);

struct ReadEvents {
  std::vector<tensorboard::Event> events;
  std::string fault;  // "" if the file consists of complete records
};
ReadEvents ReadEventFile(const std::string& path);

// Returns the scalars of an event by their tags.
std::map<std::string, float> ScalarsIn(const tensorboard::Event& event);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_RECORD_TESTING_READ_EVENTS_H_
