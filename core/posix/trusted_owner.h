// Which users' links are followed, and whose folders are written in.
#ifndef TESSERA_CORE_POSIX_TRUSTED_OWNER_H_
#define TESSERA_CORE_POSIX_TRUSTED_OWNER_H_

#include <sys/types.h>

namespace tessera {

// Returns whether the owner of a file is this user or root. The owner of "/" counts as root: in a
// user namespace, root's files may have a number other than 0. Thread safety: any thread may call
// it.
bool IsUserOrRoot(uid_t owner);

}  // namespace tessera

#endif  // TESSERA_CORE_POSIX_TRUSTED_OWNER_H_
