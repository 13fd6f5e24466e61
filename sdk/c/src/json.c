// JSON: a reader and a writer. Values are never freed.

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

struct mimir_json {
    mimir_json_kind kind;
    union {
        bool boolean;
        double number;
        struct {
            char *data;
            size_t size;
        } text;
        struct {
            char **keys; // NULL for an array.
            mimir_json **values;
            size_t count, room;
        } list;
    };
};

void *mimir_alloc(size_t size) {
    void *memory = calloc(1, size ? size : 1);
    if (!memory) abort();
    return memory;
}

char *mimir_copy(const char *text, size_t size) {
    char *copy = mimir_alloc(size + 1);
    memcpy(copy, text, size);
    return copy;
}

static mimir_json *make(mimir_json_kind kind) {
    mimir_json *value = mimir_alloc(sizeof *value);
    value->kind = kind;
    return value;
}

// Deeper values are refused: the reader calls itself.
enum { MAX_DEPTH = 128 };

typedef struct {
    const char *at, *end;
    int depth;
} reader;

static void skip_space(reader *r) {
    while (r->at < r->end && strchr(" \t\r\n", *r->at) && *r->at) r->at++;
}

static bool take(reader *r, const char *word) {
    size_t size = strlen(word);
    if ((size_t)(r->end - r->at) < size || memcmp(r->at, word, size)) return false;
    r->at += size;
    return true;
}

static int hex4(reader *r) {
    int code = 0;
    for (int i = 0; i < 4; i++, r->at++) {
        if (r->at >= r->end) return -1;
        char c = *r->at;
        int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (digit < 0) return -1;
        code = code * 16 + digit;
    }
    return code;
}

static char *put_utf8(char *to, int code) {
    if (code < 0x80) {
        *to++ = (char)code;
    } else if (code < 0x800) {
        *to++ = (char)(0xC0 | code >> 6);
        *to++ = (char)(0x80 | (code & 0x3F));
    } else if (code < 0x10000) {
        *to++ = (char)(0xE0 | code >> 12);
        *to++ = (char)(0x80 | (code >> 6 & 0x3F));
        *to++ = (char)(0x80 | (code & 0x3F));
    } else {
        *to++ = (char)(0xF0 | code >> 18);
        *to++ = (char)(0x80 | (code >> 12 & 0x3F));
        *to++ = (char)(0x80 | (code >> 6 & 0x3F));
        *to++ = (char)(0x80 | (code & 0x3F));
    }
    return to;
}

// Reads a string; a decoded one is never longer than its source.
static bool read_string(reader *r, char **data, size_t *size) {
    if (!take(r, "\"")) return false;
    const char *close = r->at;
    while (close < r->end && *close != '"') close += *close == '\\' ? 2 : 1;
    if (close >= r->end) return false;
    char *to = *data = mimir_alloc((size_t)(close - r->at) + 1);
    while (r->at < close) {
        unsigned char c = (unsigned char)*r->at++;
        if (c < 0x20) return false;
        if (c != '\\') {
            *to++ = (char)c;
            continue;
        }
        char escape = *r->at++;
        const char *known = strchr("\"\\/bfnrt", escape);
        if (known && escape) {
            *to++ = "\"\\/\b\f\n\r\t"[known - "\"\\/bfnrt"];
        } else if (escape == 'u') {
            int code = hex4(r);
            if (code >= 0xD800 && code < 0xDC00) {
                if (!take(r, "\\u")) return false;
                int low = hex4(r);
                if (low < 0xDC00 || low > 0xDFFF) return false;
                code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
            }
            if (code < 0 || (code >= 0xDC00 && code < 0xE000)) return false;
            to = put_utf8(to, code);
        } else {
            return false;
        }
    }
    r->at = close + 1;
    *size = (size_t)(to - *data);
    *to = 0;
    return true;
}

