#pragma once
// The command as a process that can be killed or starved of disk while it runs.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <vector>

#include "support/run_command.h"

namespace minite::test_support {

/// What the child may use.
struct ChildLimits {
  rlim_t file_bytes = RLIM_INFINITY;  ///< a write past it fails with EFBIG, as one on a full disk with ENOSPC
};

class Child {
 public:
  explicit Child(const std::vector<std::string>& arguments, const ChildLimits& limits = {}) {
    std::vector<std::string> words = {MINITE_BINARY};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    const std::string out = (folder_ / "out").string(), err = (folder_ / "err").string();
    pid_ = ::fork();
    if (pid_ != 0) return;
    // Between fork and exec only system calls.
    for (const char* name : {"MINITE_RECIPE", "MINITE_BACKEND", "MINITE_THREADS", "MINITE_SIMD"})
      ::unsetenv(name);
    ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
    ::dup2(::open(out.c_str(), O_WRONLY | O_CREAT, 0600), STDOUT_FILENO);
    ::dup2(::open(err.c_str(), O_WRONLY | O_CREAT, 0600), STDERR_FILENO);
    if (limits.file_bytes != RLIM_INFINITY) {
      ::signal(SIGXFSZ, SIG_IGN);
      const rlimit limit{limits.file_bytes, limits.file_bytes};
      ::setrlimit(RLIMIT_FSIZE, &limit);
    }
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  ~Child() {
    kill();
    (void)wait();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// False once the process has ended.
  [[nodiscard]] bool running() {
    if (pid_ > 0 && ::waitpid(pid_, &status_, WNOHANG) == pid_) pid_ = -1;
    return pid_ > 0;
  }
  void kill() const {
    if (pid_ > 0) ::kill(pid_, SIGKILL);
  }
  /// Kills as soon as `when` holds; false when the process ended first.
  bool kill_when(const std::function<bool()>& when) {
    while (running()) {
      if (when()) {
        kill();
        (void)wait();
        return WIFSIGNALED(status_);
      }
      ::usleep(100);
    }
    return false;
  }
  CommandResult wait() {
    if (pid_ > 0) ::waitpid(pid_, &status_, 0);
    pid_ = -1;
    CommandResult result;
    if (WIFEXITED(status_)) result.exit_code = WEXITSTATUS(status_);
    result.out = slurp(folder_ / "out");
    result.err = slurp(folder_ / "err");
    return result;
  }

 private:
  TempFolder folder_;
  pid_t pid_ = -1;
  int status_ = 0;
};

}  // namespace minite::test_support
