/* Write tools for mimir in C or C++: a list of arguments, a function, and one line to export.
 *
 *     #include <mimir.h>
 *
 *     #define WORD_COUNT(X) X(string, text, required, "The text to count.")
 *     MIMIR_ARGS(word_count, WORD_COUNT)
 *
 *     MIMIR_TOOL(word_count, "Counts the words in a text.") {
 *         int words = 0;
 *         for (const char *at = args->text; *at; at++)
 *             words += *at != ' ' && (at[1] == ' ' || !at[1]);
 *         return mimir_text("%d", words);
 *     }
 *
 *     MIMIR_EXPORT("word-count", "0.1.0", "Counts words.", &word_count)
 *
 * Memory that these functions return is never freed: each call has an instance of its own. In C++ this needs C++20.
 */
#ifndef MIMIR_H
#define MIMIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define MIMIR_EXTERN_C extern "C"
extern "C" {
#else
#define MIMIR_EXTERN_C
#endif

/* --- Results ------------------------------------------------------------------------------------------------------ */

/* The result of a call: content, or an error. */
typedef struct mimir_result mimir_result;

/* A JSON value. */
typedef struct mimir_json mimir_json;

/* The stable codes of errors. */
typedef enum mimir_code {
    MIMIR_INVALID_INPUT,
    MIMIR_INVALID_PATH,
    MIMIR_NOT_FOUND,      /* An object other than a path does not exist. */
    MIMIR_FILE_NOT_FOUND, /* A path does not exist. */
    MIMIR_ALREADY_EXISTS,
    MIMIR_PERMISSION_DENIED,
    MIMIR_APPROVAL_DENIED, /* Reserved for the host. */
    MIMIR_TIMEOUT,
    MIMIR_CANCELLED, /* Reserved for the host. */
    MIMIR_LIMIT_EXCEEDED,
    MIMIR_NETWORK,
    MIMIR_EXECUTION, /* The operation ran and failed. */
    MIMIR_UNAVAILABLE,
} mimir_code;

#if defined(__GNUC__)
#define MIMIR_FORMAT_(at, first) __attribute__((__format__(__printf__, at, first)))
/* A tool need not use its parameters, and most settings of a tool are left out. */
#define MIMIR_UNUSED_ __attribute__((__unused__))
#define MIMIR_QUIET_ _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wmissing-field-initializers\"")
#define MIMIR_LOUD_ _Pragma("GCC diagnostic pop")
#else
#define MIMIR_FORMAT_(at, first)
#define MIMIR_UNUSED_
#define MIMIR_QUIET_
#define MIMIR_LOUD_
#endif

/* Returns a result with one text part. */
mimir_result *mimir_text(const char *format, ...) MIMIR_FORMAT_(1, 2);
/* Returns structured content. `text` is for the model; NULL is the value as JSON. */
mimir_result *mimir_structured(const mimir_json *value, const char *text);
/* Returns an error. */
mimir_result *mimir_fail(mimir_code code, const char *format, ...) MIMIR_FORMAT_(2, 3);
/* Returns an error for `errno` after a failed operation on a file. */
mimir_result *mimir_fail_errno(const char *path);

/* Add a part to a result, and return it. */
mimir_result *mimir_add_text(mimir_result *result, const char *text);
mimir_result *mimir_add_image(mimir_result *result, const char *mime_type, const void *data, size_t size);
mimir_result *mimir_add_audio(mimir_result *result, const char *mime_type, const void *data, size_t size);
mimir_result *mimir_add_file(mimir_result *result, const char *name, const char *mime_type, const void *data, size_t size);
/* Sets the exit code, for a tool that runs a program. */
mimir_result *mimir_set_exit_code(mimir_result *result, int32_t code);
/* Sets the details of an error, for programs. */
mimir_result *mimir_set_details(mimir_result *result, const mimir_json *details);

/* The first text of a result, or the message of an error; never NULL. */
const char *mimir_result_text(const mimir_result *result);
/* The structured content as JSON, or NULL. */
const char *mimir_result_structured(const mimir_result *result);
/* True for an error; `code` gets its code if it is not NULL. */
bool mimir_is_error(const mimir_result *result, mimir_code *code);

/* Returns from a tool if a function of the host has failed. */
#define MIMIR_TRY(call)                        \
    do {                                       \
        mimir_result *mimir_failed_ = (call);  \
        if (mimir_failed_) return mimir_failed_; \
    } while (0)

/* --- JSON --------------------------------------------------------------------------------------------------------- */

typedef enum mimir_json_kind { MIMIR_NULL, MIMIR_BOOL, MIMIR_NUMBER, MIMIR_TEXT, MIMIR_ARRAY, MIMIR_OBJECT } mimir_json_kind;

/* Parses JSON. Returns NULL if the text is not JSON. */
mimir_json *mimir_json_parse(const char *text, size_t size);
/* Writes JSON. */
char *mimir_json_write(const mimir_json *value);
mimir_json_kind mimir_json_kind_of(const mimir_json *value);
/* The member of an object, or NULL. All of these accept NULL. */
const mimir_json *mimir_get(const mimir_json *object, const char *key);
const mimir_json *mimir_at(const mimir_json *array, size_t index);
size_t mimir_count(const mimir_json *array_or_object);
/* The value, or the given one if it is of another kind. */
const char *mimir_string_of(const mimir_json *value, const char *otherwise);
double mimir_number_of(const mimir_json *value, double otherwise);
bool mimir_bool_of(const mimir_json *value, bool otherwise);

mimir_json *mimir_object(void);
mimir_json *mimir_array(void);
mimir_json *mimir_json_string(const char *text);
mimir_json *mimir_json_number(double number);
mimir_json *mimir_json_bool(bool value);
/* Add to an object or an array, and return it. */
mimir_json *mimir_set(mimir_json *object, const char *key, mimir_json *value);
mimir_json *mimir_push(mimir_json *array, mimir_json *value);

/* --- The call ----------------------------------------------------------------------------------------------------- */

/* The context of one call. It contains no secrets. */
typedef struct mimir_context {
    const char *workspace; /* The root as this tool sees it. Files that were not granted do not exist there. */
    const char *request_id;
    const char *session_id;
    const char *conversation_id; /* NULL if the caller gave none. */
    const char *user;            /* NULL if it is not known. */
} mimir_context;

/* Returns a path below the workspace root. */
const char *mimir_path(const mimir_context *cx, const char *relative);
/* Reads a file of the workspace. `data` gets its content, with a NUL after it. */
mimir_result *mimir_read_file(const mimir_context *cx, const char *path, char **data, size_t *size);
/* Writes a file of the workspace. Its folder must exist. */
mimir_result *mimir_write_file(const mimir_context *cx, const char *path, const void *data, size_t size);
/* Formats text into memory of its own. */
char *mimir_format(const char *format, ...) MIMIR_FORMAT_(1, 2);

/* --- The host ----------------------------------------------------------------------------------------------------- */
/* Each function returns NULL, or an error that the tool can return. A component imports only what its code calls. In
 * native tests all of them fail with MIMIR_UNAVAILABLE, except for the log, which goes to stderr. */

typedef struct mimir_bytes {
    char *data; /* With a NUL after it. */
    size_t size;
} mimir_bytes;

void mimir_debug(const char *format, ...) MIMIR_FORMAT_(1, 2);
void mimir_info(const char *format, ...) MIMIR_FORMAT_(1, 2);
void mimir_warn(const char *format, ...) MIMIR_FORMAT_(1, 2);
void mimir_error(const char *format, ...) MIMIR_FORMAT_(1, 2);

/* Reports that `done` of `total` units are finished; 0 if the total is not known. `message` can be NULL. */
void mimir_progress(uint64_t done, uint64_t total, const char *message);

/* Stored values: at most 1,000, 1 MB each and 16 MB in total. `value->data` is NULL if the key does not exist. */
mimir_result *mimir_storage_get(const char *key, mimir_bytes *value);
mimir_result *mimir_storage_set(const char *key, const void *data, size_t size);
mimir_result *mimir_storage_delete(const char *key);
/* `keys` gets an array that ends with NULL. */
mimir_result *mimir_storage_keys(const char *prefix, const char *const **keys);

typedef struct mimir_finished {
    int32_t exit_code;
    mimir_bytes out, err, combined;
    bool truncated;
    uint64_t duration_ms;
} mimir_finished;

/* Runs a program: its name and arguments, and NULL. Needs MIMIR_COMMAND. */
mimir_result *mimir_run(mimir_finished *finished, const char *const *program);
/* Runs a shell script. The host parses it and decides about each simple command in it. */
mimir_result *mimir_shell(mimir_finished *finished, const char *script);

/* Calls another tool with an object as arguments. Needs MIMIR_CALLS. */
mimir_result *mimir_call_tool(const char *name, const mimir_json *arguments, mimir_result **output);
/* Asks the configured model; `max_tokens` 0 is its own limit. Needs MIMIR_MODEL. */
mimir_result *mimir_complete(const char *prompt, uint32_t max_tokens, char **reply);

typedef struct mimir_request {
    const char *method; /* NULL is GET. */
    const char *url;
    const char *const *headers; /* Names and values in turn, and NULL; or NULL. */
    const void *body;
    size_t body_size;
} mimir_request;

typedef struct mimir_response {
    int status;
    mimir_bytes body;
    const char **headers; /* Names in lower case and values in turn, and NULL. */
} mimir_response;

/* Sends a request and reads the whole response. Needs MIMIR_HOST. */
mimir_result *mimir_fetch(mimir_response *response, const mimir_request *request);
/* Returns a header of the response, or NULL. */
const char *mimir_header(const mimir_response *response, const char *name);

/* --- Tools -------------------------------------------------------------------------------------------------------- */

typedef struct mimir_strings {
    const char **items;
    size_t count;
} mimir_strings;

typedef enum mimir_field_kind {
    MIMIR_KIND_string,
    MIMIR_KIND_integer,
    MIMIR_KIND_number,
    MIMIR_KIND_boolean,
    MIMIR_KIND_strings,
    MIMIR_KIND_json,
} mimir_field_kind;

typedef const char *MIMIR_TYPE_string;
typedef int64_t MIMIR_TYPE_integer;
typedef double MIMIR_TYPE_number;
typedef bool MIMIR_TYPE_boolean;
typedef mimir_strings MIMIR_TYPE_strings;
typedef const mimir_json *MIMIR_TYPE_json;

#define MIMIR_IS_required true
#define MIMIR_IS_optional false

typedef struct mimir_field {
    const char *name;
    const char *description;
    mimir_field_kind kind;
    bool is_required;
    size_t offset, has_offset;
} mimir_field;

typedef enum mimir_need_kind {
    MIMIR_NEED_NONE,
    MIMIR_NEED_READ,
    MIMIR_NEED_WRITE,
    MIMIR_NEED_HOST,
    MIMIR_NEED_COMMAND,
    MIMIR_NEED_SECRET,
    MIMIR_NEED_VARIABLE,
    MIMIR_NEED_TOOL,
    MIMIR_NEED_MODEL,
} mimir_need_kind;

typedef struct mimir_need {
    mimir_need_kind kind;
    const char *what, *host, *detail, *reason;
} mimir_need;

/* Needs. Declaring one grants nothing: a person grants it, and reads the reason. */
#define MIMIR_READ(path, reason) {MIMIR_NEED_READ, path, NULL, NULL, reason}
#define MIMIR_WRITE(path, reason) {MIMIR_NEED_WRITE, path, NULL, NULL, reason}
/* Methods with spaces between them: "GET POST". */
#define MIMIR_HOST(host, methods, reason) {MIMIR_NEED_HOST, host, NULL, methods, reason}
#define MIMIR_COMMAND(pattern, reason) {MIMIR_NEED_COMMAND, pattern, NULL, NULL, reason}
/* getenv(name) is a placeholder, which the host replaces in that header of requests to that host. */
#define MIMIR_SECRET(name, host, header, reason) {MIMIR_NEED_SECRET, name, host, header, reason}
#define MIMIR_VARIABLE(name) {MIMIR_NEED_VARIABLE, name, NULL, NULL, NULL}
#define MIMIR_CALLS(tool) {MIMIR_NEED_TOOL, tool, NULL, NULL, NULL}
#define MIMIR_MODEL() {MIMIR_NEED_MODEL, NULL, NULL, NULL, NULL}

typedef enum mimir_group { MIMIR_SYSTEM, MIMIR_RUNTIME, MIMIR_FS, MIMIR_NET, MIMIR_BROWSER, MIMIR_MEMORY } mimir_group;
/* By default, a tool without needs is allowed, and any other asks. */
typedef enum mimir_approval { MIMIR_DEFAULT, MIMIR_ALLOW, MIMIR_ASK, MIMIR_DENY } mimir_approval;
typedef enum mimir_risk { MIMIR_LOW, MIMIR_MEDIUM, MIMIR_HIGH, MIMIR_CRITICAL } mimir_risk;
enum { MIMIR_READ_ONLY = 1, MIMIR_DESTRUCTIVE = 2, MIMIR_IDEMPOTENT = 4, MIMIR_OPEN_WORLD = 8 };

enum { MIMIR_MAX_NEEDS = 16 };

typedef mimir_result *mimir_run_function(const mimir_context *cx, const void *args);

/* A tool. Settings follow the description in MIMIR_TOOL, in this order: `.group = MIMIR_FS, .needs = {MIMIR_READ(…)}`. */
typedef struct mimir_tool {
    const char *name;
    const char *description;
    const mimir_field *(*fields)(size_t *count);
    size_t args_size;
    mimir_run_function *run;
    const char *title;
    mimir_group group;
    mimir_approval approval;
    mimir_risk risk;
    int hints;
    const char *input_schema;  /* JSON, instead of the one that follows from the arguments. */
    const char *output_schema; /* JSON. */
    mimir_need needs[MIMIR_MAX_NEEDS];
} mimir_tool;

typedef struct mimir_plugin {
    const char *name, *version, *description;
    const mimir_tool *const *tools;
    size_t tool_count;
} mimir_plugin;

/* The plugin. MIMIR_EXPORT defines it. */
extern const mimir_plugin mimir_exported_plugin;

/* Declares the struct NAME_args. FIELDS is a macro that calls its parameter with the kind, the name, `required` or
 * `optional`, and the description of each argument. Kinds: string, integer, number, boolean, strings, json. Each argument
 * has a second member `has_NAME`. */
#define MIMIR_ARGS(tool_name, FIELDS)                                                        \
    typedef struct tool_name##_args {                                                        \
        FIELDS(MIMIR_MEMBER_)                                                                \
        bool mimir_end_;                                                                     \
    } tool_name##_args;                                                                      \
    static const mimir_field *tool_name##_fields(size_t *count) {                            \
        typedef tool_name##_args mimir_args_;                                                \
        static const mimir_field fields[] = {                                                \
            FIELDS(MIMIR_FIELD_){NULL, NULL, MIMIR_KIND_json, false, offsetof(mimir_args_, mimir_end_), 0}}; \
        *count = sizeof fields / sizeof *fields - 1;                                         \
        return fields;                                                                       \
    }
