#!/bin/sh
# Installs the Debian packages that Warren needs, those that are missing only, and makes
# the system users that its unprivileged processes run as.
#
#   scripts/setup.sh [run] [build] [test]     the sections of scripts/packages; default: run build
#
# As root or through sudo. Under a second when there is nothing to do.
set -eu

here=$(dirname "$(readlink -f "$0")")
list=$here/packages

say() { printf 'setup: %s\n' "$*" >&2; }
die() {
  say "$1"
  shift
  for line; do printf '       %s\n' "$line" >&2; done
  exit 1
}

[ $# -gt 0 ] || set -- run build
for section; do
  grep -qx "\[$section\]" "$list" || die "there is no section \"$section\" in scripts/packages"
done

if [ "$(id -u)" = 0 ]; then
  as_root() { "$@"; }
elif command -v sudo >/dev/null; then
  as_root() { sudo "$@"; }
else
  as_root() { die "this must be done by root: $*" "Run it as root, or install sudo."; }
fi

command -v apt-get >/dev/null || die "this machine has no apt; Warren is built on Debian 12" \
  "On another system, install what scripts/packages lists by hand."

# The wanted packages of the sections named, one a line.
wanted() {
  awk -v sections=" $* " '
    { sub(/#.*/, ""); gsub(/[ \t]/, "") }
    /^\[.*\]$/ { in_it = index(sections, " " substr($0, 2, length($0) - 2) " ") > 0; next }
    in_it && $0 != ""' "$list"
}

packages=
for entry in $(wanted "$@"); do
  package=${entry%%|*}
  command=${entry#"$package"}
  command=${command#|}
  if [ -n "$command" ] && command -v "$command" >/dev/null; then continue; fi
  packages="$packages $package"
done

# One question to dpkg about all of them.
# shellcheck disable=SC2086
have=$(dpkg-query -W -f '${binary:Package} ${db:Status-Status}\n' $packages 2>/dev/null |
  awk '$2 == "installed" { sub(/:.*/, "", $1); print $1 }') || true
missing=
for package in $packages; do
  printf '%s\n' "$have" | grep -qxF "$package" || missing="$missing $package"
done

if [ -n "$missing" ]; then
  say "installing:$missing"
  install_missing() {
    # shellcheck disable=SC2086
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -o Dpkg::Use-Pty=0 -o APT::Get::Show-Upgraded=0 \
      -o DPkg::Lock::Timeout=300 install -y --no-install-recommends $missing
  }
  # The lists may be missing or old: fetch them if they are a day old, or if the
  # installation fails with those that are there.
  fresh=$(find /var/lib/apt/lists -maxdepth 1 -name '*Packages*' -mtime -1 2>/dev/null | head -n 1)
  update() {
    say "fetching the package lists"
    as_root apt-get -o DPkg::Lock::Timeout=300 update || die "apt-get update failed (see above)" \
      "Is the network there, and are the sources in /etc/apt right? Then run this again."
  }
  [ -n "$fresh" ] || update
  # No service of what is installed is to start for us, see invoke-rc.d(8).
  policy=/usr/sbin/policy-rc.d
  ours=
  if [ ! -e "$policy" ]; then
    ours=yes
    trap 'as_root rm -f "$policy"' EXIT
    trap 'exit 130' INT TERM HUP
    printf '#!/bin/sh\nexit 101\n' | as_root install -m 755 /dev/stdin "$policy"
  fi
  if ! install_missing; then
    [ -z "$fresh" ] || update
    # shellcheck disable=SC1091
    install_missing || die "apt-get could not install:$missing" \
      "What it said stands above. Warren needs Debian 12 (bookworm); this is: $(. /etc/os-release && echo "$PRETTY_NAME")." \
      "If dpkg was interrupted: dpkg --configure -a. Then run this again."
  fi
  if [ -n "$ours" ]; then
    as_root rm -f "$policy"
    trap - EXIT INT TERM HUP
  fi
fi

# The server's, and that of the process that resolves names for sandboxes.
for user in warren warren-gateway; do
  if getent passwd "$user" >/dev/null; then continue; fi
  say "making the system user $user"
  as_root useradd --system --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin \
    --comment "Warren" "$user" || die "useradd could not make the user $user" "What it said stands above."
done
