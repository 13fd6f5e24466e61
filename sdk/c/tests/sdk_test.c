// Tests of the SDK itself: cc -std=gnu17 -Iinclude tests/sdk_test.c src/{json,mimir,native}.c -lm && ./a.out
#include <assert.h>
#include <mimir.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALL_KINDS(X)                              \
    X(string, text, optional, "Any \"text\".")    \
    X(integer, count, required, "How many.")      \
    X(number, ratio, optional, "From 0 to 1.")    \
    X(boolean, is_exact, optional, "Exact.")      \
    X(strings, words, optional, "Some words.")    \
    X(json, any, optional, "Anything.")
MIMIR_ARGS(all_kinds, ALL_KINDS)

MIMIR_TOOL(all_kinds, "Has an argument of each kind.") {
    mimir_json *seen = mimir_set(mimir_object(), "count", mimir_json_number((double)args->count));
    mimir_set(seen, "text", mimir_json_string(args->text));
    mimir_set(seen, "has_ratio", mimir_json_bool(args->has_ratio));
    mimir_set(seen, "words", mimir_json_number((double)args->words.count));
    return mimir_structured(seen, NULL);
}

MIMIR_NO_ARGS(stores)
MIMIR_TOOL(stores, "Stores a value.", .needs = {MIMIR_READ("docs", "to read")}) {
    MIMIR_TRY(mimir_storage_set("key", "value", 5));
    return mimir_text("stored");
}

MIMIR_EXPORT("tests", "0.1.0", "Tools for tests.", &all_kinds, &stores)

static mimir_result *call(const char *tool, const char *arguments) {
    mimir_context cx = MIMIR_TEST_CONTEXT(".");
    return mimir_call(&cx, tool, arguments, strlen(arguments));
}

static void expect(const char *what, const char *found, const char *expected) {
    if (found && expected ? !strcmp(found, expected) : found == expected) return;
    fprintf(stderr, "%s:\n  expected %s\n  found    %s\n", what, expected ? expected : "NULL", found ? found : "NULL");
    exit(1);
}

static void json_is_read_and_written(void) {
    const char *same[] = {"{\"a\":[1,-0.5,1e+100,true,null]}", "\"\\n\\\"\\\\\"", "[]", "{}", "9007199254740991"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        mimir_json *value = mimir_json_parse(same[i], strlen(same[i]));
        expect(same[i], value ? mimir_json_write(value) : NULL, same[i]);
    }
    expect("surrogates", mimir_string_of(mimir_json_parse("\"\\ud83d\\ude00\"", 14), NULL), "\xf0\x9f\x98\x80");
}

static void faulty_json_is_refused(void) {
    const char *faulty[] = {"", "01", "1.", "-", "[1,]", "{\"a\"}", "\"a", "\"\\ud83d\"", "nul", "1 2", "\"\t\"", "[1 2]"};
    for (size_t i = 0; i < sizeof faulty / sizeof *faulty; i++) {
        mimir_json *value = mimir_json_parse(faulty[i], strlen(faulty[i]));
        expect(faulty[i], value ? mimir_json_write(value) : NULL, NULL);
    }
    // Nested deeper than the reader goes, and longer than its stack would allow.
    size_t size = 1 << 20;
    char *deep = malloc(size);
    memset(deep, '[', size);
    assert(!mimir_json_parse(deep, size));
    free(deep);
}

static void schema_follows_from_the_arguments(void) {
    const mimir_json *schema = mimir_json_parse(mimir_schema(&all_kinds), strlen(mimir_schema(&all_kinds)));
    const mimir_json *text = mimir_get(mimir_get(schema, "properties"), "text");
    expect("type", mimir_string_of(mimir_get(text, "type"), NULL), "string");
    expect("description", mimir_string_of(mimir_get(text, "description"), NULL), "Any \"text\".");
    expect("required", mimir_json_write(mimir_get(schema, "required")), "[\"count\"]");
}

static void arguments_become_members(void) {
    mimir_result *result = call("all_kinds", "{\"count\": 3, \"words\": [\"a\", \"b\"]}");
    expect("result", mimir_result_structured(result), "{\"count\":3,\"text\":\"\",\"has_ratio\":false,\"words\":2}");
}

static void wrong_arguments_are_named(void) {
    const char *cases[][2] = {
        {"{}", "count: missing"},
        {"{\"count\": 1.5}", "count: expected integer"},
        {"{\"count\": 1, \"words\": [1]}", "words: expected array of strings"},
        {"{\"count\": 1, \"more\": 1}", "more: unknown argument"},
        {"[]", "arguments: expected object"},
        {"{", "arguments: not JSON"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mimir_code code;
        mimir_result *result = call("all_kinds", cases[i][0]);
        expect(cases[i][0], mimir_result_text(result), cases[i][1]);
        assert(mimir_is_error(result, &code) && code == MIMIR_INVALID_INPUT);
    }
}

static void host_is_unavailable_in_tests(void) {
    mimir_code code;
    assert(mimir_is_error(call("stores", ""), &code) && code == MIMIR_UNAVAILABLE);
    assert(mimir_is_error(call("none", "{}"), &code) && code == MIMIR_NOT_FOUND);
}

static void files_are_written_and_read(void) {
    mimir_context cx = MIMIR_TEST_CONTEXT("/tmp");
    char *name = mimir_format("mimir-sdk-test-%p", (void *)&cx), *data;
    size_t size;
    assert(!mimir_write_file(&cx, name, "a\0b", 3));
    assert(!mimir_read_file(&cx, name, &data, &size) && size == 3 && !memcmp(data, "a\0b", 4));
    remove(mimir_path(&cx, name));
    mimir_code code;
    assert(mimir_is_error(mimir_read_file(&cx, name, &data, &size), &code) && code == MIMIR_FILE_NOT_FOUND);
}

int main(void) {
    json_is_read_and_written();
    faulty_json_is_refused();
    schema_follows_from_the_arguments();
    arguments_become_members();
    wrong_arguments_are_named();
    host_is_unavailable_in_tests();
    files_are_written_and_read();
    return 0;
}
