#include "torch/tune.h"

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "cuda/plan/current_rules.h"
#include "torch/hooks.h"
#include "torch/inspect.h"

namespace tiled {
namespace {

std::atomic<int> open_blocks{0};

// The GPUs of this machine; without any, those that can be planned for.
std::vector<DeviceInfo> devices_here() {
  std::vector<DeviceInfo> devices = cuda_devices();
  if (devices.empty())
    for (const std::string& name : device_names()) devices.push_back(*named_device(name));
  return devices;
}

DeviceInfo device_asked(std::optional<std::string_view> name) {
  return device_by_name(name.value_or("cuda"));
}

std::optional<std::string> text_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Only one writer, of all threads and processes of a host, has the lock of a file's folder: two
// that merged their rows with one old file would lose the first one's. Where a folder cannot be
// locked, the last writer's rows stay.
class FolderLock {
 public:
  explicit FolderLock(const std::string& path) {
    const size_t slash = path.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
    folder_ = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (folder_ >= 0 && flock(folder_, LOCK_EX) != 0 && errno == EINTR) continue;
  }
  ~FolderLock() {
    if (folder_ < 0) return;
    (void)flock(folder_, LOCK_UN);  // a process that was forked meanwhile has the folder open too
    (void)close(folder_);
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int folder_;
};

// Loads a file that was made on one of these devices.
int64_t load_rules(const std::string& path, const std::vector<DeviceInfo>& devices) {
  const std::optional<std::string> text = text_of_file(path);
  TORCH_CHECK(text, "tiled_mm: cannot read rules from ", path, ": ", std::strerror(errno));
  DeviceInfo device;
  Rules rules;
  const std::string refusal = read_rules_file(*text, devices, device, rules);
  TORCH_CHECK(refusal.empty(), "tiled_mm: the rules of ", path, " are not used: ", refusal);
  use_rules(device, rules);
  return static_cast<int64_t>(rules.rows().size());
}

}  // namespace

void detail::enter_tuning() { open_blocks.fetch_add(1, std::memory_order_relaxed); }
void detail::leave_tuning() noexcept { open_blocks.fetch_sub(1, std::memory_order_relaxed); }
bool is_tuning() { return open_blocks.load(std::memory_order_relaxed) > 0; }

std::string rules_text(std::optional<std::string_view> name) {
  const DeviceInfo device = device_asked(name);
  return rules_file(device, *current_rules(device));
}

void save_rules(std::string_view name, std::optional<std::string_view> device_name) {
  const std::string path(name);
  const DeviceInfo device = device_asked(device_name);
  const FolderLock lock(path);
  Rules rules = *current_rules(device);
  if (const std::optional<std::string> known = text_of_file(path)) {
    DeviceInfo made_on;
    Rules there;
    const std::string refusal = read_rules_file(*known, {device}, made_on, there);
    TORCH_CHECK(refusal.empty(), "tiled_mm: save_rules would overwrite ", path, ", but ", refusal,
                "; remove it or name another file");
    const std::map<std::string, MeasuredWay> ours = rules.rows();
    rules.keep(there.rows());
    rules.keep(ours);
  }
  static std::atomic<int> count{0};  // of this process, whose threads may write at once
  const std::string whole =
      path + "." + std::to_string(getpid()) + "." + std::to_string(count.fetch_add(1)) + ".tmp";
  std::ofstream file(whole, std::ios::binary);
  file << rules_file(device, rules);
  file.close();
  const bool is_written = !file.fail() && std::rename(whole.c_str(), path.c_str()) == 0;
  const int error = errno;
  if (!is_written) std::remove(whole.c_str());
  TORCH_CHECK(is_written, "tiled_mm: cannot write rules to ", path, ": ", std::strerror(error));
}

int64_t load_rules(std::string_view path) { return load_rules(std::string(path), devices_here()); }

void load_rules_of_environment(const DeviceInfo& running) {
  const char* const path = std::getenv("TILED_MM_RULES");
  if (path == nullptr || *path == '\0') return;
  try {
    load_rules(path, {running});
  } catch (const c10::Error& error) {
    TORCH_WARN(error.msg(), " (TILED_MM_RULES)");
  }
}

}  // namespace tiled
