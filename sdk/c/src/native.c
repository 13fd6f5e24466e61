// The host in native tests: the log goes to stderr, everything else is unavailable.

#ifndef __wasm__

#include <stdio.h>

#include "internal.h"

static mimir_result *unavailable(const char *what) {
    return mimir_fail(MIMIR_UNAVAILABLE, "%s can be reached only from inside a component", what);
}

void mimir_write_log(int level, const char *message) {
    static const char *const names[] = {"debug", "info", "warn", "error"};
    fprintf(stderr, "%s: %s\n", names[level], message);
}

void mimir_progress(uint64_t done, uint64_t total, const char *message) { (void)done, (void)total, (void)message; }

mimir_result *mimir_storage_get(const char *key, mimir_bytes *value) { (void)key, (void)value; return unavailable("storage"); }
mimir_result *mimir_storage_set(const char *key, const void *data, size_t size) {
    (void)key, (void)data, (void)size;
    return unavailable("storage");
}
mimir_result *mimir_storage_delete(const char *key) { (void)key; return unavailable("storage"); }
mimir_result *mimir_storage_keys(const char *prefix, const char *const **keys) {
    (void)prefix, (void)keys;
    return unavailable("storage");
}
mimir_result *mimir_run(mimir_finished *finished, const char *const *program) {
    (void)finished, (void)program;
    return unavailable("commands");
}
mimir_result *mimir_shell(mimir_finished *finished, const char *script) {
    (void)finished, (void)script;
    return unavailable("commands");
}
mimir_result *mimir_call_tool(const char *name, const mimir_json *arguments, mimir_result **output) {
    (void)name, (void)arguments, (void)output;
    return unavailable("tools");
}
mimir_result *mimir_complete(const char *prompt, uint32_t max_tokens, char **reply) {
    (void)prompt, (void)max_tokens, (void)reply;
    return unavailable("the model");
}
mimir_result *mimir_fetch(mimir_response *response, const mimir_request *request) {
    (void)response, (void)request;
    return unavailable("the network");
}

#endif
