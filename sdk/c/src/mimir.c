// Arguments, schemas and results of tools.

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

char *mimir_vformat(const char *format, va_list arguments) {
    va_list again;
    va_copy(again, arguments);
    int size = vsnprintf(NULL, 0, format, again);
    va_end(again);
    char *text = mimir_alloc(size < 0 ? 1 : (size_t)size + 1);
    if (size > 0) vsnprintf(text, (size_t)size + 1, format, arguments);
    return text;
}

char *mimir_format(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *text = mimir_vformat(format, arguments);
    va_end(arguments);
    return text;
}

// --- Results

mimir_result *mimir_add_part(mimir_result *result, result_part part) {
    result->parts = realloc(result->parts, (result->count + 1) * sizeof *result->parts);
    if (!result->parts) abort();
    result->parts[result->count++] = part;
    return result;
}

mimir_result *mimir_text(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *text = mimir_vformat(format, arguments);
    va_end(arguments);
    return mimir_add_text(mimir_alloc(sizeof(mimir_result)), text);
}

mimir_result *mimir_structured(const mimir_json *value, const char *text) {
    mimir_result *result = mimir_alloc(sizeof *result);
    result->structured = mimir_json_write(value);
    return mimir_add_text(result, text ? text : result->structured);
}

mimir_result *mimir_fail(mimir_code code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    mimir_result *result = mimir_alloc(sizeof *result);
    result->is_error = true;
    result->code = code;
    result->message = mimir_vformat(format, arguments);
    va_end(arguments);
    return result;
}

mimir_result *mimir_fail_errno(const char *path) {
    int reason = errno;
    mimir_code code = reason == ENOENT || reason == ENOTDIR          ? MIMIR_FILE_NOT_FOUND
                      : reason == EACCES || reason == EPERM || reason == EROFS ? MIMIR_PERMISSION_DENIED
                      : reason == EEXIST                              ? MIMIR_ALREADY_EXISTS
                      : reason == EISDIR || reason == EINVAL          ? MIMIR_INVALID_INPUT
                      : reason == ENOSPC || reason == EFBIG           ? MIMIR_LIMIT_EXCEEDED
                                                                      : MIMIR_EXECUTION;
#ifdef ENOTCAPABLE
    if (reason == ENOTCAPABLE) code = MIMIR_PERMISSION_DENIED;
#endif
    return mimir_fail(code, "%s: %s", path, strerror(reason));
}

mimir_result *mimir_add_text(mimir_result *result, const char *text) {
    size_t size = strlen(text);
    return mimir_add_part(result, (result_part){PART_TEXT, NULL, NULL, mimir_copy(text, size), size});
}

mimir_result *mimir_add_image(mimir_result *result, const char *mime_type, const void *data, size_t size) {
    return mimir_add_part(result, (result_part){PART_IMAGE, NULL, mime_type, mimir_copy(data, size), size});
}

mimir_result *mimir_add_audio(mimir_result *result, const char *mime_type, const void *data, size_t size) {
    return mimir_add_part(result, (result_part){PART_AUDIO, NULL, mime_type, mimir_copy(data, size), size});
}

mimir_result *mimir_add_file(mimir_result *result, const char *name, const char *mime_type, const void *data, size_t size) {
    return mimir_add_part(result, (result_part){PART_FILE, name, mime_type, mimir_copy(data, size), size});
}

mimir_result *mimir_set_exit_code(mimir_result *result, int32_t code) {
    result->has_exit_code = true;
    result->exit_code = code;
    return result;
}

mimir_result *mimir_set_details(mimir_result *result, const mimir_json *details) {
    result->details = mimir_json_write(details);
    return result;
}

const char *mimir_result_text(const mimir_result *result) {
    if (result->is_error) return result->message;
    for (size_t i = 0; i < result->count; i++)
        if (result->parts[i].kind == PART_TEXT) return result->parts[i].data;
    return "";
}

const char *mimir_result_structured(const mimir_result *result) { return result->structured; }

bool mimir_is_error(const mimir_result *result, mimir_code *code) {
    if (code) *code = result->code;
    return result->is_error;
}

// --- Files

const char *mimir_path(const mimir_context *cx, const char *relative) { return mimir_format("%s/%s", cx->workspace, relative); }

mimir_result *mimir_read_file(const mimir_context *cx, const char *path, char **data, size_t *size) {
    FILE *file = fopen(mimir_path(cx, path), "rb");
    if (!file) return mimir_fail_errno(path);
    size_t room = 1 << 16;
    *data = mimir_alloc(room);
    *size = 0;
    for (size_t got; (got = fread(*data + *size, 1, room - *size - 1, file)) > 0;) {
        *size += got;
        if (*size + 1 == room) {
            room *= 2;
            *data = realloc(*data, room);
            if (!*data) abort();
        }
    }
    bool has_failed = ferror(file);
    fclose(file);
    if (has_failed) return mimir_fail_errno(path);
    (*data)[*size] = 0;
    return NULL;
}

mimir_result *mimir_write_file(const mimir_context *cx, const char *path, const void *data, size_t size) {
    FILE *file = fopen(mimir_path(cx, path), "wb");
    if (!file) return mimir_fail_errno(path);
    bool is_written = fwrite(data, 1, size, file) == size;
    if (fclose(file) || !is_written) return mimir_fail_errno(path);
    return NULL;
}

// --- Arguments

static const char *const KIND_NAMES[] = {"string", "integer", "number", "boolean", "array", NULL};

