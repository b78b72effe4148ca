#!/usr/bin/env bash
# Debian's AArch64 libraries that Kvasir's own libraries and their tests link, unpacked under
# $cache/aarch64/current. apt-get gets lists of its own for it: neither the machine's architectures
# nor its packages change, and root is not needed.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

packages=(libhwy-dev libhwy1 libgtest-dev libbenchmark-dev libbenchmark1debian libeigen3-dev nlohmann-json3-dev)
key=$(echo "${packages[*]}" | sha256sum | cut -c 1-12)
home=$cache/aarch64
[[ ! ( -f $home/$key/.complete && $(readlink "$home/current" 2>/dev/null) == "$key" ) ]] || exit 0

lock_cache
need_space 150 "unpacking AArch64 libraries"
make_temp
make_folder "$home" "$tmp"/{lists/partial,cache/archives/partial,packages,root}
touch "$tmp/status"
log=$cache/logs/sysroot.log
apt_get=(env -C "$tmp/packages" apt-get -q -o APT::Architecture=arm64 -o APT::Architectures=arm64
         -o "Dir::State=$tmp" -o "Dir::State::status=$tmp/status" -o "Dir::Cache=$tmp/cache"
         -o "APT::Sandbox::User=$(id -un)" -o Acquire::Retries=2)
# Failing to refresh one list is no reason to stop: the download says whether anything is amiss.
run_logged "refreshing Debian's package lists for AArch64" "$log" "${apt_get[@]}" update || true
run_logged "fetching AArch64 libraries" "$log" "${apt_get[@]}" download "${packages[@]}" ||
  die "cannot fetch ${packages[*]} for arm64: $(reason "$log"); check the network and run it again (log: $log)"
for package in "$tmp"/packages/*.deb; do
  dpkg-deb -x "$package" "$tmp/root" 2>"$log" ||
    die "cannot unpack ${package##*/}: $(reason "$log"); check the disk of $cache and run it again (log: $log)"
done
touch "$tmp/root/.complete"
rm -rf "${home:?}/$key"
mv -T "$tmp/root" "$home/$key"
ln -sfn "$key" "$home/current.new"
mv -T "$home/current.new" "$home/current"
