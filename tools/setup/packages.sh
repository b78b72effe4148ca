#!/usr/bin/env bash
# Installs those of Debian's packages that the build, the tests and the tools need and that are not
# there. With all of them there, it neither needs the network nor root.
#   packages.sh [test|arm]   test: what only `make test` needs, too; arm: what only tools/arm.sh does
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

packages=(
  git make g++ cmake ninja-build ccache  # compile
  python3 python3-pip ca-certificates    # fetch and unpack llama.cpp's source and the models
  libhwy-dev libcli11-dev nlohmann-json3-dev libcurl4-openssl-dev libeigen3-dev
  libgtest-dev libgmock-dev libbenchmark-dev libcpp-httplib-dev libssl-dev
  libjs-vega                             # figures of evaluation reports
  clang-format-14 clang-tidy-14          # lint
  bible-kjv bible-kjv-text               # the long text that demo and evaluation read
)
case ${1:-} in
  '') ;;
  test) packages+=(chromium) ;;  # looks at the pages of `kvasir eval`
  arm) packages+=(g++-aarch64-linux-gnu qemu-user-static) ;;
  *) refuse "packages.sh: found '$1', expected nothing, test or arm" ;;
esac

command -v dpkg-query >/dev/null ||
  die "found no dpkg-query, expected Debian 12; install by hand what corresponds to: ${packages[*]}"

installed=$(dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' "${packages[@]}" 2>/dev/null || true)
missing=()
for package in "${packages[@]}"; do
  grep -qx "ii *$package" <<<"$installed" || missing+=("$package")
done
(( ${#missing[@]} )) || exit 0

root_command=()
if (( $(id -u) != 0 )); then
  command -v sudo >/dev/null ||
    die "missing packages: ${missing[*]}; neither root nor sudo is at hand: as root, run apt-get install ${missing[*]}"
  sudo -v || die "missing packages: ${missing[*]}; sudo was refused: as root, run apt-get install ${missing[*]}"
  root_command=(sudo)
fi

say "installing ${#missing[@]} Debian packages: ${missing[*]}"
log=$cache/logs/packages.log
apt_get=("${root_command[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y -q
         -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 -o Acquire::Retries=2)
# Failing to refresh one list is no reason to stop: the install says whether anything is amiss.
run_logged "refreshing Debian's package lists" "$log" "${apt_get[@]}" update || true
run_logged "installing Debian packages" "$log" "${apt_get[@]}" install --no-install-recommends "${missing[@]}" ||
  die "cannot install ${missing[*]}: $(reason "$log"); check the network and run it again (log: $log)"
