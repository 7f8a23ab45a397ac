// SPDX-License-Identifier: Apache-2.0
#include "base/file_map.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace firstlight {

namespace fs = std::filesystem;

Result<FileMap> FileMap::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe must not make us wait
  if (fd < 0) {
    const int error = errno;
    std::error_code ignored;
    std::string message = path + ": " + std::strerror(error);
    if (fs::is_symlink(path, ignored)) message += " (a link to " + fs::read_symlink(path, ignored).string() + ")";
    return not_found(message);
  }
  struct stat info {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd);
    return invalid_data(path + ": not a regular file");
  }
  FileMap map;
  map.path_ = path;
  map.size_bytes_ = static_cast<size_t>(info.st_size);
  if (map.size_bytes_ > 0) {
    void* data = ::mmap(nullptr, map.size_bytes_, PROT_READ, MAP_PRIVATE, fd, 0);
    const int error = errno;
    ::close(fd);
    if (data == MAP_FAILED) {
      map.size_bytes_ = 0;
      return unavailable(path + ": cannot map: " + std::strerror(error));
    }
    map.data_ = data;
  } else {
    ::close(fd);
  }
  return map;
}

FileMap::FileMap(FileMap&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)) {}

FileMap& FileMap::operator=(FileMap&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  return *this;
}

FileMap::~FileMap() {
  if (data_ != nullptr) ::munmap(data_, size_bytes_);
}

Result<std::string> read_text_file(const std::string& path, size_t limit_bytes) {
  const FileMap map = FL_TRY(FileMap::open(path));
  const auto bytes = map.bytes();
  if (bytes.size() > limit_bytes) {
    return invalid_data(path + ": " + std::to_string(bytes.size()) + " bytes, at most " + std::to_string(limit_bytes) +
                        " wanted");
  }
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

namespace {

// Where the bytes go: links are followed, and what is no file (a device, a pipe, a directory) is never replaced.
Result<fs::path> file_to_replace(const std::string& path) {
  std::error_code error;
  const fs::file_status own = fs::symlink_status(path, error);
  if (!fs::exists(own)) return fs::path(path);
  fs::path target = fs::is_symlink(own) ? fs::canonical(path, error) : fs::path(path);
  if (fs::is_symlink(own) && error) return invalid_argument(path + ": a link to nowhere: " + error.message());
  if (!fs::is_regular_file(target, error)) return invalid_argument(path + ": cannot write: not a regular file");
  return target;
}

}  // namespace

Status write_file(const std::string& path, std::string_view content) {
  const fs::path target = FL_TRY(file_to_replace(path));
  const std::string temporary = target.string() + ".partial";
  std::error_code error;
  {
    errno = 0;
    std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
    out.write(content.data(), static_cast<std::streamsize>(content.size()));
    if (!out.flush()) {
      const std::string reason = errno != 0 ? ": " + std::generic_category().message(errno) : "";
      if (out.is_open()) fs::remove(temporary, error);
      return invalid_argument(path + ": cannot write" + reason);
    }
  }
  fs::rename(temporary, target, error);
  if (error) {
    const std::string reason = error.message();
    fs::remove(temporary, error);
    return invalid_argument(path + ": cannot rename into place: " + reason);
  }
  return ok_status();
}

}  // namespace firstlight
