// Package local runs commands as ordinary processes of this machine, under the
// shim, for laptops and for tests.
//
// What it holds: the contract of package sandbox, limits of time and output, a
// fresh home and temporary directory per start, an environment that hands on
// nothing but what the spec names.
//
// What it does not hold, and cannot: the command runs as the bot's own user. It
// can read and write whatever that user can (files, other processes, the run
// directory with its exit record), reach the network, and use as much memory
// and as many processes as it likes. It is an explicit choice for commands one
// would run by hand.
//
// On macOS there is neither a subreaper nor /proc: a process that makes a
// session of its own outlives the command, and Wait looks again every 50 ms.
package local
