#!/usr/bin/env bash
# Python packages that tests compare with (test-packages.txt), under $cache/python/current. Nothing
# of Kvasir itself needs them.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

list=$repo/tools/setup/test-packages.txt
command -v python3 >/dev/null || die "found no python3; make build installs it"
key=$({ python3 -VV; cat "$list"; } | sha256sum | cut -c 1-12)
home=$cache/python
[[ ! ( -f $home/$key/.complete && $(readlink "$home/current" 2>/dev/null) == "$key" ) ]] || exit 0

lock_cache
need_space 200 "installing Python packages for tests"
make_temp
make_folder "$home"
log=$cache/logs/python-packages.log
make_folder "$cache/logs"
run_logged "fetching Python packages for tests" "$log" \
  python3 -m pip install -q --disable-pip-version-check --no-input --no-deps --only-binary :all: \
  --require-hashes --target "$tmp/packages" -r "$list" ||
  die "cannot install the Python packages for tests: $(reason "$log"); check the network and run it again (log: $log)"
touch "$tmp/packages/.complete"
rm -rf "${home:?}/$key"
mv -T "$tmp/packages" "$home/$key"
ln -sfn "$key" "$home/current.new"
mv -T "$home/current.new" "$home/current"
