"""Everything that the SDK offers, in one small plugin."""

import os
from dataclasses import dataclass
from typing import Annotated, Literal

import mimir

API = "api.open-meteo.com"


@dataclass
class Forecast:
    """The forecast of a place."""

    place: str
    celsius: float
    #: True if the answer is from an earlier call.
    cached: bool = False


@mimir.tool(
    group="net",
    hints=("read-only", "open-world"),
    needs=mimir.Needs()
    .host(API, ["GET"], "to ask for the forecast")
    .secret("WEATHER_KEY", API, "X-Api-Key", "to sign in"),
)
def forecast(
    place: Annotated[str, "Name of the place, for the answer."],
    latitude: Annotated[float, {"minimum": -90, "maximum": 90}],
    longitude: Annotated[float, {"minimum": -180, "maximum": 180}],
    unit: Literal["celsius", "fahrenheit"] = "celsius",
) -> mimir.Json[Forecast]:
    """Returns the current temperature of a place.

    Args:
        latitude: Degrees north.
        longitude: Degrees east.
        unit: Unit of the text; the structured result is always in Celsius.
    """
    mimir.progress.report(0, 1, f"asking {API}")
    answer = mimir.fetch(
        f"https://{API}/v1/forecast?latitude={latitude}&longitude={longitude}&current=temperature_2m",
        headers={"X-Api-Key": os.environ.get("WEATHER_KEY", "")},
    )
    if not answer.ok:
        raise mimir.Error.network(f"{API} answered {answer.status}")
    celsius = answer.json()["current"]["temperature_2m"]
    mimir.storage.set(f"last/{place}", str(celsius))
    shown = celsius if unit == "celsius" else celsius * 9 / 5 + 32
    return mimir.Json(Forecast(place, celsius), f"{shown:.1f} degrees {unit} in {place}")


@mimir.tool(hints=("read-only",))
def last_forecasts() -> dict[str, str]:
    """Returns the forecasts of earlier calls, by place."""
    found = {key: mimir.storage.get(key) or b"" for key in mimir.storage.keys("last/")}
    return {key.removeprefix("last/"): value.decode() for key, value in found.items()}


@mimir.tool(
    group="fs",
    needs=mimir.Needs()
    .read(".", "to read the file")
    .command("git log *", "to find the last change")
    .tool("file_search"),
)
def describe_file(cx: mimir.Context, path: Annotated[str, "Relative to the workspace root."]) -> mimir.Output:
    """Describes a file: its first line, its last change, and where it is mentioned."""
    lines = cx.path(path).read_text().splitlines()
    change = mimir.commands.run("git", "log", "-1", "--format=%s", "--", path)
    if change.exit_code:
        raise mimir.Error.execution(change.stderr.decode("utf-8", "replace").strip())
    mentions = mimir.tools.call("file_search", mode="grep", query=path, path=".")
    text = f"{lines[0] if lines else '(empty)'}\n{change.text.strip()}\n" + "\n".join(mentions.texts())
    return mimir.Output.of(text).file(os.path.basename(path), "text/plain", "\n".join(lines).encode())
