// `kvasir measure`: stock f16 against Kvasir, in pairs inside one process; or, with --synthetic,
// Kvasir's cache alone.
//
// A front end: reads flags and files, prints to stdout, and shows progress on stderr.
#pragma once

/// Runs the command; argv[0] is its name. Returns the exit code: 0, 1 if the measurement failed, or
/// 2 for a flag that is unknown, out of range or impossible in this combination.
int kvasir_measure(int argc, char** argv);
