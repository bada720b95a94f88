// Tells ThreadSanitizer about Abseil's locks.
//
// The distribution's Abseil is built without TSan. So TSan cannot see when a thread takes or
// releases an Abseil mutex, and reports a race on every guarded variable. The members below replace
// the library's in the program, because the dynamic linker finds the program's first. They report
// to TSan what an Abseil built with TSan would report, and then call the library's members. No
// report is suppressed: TSan still reports accesses outside the lock.
#include <dlfcn.h>
#include <sanitizer/tsan_interface.h>

#include <cstdlib>
#include <string>
#include <string_view>

#include "absl/base/options.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

#define LONGSTREAM_STRING_OF(x) #x
#define LONGSTREAM_STRING(x) LONGSTREAM_STRING_OF(x)

namespace absl {
ABSL_NAMESPACE_BEGIN
namespace {

// Finds the library's own definition of a member of namespace absl. `member` is the part of its
// mangled name after the namespace; `qualifier` is "K" for a const member.
template <typename Function>
Function* Library(std::string_view member, std::string_view qualifier = "") {
  constexpr std::string_view kNamespace = LONGSTREAM_STRING(ABSL_OPTION_INLINE_NAMESPACE_NAME);
  std::string symbol("_ZN");
  symbol.append(qualifier).append("4absl");
  symbol.append(std::to_string(kNamespace.size())).append(kNamespace).append(member);
  void* function = dlsym(RTLD_NEXT, symbol.c_str());
  if (function == nullptr) std::abort();
  return reinterpret_cast<Function*>(function);
}

// A wait releases the mutex if the thread holds it, and takes it again. TSan is told nothing in
// between: there the library holds the mutex and evaluates conditions. One kind of wait may call
// another; only the outermost one reports.
class Wait {
 public:
  Wait(Mutex* mutex, bool held) : mutex_(mutex) {
    if (depth_++ > 0) return;
    if (held) {
      __tsan_mutex_pre_unlock(mutex_, 0);
      __tsan_mutex_post_unlock(mutex_, 0);
    }
    __tsan_mutex_pre_lock(mutex_, 0);
  }
  ~Wait() {
    if (--depth_ == 0) __tsan_mutex_post_lock(mutex_, 0, 0);
  }
  Wait(const Wait&) = delete;
  Wait& operator=(const Wait&) = delete;

 private:
  static inline thread_local int depth_ = 0;

