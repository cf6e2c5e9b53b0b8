#include "strategies/host/inspect_plugin.h"

#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/posix/file_descriptor.h"
#include "core/posix/trusted_path.h"
#include "core/status/status_macros.h"
#include "strategies/api/strategy.h"
#include "strategies/host/plugin_errors.h"

// The ELF header of this program, or of the library that this code is in. The linker defines it.
extern "C" __attribute__((visibility("hidden"))) const ElfW(Ehdr) __ehdr_start;  // NOLINT

namespace tessera {
namespace {

// The notes of a library of ten thousand sources that include strategy.h have a third of this.
constexpr uint64_t kMaxNoteBytes = uint64_t{1} << 20;

struct InterfaceVersion {
  int32_t major = 0;
  int32_t minor = 0;
};

struct EndElf {
  void operator()(Elf* elf) const { elf_end(elf); }
};
using ElfPointer = std::unique_ptr<Elf, EndElf>;

absl::Status CannotLoad(const std::string& path, absl::string_view why,
                        absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
  return absl::Status(code, absl::StrCat("cannot load the strategy plugin ", path, ": ", why));
}

// Returns the error of a system call for the file.
absl::Status CannotOpen(const std::string& path, int error) {
  absl::StatusCode code = absl::StatusCode::kInvalidArgument;
  if (error == ENOENT || error == ENOTDIR) code = absl::StatusCode::kNotFound;
  // ResourceExhausted would mean that no Plan fits in memory.
  if (error == EMFILE || error == ENFILE || error == ENOMEM) code = absl::StatusCode::kUnavailable;
  return CannotLoad(path, std::generic_category().message(error), code);
}

// Opens a regular file. A pipe or a device does not keep the process waiting.
absl::StatusOr<FileDescriptor> OpenFile(const std::string& path, const std::string& real_path) {
  FileDescriptor file(open(real_path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.is_open()) return CannotOpen(path, errno);
  struct stat found;
  if (fstat(file.get(), &found) != 0) return CannotOpen(path, errno);
  if (!S_ISREG(found.st_mode)) return CannotLoad(path, "it is no regular file");
  return file;
}

// Checks that the file is a library for the machine of this program.
absl::Status CheckHeader(int file, const std::string& path) {
  ElfW(Ehdr) header;
  if (pread(file, &header, sizeof(header), 0) != static_cast<ssize_t>(sizeof(header)) ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
    return CannotLoad(path, "it is no library: it has no ELF header");
  }
  if (header.e_ident[EI_CLASS] != __ehdr_start.e_ident[EI_CLASS] ||
      header.e_ident[EI_DATA] != __ehdr_start.e_ident[EI_DATA] ||
      header.e_machine != __ehdr_start.e_machine) {
    return CannotLoad(path, "it is for another kind of machine: build it for this one");
  }
  if (header.e_type != ET_DYN) return CannotLoad(path, "it is no shared library");
  // 0 sections stand for a number that is elsewhere in the file: 65280 or more, for which libelf
  // would allocate memory.
  if (header.e_shnum > 0) return absl::OkStatus();
  return CannotLoad(path, "it has no section headers");
}

// Returns whether a string that begins at `offset` is the name of the symbol.
bool IsSymbolName(const Elf_Data& strings, size_t offset) {
  constexpr size_t kBytes = sizeof(TESSERA_STRATEGY_SYMBOL);  // with the zero byte
  return strings.d_buf != nullptr && offset <= strings.d_size &&
         strings.d_size - offset >= kBytes &&
         std::memcmp(static_cast<const char*>(strings.d_buf) + offset, TESSERA_STRATEGY_SYMBOL,
                     kBytes) == 0;
}

// Returns whether a symbol is defined in the library and seen from outside.
bool IsExported(const GElf_Sym& symbol) {
  const int binding = GELF_ST_BIND(symbol.st_info);
  return symbol.st_shndx != SHN_UNDEF && (binding == STB_GLOBAL || binding == STB_WEAK);
}

// Returns whether the symbols of a section include that of a plugin.
bool HasStrategySymbol(Elf* elf, Elf_Scn* section, const GElf_Shdr& header) {
  Elf_Data* const symbols = elf_getdata(section, nullptr);
  Elf_Scn* const string_section = elf_getscn(elf, header.sh_link);
  Elf_Data* const strings =
      string_section == nullptr ? nullptr : elf_getdata(string_section, nullptr);
  if (symbols == nullptr || strings == nullptr) return false;
  GElf_Sym symbol;
  for (int i = 0; gelf_getsym(symbols, i, &symbol) != nullptr; ++i) {
    if (IsExported(symbol) && IsSymbolName(*strings, symbol.st_name)) return true;
  }
  return false;
}

// Returns whether a library exports the symbol of a plugin. It has one section of dynamic symbols.
bool ExportsStrategySymbol(Elf* elf) {
  for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf, section)) != nullptr;) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr) return false;
    if (header.sh_type == SHT_DYNSYM) return HasStrategySymbol(elf, section, header);
  }
  return false;
}

