// Entries that another user may have prepared where a file is to be written.
#ifndef TESSERA_CORE_POSIX_TESTING_OBSTACLES_H_
#define TESSERA_CORE_POSIX_TESTING_OBSTACLES_H_

#include <sys/types.h>

#include <string>
#include <vector>

namespace tessera {

enum class Obstacle { kLink, kDanglingLink, kHardLink, kFifo, kSocket, kFolder, kLinkToFolder };

// All of them: a test that walks over this list forgets none.
std::vector<Obstacle> AllObstacles();

// "a link to a file", ...
std::string NameOf(Obstacle obstacle);

// Replaces what is at `path` by an obstacle. Links lead to files and folders below `victim`, a
// folder that MakeVictim has made. A socket needs a path of 107 bytes at most.
void Put(Obstacle obstacle, const std::string& path, const std::string& victim);

// Makes a folder that must not change. It holds a file, and a folder with files of a run; it does
// not hold "none", to which dangling links lead.
void MakeVictim(const std::string& path);

// Another user than the tests'.
inline constexpr uid_t kOtherUser = 65532;
// Returns whether this process can make files of other users and act as them: root of the host can,
// root of a user namespace cannot.
bool MayActAsOthers();

// Returns every entry below a folder with its mode, size and contents, as text.
std::string Snapshot(const std::string& folder);

}  // namespace tessera

#endif  // TESSERA_CORE_POSIX_TESTING_OBSTACLES_H_
