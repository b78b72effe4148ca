// Statistics however a front end ends: by returning, by exit(), or by _exit() in a signal handler.
//
// llama-completion leaves through _exit(130) when it is interrupted, past every atexit handler. So
// this program defines _exit itself and exports it (ENABLE_EXPORTS): the dynamic linker binds the
// front ends' calls to it, it lets the device print, and leaves by the system call. It runs in a
// signal handler that may have interrupted anything, a lock held included, so an alarm ends the
// process if printing does not.
#pragma once

namespace kvasir::app {

/// From now on print_stats() runs at exit and in _exit, in this process alone (not in what it
/// forks). Call once, after the device is registered.
void print_stats_at_exit();

}  // namespace kvasir::app
