#!/usr/bin/env bash
# llama.cpp, unmodified: its source and a build with shared libraries, under
# $cache/llama.cpp/current/{src,build}; docs/adr/0001 says why it is built apart from Kvasir.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

requirement=llama-cpp-python==0.3.36  # carries llama.cpp 0.5.0-dev in vendor/
archive=llama_cpp_python-0.3.36.tar.gz
sha256=832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e
options=(-DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON
         -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF
         -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_OPENSSL=OFF
         -DLLAMA_BUILD_NUMBER=0 -DLLAMA_BUILD_COMMIT=unknown)
targets=(llama-completion llama-cli llama-server llama-bench llama-perplexity llama-quantize)

for tool in g++ cmake ninja ccache; do
  command -v "$tool" >/dev/null || die "found no $tool; make build installs it"
done

# A build is for one compiler, one instruction set and one set of options: ggml compiles for the
# processor at hand, and what g++ makes of -march=native says which that is.
native=$(g++ -march=native -Q --help=target 2>/dev/null | grep -vF 'Known valid')
key=$({ g++ --version | head -n 1; echo "$native"; echo "${options[*]} ${targets[*]}"; } | sha256sum | cut -c 1-12)

home=$cache/llama.cpp
tree=$home/${sha256:0:12}
build=$tree/build-$key

is_current() {
  [[ -f $build/.complete && $(readlink "$home/current") == "${sha256:0:12}" &&
     $(readlink "$tree/build") == "build-$key" ]]
}

# link NAME TARGET: NAME points to TARGET, in one step even where it pointed elsewhere.
link() {
  ln -sfn "$2" "$1.new"
  mv -T "$1.new" "$1"
}

unpack() {
  fetch "$requirement" "$archive" "$sha256" 77 --no-binary llama-cpp-python
  need_space 250 "unpacking $archive"
  make_temp
  make_folder "$tmp/src" "$tree"
  run_logged "unpacking llama.cpp" "$cache/logs/llama-unpack.log" \
    tar -xzf "$fetched" -C "$tmp/src" --strip-components=3 --exclude='*/llama.cpp/.git' \
    "${archive%.tar.gz}/vendor/llama.cpp" ||
    die "cannot unpack $fetched: $(reason "$cache/logs/llama-unpack.log"); check the disk of $cache and run it again"
  mv -T "$tmp/src" "$tree/src"
}

# The folder of an interrupted build is kept: it is not linked as `build`, and ninja resumes it.
compile() {
  local log=$cache/logs/llama-build.log
  need_space 600 "building llama.cpp"
  run_logged "configuring llama.cpp" "$cache/logs/llama-configure.log" \
    cmake -S "$tree/src" -B "$build" -G Ninja "${options[@]}" ||
    die "cannot configure llama.cpp: $(reason "$cache/logs/llama-configure.log") (log: $cache/logs/llama-configure.log); mend it and run it again"
  # -march=native reads the same on every processor, so each has its own ccache folder.
  export CCACHE_DIR
  CCACHE_DIR=$cache/ccache-native-$(sha256sum <<<"$native" | cut -c 1-12)
  NINJA_STATUS='[%f/%t] ' run_logged "building llama.cpp" "$log" cmake --build "$build" --target "${targets[@]}" ||
    die "cannot build llama.cpp: $(reason "$log") (log: $log); mend it and run it again, it resumes"
  "$build/bin/llama-completion" --version >>"$log" 2>&1 ||
    die "the new llama-completion does not run on this machine (log: $log); remove $build and run it again"
  touch "$build/.complete"
}

is_current && exit 0
lock_cache
[[ -d $tree/src ]] || unpack
[[ -f $build/.complete ]] || compile
link "$tree/build" "build-$key"
link "$home/current" "${sha256:0:12}"
