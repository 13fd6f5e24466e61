module mimir.local/sdk

go 1.25
