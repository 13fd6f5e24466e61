//! Write tools for mimir in Zig: a struct with its arguments, a function in it, and one line to export.
//!
//!     const mimir = @import("mimir");
//!
//!     const WordCount = struct {
//!         pub const tool: mimir.Tool = .{ .description = "Counts the words in a text." };
//!         pub const docs = .{ .text = "The text to count." };
//!
//!         text: []const u8,
//!
//!         pub fn run(self: WordCount, _: mimir.Context) !*mimir.Result {
//!             var words: usize = 0;
//!             var parts = std.mem.tokenizeAny(u8, self.text, " \n");
//!             while (parts.next()) |_| words += 1;
//!             return mimir.text("{d}", .{words});
//!         }
//!     };
//!
//!     comptime {
//!         mimir.exportPlugin("word-count", "0.1.0", "Counts words.", .{WordCount});
//!     }
//!
//! The host is reached through the C SDK (`sdk/c`), which is built with the tool. Memory is never freed: each call has an
//! instance of its own.

const std = @import("std");
const c = @import("c.zig");
const schema = @import("schema.zig");

/// The allocator of tools.
pub const allocator = std.heap.c_allocator;

/// The result of a call: content, or an error.
pub const Result = opaque {
    /// Adds a text part.
    pub fn addText(self: *Result, content: []const u8) *Result {
        return c.mimir_add_text(self, z(content));
    }

    /// Adds an image.
    pub fn addImage(self: *Result, mime_type: []const u8, data: []const u8) *Result {
        return c.mimir_add_image(self, z(mime_type), data.ptr, data.len);
    }

    /// Adds a file for the caller.
    pub fn addFile(self: *Result, name: []const u8, mime_type: []const u8, data: []const u8) *Result {
        return c.mimir_add_file(self, z(name), z(mime_type), data.ptr, data.len);
    }

    /// Sets the exit code, for a tool that runs a program.
    pub fn setExitCode(self: *Result, code: i32) *Result {
        return c.mimir_set_exit_code(self, code);
    }

    /// The first text, or the message of an error.
    pub fn asText(self: *const Result) []const u8 {
        return std.mem.span(c.mimir_result_text(self));
    }

    /// The code of an error, or null.
    pub fn errorCode(self: *const Result) ?Code {
        var code: c_int = 0;
        return if (c.mimir_is_error(self, &code)) @fromBackingInt(@intCast(code)) else null;
    }
};

/// The stable codes of errors.
pub const Code = enum(c_int) {
    invalid_input,
    invalid_path,
    not_found,
    file_not_found,
    already_exists,
    permission_denied,
    approval_denied,
    timeout,
    cancelled,
    limit_exceeded,
    network,
    execution,
    unavailable,
};

/// The error of functions of the host. Returned from a tool, it is the failure that the host reported.
pub const Error = error{Failed};

/// The failure behind the last `error.Failed`.
var last_failure: ?*Result = null;

/// Returns a text result.
pub fn text(comptime format: []const u8, arguments: anytype) *Result {
    return c.mimir_text("%s", z(print(format, arguments)).ptr);
}

/// Returns structured content. Any value that `std.json` writes will do.
pub fn structured(value: anytype, content: ?[]const u8) *Result {
    const json = stringify(value);
    const parsed = c.mimir_json_parse(json.ptr, json.len) orelse unreachable;
    return c.mimir_structured(parsed, if (content) |given| z(given) else null);
}

/// Returns an error with a code.
pub fn fail(code: Code, comptime format: []const u8, arguments: anytype) *Result {
    return c.mimir_fail(@backingInt(code), "%s", z(print(format, arguments)).ptr);
}

/// Returns an error with a code, for functions that return no `*Result`: `return mimir.failed(.not_found, "…", .{})`.
pub fn failed(code: Code, comptime format: []const u8, arguments: anytype) Error {
    last_failure = fail(code, format, arguments);
    return error.Failed;
}

/// Formats text.
pub fn print(comptime format: []const u8, arguments: anytype) []u8 {
    return std.fmt.allocPrint(allocator, format, arguments) catch @panic("out of memory");
}

