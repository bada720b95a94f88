// Reads an ELF file's dynamic symbol table and loads plugins as a host does.
#include "tests/conformance/plugin_file.h"

#include <dlfcn.h>
#include <elf.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include "tests/conformance/report.h"

namespace longstream::conformance {
namespace {

// A copy of the Structure at `offset` in the file. Checks the file's bounds.
template <typename Structure>
Structure ReadAt(const std::vector<char>& file, uint64_t offset, const std::string& path) {
  if (offset > file.size() || file.size() - offset < sizeof(Structure)) {
    throw CheckFailed{path + ": the file ends within its symbol table"};
  }
  Structure structure;
  std::memcpy(&structure, file.data() + offset, sizeof(structure));
  return structure;
}

bool IsVisibleElsewhere(const Elf64_Sym& symbol) {
  const unsigned binding = ELF64_ST_BIND(symbol.st_info);
  const unsigned visibility = ELF64_ST_VISIBILITY(symbol.st_other);
  return symbol.st_shndx != SHN_UNDEF && binding != STB_LOCAL &&
         (visibility == STV_DEFAULT || visibility == STV_PROTECTED);
}

std::string NameAt(const std::vector<char>& file, uint64_t offset, const std::string& path) {
  const size_t end = offset < file.size() ? static_cast<size_t>(offset) +
                                                strnlen(file.data() + offset, file.size() - offset)
                                          : file.size();
  if (end >= file.size()) throw CheckFailed{path + ": a symbol's name is outside the file"};
  return std::string(file.data() + offset);
}

}  // namespace

std::vector<std::string> ExportedSymbols(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  const std::vector<char> file{std::istreambuf_iterator<char>(stream), {}};
  const auto header = ReadAt<Elf64_Ehdr>(file, 0, path);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_type != ET_DYN) {
    throw CheckFailed{path + ": not a 64-bit ELF shared object"};
  }
  const auto section_at = [&](uint64_t index) {
    return ReadAt<Elf64_Shdr>(file, header.e_shoff + index * sizeof(Elf64_Shdr), path);
  };
  for (uint64_t i = 0; i < header.e_shnum; ++i) {
    const Elf64_Shdr section = section_at(i);
    if (section.sh_type != SHT_DYNSYM) continue;
    const Elf64_Shdr names = section_at(section.sh_link);
    std::vector<std::string> exported;
    for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= section.sh_size; at += sizeof(Elf64_Sym)) {
      const auto symbol = ReadAt<Elf64_Sym>(file, section.sh_offset + at, path);
      if (IsVisibleElsewhere(symbol)) {
        exported.push_back(NameAt(file, names.sh_offset + symbol.st_name, path));
      }
    }
    return exported;
  }
  throw CheckFailed{path + ": no dynamic symbol table"};
}

PluginFile::PluginFile(const std::string& path)
    : handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (handle_ == nullptr) throw CheckFailed{dlerror()};
  void* symbol = dlsym(handle_, LS_BACKEND_SYMBOL);
  if (symbol != nullptr) backend_ = reinterpret_cast<ls_backend_function>(symbol)();
}

PluginFile::~PluginFile() { dlclose(handle_); }

}  // namespace longstream::conformance
