//! Declarations of the C SDK, `sdk/c/include/mimir.h`.

const mimir = @import("mimir.zig");

pub const Bytes = extern struct {
    data: ?[*]u8,
    size: usize,

    pub fn slice(self: Bytes) ?[]u8 {
        return (self.data orelse return null)[0..self.size];
    }
};

pub const RawContext = extern struct { workspace: [*:0]const u8, request_id: [*:0]const u8, session_id: [*:0]const u8, conversation_id: ?[*:0]const u8, user: ?[*:0]const u8 };
pub const RawFinished = extern struct {
    exit_code: i32,
    out: Bytes,
    err: Bytes,
    combined: Bytes,
    truncated: bool,
    duration_ms: u64,

    pub fn finished(self: RawFinished) mimir.Finished {
        return .{ .exit_code = self.exit_code, .stdout = self.out.slice().?, .stderr = self.err.slice().?, .truncated = self.truncated, .duration_ms = self.duration_ms };
    }
};
pub const RawRequest = extern struct { method: ?[*:0]const u8, url: [*:0]const u8, headers: ?[*:null]const ?[*:0]const u8, body: ?[*]const u8, body_size: usize };
pub const RawResponse = extern struct { status: c_int, body: Bytes, headers: ?*anyopaque };
pub const RawNeed = extern struct { kind: c_int = 0, what: ?[*:0]const u8 = null, host: ?[*:0]const u8 = null, detail: ?[*:0]const u8 = null, reason: ?[*:0]const u8 = null };
pub const RawTool = extern struct {
    name: [*:0]const u8,
    description: [*:0]const u8,
    fields: ?*const anyopaque,
    args_size: usize,
    run: *const fn (*const RawContext, ?*const anyopaque) callconv(.c) *mimir.Result,
    title: ?[*:0]const u8,
    group: mimir.Group,
    approval: mimir.Approval,
    risk: mimir.Risk,
    hints: mimir.Hints,
    input_schema: ?[*:0]const u8,
    output_schema: ?[*:0]const u8,
    needs: [16]RawNeed,
};
pub const RawPlugin = extern struct { name: [*:0]const u8, version: [*:0]const u8, description: [*:0]const u8, tools: [*]const *const RawTool, tool_count: usize };

pub extern fn getenv(name: [*:0]const u8) ?[*:0]const u8;
pub extern fn mimir_text(format: [*:0]const u8, ...) *mimir.Result;
pub extern fn mimir_structured(value: *const anyopaque, content: ?[*:0]const u8) *mimir.Result;
pub extern fn mimir_fail(code: c_int, format: [*:0]const u8, ...) *mimir.Result;
pub extern fn mimir_add_text(result: *mimir.Result, content: [*:0]const u8) *mimir.Result;
pub extern fn mimir_add_image(result: *mimir.Result, mime_type: [*:0]const u8, data: [*]const u8, size: usize) *mimir.Result;
pub extern fn mimir_add_file(result: *mimir.Result, name: [*:0]const u8, mime_type: [*:0]const u8, data: [*]const u8, size: usize) *mimir.Result;
pub extern fn mimir_set_exit_code(result: *mimir.Result, code: i32) *mimir.Result;
pub extern fn mimir_result_text(result: *const mimir.Result) [*:0]const u8;
pub extern fn mimir_is_error(result: *const mimir.Result, code: *c_int) bool;
pub extern fn mimir_json_parse(content: [*]const u8, size: usize) ?*anyopaque;
pub extern fn mimir_json_write(value: ?*const anyopaque) [*:0]u8;
pub extern fn mimir_read_file(cx: *const RawContext, path: [*:0]const u8, data: *[*]u8, size: *usize) ?*mimir.Result;
pub extern fn mimir_write_file(cx: *const RawContext, path: [*:0]const u8, data: [*]const u8, size: usize) ?*mimir.Result;
pub extern fn mimir_debug(format: [*:0]const u8, ...) void;
pub extern fn mimir_info(format: [*:0]const u8, ...) void;
pub extern fn mimir_warn(format: [*:0]const u8, ...) void;
pub extern fn mimir_error(format: [*:0]const u8, ...) void;
pub extern fn mimir_progress(done: u64, total: u64, message: ?[*:0]const u8) void;
pub extern fn mimir_storage_get(key: [*:0]const u8, value: *Bytes) ?*mimir.Result;
pub extern fn mimir_storage_set(key: [*:0]const u8, data: [*]const u8, size: usize) ?*mimir.Result;
pub extern fn mimir_storage_delete(key: [*:0]const u8) ?*mimir.Result;
pub extern fn mimir_storage_keys(prefix: [*:0]const u8, keys: *[*:null]const ?[*:0]const u8) ?*mimir.Result;
pub extern fn mimir_run(finished: *RawFinished, program: [*:null]const ?[*:0]const u8) ?*mimir.Result;
pub extern fn mimir_shell(finished: *RawFinished, script: [*:0]const u8) ?*mimir.Result;
pub extern fn mimir_call_tool(name: [*:0]const u8, arguments: ?*const anyopaque, output: **mimir.Result) ?*mimir.Result;
pub extern fn mimir_complete(prompt: [*:0]const u8, max_tokens: u32, reply: *[*:0]u8) ?*mimir.Result;
pub extern fn mimir_header(response: *const RawResponse, name: [*:0]const u8) ?[*:0]const u8;
pub extern fn mimir_fetch(response: *RawResponse, request: *const RawRequest) ?*mimir.Result;