#define MIMIR_MEMBER_(kind, name, presence, text) \
    MIMIR_TYPE_##kind name;                       \
    bool has_##name;
#define MIMIR_FIELD_(kind, name, presence, text) \
    {#name, text, MIMIR_KIND_##kind, MIMIR_IS_##presence, offsetof(mimir_args_, name), offsetof(mimir_args_, has_##name)},
#define MIMIR_NO_FIELDS_(X)
/* Declares a tool without arguments. */
#define MIMIR_NO_ARGS(tool_name) MIMIR_ARGS(tool_name, MIMIR_NO_FIELDS_)

/* Defines a tool. The function body follows; it has the variables `cx` and `args`. */
#define MIMIR_TOOL(tool_name, text, ...)                                                                  \
    static mimir_result *tool_name##_run(const mimir_context *cx, const tool_name##_args *args);          \
    static mimir_result *tool_name##_call(const mimir_context *cx, const void *args) {                    \
        return tool_name##_run(cx, (const tool_name##_args *)args);                                       \
    }                                                                                                     \
    MIMIR_QUIET_                                                                                          \
    static const mimir_tool tool_name = {.name = #tool_name,                                              \
                                         .description = text,                                             \
                                         .fields = tool_name##_fields,                                    \
                                         .args_size = sizeof(tool_name##_args),                           \
                                         .run = tool_name##_call,                                         \
                                         __VA_ARGS__};                                                    \
    MIMIR_LOUD_                                                                                           \
    static mimir_result *tool_name##_run(MIMIR_UNUSED_ const mimir_context *cx, MIMIR_UNUSED_ const tool_name##_args *args)

/* Exports the plugin: name, version, description, and pointers to its tools. */
#define MIMIR_EXPORT(name, version, description, ...)                           \
    static const mimir_tool *const mimir_tools_[] = {__VA_ARGS__};              \
    MIMIR_EXTERN_C const mimir_plugin mimir_exported_plugin = {                 \
        name, version, description, mimir_tools_, sizeof mimir_tools_ / sizeof *mimir_tools_};

/* Runs a call of an exported tool with arguments as JSON, as the host does. For tests. */
mimir_result *mimir_call(const mimir_context *cx, const char *tool, const char *arguments, size_t size);
/* The JSON Schema of a tool's arguments. */
char *mimir_schema(const mimir_tool *tool);

/* A context for tests. */
#define MIMIR_TEST_CONTEXT(folder) {folder, "test-request", "test-session", NULL, NULL}

#ifdef __cplusplus
}
#endif
#endif