/// The context of one call. It contains no secrets.
pub const Context = struct {
    /// The workspace root as this tool sees it. Files that were not granted do not exist there.
    workspace: []const u8,
    request_id: []const u8 = "test-request",
    session_id: []const u8 = "test-session",
    conversation_id: ?[]const u8 = null,
    user: ?[]const u8 = null,

    /// Reads a file of the workspace.
    pub fn readFile(self: Context, path: []const u8) Error![]u8 {
        const raw: c.RawContext = .{ .workspace = z(self.workspace), .request_id = "", .session_id = "", .conversation_id = null, .user = null };
        var data: [*]u8 = undefined;
        var size: usize = 0;
        try check(c.mimir_read_file(&raw, z(path), &data, &size));
        return data[0..size];
    }

    /// Writes a file of the workspace. Its folder must exist.
    pub fn writeFile(self: Context, path: []const u8, data: []const u8) Error!void {
        const raw: c.RawContext = .{ .workspace = z(self.workspace), .request_id = "", .session_id = "", .conversation_id = null, .user = null };
        try check(c.mimir_write_file(&raw, z(path), data.ptr, data.len));
    }
};

/// Log lines; the host adds the time, limits their size and redacts secrets.
pub const log = struct {
    pub fn debug(comptime format: []const u8, arguments: anytype) void {
        c.mimir_debug("%s", z(print(format, arguments)).ptr);
    }
    pub fn info(comptime format: []const u8, arguments: anytype) void {
        c.mimir_info("%s", z(print(format, arguments)).ptr);
    }
    pub fn warn(comptime format: []const u8, arguments: anytype) void {
        c.mimir_warn("%s", z(print(format, arguments)).ptr);
    }
    pub fn err(comptime format: []const u8, arguments: anytype) void {
        c.mimir_error("%s", z(print(format, arguments)).ptr);
    }
};

/// Logs the message of a panic and ends the call.
pub fn panicked(message: []const u8, _: ?usize) noreturn {
    c.mimir_error("panic: %.*s", @as(c_int, @intCast(@min(message.len, 4096))), message.ptr);
    @trap();
}

/// Sends the lines of `std.log` to the host's log.
pub fn logFromStd(comptime level: std.log.Level, comptime scope: @EnumLiteral(), comptime format: []const u8, arguments: anytype) void {
    const prefix = if (scope == .default) "" else "(" ++ @tagName(scope) ++ ") ";
    switch (level) {
        .debug => log.debug(prefix ++ format, arguments),
        .info => log.info(prefix ++ format, arguments),
        .warn => log.warn(prefix ++ format, arguments),
        .err => log.err(prefix ++ format, arguments),
    }
}

/// Reports that `done` of `total` units are finished; 0 if the total is not known.
pub fn progress(done: u64, total: u64, message: ?[]const u8) void {
    c.mimir_progress(done, total, if (message) |given| z(given) else null);
}

/// Values stored between calls: at most 1,000, 1 MB each and 16 MB in total.
pub const storage = struct {
    pub fn get(key: []const u8) Error!?[]u8 {
        var value: c.Bytes = undefined;
        try check(c.mimir_storage_get(z(key), &value));
        return value.slice();
    }
    pub fn set(key: []const u8, value: []const u8) Error!void {
        try check(c.mimir_storage_set(z(key), value.ptr, value.len));
    }
    pub fn delete(key: []const u8) Error!void {
        try check(c.mimir_storage_delete(z(key)));
    }
    pub fn keys(prefix: []const u8) Error![][]const u8 {
        var raw: [*:null]const ?[*:0]const u8 = undefined;
        try check(c.mimir_storage_keys(z(prefix), &raw));
        const found = std.mem.span(raw);
        const names = allocator.alloc([]const u8, found.len) catch @panic("out of memory");
        for (names, found) |*name, from| name.* = std.mem.span(from.?);
        return names;
    }
};

/// The result of a program.
pub const Finished = struct { exit_code: i32, stdout: []const u8, stderr: []const u8, truncated: bool, duration_ms: u64 };

/// Runs a program on the host, through the command policy and its sandbox. Needs `.command`.
pub fn run(program: []const []const u8) Error!Finished {
    const words = allocator.allocSentinel(?[*:0]const u8, program.len, null) catch @panic("out of memory");
    for (words, program) |*word, from| word.* = z(from);
    var raw: c.RawFinished = undefined;
    try check(c.mimir_run(&raw, words.ptr));
    return raw.finished();
}

