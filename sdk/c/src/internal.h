// Declarations shared by the files of the SDK. Not for plugins.
#ifndef MIMIR_INTERNAL_H
#define MIMIR_INTERNAL_H

#include <mimir.h>
#include <stdarg.h>

typedef enum { PART_TEXT, PART_IMAGE, PART_AUDIO, PART_FILE } part_kind;

typedef struct {
    part_kind kind;
    const char *name, *mime_type;
    const char *data;
    size_t size;
} result_part;

struct mimir_result {
    bool is_error;
    mimir_code code;
    const char *other_code; // Of an error of another tool; else NULL.
    char *message;
    char *details; // JSON, or NULL.
    result_part *parts;
    size_t count;
    char *structured; // JSON, or NULL.
    bool has_exit_code;
    int32_t exit_code;
};

// Returns zeroed memory. Aborts if there is none.
void *mimir_alloc(size_t size);
// Copies text and adds a NUL.
char *mimir_copy(const char *text, size_t size);
char *mimir_vformat(const char *format, va_list arguments);
const char *mimir_key_at(const mimir_json *object, size_t index);
mimir_result *mimir_add_part(mimir_result *result, result_part part);
void mimir_write_log(int level, const char *message);
// The decision on calls of a tool: the declared one, or the default.
mimir_approval mimir_approval_of(const mimir_tool *tool);

#endif
