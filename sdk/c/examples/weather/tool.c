// Everything that the SDK offers, in one small plugin.
#include <mimir.h>
#include <stdlib.h>
#include <string.h>

#define API "api.open-meteo.com"

#define FORECAST(X)                                             \
    X(string, place, required, "Name of the place, for the answer.") \
    X(number, latitude, required, "Degrees north.")             \
    X(number, longitude, required, "Degrees east.")             \
    X(boolean, fahrenheit, optional, "True for Fahrenheit in the text; the structured result is always in Celsius.")
MIMIR_ARGS(forecast, FORECAST)

MIMIR_TOOL(forecast, "Returns the current temperature of a place.", .group = MIMIR_NET,
           .hints = MIMIR_READ_ONLY | MIMIR_OPEN_WORLD,
           .output_schema = "{\"type\":\"object\",\"properties\":{\"place\":{\"type\":\"string\"},\"celsius\":{\"type\":\"number\"}},"
                            "\"required\":[\"place\",\"celsius\"]}",
           .needs = {MIMIR_HOST(API, "GET", "to ask for the forecast"),
                     MIMIR_SECRET("WEATHER_KEY", API, "X-Api-Key", "to sign in")}) {
    (void)cx;
    mimir_progress(0, 1, "asking " API);
    const char *key = getenv("WEATHER_KEY");
    const char *headers[] = {"X-Api-Key", key ? key : "", NULL};
    mimir_request request = {
        .url = mimir_format("https://" API "/v1/forecast?latitude=%g&longitude=%g&current=temperature_2m", args->latitude, args->longitude),
        .headers = headers,
    };
    mimir_response response;
    MIMIR_TRY(mimir_fetch(&response, &request));
    if (response.status != 200) return mimir_fail(MIMIR_NETWORK, API " answered %d", response.status);
    const mimir_json *body = mimir_json_parse(response.body.data, response.body.size);
    const mimir_json *current = mimir_get(body, "current");
    if (!mimir_get(current, "temperature_2m")) return mimir_fail(MIMIR_NETWORK, API " answered without a temperature");
    double celsius = mimir_number_of(mimir_get(current, "temperature_2m"), 0);
    const char *stored = mimir_format("%g", celsius);
    MIMIR_TRY(mimir_storage_set(mimir_format("last/%s", args->place), stored, strlen(stored)));
    mimir_json *weather = mimir_set(mimir_object(), "place", mimir_json_string(args->place));
    mimir_set(weather, "celsius", mimir_json_number(celsius));
    double shown = args->fahrenheit ? celsius * 9 / 5 + 32 : celsius;
    return mimir_structured(weather, mimir_format("%.1f degrees %s in %s", shown, args->fahrenheit ? "Fahrenheit" : "Celsius", args->place));
}

#define DESCRIBE_FILE(X) X(string, path, required, "Relative to the workspace root.")
MIMIR_ARGS(describe_file, DESCRIBE_FILE)

MIMIR_TOOL(describe_file, "Describes a file: its first line, its last change, and where it is mentioned.", .group = MIMIR_FS,
           .needs = {MIMIR_READ(".", "to read the file"), MIMIR_COMMAND("git log *", "to find the last change"),
                     MIMIR_CALLS("file_search")}) {
    char *data;
    size_t size;
    MIMIR_TRY(mimir_read_file(cx, args->path, &data, &size));
    mimir_finished change;
    const char *git[] = {"git", "log", "-1", "--format=%s", "--", args->path, NULL};
    MIMIR_TRY(mimir_run(&change, git));
    if (change.exit_code) return mimir_fail(MIMIR_EXECUTION, "%s", change.err.data);
    mimir_json *search = mimir_set(mimir_object(), "mode", mimir_json_string("grep"));
    mimir_set(mimir_set(search, "query", mimir_json_string(args->path)), "path", mimir_json_string("."));
    mimir_result *mentions;
    MIMIR_TRY(mimir_call_tool("file_search", search, &mentions));
    mimir_result *result = mimir_text("%.*s\n%s\n%s", (int)strcspn(data, "\n"), data, change.out.data, mimir_result_text(mentions));
    return mimir_add_file(result, "content", "text/plain", data, size);
}

MIMIR_EXPORT("weather", "0.1.0", "Forecasts, and a look at files.", &forecast, &describe_file)