/// Runs a shell script. The host parses it and decides about each simple command in it.
pub fn shell(script: []const u8) Error!Finished {
    var raw: c.RawFinished = undefined;
    try check(c.mimir_shell(&raw, z(script)));
    return raw.finished();
}

/// Calls another tool. Needs `.tool`.
pub fn callTool(name: []const u8, arguments: anytype) Error!*Result {
    const json = stringify(arguments);
    var output: *Result = undefined;
    try check(c.mimir_call_tool(z(name), c.mimir_json_parse(json.ptr, json.len), &output));
    return output;
}

/// Asks the configured model; 0 is its own limit of tokens. Needs `.model`.
pub fn complete(prompt: []const u8, max_tokens: u32) Error![]u8 {
    var reply: [*:0]u8 = undefined;
    try check(c.mimir_complete(z(prompt), max_tokens, &reply));
    return std.mem.span(reply);
}

pub const Header = struct { name: []const u8, value: []const u8 };
pub const Request = struct { method: []const u8 = "GET", url: []const u8, headers: []const Header = &.{}, body: []const u8 = "" };
pub const Response = struct {
    status: u16,
    body: []const u8,
    raw: c.RawResponse,

    /// Returns a header, or null. `name` is in lower case.
    pub fn header(self: Response, name: []const u8) ?[]const u8 {
        return std.mem.span(c.mimir_header(&self.raw, z(name)) orelse return null);
    }

    /// Parses the body as JSON. Unknown fields are ignored.
    pub fn json(self: Response, comptime T: type) Error!T {
        return std.json.parseFromSliceLeaky(T, allocator, self.body, .{ .ignore_unknown_fields = true }) catch |problem| {
            last_failure = fail(.network, "the response is not the expected JSON: {s}", .{@errorName(problem)});
            return error.Failed;
        };
    }
};

/// Sends a request and reads the whole response. Needs `.host`.
pub fn fetch(request: Request) Error!Response {
    const headers = allocator.allocSentinel(?[*:0]const u8, request.headers.len * 2, null) catch @panic("out of memory");
    for (request.headers, 0..) |header, i| {
        headers[i * 2] = z(header.name);
        headers[i * 2 + 1] = z(header.value);
    }
    const raw: c.RawRequest = .{ .method = z(request.method), .url = z(request.url), .headers = headers.ptr, .body = request.body.ptr, .body_size = request.body.len };
    var response: c.RawResponse = undefined;
    try check(c.mimir_fetch(&response, &raw));
    return .{ .status = @intCast(response.status), .body = response.body.slice() orelse "", .raw = response };
}

/// Returns the value of an environment variable. That of a secret is a placeholder, which the host replaces in the granted
/// header.
pub fn env(name: []const u8) ?[]const u8 {
    return std.mem.span(c.getenv(z(name)) orelse return null);
}

// --- Tools

/// A need of a tool. Declaring it grants nothing: a person grants it, and reads the reason.
pub const Need = union(enum) {
    read: struct { path: []const u8, reason: []const u8 },
    write: struct { path: []const u8, reason: []const u8 },
    /// `methods` are separated by spaces.
    host: struct { host: []const u8, methods: []const u8 = "GET", reason: []const u8 },
    command: struct { pattern: []const u8, reason: []const u8 },
    secret: struct { name: []const u8, host: []const u8, header: []const u8, reason: []const u8 },
    variable: []const u8,
    tool: []const u8,
    model,
};

pub const Group = enum(c_int) { system, runtime, fs, net, browser, memory };
pub const Approval = enum(c_int) { default, allow, ask, deny };
pub const Risk = enum(c_int) { low, medium, high, critical };
pub const Hints = packed struct(c_int) { read_only: bool = false, destructive: bool = false, idempotent: bool = false, open_world: bool = false, _: @Int(.unsigned, @bitSizeOf(c_int) - 4) = 0 };

/// The description of a tool, as `pub const tool` of its struct.
pub const Tool = struct {
    /// Written for the model that chooses the tool.
    description: [:0]const u8,
    /// Default: the name of the struct in snake_case.
    name: ?[:0]const u8 = null,
    title: ?[:0]const u8 = null,
    group: Group = .system,
    /// By default, a tool without needs is allowed, and any other asks.
    approval: Approval = .default,
    risk: Risk = .low,
    hints: Hints = .{},
    needs: []const Need = &.{},
};

