"""Who a process of this sandbox is; prints JSON."""
import ctypes
import json
import os

status = {}
for line in open("/proc/self/status"):
    name, value = line.split(":", 1)
    status[name] = value.strip()
libc = ctypes.CDLL(None, use_errno=True)
spaces = {name: os.readlink(f"/proc/self/ns/{name}") for name in os.listdir("/proc/self/ns")}
descriptors = {}
for name in os.listdir("/proc/self/fd"):
    try:
        descriptors[name] = os.readlink(f"/proc/self/fd/{name}")
    except OSError:
        pass  # the folder itself, closed by now
print(json.dumps({
    "status": status, "namespaces": spaces, "descriptors": descriptors, "environment": dict(os.environ),
    "uid_map": open("/proc/self/uid_map").read().split(), "gid_map": open("/proc/self/gid_map").read().split(),
    "setgroups": open("/proc/self/setgroups").read().strip(), "groups": os.getgroups(),
    "dumpable": libc.prctl(3, 0, 0, 0, 0), "cgroup": open("/proc/self/cgroup").read(), "session": os.getsid(0),
    "hostname": os.uname().nodename,
}))
