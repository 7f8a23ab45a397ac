// SPDX-License-Identifier: Apache-2.0
#include "device/cpu/native_code.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>

#include "device/cpu/detect.h"

extern char** environ;

namespace firstlight::device {
namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

fs::path on_path(const std::string& program) {
  std::error_code error;
  if (program.find('/') != std::string::npos)
    return ::access(program.c_str(), X_OK) == 0 ? fs::path(program) : fs::path();
  std::stringstream folders(environment("PATH"));
  for (std::string folder; std::getline(folders, folder, ':');) {
    const fs::path full = fs::path(folder) / program;
    if (fs::is_regular_file(full, error) && ::access(full.c_str(), X_OK) == 0) return full;
  }
  return {};
}

std::string head_of(const fs::path& file, size_t bytes) {
  std::ifstream in(file, std::ios::binary);
  std::string text(bytes, '\0');
  in.read(text.data(), static_cast<std::streamsize>(bytes));
  text.resize(static_cast<size_t>(in.gcount()));
  return text;
}

// Runs a program, both its outputs into `log`; its exit status, -1 when it could not be started.
int run(const std::vector<std::string>& command, const fs::path& log, const std::stop_token& stop = {}) {
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ::posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t child = 0;
  const int error = ::posix_spawn(&child, argv[0], &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return -1;
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(child), 19);  // the model runs meanwhile
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (stop.stop_requested()) ::kill(child, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// FNV-1a (Fowler, Noll, Vo), 64 bits, from a start of its own.
uint64_t fnv1a(std::string_view text, uint64_t hash) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

std::string hex(uint64_t value) {
  std::string text(16, '0');
  for (size_t i = 16; i-- > 0; value >>= 4) text[i] = "0123456789abcdef"[value & 15];
  return text;
}

// Ours alone: nobody else can put code there that we would load.
Status check_private(const fs::path& folder) {
  struct stat info {};
  if (::stat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    return unavailable("cache folder " + folder.string() + " can not be made");
  }
  if (info.st_uid != ::geteuid() || (info.st_mode & 022) != 0) {
    return unavailable("cache folder " + folder.string() + " belongs to another user or is writable by others");
  }
  return ok_status();
}

Result<void*> open_object(const fs::path& file) {
  void* handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return unavailable("generated code " + file.string() + ": " + ::dlerror());
  return handle;
}

// A folder beside the cache for one build; gone with it.
class Workplace {
 public:
  static Result<std::unique_ptr<Workplace>> make(const fs::path& cache_dir) {
    std::string name = (cache_dir / "build-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr)
      return unavailable("cache folder " + cache_dir.string() + ": " + std::strerror(errno));
    return std::unique_ptr<Workplace>(new Workplace(name));
  }
  ~Workplace() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  fs::path file(const char* name) const { return folder_ / name; }

 private:
  explicit Workplace(fs::path folder) : folder_(std::move(folder)) {}
  fs::path folder_;
};

}  // namespace

Result<NativeCompiler> find_native_compiler() {
  fs::path found;
  for (const std::string& name : {environment("FIRSTLIGHT_CXX"), environment("CXX"), std::string("c++"),
                                  std::string("g++"), std::string("clang++")}) {
    if (name.empty()) continue;
    found = on_path(name);
    if (!found.empty()) break;
  }
  if (found.empty()) return unsupported("no C++ compiler is found (c++, g++, clang++ or $FIRSTLIGHT_CXX)");
  NativeCompiler compiler{.path = found.string(), .version = "", .flags = {}};
  std::string log = (fs::temp_directory_path() / "firstlight-cxx-XXXXXX").string();
  const int file = ::mkstemp(log.data());
  if (file < 0) return unavailable("a temporary file can not be made: " + std::string(std::strerror(errno)));
  ::close(file);
  const int status = run({compiler.path, "--version"}, log);
  compiler.version = head_of(log, 256);
  compiler.version = compiler.version.substr(0, compiler.version.find('\n'));
  ::unlink(log.c_str());
  if (status != 0) return unsupported(compiler.path + " does not run: " + compiler.version);
  const bool avx512 = detect_cpu().features.has({target::kAvx512});
  compiler.flags = {"-std=c++17",
                    "-O3",
                    avx512 ? "-march=x86-64-v4" : "-march=x86-64-v3",
                    "-fno-math-errno",
                    "-fno-trapping-math",
                    "-ffp-contract=off"};
  if (avx512) compiler.flags.push_back("-mprefer-vector-width=512");
  return compiler;
}

Result<fs::path> default_cache_dir() {
  std::string base = environment("FIRSTLIGHT_CACHE");
  if (base.empty() && !environment("XDG_CACHE_HOME").empty()) base = environment("XDG_CACHE_HOME") + "/firstlight";
  if (base.empty() && !environment("HOME").empty()) base = environment("HOME") + "/.cache/firstlight";
  if (base.empty()) return unavailable("no cache folder: neither FIRSTLIGHT_CACHE nor HOME is set");
  std::error_code error;
  if (!fs::exists(base, error)) {
    fs::create_directories(fs::path(base).parent_path(), error);
    ::mkdir(base.c_str(), 0700);
  }
  FL_TRY(check_private(base));
  return fs::path(base);
}

std::string native_code_key(std::string_view source, const NativeCompiler& compiler) {
  std::string all = compiler.path + "\n" + compiler.version + "\n";
  for (const std::string& flag : compiler.flags) all += flag + " ";
  all += "\n";
  all += source;
  return hex(fnv1a(all, 0xcbf29ce484222325u)) + hex(fnv1a(all, 0x84222325cbf29ce4u));
}

NativeCode::~NativeCode() { ::dlclose(handle_); }

void* NativeCode::symbol(const std::string& name) const { return ::dlsym(handle_, name.c_str()); }

Result<std::shared_ptr<NativeCode>> NativeCode::cached(std::string_view source, const NativeCompiler& compiler,
                                                       const fs::path& cache_dir) {
  FL_TRY(check_private(cache_dir));
  const fs::path file = cache_dir / (native_code_key(source, compiler) + ".so");
  std::error_code error;
  if (!fs::exists(file, error)) return std::shared_ptr<NativeCode>();
  const auto object = open_object(file);
  if (!object.ok()) {  // cut off or of another machine: made anew
    fs::remove(file, error);
    return std::shared_ptr<NativeCode>();
  }
  return std::shared_ptr<NativeCode>(new NativeCode(*object));
}

Result<std::shared_ptr<NativeCode>> NativeCode::build(std::string_view source, const NativeCompiler& compiler,
                                                      const fs::path& cache_dir, const std::stop_token& stop) {
  if (auto known = FL_TRY(cached(source, compiler, cache_dir))) return known;
  const auto workplace = FL_TRY(Workplace::make(cache_dir));
  const fs::path code = workplace->file("kernels.cc"), object = workplace->file("kernels.so"),
                 log = workplace->file("log");
  std::ofstream(code, std::ios::binary) << source;
  std::vector<std::string> command = {compiler.path};
  command.insert(command.end(), compiler.flags.begin(), compiler.flags.end());
  command.insert(command.end(), {"-w", "-shared", "-fPIC", "-o", object.string(), code.string()});
  const int status = run(command, log, stop);
  if (status < 0)
    return unavailable(compiler.path + (stop.stop_requested() ? " was stopped" : " did not run to its end"));
  if (status != 0) return invalid_data("generated code does not build: " + head_of(log, 2000));
  const fs::path file = cache_dir / (native_code_key(source, compiler) + ".so");
  std::error_code error;
  fs::rename(object, file, error);  // whole or not at all, whoever else builds the same
  if (error) return unavailable("generated code " + file.string() + ": " + error.message());
  return std::shared_ptr<NativeCode>(new NativeCode(FL_TRY(open_object(file))));
}

}  // namespace firstlight::device
