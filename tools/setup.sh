#!/usr/bin/env bash
# Make a virtual environment that can run this project, and see that there is a Java for Spark.
#
#   tools/setup.sh VENV EXTRA [REQUIREMENT ...]
#   tools/setup.sh --over BASE VENV REQUIREMENT ...
#
# The second form makes an environment that holds the requirements alone, and finds everything else in BASE.
# With CI=true the releases are those of requirements/ci.txt and requirements/oldest.txt, by hash (make lock).
# VENV is created with the first Python of at least 3.11 on PATH (PYTHON=... names another), or completed when it is
# there; EXTRA is an extra of pyproject.toml (dev, test); a REQUIREMENT narrows it ("pyspark==4.1.*").
# Safe to run again at any time.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '%s\n' "$*" >&2; }
die() { say "setup: $*"; exit 1; }

# Run as root, by sudo when that asks no password; fails where neither is possible.
as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"
  elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then sudo -n "$@"
  else return 1; fi
}

# Asks the interpreter itself: a command may be on PATH and still not run.
good_python() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

find_python() {
  local name
  for name in ${PYTHON:-python3 python python3.13 python3.12 python3.11}; do
    if good_python "$name"; then command -v "$name"; return; fi
  done
  return 1
}

install_venv_module() {
  command -v apt-get >/dev/null || return 1
  as_root apt-get update -qq >/dev/null && as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq python3-venv >/dev/null
}

make_venv() {
  local venv=$1 python
  if [ -x "$venv/bin/python" ] && good_python "$venv/bin/python"; then return; fi
  python=$(find_python) || die "no Python 3.11 or newer on PATH. Install one (for example python3.11), or name it: make setup PYTHON=/path/to/python3"
  if ! "$python" -m venv --clear "$venv" 2>/dev/null; then
    install_venv_module && "$python" -m venv --clear "$venv" ||
      die "$python cannot make virtual environments. Install its venv module (Debian, Ubuntu: apt-get install python3-venv)"
  fi
}

# The Java that Spark will take: JAVA_HOME first, then PATH.
java_version() {
  local java=java
  [ -z "${JAVA_HOME:-}" ] || java="$JAVA_HOME/bin/java"
  # "17.0.15" and "21" say it in front, "1.8.0_412" behind.
  "$java" -version 2>&1 | sed -n 's/.* version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1
}

java_ok() { local v; v=$(java_version 2>/dev/null || true); [ -n "$v" ] && [ "$v" -ge 17 ]; }

install_java() {
  if command -v apt-get >/dev/null; then
    as_root apt-get update -qq >/dev/null || return 1
    for package in openjdk-17-jdk-headless openjdk-21-jdk-headless default-jdk-headless; do
      as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$package" >/dev/null 2>&1 && return
    done
    return 1
  elif command -v dnf >/dev/null; then
    for package in java-17-openjdk-devel java-21-openjdk-devel java-latest-openjdk-devel; do
      as_root dnf install -y -q "$package" >/dev/null 2>&1 && return
    done
    return 1
  elif command -v brew >/dev/null; then
    brew install --quiet openjdk@17 >/dev/null || return 1
    say "setup: Java is installed; add it to your PATH: export JAVA_HOME=$(brew --prefix openjdk@17)"
  else
    return 1
  fi
}

java_command() {
  if command -v apt-get >/dev/null; then echo "sudo apt-get install openjdk-17-jdk-headless"
  elif command -v dnf >/dev/null; then echo "sudo dnf install java-17-openjdk-devel"
  elif command -v brew >/dev/null; then echo "brew install openjdk@17"
  else echo "install a JDK 17 or newer and set JAVA_HOME"; fi
}

# lay_over BASE VENV REQUIREMENT...: other releases of a few packages, in an environment that takes the rest from BASE.
lay_over() {
  local base=$1 venv=$2 packages
  shift 2
  "$base/bin/python" -m venv --clear "$venv"
  say "setup: installing $* into $venv, over $base"
  if [ "${CI:-}" = true ]; then set -- --require-hashes -r requirements/oldest.txt; fi
  PIP_ROOT_USER_ACTION=ignore "$venv/bin/python" -m pip --quiet --disable-pip-version-check --no-input install "$@"
  packages=$("$base/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  # Only now, as pip would take what is there for installed.
  printf 'import site; site.addsitedir("%s")\n' "$packages" \
    >"$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/base.pth"
}

main() {
  if [ "${1:-}" = --over ]; then
    [ $# -ge 4 ] || die "usage: tools/setup.sh --over BASE VENV REQUIREMENT ..."
    shift
    lay_over "$@"
    return
  fi
  [ $# -ge 2 ] || die "usage: tools/setup.sh VENV EXTRA [REQUIREMENT ...]"
  local venv=$1 extra=$2
  shift 2
  if ! java_ok; then
    [ -z "${JAVA_HOME:-}" ] || die "JAVA_HOME is $JAVA_HOME, which holds no Java 17 or newer. Unset it, or point it to one"
    say "setup: Spark needs Java 17 or newer; installing it"
    install_java && java_ok || die "no Java 17 or newer. Run: $(java_command)"
  fi
  make_venv "$venv"
  say "setup: installing into $venv"
  local pip=("$venv/bin/python" -m pip --quiet --disable-pip-version-check --no-input)
  # Run as root in a container pip would warn, about a virtual environment too.
  export PIP_ROOT_USER_ACTION=ignore
  if [ "${CI:-}" = true ]; then
    "${pip[@]}" install --require-hashes -r requirements/ci.txt
    "${pip[@]}" install --no-deps --no-build-isolation --editable .
    return
  fi
  "${pip[@]}" install --upgrade pip
  "${pip[@]}" install --editable ".[$extra]" "$@"
}

main "$@"