  Mutex* const mutex_;
};

}  // namespace

void Mutex::Lock() {
  static const auto library = Library<void(Mutex*)>("5Mutex4LockEv");
  __tsan_mutex_pre_lock(this, 0);
  library(this);
  __tsan_mutex_post_lock(this, 0, 0);
}

void Mutex::Unlock() {
  static const auto library = Library<void(Mutex*)>("5Mutex6UnlockEv");
  __tsan_mutex_pre_unlock(this, 0);
  library(this);
  __tsan_mutex_post_unlock(this, 0);
}

bool Mutex::TryLock() {
  static const auto library = Library<bool(Mutex*)>("5Mutex7TryLockEv");
  __tsan_mutex_pre_lock(this, __tsan_mutex_try_lock);
  const bool locked = library(this);
  __tsan_mutex_post_lock(this, __tsan_mutex_try_lock | (locked ? 0 : __tsan_mutex_try_lock_failed),
                         0);
  return locked;
}

void Mutex::ReaderLock() {
  static const auto library = Library<void(Mutex*)>("5Mutex10ReaderLockEv");
  __tsan_mutex_pre_lock(this, __tsan_mutex_read_lock);
  library(this);
  __tsan_mutex_post_lock(this, __tsan_mutex_read_lock, 0);
}

void Mutex::ReaderUnlock() {
  static const auto library = Library<void(Mutex*)>("5Mutex12ReaderUnlockEv");
  __tsan_mutex_pre_unlock(this, __tsan_mutex_read_lock);
  library(this);
  __tsan_mutex_post_unlock(this, __tsan_mutex_read_lock);
}

void Mutex::LockWhen(const Condition& condition) {
  static const auto library =
      Library<void(Mutex*, const Condition&)>("5Mutex8LockWhenERKNS0_9ConditionE");
  const Wait wait(this, /*held=*/false);
  library(this, condition);
}

bool Mutex::LockWhenWithTimeout(const Condition& condition, Duration timeout) {
  static const auto library = Library<bool(Mutex*, const Condition&, Duration)>(
      "5Mutex19LockWhenWithTimeoutERKNS0_9ConditionENS0_8DurationE");
  const Wait wait(this, /*held=*/false);
  return library(this, condition, timeout);
}

bool Mutex::LockWhenWithDeadline(const Condition& condition, Time deadline) {
  static const auto library = Library<bool(Mutex*, const Condition&, Time)>(
      "5Mutex20LockWhenWithDeadlineERKNS0_9ConditionENS0_4TimeE");
  const Wait wait(this, /*held=*/false);
  return library(this, condition, deadline);
}

void Mutex::Await(const Condition& condition) {
  static const auto library =
      Library<void(Mutex*, const Condition&)>("5Mutex5AwaitERKNS0_9ConditionE");
  const Wait wait(this, /*held=*/true);
  library(this, condition);
}

bool Mutex::AwaitWithTimeout(const Condition& condition, Duration timeout) {
  static const auto library = Library<bool(Mutex*, const Condition&, Duration)>(
      "5Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE");
  const Wait wait(this, /*held=*/true);
  return library(this, condition, timeout);
}

bool Mutex::AwaitWithDeadline(const Condition& condition, Time deadline) {
  static const auto library = Library<bool(Mutex*, const Condition&, Time)>(
      "5Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE");
  const Wait wait(this, /*held=*/true);
  return library(this, condition, deadline);
}

void CondVar::Wait(Mutex* mutex) {
  static const auto library = Library<void(CondVar*, Mutex*)>("7CondVar4WaitEPNS0_5MutexE");
  const absl::Wait wait(mutex, /*held=*/true);
  library(this, mutex);
}

bool CondVar::WaitWithTimeout(Mutex* mutex, Duration timeout) {
  static const auto library = Library<bool(CondVar*, Mutex*, Duration)>(
      "7CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE");
  const absl::Wait wait(mutex, /*held=*/true);
  return library(this, mutex, timeout);
}

bool CondVar::WaitWithDeadline(Mutex* mutex, Time deadline) {
  static const auto library =
      Library<bool(CondVar*, Mutex*, Time)>("7CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE");
  const absl::Wait wait(mutex, /*held=*/true);
  return library(this, mutex, deadline);
}

// HasBeenNotified is inline and loads notified_yet_, so TSan sees that it acquires.
void Notification::Notify() {
  static const auto library = Library<void(Notification*)>("12Notification6NotifyEv");
  __tsan_release(&notified_yet_);
  library(this);
}

void Notification::WaitForNotification() const {
  static const auto library =
      Library<void(const Notification*)>("12Notification19WaitForNotificationEv", "K");
  library(this);
  static_cast<void>(HasBeenNotified());
}

bool Notification::WaitForNotificationWithTimeout(Duration timeout) const {
  static const auto library = Library<bool(const Notification*, Duration)>(
      "12Notification30WaitForNotificationWithTimeoutENS0_8DurationE", "K");
  library(this, timeout);
  return HasBeenNotified();
}

bool Notification::WaitForNotificationWithDeadline(Time deadline) const {
  static const auto library = Library<bool(const Notification*, Time)>(
      "12Notification31WaitForNotificationWithDeadlineENS0_4TimeE", "K");
  library(this, deadline);
  return HasBeenNotified();
}

ABSL_NAMESPACE_END
}  // namespace absl
