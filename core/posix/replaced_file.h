// A file that the user names for a result, and that has all of it or is as it was before, even if
// the process is killed: --predictions=FILE.
#ifndef TESSERA_CORE_POSIX_REPLACED_FILE_H_
#define TESSERA_CORE_POSIX_REPLACED_FILE_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/posix/file_descriptor.h"
#include "core/posix/folder.h"

namespace tessera {

// Not thread-safe.
class ReplacedFile {
 public:
  // Checks, before the work that the file is for, that it can be written: makes a file of another
  // name beside it. A link is followed under the rules of output_file.h, also to a device or a
  // FIFO, which are written in their place. Errors name the path.
  static absl::StatusOr<std::unique_ptr<ReplacedFile>> Begin(const std::string& path);
  // Without Finish, removes the file of another name.
  ~ReplacedFile();
  ReplacedFile(const ReplacedFile&) = delete;
  ReplacedFile& operator=(const ReplacedFile&) = delete;

  // Writes the contents, brings them to the disk, and gives the file its name. Call it once.
  absl::Status Finish(absl::string_view contents);

 private:
  // Where the contents are written until they are complete.
  struct Temporary {
    Folder folder;
    std::string name;   // of the file in the end
    std::string first;  // its name until then
    FileDescriptor file;
  };

  explicit ReplacedFile(std::string path) : path_(std::move(path)) {}

  static absl::StatusOr<Temporary> MakeTemporary(const std::string& path);

  const std::string path_;
  std::unique_ptr<Temporary> temporary_;  // null for a device or a FIFO, and after Finish
};

}  // namespace tessera

#endif  // TESSERA_CORE_POSIX_REPLACED_FILE_H_