static void append(mimir_json *list, char *key, mimir_json *value) {
    if (list->list.count == list->list.room) {
        size_t room = list->list.room ? list->list.room * 2 : 8;
        list->list.values = realloc(list->list.values, room * sizeof *list->list.values);
        if (list->kind == MIMIR_OBJECT) list->list.keys = realloc(list->list.keys, room * sizeof *list->list.keys);
        if (!list->list.values || (list->kind == MIMIR_OBJECT && !list->list.keys)) abort();
        list->list.room = room;
    }
    if (list->kind == MIMIR_OBJECT) list->list.keys[list->list.count] = key;
    list->list.values[list->list.count++] = value;
}

static mimir_json *read_value(reader *r);

static mimir_json *read_list(reader *r, mimir_json_kind kind) {
    mimir_json *list = make(kind);
    const char *close = kind == MIMIR_OBJECT ? "}" : "]";
    skip_space(r);
    if (take(r, close)) return list;
    for (;;) {
        char *key = NULL;
        size_t size;
        skip_space(r);
        if (kind == MIMIR_OBJECT) {
            if (!read_string(r, &key, &size)) return NULL;
            skip_space(r);
            if (!take(r, ":")) return NULL;
        }
        mimir_json *value = read_value(r);
        if (!value) return NULL;
        append(list, key, value);
        skip_space(r);
        if (take(r, close)) return list;
        if (!take(r, ",")) return NULL;
    }
}

static size_t skip_digits(reader *r) {
    const char *begin = r->at;
    while (r->at < r->end && *r->at >= '0' && *r->at <= '9') r->at++;
    return (size_t)(r->at - begin);
}

static bool take_one_of(reader *r, const char *signs) {
    if (r->at == r->end || !*r->at || !strchr(signs, *r->at)) return false;
    r->at++;
    return true;
}

static mimir_json *read_number(reader *r) {
    const char *begin = r->at;
    take_one_of(r, "-");
    const char *whole = r->at;
    if (!skip_digits(r) || (*whole == '0' && r->at - whole > 1)) return NULL;
    if (take_one_of(r, ".") && !skip_digits(r)) return NULL;
    if (take_one_of(r, "eE")) {
        take_one_of(r, "+-");
        if (!skip_digits(r)) return NULL;
    }
    mimir_json *value = make(MIMIR_NUMBER);
    // A copy, because strtod reads up to a NUL.
    value->number = strtod(mimir_copy(begin, (size_t)(r->at - begin)), NULL);
    return isfinite(value->number) ? value : NULL;
}

static mimir_json *read_value(reader *r) {
    if (++r->depth > MAX_DEPTH) return NULL;
    mimir_json *value = NULL;
    skip_space(r);
    if (take(r, "{")) {
        value = read_list(r, MIMIR_OBJECT);
    } else if (take(r, "[")) {
        value = read_list(r, MIMIR_ARRAY);
    } else if (r->at < r->end && *r->at == '"') {
        value = make(MIMIR_TEXT);
        if (!read_string(r, &value->text.data, &value->text.size)) value = NULL;
    } else if (take(r, "true")) {
        value = mimir_json_bool(true);
    } else if (take(r, "false")) {
        value = mimir_json_bool(false);
    } else if (take(r, "null")) {
        value = make(MIMIR_NULL);
    } else {
        value = read_number(r);
    }
    r->depth--;
    return value;
}

mimir_json *mimir_json_parse(const char *text, size_t size) {
    reader r = {text, text + size, 0};
    mimir_json *value = read_value(&r);
    skip_space(&r);
    return r.at == r.end ? value : NULL;
}

typedef struct {
    char *data;
    size_t size, room;
} writer;

static void put(writer *w, const char *text, size_t size) {
    if (w->size + size + 1 > w->room) {
        w->room = (w->size + size + 1) * 2;
        w->data = realloc(w->data, w->room);
        if (!w->data) abort();
    }
    memcpy(w->data + w->size, text, size);
    w->size += size;
    w->data[w->size] = 0;
}

static void put_string(writer *w, const char *text, size_t size) {
    put(w, "\"", 1);
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];
        char escape[8];
        static const char short_ones[] = "\"\\\n\r\t";
        const char *known = c ? strchr(short_ones, c) : NULL;
        if (known) {
            put(w, escape, (size_t)snprintf(escape, sizeof escape, "\\%c", "\"\\nrt"[known - short_ones]));
        } else if (c < 0x20) {
            put(w, escape, (size_t)snprintf(escape, sizeof escape, "\\u%04x", c));
        } else {
            put(w, text + i, 1);
        }
    }
    put(w, "\"", 1);
}

