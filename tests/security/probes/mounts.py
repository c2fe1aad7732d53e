"""What can be read from the mounts, and what a walk of the root finds; prints JSON."""
import json
import os

roots, walked = {}, 0
start = os.lstat("/").st_dev
for line in open("/proc/self/mountinfo"):
    fields = line.split()
    dash = fields.index("-")
    roots[fields[4]] = {"root": fields[3], "options": fields[5], "type": fields[dash + 1], "source": fields[dash + 2],
                        "super": fields[dash + 3]}
foreign = []
for folder, folders, files in os.walk("/"):
    if folder.startswith("/proc"):
        folders[:] = []
        continue
    for name in folders + files:
        walked += 1
        path = os.path.join(folder, name)
        try:
            status = os.lstat(path)
        except OSError:
            continue
        if status.st_uid == 65534 and not folder.startswith("/proc"):
            foreign.append(path)
print(json.dumps({"mounts": roots, "walked": walked, "owned by nobody": foreign[:50]}))
