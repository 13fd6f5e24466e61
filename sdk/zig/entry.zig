//! Root of a component. `mimir tools build` compiles it instead of the plugin's own file, which it imports as `tool`.
//!
//! The panic handler of `std` prints to stderr, for which a component would import all of WASI's files. Here the message
//! goes to the host's log.

const std = @import("std");
const mimir = @import("mimir");

pub const panic = std.debug.FullPanic(mimir.panicked);
pub const std_options: std.Options = .{ .logFn = mimir.logFromStd };

comptime {
    _ = @import("tool");
}
