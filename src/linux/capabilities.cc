#include "linux/capabilities.h"

#include <algorithm>
#include <array>
#include <memory>

namespace warren::linux_ {
namespace {

constexpr std::array<cap_value_t, 12> kSandbox{
    CAP_CHOWN,  CAP_DAC_OVERRIDE, CAP_FOWNER,  CAP_FSETID,           CAP_KILL,       CAP_SETGID,
    CAP_SETUID, CAP_SETPCAP,      CAP_SETFCAP, CAP_NET_BIND_SERVICE, CAP_SYS_CHROOT, CAP_AUDIT_WRITE,
};

}  // namespace

std::span<const cap_value_t> sandbox_capabilities() { return kSandbox; }

std::uint64_t sandbox_capability_mask() {
  std::uint64_t mask = 0;
  for (const cap_value_t capability : kSandbox) mask |= std::uint64_t{1} << capability;
  return mask;
}

cap_value_t last_capability() { return cap_max_bits() - 1; }

Result<void> keep_only(std::span<const cap_value_t> kept) {
  // Up to what this kernel knows, which may be more than the headers do.
  for (cap_value_t capability = 0; cap_get_bound(capability) >= 0; ++capability)
    if (std::ranges::find(kept, capability) == kept.end() && cap_drop_bound(capability) < 0)
      return fail_errno("PR_CAPBSET_DROP");
  if (cap_reset_ambient() < 0) return fail_errno("PR_CAP_AMBIENT_CLEAR_ALL");
  const std::unique_ptr<std::remove_pointer_t<cap_t>, int (*)(void*)> set(cap_init(), cap_free);
  if (!set) return fail_errno("cap_init");
  const int count = static_cast<int>(kept.size());
  if (count > 0 && (cap_set_flag(set.get(), CAP_PERMITTED, count, kept.data(), CAP_SET) < 0 ||
                    cap_set_flag(set.get(), CAP_EFFECTIVE, count, kept.data(), CAP_SET) < 0))
    return fail_errno("cap_set_flag");
  if (cap_set_proc(set.get()) < 0) return fail_errno("capset");
  return {};
}

}  // namespace warren::linux_