static void put_value(writer *w, const mimir_json *value) {
    char number[40];
    switch (value ? value->kind : MIMIR_NULL) {
    case MIMIR_NULL: put(w, "null", 4); break;
    case MIMIR_BOOL: put(w, value->boolean ? "true" : "false", value->boolean ? 4 : 5); break;
    case MIMIR_NUMBER: {
        bool is_whole = value->number == floor(value->number) && fabs(value->number) < 9007199254740992.0;
        int size = snprintf(number, sizeof number, is_whole ? "%.0f" : "%.17g", value->number);
        put(w, number, (size_t)size);
        break;
    }
    case MIMIR_TEXT: put_string(w, value->text.data, value->text.size); break;
    case MIMIR_ARRAY:
    case MIMIR_OBJECT:
        put(w, value->kind == MIMIR_OBJECT ? "{" : "[", 1);
        for (size_t i = 0; i < value->list.count; i++) {
            if (i) put(w, ",", 1);
            if (value->kind == MIMIR_OBJECT) {
                put_string(w, value->list.keys[i], strlen(value->list.keys[i]));
                put(w, ":", 1);
            }
            put_value(w, value->list.values[i]);
        }
        put(w, value->kind == MIMIR_OBJECT ? "}" : "]", 1);
        break;
    }
}

char *mimir_json_write(const mimir_json *value) {
    writer w = {0};
    put_value(&w, value);
    return w.data;
}

mimir_json_kind mimir_json_kind_of(const mimir_json *value) { return value ? value->kind : MIMIR_NULL; }

const mimir_json *mimir_get(const mimir_json *object, const char *key) {
    if (!object || object->kind != MIMIR_OBJECT) return NULL;
    // The last of two members counts, as in other readers.
    for (size_t i = object->list.count; i-- > 0;)
        if (!strcmp(object->list.keys[i], key)) return object->list.values[i];
    return NULL;
}

const mimir_json *mimir_at(const mimir_json *array, size_t index) {
    return index < mimir_count(array) ? array->list.values[index] : NULL;
}

size_t mimir_count(const mimir_json *list) {
    return list && (list->kind == MIMIR_ARRAY || list->kind == MIMIR_OBJECT) ? list->list.count : 0;
}

const char *mimir_key_at(const mimir_json *object, size_t index) { return object->list.keys[index]; }

const char *mimir_string_of(const mimir_json *value, const char *otherwise) {
    return value && value->kind == MIMIR_TEXT ? value->text.data : otherwise;
}

double mimir_number_of(const mimir_json *value, double otherwise) {
    return value && value->kind == MIMIR_NUMBER ? value->number : otherwise;
}

bool mimir_bool_of(const mimir_json *value, bool otherwise) {
    return value && value->kind == MIMIR_BOOL ? value->boolean : otherwise;
}

mimir_json *mimir_object(void) { return make(MIMIR_OBJECT); }

mimir_json *mimir_array(void) { return make(MIMIR_ARRAY); }

mimir_json *mimir_json_string(const char *text) {
    mimir_json *value = make(MIMIR_TEXT);
    value->text.size = strlen(text);
    value->text.data = mimir_copy(text, value->text.size);
    return value;
}

mimir_json *mimir_json_number(double number) {
    mimir_json *value = make(MIMIR_NUMBER);
    value->number = number;
    return value;
}

mimir_json *mimir_json_bool(bool boolean) {
    mimir_json *value = make(MIMIR_BOOL);
    value->boolean = boolean;
    return value;
}

mimir_json *mimir_set(mimir_json *object, const char *key, mimir_json *value) {
    append(object, mimir_copy(key, strlen(key)), value);
    return object;
}

mimir_json *mimir_push(mimir_json *array, mimir_json *value) {
    append(array, NULL, value);
    return array;
}
