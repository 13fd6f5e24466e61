#!/usr/bin/env node
// Starts the program of the platform package, with the same arguments, streams and exit code.
"use strict";

const { spawn } = require("node:child_process");
const os = require("node:os");
const path = require("node:path");
const tty = require("node:tty");
const { version, optionalDependencies, name } = require("./package.json");

// As shells do for a command that they cannot find.
const NOT_FOUND = 127;
const platform = `${process.platform}-${process.arch}`;
const platformPackage = `${name}-${platform}`;

function fail(message) {
  console.error(`error: ${message}`);
  process.exit(NOT_FOUND);
}

function findProgram() {
  if (!(platformPackage in optionalDependencies)) {
    const known = Object.keys(optionalDependencies).map((one) => one.slice(name.length + 1));
    fail(
      `${name} has no program for ${platform}: expected one of ${known.join(", ")}. ` +
        "Build mimir from source instead: cargo install --locked --path host/cli",
    );
  }
  let manifest;
  try {
    manifest = require.resolve(`${platformPackage}/package.json`);
  } catch {
    fail(
      `the package ${platformPackage}, which has the program for this platform, is not installed. ` +
        "npm leaves it out with --omit=optional, and if node_modules was copied from another platform. " +
        `Install it: npm install ${platformPackage}@${version}`,
    );
  }
  return path.join(path.dirname(manifest), "bin", process.platform === "win32" ? "mimir.exe" : "mimir");
}

const program = findProgram();
let child;
// A terminal sends these to the program, too; it must not get them twice, and this process must outlive it.
const fromTerminal = new Set(["SIGINT", "SIGQUIT"]);
// Not `process.stdin.isTTY`, which would open the stream that belongs to the program.
const onTerminal = [0, 1, 2].some((stream) => tty.isatty(stream));
// Before the program starts: it may be signalled at once.
for (const signal of ["SIGINT", "SIGQUIT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => {
    if (!(onTerminal && fromTerminal.has(signal))) child.kill(signal);
  });
}

child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
child.on("error", (error) => fail(`cannot start ${program}: ${error.message}. Reinstall ${platformPackage}@${version}`));
child.on("exit", (code, signal) => {
  if (signal === null) process.exit(code);
  // Ends as the program ended. Where a signal does not end this process, the exit code tells it as shells do.
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
  setTimeout(() => process.exit(128 + os.constants.signals[signal]), 1000);
});
