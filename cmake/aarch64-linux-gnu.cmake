# Debian's cross-compiler for AArch64, the libraries that tools/setup/sysroot.sh unpacked, and QEMU to
# run what was built.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

set(KVASIR_CACHE_DIR "$ENV{HOME}/.cache/kvasir" CACHE PATH "Where fetched third parties and models lie")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES KVASIR_CACHE_DIR)
set(CMAKE_FIND_ROOT_PATH ${KVASIR_CACHE_DIR}/aarch64/current)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

set(CMAKE_CXX_FLAGS_INIT -Wno-psabi)  # a note on what GCC 10 changed

# -L: where Debian's cross packages put the C and C++ libraries. The CPU is one of ARMv8.0, so that
# an instruction that not every AArch64 has ends a test.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static -cpu cortex-a72 -L /usr/aarch64-linux-gnu)
