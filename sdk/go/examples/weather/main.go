// Everything that the SDK offers, in one small plugin.
package main

import (
	"fmt"
	"os"
	"path"
	"strings"

	mimir "mimir.local/sdk"
)

const api = "api.open-meteo.com"

// Forecast returns the current temperature of a place.
type Forecast struct {
	// Name of the place, for the answer.
	Place string `json:"place"`
	// Degrees north.
	Latitude float64 `json:"latitude" min:"-90" max:"90"`
	// Degrees east.
	Longitude float64 `json:"longitude" min:"-180" max:"180"`
	// Unit of the text; the structured result is always in Celsius.
	Unit string `json:"unit,omitempty" enum:"celsius,fahrenheit"`
}

// Weather is the structured result.
type Weather struct {
	Place   string  `json:"place"`
	Celsius float64 `json:"celsius"`
}

func forecast(cx *mimir.Context, in Forecast) (mimir.Worded[Weather], error) {
	var none mimir.Worded[Weather]
	mimir.Progress(0, 1, "asking "+api)
	answer, err := mimir.Fetch(mimir.Request{
		URL:    fmt.Sprintf("https://%s/v1/forecast?latitude=%g&longitude=%g&current=temperature_2m", api, in.Latitude, in.Longitude),
		Header: map[string]string{"X-Api-Key": os.Getenv("WEATHER_KEY")},
	})
	if err != nil {
		return none, err
	}
	if answer.Status != 200 {
		return none, mimir.Errorf(mimir.Network, "%s answered %d", api, answer.Status)
	}
	var body struct {
		Current struct {
			Temperature float64 `json:"temperature_2m"`
		} `json:"current"`
	}
	if err := answer.JSON(&body); err != nil {
		return none, err
	}
	celsius := body.Current.Temperature
	if err := mimir.Store("last/"+in.Place, fmt.Append(nil, celsius)); err != nil {
		return none, err
	}
	shown, unit := celsius, "celsius"
	if in.Unit == "fahrenheit" {
		shown, unit = celsius*9/5+32, in.Unit
	}
	return mimir.Worded[Weather]{
		Value: Weather{in.Place, celsius},
		Text:  fmt.Sprintf("%.1f degrees %s in %s", shown, unit, in.Place),
	}, nil
}

// LastForecasts returns the forecasts of earlier calls, by place.
type LastForecasts struct{}

func lastForecasts(cx *mimir.Context, _ LastForecasts) (map[string]string, error) {
	keys, err := mimir.Keys("last/")
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, key := range keys {
		value, err := mimir.Load(key)
		if err != nil {
			return nil, err
		}
		found[strings.TrimPrefix(key, "last/")] = string(value)
	}
	return found, nil
}

// DescribeFile describes a file: its first line, its last change, and where it is mentioned.
type DescribeFile struct {
	// Relative to the workspace root.
	Path string `json:"path"`
}

func describeFile(cx *mimir.Context, in DescribeFile) (*mimir.Output, error) {
	content, err := os.ReadFile(cx.Path(in.Path))
	if err != nil {
		return nil, err
	}
	first, _, _ := strings.Cut(string(content), "\n")
	change, err := mimir.Run("git", "log", "-1", "--format=%s", "--", in.Path)
	if err != nil {
		return nil, err
	}
	if change.ExitCode != 0 {
		return nil, mimir.Errorf(mimir.Execution, "%s", strings.TrimSpace(string(change.Stderr)))
	}
	mentions, err := mimir.CallTool("file_search", map[string]any{"mode": "grep", "query": in.Path, "path": "."})
	if err != nil {
		return nil, err
	}
	text := first + "\n" + strings.TrimSpace(string(change.Stdout)) + "\n" + strings.Join(mentions.Texts(), "\n")
	return mimir.Text(text).File(path.Base(in.Path), "text/plain", content), nil
}

func init() {
	mimir.Export(forecast,
		mimir.InGroup(mimir.NetGroup), mimir.Hints(mimir.ReadOnly, mimir.OpenWorld),
		mimir.Host(api, []string{"GET"}, "to ask for the forecast"),
		mimir.Secret("WEATHER_KEY", api, "X-Api-Key", "to sign in"))
	mimir.Export(lastForecasts, mimir.Hints(mimir.ReadOnly))
	mimir.Export(describeFile,
		mimir.InGroup(mimir.FSGroup),
		mimir.Read(".", "to read the file"),
		mimir.Command("git log *", "to find the last change"),
		mimir.OtherTool("file_search"))
}

func main() {}
