// The component's side of the host: the exports, and the imports of `mimir:tool`. `bindings.c` is generated from
// `sdk/wit`; see `.ci/bindings`.

#ifdef __wasm__

#include <stdlib.h>
#include <string.h>

#include "bindings.h"
#include "internal.h"

// The generated code refers to an object file with the world. `mimir tools build` adds the world itself.
void __component_type_object_force_link_bindings(void) {}

static void set_part(bindings_string_t *to, const char *text, size_t size) {
    to->ptr = (uint8_t *)mimir_copy(text, size);
    to->len = size;
}

static void set(bindings_string_t *to, const char *text) { set_part(to, text ? text : "", text ? strlen(text) : 0); }

static bindings_string_t view(const char *text) { return (bindings_string_t){(uint8_t *)text, strlen(text)}; }

static char *copy(bindings_string_t text) { return mimir_copy((const char *)text.ptr, text.len); }

// --- Exports

static void add_needs(mimir_tool_types_needs_t *to, const mimir_tool *tool) {
    size_t counts[MIMIR_NEED_MODEL + 1] = {0};
    size_t total = 0;
    while (total < MIMIR_MAX_NEEDS && tool->needs[total].kind) counts[tool->needs[total++].kind]++;
#define LIST(member, count) to->member.ptr = mimir_alloc((count) * sizeof *to->member.ptr)
    LIST(files, counts[MIMIR_NEED_READ] + counts[MIMIR_NEED_WRITE]);
    LIST(hosts, counts[MIMIR_NEED_HOST]);
    LIST(commands, counts[MIMIR_NEED_COMMAND]);
    LIST(secrets, counts[MIMIR_NEED_SECRET]);
    LIST(variables, counts[MIMIR_NEED_VARIABLE]);
    LIST(tools, counts[MIMIR_NEED_TOOL]);
    for (size_t i = 0; i < total; i++) {
        const mimir_need *need = &tool->needs[i];
        switch (need->kind) {
        case MIMIR_NEED_READ:
        case MIMIR_NEED_WRITE: {
            mimir_tool_types_file_need_t *file = &to->files.ptr[to->files.len++];
            set(&file->path, need->what);
            file->access = need->kind == MIMIR_NEED_WRITE ? MIMIR_TOOL_TYPES_FILE_ACCESS_READ_WRITE : MIMIR_TOOL_TYPES_FILE_ACCESS_READ;
            set(&file->reason, need->reason);
            break;
        }
        case MIMIR_NEED_HOST: {
            mimir_tool_types_host_need_t *host = &to->hosts.ptr[to->hosts.len++];
            set(&host->host, need->what);
            host->methods.ptr = mimir_alloc(16 * sizeof *host->methods.ptr);
            for (const char *at = need->detail; *at && host->methods.len < 16;) {
                size_t size = strcspn(at, " ");
                if (size) set_part(&host->methods.ptr[host->methods.len++], at, size);
                at += size + (at[size] == ' ');
            }
            set(&host->reason, need->reason);
            break;
        }
        case MIMIR_NEED_COMMAND: {
            mimir_tool_types_command_need_t *command = &to->commands.ptr[to->commands.len++];
            set(&command->pattern, need->what);
            set(&command->reason, need->reason);
            break;
        }
        case MIMIR_NEED_SECRET: {
            mimir_tool_types_secret_need_t *secret = &to->secrets.ptr[to->secrets.len++];
            set(&secret->name, need->what);
            set(&secret->host, need->host);
            set(&secret->header, need->detail);
            set(&secret->reason, need->reason);
            break;
        }
        case MIMIR_NEED_VARIABLE: set(&to->variables.ptr[to->variables.len++], need->what); break;
        case MIMIR_NEED_TOOL: set(&to->tools.ptr[to->tools.len++], need->what); break;
        case MIMIR_NEED_MODEL: to->model = true; break;
        case MIMIR_NEED_NONE: break;
        }
    }
}

void exports_mimir_tool_toolset_describe(exports_mimir_tool_toolset_manifest_t *ret) {
    static const mimir_tool_types_group_t groups[] = {
        MIMIR_TOOL_TYPES_GROUP_SYSTEM,  MIMIR_TOOL_TYPES_GROUP_RUNTIME, MIMIR_TOOL_TYPES_GROUP_FS,
        MIMIR_TOOL_TYPES_GROUP_NET,     MIMIR_TOOL_TYPES_GROUP_BROWSER, MIMIR_TOOL_TYPES_GROUP_MEMORY,
    };
    const mimir_plugin *plugin = &mimir_exported_plugin;
    memset(ret, 0, sizeof *ret);
    set(&ret->name, plugin->name);
    set(&ret->version, plugin->version);
    set(&ret->description, plugin->description);
    ret->tools.ptr = mimir_alloc(plugin->tool_count * sizeof *ret->tools.ptr);
    ret->tools.len = plugin->tool_count;
    for (size_t i = 0; i < plugin->tool_count; i++) {
        const mimir_tool *tool = plugin->tools[i];
        mimir_tool_types_definition_t *to = &ret->tools.ptr[i];
        set(&to->name, tool->name);
        set(&to->description, tool->description);
        set(&to->input_schema, mimir_schema(tool));
        if (tool->title) to->title.is_some = true, set(&to->title.val, tool->title);
        if (tool->output_schema) to->output_schema.is_some = true, set(&to->output_schema.val, tool->output_schema);
        to->group = groups[tool->group];
        to->approval = (mimir_tool_types_approval_t)(mimir_approval_of(tool) - MIMIR_ALLOW);
        to->risk = (mimir_tool_types_risk_t)tool->risk;
        to->hints = (mimir_tool_types_hints_t)tool->hints;
        add_needs(&to->needs, tool);
    }
}

