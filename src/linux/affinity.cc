#include "linux/affinity.h"

namespace warren::linux_ {

Result<cpu_set_t> affinity_of(pid_t pid) {
  cpu_set_t processors;
  if (::sched_getaffinity(pid, sizeof processors, &processors) < 0) return fail_errno("sched_getaffinity");
  return processors;
}

Result<void> set_affinity(pid_t pid, const cpu_set_t& processors) {
  if (::sched_setaffinity(pid, sizeof processors, &processors) < 0) return fail_errno("sched_setaffinity");
  return {};
}

OneProcessor::OneProcessor() {
  CPU_ZERO(&one_);
  CPU_SET(static_cast<unsigned>(::sched_getcpu()), &one_);
  if (const auto before = affinity_of(0)) before_ = *before;
  (void)set_affinity(0, one_);
}

OneProcessor::~OneProcessor() { (void)set_affinity(0, before_); }

void OneProcessor::bring(pid_t pid) const { (void)set_affinity(pid, one_); }

Companion::Companion(const OneProcessor& processor, pid_t pid) : pid_(pid), before_(affinity_of(pid)) {
  processor.bring(pid);
  meanwhile_ = affinity_of(pid);
}

Companion::~Companion() {
  const auto now = affinity_of(pid_);
  if (before_ && meanwhile_ && now && CPU_EQUAL(&*now, &*meanwhile_)) (void)set_affinity(pid_, *before_);
}

}  // namespace warren::linux_