char *mimir_schema(const mimir_tool *tool) {
    if (tool->input_schema) return mimir_copy(tool->input_schema, strlen(tool->input_schema));
    size_t count;
    const mimir_field *fields = tool->fields(&count);
    mimir_json *properties = mimir_object(), *required = mimir_array();
    for (size_t i = 0; i < count; i++) {
        mimir_json *schema = mimir_object();
        if (KIND_NAMES[fields[i].kind]) mimir_set(schema, "type", mimir_json_string(KIND_NAMES[fields[i].kind]));
        if (fields[i].kind == MIMIR_KIND_strings)
            mimir_set(schema, "items", mimir_set(mimir_object(), "type", mimir_json_string("string")));
        mimir_set(schema, "description", mimir_json_string(fields[i].description));
        mimir_set(properties, fields[i].name, schema);
        if (fields[i].is_required) mimir_push(required, mimir_json_string(fields[i].name));
    }
    mimir_json *schema = mimir_set(mimir_object(), "type", mimir_json_string("object"));
    mimir_set(schema, "properties", properties);
    if (mimir_count(required)) mimir_set(schema, "required", required);
    mimir_set(schema, "additionalProperties", mimir_json_bool(false));
    return mimir_json_write(schema);
}

// Reads one argument into its member. Returns what was expected, or NULL.
static const char *read_argument(const mimir_field *field, const mimir_json *value, void *member) {
    mimir_json_kind kind = mimir_json_kind_of(value);
    switch (field->kind) {
    case MIMIR_KIND_string:
        if (kind != MIMIR_TEXT) return "string";
        *(const char **)member = mimir_string_of(value, "");
        return NULL;
    case MIMIR_KIND_integer: {
        double number = mimir_number_of(value, NAN);
        if (number != floor(number) || fabs(number) > 9007199254740992.0) return "integer";
        *(int64_t *)member = (int64_t)number;
        return NULL;
    }
    case MIMIR_KIND_number:
        if (kind != MIMIR_NUMBER) return "number";
        *(double *)member = mimir_number_of(value, 0);
        return NULL;
    case MIMIR_KIND_boolean:
        if (kind != MIMIR_BOOL) return "boolean";
        *(bool *)member = mimir_bool_of(value, false);
        return NULL;
    case MIMIR_KIND_strings: {
        if (kind != MIMIR_ARRAY) return "array of strings";
        mimir_strings *strings = member;
        strings->count = mimir_count(value);
        strings->items = mimir_alloc((strings->count + 1) * sizeof *strings->items);
        for (size_t i = 0; i < strings->count; i++) {
            strings->items[i] = mimir_string_of(mimir_at(value, i), NULL);
            if (!strings->items[i]) return "array of strings";
        }
        return NULL;
    }
    case MIMIR_KIND_json: *(const mimir_json **)member = value; return NULL;
    }
    return "another type";
}

static mimir_result *read_arguments(const mimir_tool *tool, const mimir_json *object, char *args) {
    size_t count;
    const mimir_field *fields = tool->fields(&count);
    if (mimir_json_kind_of(object) != MIMIR_OBJECT) return mimir_fail(MIMIR_INVALID_INPUT, "arguments: expected object");
    for (size_t i = 0; i < mimir_count(object); i++) {
        bool is_known = false;
        for (size_t j = 0; j < count; j++) is_known |= !strcmp(fields[j].name, mimir_key_at(object, i));
        if (!is_known) return mimir_fail(MIMIR_INVALID_INPUT, "%s: unknown argument", mimir_key_at(object, i));
    }
    for (size_t i = 0; i < count; i++) {
        const mimir_json *value = mimir_get(object, fields[i].name);
        if (!value) {
            if (fields[i].is_required) return mimir_fail(MIMIR_INVALID_INPUT, "%s: missing", fields[i].name);
            // An absent string is empty, so that it can be used without a check.
            if (fields[i].kind == MIMIR_KIND_string) *(const char **)(args + fields[i].offset) = "";
            continue;
        }
        const char *expected = read_argument(&fields[i], value, args + fields[i].offset);
        if (expected) return mimir_fail(MIMIR_INVALID_INPUT, "%s: expected %s", fields[i].name, expected);
        *(bool *)(args + fields[i].has_offset) = true;
    }
    return NULL;
}

mimir_result *mimir_call(const mimir_context *cx, const char *name, const char *arguments, size_t size) {
    for (size_t i = 0; i < mimir_exported_plugin.tool_count; i++) {
        const mimir_tool *tool = mimir_exported_plugin.tools[i];
        if (strcmp(tool->name, name)) continue;
        const mimir_json *object = size ? mimir_json_parse(arguments, size) : mimir_object();
        if (!object) return mimir_fail(MIMIR_INVALID_INPUT, "arguments: not JSON");
        char *args = mimir_alloc(tool->args_size);
        // A tool with a schema of its own gets the arguments as JSON.
        if (!tool->fields) return tool->run(cx, object);
        MIMIR_TRY(read_arguments(tool, object, args));
        return tool->run(cx, args);
    }
    return mimir_fail(MIMIR_NOT_FOUND, "no tool `%s` in this plugin", name);
}

mimir_approval mimir_approval_of(const mimir_tool *tool) {
    if (tool->approval != MIMIR_DEFAULT) return tool->approval;
    return tool->needs[0].kind == MIMIR_NEED_NONE ? MIMIR_ALLOW : MIMIR_ASK;
}

// --- Log

#define LEVEL(name, level)                                     \
    void name(const char *format, ...) {                       \
        va_list arguments;                                     \
        va_start(arguments, format);                           \
        mimir_write_log(level, mimir_vformat(format, arguments)); \
        va_end(arguments);                                     \
    }
LEVEL(mimir_debug, 0)
LEVEL(mimir_info, 1)
LEVEL(mimir_warn, 2)
LEVEL(mimir_error, 3)

const char *mimir_header(const mimir_response *response, const char *name) {
    for (const char **at = response->headers; at && *at; at += 2)
        if (!strcmp(*at, name)) return at[1];
    return NULL;
}