static void put_error(mimir_tool_types_error_t *to, const mimir_result *error) {
    memset(to, 0, sizeof *to);
    // The codes are those of the contract, in its order.
    to->code.tag = (uint8_t)error->code;
    if (error->other_code) {
        to->code.tag = MIMIR_TOOL_TYPES_ERROR_CODE_OTHER;
        set(&to->code.val.other, error->other_code);
    }
    set(&to->message, error->message);
    if (error->details) to->details.is_some = true, set(&to->details.val, error->details);
}

bool exports_mimir_tool_toolset_call(bindings_string_t *tool, exports_mimir_tool_toolset_json_t *arguments,
                                     exports_mimir_tool_toolset_call_context_t *context,
                                     exports_mimir_tool_toolset_output_t *ret, exports_mimir_tool_toolset_error_t *err) {
    mimir_context cx = {
        .workspace = copy(context->workspace),
        .request_id = copy(context->request_id),
        .session_id = copy(context->session_id),
        .conversation_id = context->conversation_id.is_some ? copy(context->conversation_id.val) : NULL,
        .user = context->user.is_some ? copy(context->user.val) : NULL,
    };
    const mimir_result *result = mimir_call(&cx, copy(*tool), (const char *)arguments->ptr, arguments->len);
    if (result->is_error) {
        put_error(err, result);
        return false;
    }
    memset(ret, 0, sizeof *ret);
    ret->content.ptr = mimir_alloc(result->count * sizeof *ret->content.ptr);
    ret->content.len = result->count;
    for (size_t i = 0; i < result->count; i++) {
        const result_part *part = &result->parts[i];
        mimir_tool_types_content_t *to = &ret->content.ptr[i];
        uint8_t *data = (uint8_t *)part->data;
        switch (part->kind) {
        case PART_TEXT:
            to->tag = MIMIR_TOOL_TYPES_CONTENT_TEXT;
            to->val.text.ptr = data, to->val.text.len = part->size;
            break;
        case PART_IMAGE:
            to->tag = MIMIR_TOOL_TYPES_CONTENT_IMAGE;
            set(&to->val.image.mime_type, part->mime_type);
            to->val.image.data.ptr = data, to->val.image.data.len = part->size;
            break;
        case PART_AUDIO:
            to->tag = MIMIR_TOOL_TYPES_CONTENT_AUDIO;
            set(&to->val.audio.mime_type, part->mime_type);
            to->val.audio.data.ptr = data, to->val.audio.data.len = part->size;
            break;
        case PART_FILE:
            to->tag = MIMIR_TOOL_TYPES_CONTENT_FILE;
            set(&to->val.file.name, part->name);
            set(&to->val.file.mime_type, part->mime_type);
            to->val.file.data.ptr = data, to->val.file.data.len = part->size;
            break;
        }
    }
    if (result->structured) ret->structured.is_some = true, set(&ret->structured.val, result->structured);
    ret->exit_code.is_some = result->has_exit_code;
    ret->exit_code.val = result->exit_code;
    return true;
}

// --- Imports

static mimir_result *host_error(const mimir_tool_types_error_t *error) {
    mimir_result *result = mimir_fail(MIMIR_EXECUTION, "%.*s", (int)error->message.len, (const char *)error->message.ptr);
    if (error->code.tag == MIMIR_TOOL_TYPES_ERROR_CODE_OTHER) {
        result->other_code = copy(error->code.val.other);
    } else {
        result->code = (mimir_code)error->code.tag;
    }
    if (error->details.is_some) result->details = copy(error->details.val);
    return result;
}

void mimir_write_log(int level, const char *message) {
    bindings_string_t text = view(message);
    mimir_tool_log_write((mimir_tool_log_level_t)level, &text);
}

void mimir_progress(uint64_t done, uint64_t total, const char *message) {
    bindings_string_t text = view(message ? message : "");
    mimir_tool_progress_report(done, total ? &total : NULL, message ? &text : NULL);
}

