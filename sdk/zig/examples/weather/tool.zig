//! Everything that the SDK offers, in one small plugin.
const std = @import("std");
const mimir = @import("mimir");

const api = "api.open-meteo.com";

const Weather = struct { place: []const u8, celsius: f64 };

const Forecast = struct {
    pub const docs = .{ .place = "Name of the place, for the answer.", .latitude = "Degrees north.", .longitude = "Degrees east." };
    pub const tool: mimir.Tool = .{
        .description = "Returns the current temperature of a place.",
        .group = .net,
        .hints = .{ .read_only = true, .open_world = true },
        .needs = &.{
            .{ .host = .{ .host = api, .reason = "to ask for the forecast" } },
            .{ .secret = .{ .name = "WEATHER_KEY", .host = api, .header = "X-Api-Key", .reason = "to sign in" } },
        },
    };

    place: []const u8,
    latitude: f64,
    longitude: f64,

    pub fn run(self: Forecast, _: mimir.Context) !Weather {
        mimir.progress(0, 1, "asking " ++ api);
        const answer = try mimir.fetch(.{
            .url = mimir.print("https://" ++ api ++ "/v1/forecast?latitude={d}&longitude={d}&current=temperature_2m", .{ self.latitude, self.longitude }),
            .headers = &.{.{ .name = "X-Api-Key", .value = mimir.env("WEATHER_KEY") orelse "" }},
        });
        const body = try answer.json(struct { current: struct { temperature_2m: f64 } });
        try mimir.storage.set(mimir.print("last/{s}", .{self.place}), mimir.print("{d}", .{body.current.temperature_2m}));
        return .{ .place = self.place, .celsius = body.current.temperature_2m };
    }
};

const DescribeFile = struct {
    pub const docs = .{ .path = "Relative to the workspace root." };
    pub const tool: mimir.Tool = .{
        .description = "Describes a file: its first line, its last change, and where it is mentioned.",
        .group = .fs,
        .needs = &.{
            .{ .read = .{ .path = ".", .reason = "to read the file" } },
            .{ .command = .{ .pattern = "git log *", .reason = "to find the last change" } },
            .{ .tool = "file_search" },
        },
    };

    path: []const u8,

    pub fn run(self: DescribeFile, cx: mimir.Context) !*mimir.Result {
        const content = try cx.readFile(self.path);
        const change = try mimir.run(&.{ "git", "log", "-1", "--format=%s", "--", self.path });
        if (change.exit_code != 0) return mimir.fail(.execution, "{s}", .{change.stderr});
        const mentions = try mimir.callTool("file_search", .{ .mode = "grep", .query = self.path, .path = "." });
        var lines = std.mem.splitScalar(u8, content, '\n');
        const result = mimir.text("{s}\n{s}\n{s}", .{ lines.first(), change.stdout, mentions.asText() });
        return result.addFile("content", "text/plain", content);
    }
};

comptime {
    mimir.exportPlugin("weather", "0.1.0", "Forecasts, and a look at files.", .{ Forecast, DescribeFile });
}
