// SPDX-License-Identifier: Apache-2.0
#include "device/host_compiler.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <fstream>
#include <sstream>
#include <system_error>
#include <thread>

#include "device/assemble.h"

extern char** environ;

namespace firstlight::device {
namespace {

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The exit status of a program whose output goes to a file; -1 where it could not be started or was stopped.
int run_program(std::vector<std::string> words, const std::filesystem::path& output,
                const HostCompiler::Options& options = {}) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t child = 0;
  const int error = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return -1;
  if (options.in_background) setpriority(PRIO_PROCESS, static_cast<id_t>(child), 19);
  int state = 0;
  for (;;) {
    const pid_t ended = waitpid(child, &state, WNOHANG);
    if (ended == child) break;
    if (ended < 0 && errno != EINTR) return -1;
    if (options.stop.stop_requested()) kill(child, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return WIFEXITED(state) ? WEXITSTATUS(state) : -1;
}

// Names beside `output` that no other build uses at the same time.
std::filesystem::path beside(const std::filesystem::path& output, const char* suffix) {
  static std::atomic<int> count{0};
  std::filesystem::path path = output;
  path += "." + std::to_string(getpid()) + "." + std::to_string(count++) + suffix;
  return path;
}

void remove_quietly(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::remove(path, error);
}

// "firstlight" and the FNV-1a hash (Fowler, Noll, Vo) of the bytes before; loaders ignore what stands behind an object.
std::string seal_of(std::string_view object) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : object) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  std::string seal = "firstlight";
  for (int i = 0; i < 8; ++i) seal += static_cast<char>(hash >> (8 * i) & 0xff);
  return seal;
}

Status check_seal(const std::filesystem::path& path) {
  const std::string bytes = read_text(path);
  const size_t length = seal_of("").size();
  const bool whole = bytes.size() > length && std::string_view(bytes).substr(bytes.size() - length) ==
                                                  seal_of(std::string_view(bytes).substr(0, bytes.size() - length));
  return whole ? ok_status() : invalid_data(path.string() + ": damaged, or not made here");
}

}  // namespace

Result<std::shared_ptr<LoadedLibrary>> LoadedLibrary::load(const std::filesystem::path& path) {
  FL_TRY(check_seal(path));
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return invalid_data(path.string() + ": " + dlerror());
  return std::shared_ptr<LoadedLibrary>(new LoadedLibrary(handle));
}

LoadedLibrary::~LoadedLibrary() { dlclose(handle_); }

void* LoadedLibrary::symbol(const char* name) const { return dlsym(handle_, name); }

Result<HostCompiler> HostCompiler::find() {
  for (const char* program : {"c++", "g++", "clang++"}) {
    auto compiler = of(program);
    if (compiler.ok()) return compiler;
  }
  return unsupported("no C++ compiler on this machine (looked for c++, g++, clang++)");
}

Result<HostCompiler> HostCompiler::of(const std::string& program) {
  const auto listing = beside(std::filesystem::temp_directory_path() / "firstlight-compiler", ".txt");
  const int status = run_program({program, "--version"}, listing);
  const std::string version = first_lines(read_text(listing), 1);
  remove_quietly(listing);
  if (status != 0 || version.empty()) return unsupported("no C++ compiler '" + program + "' on this machine");
  return HostCompiler(program, version);
}

Status HostCompiler::compile(const std::string& name, const std::string& source, const std::filesystem::path& output,
                             const Options& options) const {
  const auto text = beside(output, ".cc");
  const auto object = beside(output, ".so");
  const auto log = beside(output, ".log");
  {
    std::ofstream file(text, std::ios::binary);
    file << source;
    if (!file.flush()) return not_found(text.string() + " can not be written");
  }
  std::vector<std::string> words = {program_};
  words.insert(words.end(), options.flags.begin(), options.flags.end());
  words.insert(words.end(), {"-fPIC", "-fvisibility=hidden", "-shared", "-w", text.string(), "-o", object.string()});
  const int status = run_program(std::move(words), log, options);
  const std::string messages = read_text(log);
  remove_quietly(text);
  remove_quietly(log);
  if (options.stop.stop_requested()) {
    remove_quietly(object);
    return cancelled("building '" + name + "' was stopped");
  }
  if (status != 0) {
    remove_quietly(object);
    return invalid_data("kernel source '" + name + "' does not build: " + first_lines(messages));
  }
  std::ofstream(object, std::ios::binary | std::ios::app) << seal_of(read_text(object));
  std::error_code error;
  std::filesystem::rename(object, output, error);
  if (error) return not_found(output.string() + ": " + error.message());
  return ok_status();
}

}  // namespace firstlight::device
