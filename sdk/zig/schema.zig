//! Names and JSON Schemas of types, made while a plugin is compiled.

const std = @import("std");

/// `WordCount` becomes `word_count`.
pub fn snakeCase(comptime T: type) [:0]const u8 {
    comptime {
        var full: []const u8 = @typeName(T);
        if (std.mem.lastIndexOfScalar(u8, full, '.')) |dot| full = full[dot + 1 ..];
        var snake: []const u8 = "";
        for (full, 0..) |letter, i| {
            if (std.ascii.isUpper(letter) and i > 0 and !std.ascii.isUpper(full[i - 1])) snake = snake ++ "_";
            snake = snake ++ &[_]u8{std.ascii.toLower(letter)};
        }
        return snake ++ "";
    }
}

/// Returns the JSON Schema of a type.
pub fn schemaOf(comptime T: type) []const u8 {
    return switch (@typeInfo(T)) {
        .bool => "{\"type\":\"boolean\"}",
        .int => |info| if (info.signedness == .unsigned) "{\"type\":\"integer\",\"minimum\":0}" else "{\"type\":\"integer\"}",
        .float => "{\"type\":\"number\"}",
        .optional => |info| schemaOf(info.child),
        .pointer => |info| if (info.size == .slice and info.child == u8)
            "{\"type\":\"string\"}"
        else if (info.size == .slice)
            "{\"type\":\"array\",\"items\":" ++ schemaOf(info.child) ++ "}"
        else
            @compileError(@typeName(T) ++ " has no JSON Schema"),
        .@"enum" => blk: {
            var names: []const u8 = "";
            for (std.meta.fieldNames(T)) |name| names = names ++ (if (names.len == 0) "\"" else ",\"") ++ name ++ "\"";
            break :blk "{\"enum\":[" ++ names ++ "]}";
        },
        .@"struct" => structSchema(T),
        else => if (T == std.json.Value) "{}" else @compileError(@typeName(T) ++ " has no JSON Schema"),
    };
}

/// Returns the JSON Schema of a struct, with the descriptions in its `docs`.
pub fn structSchema(comptime T: type) []const u8 {
    const info = @typeInfo(T).@"struct";
    if (@hasDecl(T, "docs")) {
        for (std.meta.fieldNames(@TypeOf(T.docs))) |name| {
            if (!@hasField(T, name)) @compileError("`docs` of " ++ @typeName(T) ++ " names `" ++ name ++ "`, which is not a field");
        }
    }
    var properties: []const u8 = "";
    var required: []const u8 = "";
    for (info.field_names, info.field_types, info.field_attrs) |name, Field, attrs| {
        var schema = schemaOf(Field);
        if (@hasDecl(T, "docs") and @hasField(@TypeOf(T.docs), name)) {
            const doc = "\"description\":" ++ jsonString(@field(T.docs, name));
            schema = schema[0 .. schema.len - 1] ++ (if (schema.len > 2) "," else "") ++ doc ++ "}";
        }
        properties = properties ++ (if (properties.len == 0) "" else ",") ++ jsonString(name) ++ ":" ++ schema;
        if (attrs.default_value_ptr == null) required = required ++ (if (required.len == 0) "" else ",") ++ jsonString(name);
    }
    return "{\"type\":\"object\",\"properties\":{" ++ properties ++ "}," ++
        (if (required.len == 0) "" else "\"required\":[" ++ required ++ "],") ++ "\"additionalProperties\":false}";
}

fn jsonString(comptime content: []const u8) []const u8 {
    var out: []const u8 = "\"";
    for (content) |letter| out = out ++ switch (letter) {
        '"' => "\\\"",
        '\\' => "\\\\",
        '\n' => "\\n",
        else => &[_]u8{letter},
    };
    return out ++ "\"";
}

test "names are in snake case" {
    const WordCount = struct {};
    const Utf8Check = struct {};
    try std.testing.expectEqualStrings("word_count", comptime snakeCase(WordCount));
    try std.testing.expectEqualStrings("utf8_check", comptime snakeCase(Utf8Check));
}

test "fields with a default value are optional, and docs describe fields" {
    const Input = struct {
        pub const docs = .{ .text = "Any \"text\"." };
        text: []const u8,
        count: ?u32 = null,
        modes: []const enum { fast, slow } = &.{},
    };
    const expected =
        \\{"type":"object","properties":{"text":{"type":"string","description":"Any \"text\"."},
    ++
        \\"count":{"type":"integer","minimum":0},"modes":{"type":"array","items":{"enum":["fast","slow"]}}},
    ++
        \\"required":["text"],"additionalProperties":false}
    ;
    try std.testing.expectEqualStrings(expected, comptime structSchema(Input));
}
