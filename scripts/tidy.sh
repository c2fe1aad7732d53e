#!/usr/bin/env bash
# Runs clang-tidy over the sources of a build folder, two files at a time.
#
#   scripts/tidy.sh BUILD [FOLDER…]      only what is in these folders (src/http …)
#
# A file that was clean is not looked at again while it, what it includes, its flags
# and the checks are the same (~/.cache/warren-tidy keeps the digests). Files committed
# last come first. After TIDY_SECONDS (default: no limit) no new file is begun, and
# what was left out is told. Fails if anything is found.
set -euo pipefail

build=$(readlink -f "${1:?the build folder}")
shift
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
export CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/warren-tidy
export BUILD=$build
export TIDY=${CLANG_TIDY:-clang-tidy-19}
command -v "$TIDY" >/dev/null || { echo "tidy: $TIDY is not installed; scripts/setup.sh test installs it" >&2; exit 1; }
export END=0
if [ -n "${TIDY_SECONDS:-}" ]; then END=$(($(date +%s) + TIDY_SECONDS)); fi
mkdir -p "$CACHE"

# One file: nothing if it is clean, else what is wrong; a line to the log in any case.
check() {
  local file=$1 digest
  if [ "$END" != 0 ] && [ "$(date +%s)" -ge "$END" ]; then
    echo "late $file"
    return 0
  fi
  digest=$({ cat .clang-tidy; "$TIDY" --version; preprocess "$file"; } | sha256sum | cut -d' ' -f1)
  if [ -e "$CACHE/$digest" ]; then
    echo "same $file"
    return 0
  fi
  local output checks=
  local -a flags=(--extra-arg=-Wno-unknown-warning-option)
  case "$file" in *_test.cc | */testing/*)
    # That an assertion of a test holds is something the linter does not understand.
    checks=-bugprone-unchecked-optional-access
    # Tests name only the members that they are about. Their targets say so, but Clang
    # takes the -Wextra that comes after it as the last word.
    flags+=(--extra-arg=-Wno-missing-field-initializers)
    ;;
  esac
  if output=$("$TIDY" -p "$BUILD" --quiet --checks="$checks" "${flags[@]}" "$file" 2>&1); then
    : >"$CACHE/$digest"
    echo "clean $file"
  else
    echo "FOUND $file"
    printf '%s\n' "$output" >&2
  fi
}

# The file as the compiler sees it, and the flags it has.
preprocess() {
  /usr/bin/python3 - "$BUILD/compile_commands.json" "$PWD/$1" <<'PYTHON'
import json, re, shlex, subprocess, sys
for entry in json.load(open(sys.argv[1])):
    if entry["file"] == sys.argv[2]:
        words = shlex.split(entry["command"])
        if words[0].endswith("ccache"):
            words = words[1:]
        kept, skip = [], False
        for word in words:
            if skip:
                skip = False
            elif word in ("-o", "-MT", "-MF"):
                skip = True
            elif word not in ("-c", "-MD"):
                kept.append(word)
        print(" ".join(kept[:-1]))
        sys.stdout.flush()
        sys.exit(subprocess.run([*kept[:-1], "-E", "-P", sys.argv[2]], cwd=entry["directory"]).returncode)
sys.exit(0)
PYTHON
}
export -f check preprocess

known=$(grep -o '"file": "[^"]*"' "$build/compile_commands.json" | cut -d'"' -f4 | sed "s|^$PWD/||" | grep '^src/' | sort -u)
recent=$({ git status --porcelain --untracked-files=all 2>/dev/null | cut -c4-; git log --name-only --format= -n 400 2>/dev/null; } |
  grep '\.cc$' || true)
if [ $# -gt 0 ]; then
  known=$(for folder; do printf '%s\n' "$known" | grep "^${folder%/}/" || true; done)
fi
# In the order of the last change, each once, those that are built.
files=$({ printf '%s\n' "$recent"; printf '%s\n' "$known"; } | awk '!seen[$0]++' | grep -Fxf <(printf '%s\n' "$known"))

log=$(mktemp)
trap 'rm -f "$log"' EXIT
printf '%s\n' "$files" | xargs -P "$(nproc)" -I{} bash -c 'check "$1"' _ {} | tee "$log" | grep -v '^same' || true
count() { grep -c "^$1 " "$log" || true; }
echo "tidy: $(count clean) clean, $(count same) unchanged since they were clean, $(count late) not looked at for lack of time, $(count FOUND) with findings"
[ "$(count FOUND)" = 0 ]
