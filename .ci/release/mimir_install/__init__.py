"""Tests of packages: each is installed from nothing, and a tool is called with it."""