/// Exports the tools. Each is a struct with `tool`, `docs` for its fields, and `run`.
pub fn exportPlugin(comptime name: [:0]const u8, comptime version: [:0]const u8, comptime description: [:0]const u8, comptime types: anytype) void {
    const list = comptime blk: {
        var tools: [types.len]*const c.RawTool = undefined;
        for (types, 0..) |T, i| tools[i] = &Exported(T).raw;
        break :blk tools;
    };
    const Plugin = struct {
        const tools = list;
        const raw: c.RawPlugin = .{ .name = name, .version = version, .description = description, .tools = &tools, .tool_count = tools.len };
    };
    @export(&Plugin.raw, .{ .name = "mimir_exported_plugin" });
}

fn Exported(comptime T: type) type {
    return struct {
        const tool: Tool = T.tool;
        const Out = payload(@typeInfo(@TypeOf(T.run)).@"fn".return_type.?);
        const raw: c.RawTool = .{
            .name = tool.name orelse schema.snakeCase(T),
            .description = tool.description,
            .fields = null,
            .args_size = 0,
            .run = &call,
            .title = if (tool.title) |title| title.ptr else null,
            .group = tool.group,
            .approval = tool.approval,
            .risk = tool.risk,
            .hints = tool.hints,
            .input_schema = schema.structSchema(T) ++ "",
            .output_schema = if (isStructured(Out)) schema.schemaOf(Out) ++ "" else null,
            .needs = rawNeeds(tool.needs),
        };

        fn call(cx: *const c.RawContext, arguments: ?*const anyopaque) callconv(.c) *Result {
            const json = std.mem.span(c.mimir_json_write(arguments));
            const self = std.json.parseFromSliceLeaky(T, allocator, json, .{}) catch |problem|
                return fail(.invalid_input, "arguments: {s}", .{@errorName(problem)});
            const context: Context = .{
                .workspace = std.mem.span(cx.workspace),
                .request_id = std.mem.span(cx.request_id),
                .session_id = std.mem.span(cx.session_id),
                .conversation_id = if (cx.conversation_id) |id| std.mem.span(id) else null,
                .user = if (cx.user) |user| std.mem.span(user) else null,
            };
            const out = T.run(self, context) catch |problem| {
                // The error set of a tool may not have `Failed`.
                const any: anyerror = problem;
                if (any == error.Failed) if (last_failure) |failure| return failure;
                return fail(.execution, "{s}", .{@errorName(any)});
            };
            if (Out == *Result) return out;
            if (Out == void) return text("", .{});
            if (Out == []const u8 or Out == []u8) return text("{s}", .{out});
            return structured(out, null);
        }
    };
}

fn payload(comptime T: type) type {
    return switch (@typeInfo(T)) {
        .error_union => |info| info.payload,
        else => T,
    };
}

fn isStructured(comptime T: type) bool {
    return T != *Result and T != void and T != []const u8 and T != []u8;
}

fn rawNeeds(comptime needs: []const Need) [16]c.RawNeed {
    var raw: [16]c.RawNeed = @splat(.{});
    for (needs, 0..) |need, i| raw[i] = switch (need) {
        .read => |it| .{ .kind = 1, .what = it.path ++ "", .reason = it.reason ++ "" },
        .write => |it| .{ .kind = 2, .what = it.path ++ "", .reason = it.reason ++ "" },
        .host => |it| .{ .kind = 3, .what = it.host ++ "", .detail = it.methods ++ "", .reason = it.reason ++ "" },
        .command => |it| .{ .kind = 4, .what = it.pattern ++ "", .reason = it.reason ++ "" },
        .secret => |it| .{ .kind = 5, .what = it.name ++ "", .host = it.host ++ "", .detail = it.header ++ "", .reason = it.reason ++ "" },
        .variable => |it| .{ .kind = 6, .what = it ++ "" },
        .tool => |it| .{ .kind = 7, .what = it ++ "" },
        .model => .{ .kind = 8 },
    };
    return raw;
}

fn check(failure: ?*Result) Error!void {
    last_failure = failure orelse return;
    return error.Failed;
}

fn z(content: []const u8) [:0]u8 {
    return std.fmt.allocPrintSentinel(allocator, "{s}", .{content}, 0) catch @panic("out of memory");
}

fn stringify(value: anytype) []u8 {
    return std.json.Stringify.valueAlloc(allocator, value, .{ .emit_null_optional_fields = false }) catch @panic("out of memory");
}
