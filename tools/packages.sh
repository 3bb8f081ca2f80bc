# Sourced by the tools: installs the Debian or Ubuntu packages that one of them needs, if any is missing.
# shellcheck shell=bash disable=SC2034

# What the server is built from.
packages_build=(gcc libc6-dev meson ninja-build pkg-config liburing-dev libmimalloc-dev libxxhash-dev liblzf-dev libmd-dev)
# What tools/test runs, beyond that.
packages_unit=(libcmocka-dev)
# redis-tools holds the binary of redis-server too (under its other name, redis-check-rdb), but starts no service.
packages_integration=(python3 python3-pytest python3-pytest-xdist python3-redis redis-tools prometheus-redis-exporter)
packages_clients=("${packages_integration[@]}" libhiredis-dev libevent-dev python3-rq python3-celery)
packages_bench=("${packages_integration[@]}" valgrind)
packages_oracle=("${packages_integration[@]}" python3-hypothesis)
packages_clang=(clang llvm)
# The Debian package, and what its parts are checked with.
packages_package=(debhelper dpkg-dev lintian libsystemd-dev systemd groff-base)
packages_lint=(clang-format shellcheck)
packages_cross=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user)

# need_packages NAME...: returns at once if all are there. Asks nothing; what apt says is shown only if it fails.
need_packages() {
  local missing=() name run=()
  local -A have=()
  while read -r name; do have[$name]=1; done < <(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null | sed -n 's/^installed //p')
  for name in "$@"; do [ -n "${have[$name]:-}" ] || missing+=("$name"); done
  ((${#missing[@]})) || return 0
  command -v apt-get >/dev/null || {
    echo "${0##*/}: these packages are missing, and there is no apt-get to install them: ${missing[*]}" >&2
    return 1
  }
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || {
      echo "${0##*/}: not root, and no sudo. As root, run: apt-get update && apt-get install ${missing[*]}" >&2
      return 1
    }
    run=(sudo)
  fi
  echo "${0##*/}: installing ${missing[*]}" >&2
  local log
  log=$(mktemp)
  run+=(env DEBIAN_FRONTEND=noninteractive)
  local quiet=(-q -y -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=120 --no-install-recommends)
  if ! { "${run[@]}" apt-get "${quiet[@]}" install "${missing[@]}" ||
    { "${run[@]}" apt-get -q update && "${run[@]}" apt-get "${quiet[@]}" install "${missing[@]}"; }; } </dev/null >"$log" 2>&1; then
    cat "$log" >&2
    rm -f "$log"
    echo "${0##*/}: could not install ${missing[*]}" >&2
    return 1
  fi
  rm -f "$log"
}

# need_programs PROGRAM:PACKAGE...: installs the packages of those programs that are not there. They may have come in another way, which the package would dislike.
need_programs() {
  local missing=() pair
  for pair in "$@"; do command -v "${pair%%:*}" >/dev/null || missing+=("${pair#*:}"); done
  ((!${#missing[@]})) || need_packages "${missing[@]}"
}