// Returns the version in the first note of the interface among the notes of a segment.
std::optional<InterfaceVersion> VersionIn(Elf_Data* notes) {
  const absl::string_view wanted(TESSERA_STRATEGY_NOTE_NAME, sizeof(TESSERA_STRATEGY_NOTE_NAME));
  GElf_Nhdr note;
  size_t name_offset = 0, value_offset = 0;
  for (size_t offset = 0;
       (offset = gelf_getnote(notes, offset, &note, &name_offset, &value_offset)) > 0;) {
    const char* const bytes = static_cast<const char*>(notes->d_buf);
    InterfaceVersion version;
    if (note.n_type != TESSERA_STRATEGY_NOTE_TYPE || note.n_descsz != sizeof(version) ||
        absl::string_view(bytes + name_offset, note.n_namesz) != wanted) {
      continue;
    }
    std::memcpy(&version, bytes + value_offset, sizeof(version));
    return version;
  }
  return std::nullopt;
}

// Returns the version of the interface that a library was built with; nullopt without its note.
std::optional<InterfaceVersion> VersionOf(Elf* elf) {
  size_t segments = 0;
  if (elf_getphdrnum(elf, &segments) != 0) return std::nullopt;
  uint64_t bytes = 0;  // of the notes so far, which libelf keeps in memory
  for (size_t i = 0; i < segments; ++i) {
    GElf_Phdr segment;
    if (gelf_getphdr(elf, static_cast<int>(i), &segment) == nullptr) break;
    if (segment.p_type != PT_NOTE || segment.p_filesz > kMaxNoteBytes - bytes) continue;
    bytes += segment.p_filesz;
    Elf_Data* const notes =
        elf_getdata_rawchunk(elf, static_cast<int64_t>(segment.p_offset), segment.p_filesz,
                             segment.p_align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR);
    if (notes == nullptr) continue;
    if (const auto version = VersionIn(notes)) return version;
  }
  return std::nullopt;
}

// Checks, without loading it, that a file is a plugin for this machine and version.
absl::Status InspectElf(int file, const std::string& path) {
  RETURN_IF_ERROR(CheckHeader(file, path));
  if (elf_version(EV_CURRENT) == EV_NONE) return CannotLoad(path, "libelf is too old");
  const ElfPointer elf(elf_begin(file, ELF_C_READ, nullptr));
  if (elf_kind(elf.get()) != ELF_K_ELF) return CannotLoad(path, "it is no library");
  if (!ExportsStrategySymbol(elf.get())) {
    return MalformedPlugin(path, absl::StrCat("it does not export `", TESSERA_STRATEGY_SYMBOL,
                                              "`: strategies/api/strategy.h says what a plugin "
                                              "has"));
  }
  const std::optional<InterfaceVersion> version = VersionOf(elf.get());
  if (!version.has_value()) {
    return MalformedPlugin(
        path, absl::StrCat("it has no note ", TESSERA_STRATEGY_NOTE_SECTION,
                           ", which says before it is loaded that it is a plugin: build it with "
                           "this version's strategy.h"));
  }
  if (version->major == TESSERA_STRATEGY_MAJOR) return absl::OkStatus();
  return PluginOfOtherVersion(path, version->major, version->minor);
}

}  // namespace

absl::StatusOr<std::string> InspectPlugin(const std::string& path) {
  std::error_code error;
  const std::string real_path = std::filesystem::canonical(path, error).string();
  if (error) return CannotOpen(path, error.value());
  ASSIGN_OR_RETURN(const FileDescriptor file, OpenFile(path, real_path));
  const absl::Status trusted = CheckTrustedPath(real_path);
  if (!trusted.ok()) {
    return CannotLoad(
        path, trusted.message(),
        absl::IsFailedPrecondition(trusted) ? trusted.code() : absl::StatusCode::kInvalidArgument);
  }
  RETURN_IF_ERROR(InspectElf(file.get(), path));
  return real_path;
}

}  // namespace tessera