mimir_result *mimir_storage_get(const char *key, mimir_bytes *value) {
    bindings_string_t name = view(key);
    bindings_option_list_u8_t found;
    mimir_tool_storage_error_t error;
    if (!mimir_tool_storage_get(&name, &found, &error)) return host_error(&error);
    value->data = found.is_some ? mimir_copy((const char *)found.val.ptr, found.val.len) : NULL;
    value->size = found.is_some ? found.val.len : 0;
    return NULL;
}

mimir_result *mimir_storage_set(const char *key, const void *data, size_t size) {
    bindings_string_t name = view(key);
    bindings_list_u8_t value = {(uint8_t *)data, size};
    mimir_tool_storage_error_t error;
    return mimir_tool_storage_set(&name, &value, &error) ? NULL : host_error(&error);
}

mimir_result *mimir_storage_delete(const char *key) {
    bindings_string_t name = view(key);
    mimir_tool_storage_error_t error;
    return mimir_tool_storage_delete(&name, &error) ? NULL : host_error(&error);
}

mimir_result *mimir_storage_keys(const char *prefix, const char *const **keys) {
    bindings_string_t begin = view(prefix);
    bindings_list_string_t found;
    mimir_tool_storage_error_t error;
    if (!mimir_tool_storage_keys(&begin, &found, &error)) return host_error(&error);
    const char **names = mimir_alloc((found.len + 1) * sizeof *names);
    for (size_t i = 0; i < found.len; i++) names[i] = copy(found.ptr[i]);
    *keys = names;
    return NULL;
}

static mimir_bytes bytes(bindings_list_u8_t list) {
    return (mimir_bytes){mimir_copy((const char *)list.ptr, list.len), list.len};
}

static void put_finished(mimir_finished *to, const mimir_tool_commands_finished_t *from) {
    *to = (mimir_finished){
        .exit_code = from->exit_code,
        .out = bytes(from->stdout_),
        .err = bytes(from->stderr_),
        .combined = bytes(from->combined),
        .truncated = from->truncated,
        .duration_ms = from->duration_ms,
    };
}

mimir_result *mimir_run(mimir_finished *finished, const char *const *program) {
    mimir_tool_commands_command_t command;
    mimir_tool_commands_finished_t done;
    mimir_tool_commands_error_t error;
    memset(&command, 0, sizeof command);
    set(&command.program, program[0]);
    size_t count = 0;
    while (program[count + 1]) count++;
    command.arguments.ptr = mimir_alloc(count * sizeof *command.arguments.ptr);
    command.arguments.len = count;
    for (size_t i = 0; i < count; i++) set(&command.arguments.ptr[i], program[i + 1]);
    if (!mimir_tool_commands_run(&command, &done, &error)) return host_error(&error);
    put_finished(finished, &done);
    return NULL;
}

mimir_result *mimir_shell(mimir_finished *finished, const char *script) {
    bindings_string_t text = view(script);
    mimir_tool_commands_finished_t done;
    mimir_tool_commands_error_t error;
    if (!mimir_tool_commands_run_shell(&text, NULL, NULL, &done, &error)) return host_error(&error);
    put_finished(finished, &done);
    return NULL;
}

mimir_result *mimir_call_tool(const char *name, const mimir_json *arguments, mimir_result **output) {
    bindings_string_t tool = view(name);
    mimir_tool_tools_json_t json = view(mimir_json_write(arguments));
    mimir_tool_tools_output_t made;
    mimir_tool_tools_error_t error;
    if (!mimir_tool_tools_call(&tool, &json, &made, &error)) return host_error(&error);
    mimir_result *result = mimir_alloc(sizeof *result);
    for (size_t i = 0; i < made.content.len; i++) {
        const mimir_tool_types_content_t *from = &made.content.ptr[i];
        switch (from->tag) {
        case MIMIR_TOOL_TYPES_CONTENT_TEXT: mimir_add_text(result, copy(from->val.text)); break;
        case MIMIR_TOOL_TYPES_CONTENT_IMAGE:
            mimir_add_image(result, copy(from->val.image.mime_type), from->val.image.data.ptr, from->val.image.data.len);
            break;
        case MIMIR_TOOL_TYPES_CONTENT_AUDIO:
            mimir_add_audio(result, copy(from->val.audio.mime_type), from->val.audio.data.ptr, from->val.audio.data.len);
            break;
        case MIMIR_TOOL_TYPES_CONTENT_FILE:
            mimir_add_file(result, copy(from->val.file.name), copy(from->val.file.mime_type), from->val.file.data.ptr,
                           from->val.file.data.len);
            break;
        }
    }
    if (made.structured.is_some) result->structured = copy(made.structured.val);
    if (made.exit_code.is_some) mimir_set_exit_code(result, made.exit_code.val);
    *output = result;
    return NULL;
}

mimir_result *mimir_complete(const char *prompt, uint32_t max_tokens, char **reply) {
    bindings_string_t text = view(prompt), answer;
    mimir_tool_model_error_t error;
    if (!mimir_tool_model_complete(&text, max_tokens ? &max_tokens : NULL, &answer, &error)) return host_error(&error);
    *reply = copy(answer);
    return NULL;
}

#endif
